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
  if question.token then core.wake(question.token) end
end

--- Opens a question; it is closed as a to-be-closed variable.
local Question = {__close = function(question) open[question.ticket] = nil end}

local function new()
  serial = serial + 1
  local question = setmetatable({ticket = serial}, Question)
  open[serial] = question
  return question
end

local function wait(question, due)
  while not question.answer and not question.refusal do
    local left = due - core.now()
    if left <= 0 then return end
    question.token = core.token()
    core.park(left)
  end
end

--- Why there is no answer of node `id`, and what is known without it.
local function silence(id, question)
  local published = host.published(id)
  if question.refusal or not published then return question.refusal or "the node has ended", published end
  local why = published.computing and "it is inside a C function that does not return" or
              "its loop does not answer"
  if published.computing and (published.where or "") ~= "" then why = why .. " (" .. published.where .. ")" end
  return why, published
end

--- Asks node `id` for `what`: "state", "tasks", "calls", "stats" or "totals".
-- @number seconds how long to wait at most
-- @treturn table the answer; or nil, why there is none, and what is known without the node
function asking.ask(id, what, seconds)
  local question <close> = new()
  if host.inspect(id, what, question.ticket) then wait(question, core.now() + seconds) end
  if question.answer then return question.answer end
  return nil, silence(id, question)
end

--- Asks the loops of all these nodes, each once.
-- @treturn table id -> its question
local function ask_loops(ids, what, questions)
  local asked = {}
  for _, id in ipairs(ids) do
    if not asked[id] then
      local question = new()
      questions[#questions + 1] = question
      for _, mate in ipairs(host.inspect_loop(id, what, question.ticket) or {}) do asked[mate] = question end
      question.unheard = not asked[id]
      asked[id] = question
    end
  end
  return asked
end

local function close_all(questions)
  for _, question in ipairs(questions) do open[question.ticket] = nil end
end

--- Asks many nodes, which costs a message for each loop and not for each node. A loop is held up for
-- as long as all its nodes take to answer: for what is short.
-- @tparam table ids array
-- @treturn table id -> {answer} or {nil, why there is none, what is known without the node}
function asking.ask_many(ids, what, seconds)
  local due, said, results = core.now() + seconds, {}, {}
  local questions <close> = setmetatable({}, {__close = close_all})
  local asked = ask_loops(ids, what, questions)
  for _, question in ipairs(questions) do
    if not question.unheard then wait(question, due) end
    for _, pair in ipairs(question.answer or {}) do said[pair[1]] = pair[2] end
  end
  for _, id in ipairs(ids) do
    results[id] = said[id] and {said[id]} or {nil, silence(id, asked[id])}
  end
  return results
end

return asking
