--- What Ctrl-C means while somebody types at a prompt of this command: it ends the statement that
-- runs, not the program. While a line is edited it comes as a character and not here.
-- @module lp.service.prompt

local core = require "lp.core"
local evaluation = require "lp.evaluation"
local report = require "lp.report"
local state = require "lp.service.state"

local prompt = {}

local main       -- engine's id of the node with the prompt; nil: there is none
local asked = 0  -- times Ctrl-C was pressed since a line was last asked for

--- The prompt of node `id` asks for a line: what was typed before is done with.
function prompt.ready(id)
  main, asked = id, 0
end

--- How often Ctrl-C was pressed since.
function prompt.asked() return asked end

local function has_program()
  for _, run in pairs(state.runs) do
    if run.state == "running" or run.state == "stopping" then return true end
  end
end

--- The statement did not end: it is in C. Without a program of our own nothing is lost by leaving.
local function give_up()
  if has_program() then
    return report.line("\nThe statement is inside a C function that does not return; " ..
                       "Ctrl-\\ ends lp, with the program.")
  end
  report.line("\nThe statement is inside a C function that does not return: leaving.")
  core.sleep(0.1)
  core.command.status(130)
  core.command.abandon()
end

--- Ctrl-C was pressed. False: there is no prompt, and it means the program.
function prompt.interrupt()
  if not main then return false end
  asked = asked + 1
  core.host.interrupt(main, evaluation.PROMPT)
  if asked > 1 then
    core.start(function()
      local count = asked
      core.sleep(1.5) -- a statement that catches its cancellation is closed after a second
      if asked == count then give_up() end
    end)
  end
  return true
end

return prompt
