--- The interpreter of an embedding program (lp.h) in which scripts are loaded: the node "main" of
-- the host's loop. What C asks of it are calls of the methods below.
-- @module lp.embed

local core = require "lp.core"

local embed = {}

local programs = {} -- number -> program, or a run that the script launched itself
local count = 0

-- ---------------------------------------------------------------- loading

--- What the script returned, or launched, as a program to launch; else an error.
local function accept(returned, launched)
  local launch, kinds = require "lp.launch", require "lp.program"
  if type(returned) == "table" and not kinds.is(returned) and kinds.is(returned[1]) then
    returned = returned[1]
  end
  if kinds.is(returned) and not returned.launched then return returned end
  if launched and (returned == nil or launch.is_run(returned) or kinds.is(returned)) then
    return launched
  end
  local text = ("the script returned %s; it must return a program made by lp.Program")
               :format(require("lp.options").describe(returned))
  error(setmetatable({code = "invalid_argument", message = text}, core.error_metatable()), 0)
end

local function refuse(code, message)
  error(setmetatable({code = code, message = message}, core.error_metatable()), 0)
end

local function run(name, text, arguments)
  if text:sub(1, 1) == "#" then text = "--" .. text end
  local chunk, message = load(text, name, "t")
  if not chunk then refuse("invalid_argument", message) end
  arg = {[0] = name:gsub("^[@=]", ""), table.unpack(arguments)} -- luacheck: ignore
  local runs = require("lp.launch").runs
  local before = #runs
  local returned = chunk(table.unpack(arguments))
  if package.loaded["lp.flags"] then package.loaded["lp.flags"].finish() end
  count = count + 1
  programs[count] = accept(returned, runs[before + 1])
  return count
end

--- Runs a script and keeps the program it returns.
-- @string name for messages
-- @string text
-- @tparam table arguments of the script
-- @treturn int the number of the program
function embed.load_text(_, name, text, arguments)
  return run("=" .. name, text, arguments)
end

--- The same from a file.
function embed.load_file(_, path, _, arguments)
  local file, message = io.open(path, "r")
  if not file then refuse("not_found", "cannot open " .. message) end
  local text <const> = file:read "a"
  file:close()
  if not text then refuse("not_found", ("cannot read %s: is it a folder?"):format(path)) end
  return run("@" .. path, text, arguments)
end

--- The host has let go of a program.
function embed.forget(_, number)
  programs[number] = nil
end

-- ---------------------------------------------------------------- launching

local function names_of(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- Launches a program that was loaded; false stands for an option that is not given.
-- @treturn string the run's id
-- @treturn table the names of its nodes
function embed.launch(_, number, given)
  local launch = require "lp.launch"
  local program = programs[number]
  if not program then refuse("failed_precondition", "the program was launched already, or freed") end
  if not launch.is_run(program) then
    local options = {notice = given.notice, launch_type = given.launch_type or nil,
                     name = given.name or nil}
    if given.seed ~= 0 then options.seed = given.seed end
    if given.threads > 0 then options.threads = given.threads end
    if given.spin >= 0 then options.spin = given.spin end
    program = launch.launch(program, options)
  end
  programs[number] = nil
  return program.id, names_of(program.names)
end

-- ---------------------------------------------------------------- start

local function take_flags()
  local flags = require "lp.flags"
  function flags.exit(status, text)
    refuse(status == 0 and "cancelled" or "invalid_argument", text)
  end
end

--- The main task of the node "main".
function embed.boot()
  require "lp.error"
  require "lp.require"
  require "lp.stdio"
  core.connector(require "lp.connector")
  --- A script does not end the program that embeds it.
  function os.exit()
    error("os.exit: this script is loaded by another program, which it cannot end", 2)
  end
  local launch = require "lp.launch"
  take_flags()
  launch.baseline = require("lp.ship").snapshot()
  core.serve(embed)
end

--- The main task of the node that calls in C's name.
function embed.caller()
  require "lp.error"
  core.connector(require "lp.connector")
end

return embed
