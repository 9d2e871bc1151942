--- Running a set-up script for its program, which is not launched; again and again, with other
-- flags or after it was edited.
-- @module lp.console.script

local core = require "lp.core"
local flags = require "lp.flags"
local launch = require "lp.launch"
local programs = require "lp.program"

local script = {}

--- Modules that were there before any script: the others are loaded anew each time.
local before

local function forget_modules()
  before = before or {}
  if not next(before) then
    for name in pairs(package.loaded) do before[name] = true end
  end
  for name in pairs(package.loaded) do
    if not before[name] and not name:find "^lp%." then package.loaded[name] = nil end
  end
end

local function read(path)
  local text, mistake = require("lp.files").read(path)
  if not text then error(mistake, 0) end
  if text:sub(1, 1) == "#" then text = "--" .. text end
  return text
end

local function text_of(err)
  local trace = type(err) == "table" and rawget(err, "traceback")
  if not trace then return tostring(err) end
  local ours = trace:find("\n%s*%[C%]: in function 'xpcall'") -- from there on it is the engine
  return tostring(err) .. "\n" .. trace:sub(1, (ours or 0) - 1)
end

--- The program among what the script returned; a list means its first.
local function choose(returned)
  if programs.is(returned) then return returned end
  if type(returned) == "table" and programs.is(returned[1]) then return returned[1] end
  error(("the script returned %s; it must return a program made by lp.Program, or launch one itself")
        :format(require("lp.options").describe(returned)), 0)
end

--- Runs the script with these words as its flags.
-- @treturn table the program; raises a text
function script.load(path, words)
  local chunk, mistake = load(read(path), "@" .. path)
  if not chunk then error(mistake, 0) end
  forget_modules()
  flags.reset()
  local stopped, program
  function flags.exit(_, text)
    stopped = text
    error("the script asked for its flags' help, or has none of that name", 0)
  end
  launch.intercept = function(found)
    program = found
    error("the program is handed over", 0)
  end
  launch.script = path
  arg = {[0] = path, table.unpack(words)} -- luacheck: ignore
  local ok, result = xpcall(chunk, core.handler, table.unpack(words))
  launch.intercept = nil
  if ok and not stopped then ok, result = pcall(function() flags.finish() return result end) end
  if stopped then error((stopped:gsub("\n$", "")), 0) end
  if program then return program end
  if not ok then error(text_of(result), 0) end
  return choose(result)
end

return script
