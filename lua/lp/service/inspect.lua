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

--- A client of a node's process for a question; nil: it has none.
local function process_of(node, budget)
  local worker = node.process.worker
  return worker and core.with(worker, {timeout = budget + 0.1, wait_for_ready = false})
end

local NOT_CONNECTED = "its process is not connected"

--- Why a process has not answered.
local function why_silent(err)
  return rawget(err, "code") == "deadline_exceeded" and "its process does not answer" or tostring(err)
end

local function ask_process(node, what, budget)
  local process = process_of(node, budget)
  if not process then return nil, NOT_CONNECTED end
  local ok, answer, why, known = pcall(process.inspect_node, process, node.key, what, budget)
  if ok then return answer, why, known end
  return nil, why_silent(answer)
end

--- The answer of a node, or what stands in its place.
local function complete(node, answer, why, known)
  if not answer then return partial(node, why or "it does not answer", known) end
  answer.node = node.name
  return answer
end

--- Asks a node (of lp.service) for "state", "tasks", "calls", "stats" or "totals".
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
  return complete(node, answer, why, known)
end

--- The nodes in groups: what is in threads here by id, and what is in each process by key.
local function grouped(nodes)
  local ids, processes = {}, {}
  for _, node in ipairs(nodes) do
    local alive = node.state ~= "ended"
    if alive and node.process then
      local group = processes[node.process] or {node = node, keys = {}}
      processes[node.process] = group
      table.insert(group.keys, node.key)
    elseif alive and node.id then
      ids[#ids + 1] = node.id
    end
  end
  return ids, processes
end

--- Asks the processes all at once; the function returned waits, and has key -> {answer, why, known}
-- go to `found`.
local function ask_processes(processes, what, budget, found)
  local futures = {}
  for process, group in pairs(processes) do
    local client = process_of(group.node, budget)
    futures[process] = client and client.futures:inspect_nodes(group.keys, what, budget)
  end
  return function()
    for process, group in pairs(processes) do
      local ok, answers = true, nil
      if futures[process] then ok, answers = pcall(futures[process].result, futures[process]) end
      for _, key in ipairs(group.keys) do
        local one = ok and answers and answers[key] or {}
        local why = not futures[process] and NOT_CONNECTED or not ok and why_silent(answers)
        found[key] = {one.answer, why or one.why or "the node has ended", one.known}
      end
    end
  end
end

--- Asks many nodes at once, each loop and each process once; for what is short.
-- @treturn table their answers in order, as of inspect.ask
function inspect.ask_many(nodes, what, budget)
  local ids, processes = grouped(nodes)
  local found, answers = {}, {}
  local take = ask_processes(processes, what, budget, found)
  local here = asking.ask_many(ids, what, budget)
  take()
  for i, node in ipairs(nodes) do
    local one = found[node.key] or here[node.id] or {}
    if node.state == "ended" then
      one = {nil, "it has ended: " .. (node.how or "it finished")}
    end
    answers[i] = complete(node, one[1], one[2] or "it has not been started", one[3])
  end
  return answers
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
