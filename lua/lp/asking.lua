--- Questions to the nodes of this process that are answered by their loops and not by their
-- code (engine/runtime/inspect.h): also by a node that computes, is paused, or has not been
-- constructed. For the policy of a launcher (lp.service) and of a node process (lp.worker).
-- @module lp.asking

local core = require "lp.core"

local host = core.host
local asking = {}

local open = {} -- ticket -> question
local serial = 0

--- The engine's answer to a ticket.
function asking.answered(ticket, status, bytes)
  local question = open[ticket]
  if not question then return end -- too late
  open[ticket] = nil
  if status == 0 then
    question.answer = core.unpack(bytes)
  else
    question.refusal = bytes
  end
  core.wake(question.token)
end

local function wait(question, due)
  while not question.answer and not question.refusal do
    local left = due - core.now()
    if left <= 0 then return end
    question.token = core.token()
    core.park(left)
  end
end

--- Asks node `id` for `what`: "state", "tasks", "calls" or "stats".
-- @number seconds how long to wait at most
-- @treturn table the answer; or nil, why there is none, and what is known without the node
function asking.ask(id, what, seconds)
  serial = serial + 1
  local ticket, question = serial, {}
  open[ticket] = question
  local known = host.inspect(id, what, ticket)
  local ok, err = true, nil
  if known then ok, err = pcall(wait, question, core.now() + seconds) end
  open[ticket] = nil
  if not ok then error(err, 0) end
  if question.answer then return question.answer end
  local published = host.published(id)
  if question.refusal or not published then return nil, question.refusal or "the node has ended", published end
  local why = published.computing and "it is inside a C function that does not return" or
              "its loop does not answer"
  if published.computing and (published.where or "") ~= "" then why = why .. " (" .. published.where .. ")" end
  return nil, why, published
end

return asking
