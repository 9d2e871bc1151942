--- Questions about a program's nodes wherever they run, answered by their loops: also while a node
-- computes, is paused or is not ready (lp.asking). No question waits longer than its budget; of a
-- node that does not answer at all there is what is known without it.
-- @module lp.service.inspect

local asking = require "lp.asking"
local core = require "lp.core"

local host = core.host
local inspect = {}

--- What is told when the node says nothing.
local function partial(node, why, known)
  local answer = known or {}
  answer.node, answer.partial, answer.partial_reason = node.name, true, why
  return answer
end

local function ask_process(node, what, budget)
  local worker = node.process.worker
  if not worker then return nil, "its process is not connected" end
  local call = core.with(worker, {timeout = budget + 0.1, wait_for_ready = false})
  local ok, answer, why, known = pcall(call.inspect_node, call, node.key, what, budget)
  if ok then return answer, why, known end
  local late = rawget(answer, "code") == "deadline_exceeded"
  return nil, late and "its process does not answer" or tostring(answer)
end

--- Asks a node (of lp.service) for "state", "tasks", "calls" or "stats".
-- @number budget seconds it may take
-- @treturn table the answer, or with `partial` and `partial_reason` what is known without it
function inspect.ask(node, what, budget)
  if node.state == "ended" then return partial(node, "it has ended: " .. (node.how or "it finished")) end
  local answer, why, known
  if node.process then
    answer, why, known = ask_process(node, what, budget)
  elseif node.id then
    answer, why, known = asking.ask(node.id, what, budget)
  else
    why = "it has not been started"
  end
  if not answer then return partial(node, why or "it does not answer", known) end
  answer.node = node.name
  return answer
end

--- Pauses a node or lets it go on: while it is paused none of its tasks runs, and calls to it wait.
function inspect.pause(node, paused)
  if node.state ~= "running" then error(("node %s is %s"):format(node.name, node.state), 0) end
  if node.process then
    core.call(core.with(node.process.worker, {timeout = 5}), "pause_node", node.key, paused)
  else
    host[paused and "pause" or "resume"](node.id)
  end
  node.paused = paused or nil -- until this instance has ended
end

return inspect
