--- Evaluating a text in a node of this process, so that the evaluation ends when its asker gives up: also
-- when it computes, and even when it has not begun yet.
-- @module lp.evaluation

local core = require "lp.core"

local evaluation = {}

local serial = 1

--- The number of what is typed at the command's own prompt.
evaluation.PROMPT = 1

--- Interrupts the statement until it must have seen it: it may just be about to begin.
local function interrupt(id, statement)
  for _, pause in ipairs {0, 0.05, 0.2, 0.5, 1, 2} do
    core.sleep(pause)
    core.host.interrupt(id, statement)
  end
end

--- Calls the node's reserved method, see lp.inside.
-- @int id the engine's, of the node
-- @param client of the node, with the time it may take
-- @string text
function evaluation.ask(id, client, text)
  serial = serial + 1
  local statement = serial
  local ok, answer = pcall(core.ask, client, "lp.eval", text, statement)
  if ok then return answer end
  core.start(interrupt, id, statement)
  error(answer, 0)
end

--- Has a main chunk run its script again, see lp.inside. One that computes for ever would keep the
-- command from ending.
-- @tparam ?int id the engine's, of the main chunk's node; nil: it cannot be interrupted
function evaluation.reload(id, client, ...)
  serial = serial + 1
  local statement = serial
  local ok, answer = pcall(core.ask, client, "lp.reload_script", statement, ...)
  if ok then return answer end
  if id then core.start(interrupt, id, statement) end
  error(answer, 0)
end

local function have_changed(files)
  for path, stamp in pairs(files) do
    if core.file_stamp(path) ~= stamp then return true end
  end
end

--- Statements that are given up when files change.
local supervised = {}

--- A main chunk is about to run its script again, in a task that is to be marked with the number
-- returned. If it computes for ever nobody there sees that the script was mended: it is interrupted
-- when one of `files` (path -> stamp) is not as it was.
-- @int id the engine's, of the main chunk's node
function evaluation.supervise(id, files)
  serial = serial + 1
  local statement = serial
  supervised[statement] = true
  core.start(function()
    repeat core.sleep(0.2) until not supervised[statement] or have_changed(files)
    if supervised[statement] then interrupt(id, statement) end
    supervised[statement] = nil
  end)
  return statement
end

--- It has ended.
function evaluation.ended(statement) supervised[statement] = nil end

return evaluation
