--- The interpreter of an embedding program (lp.h) in which scripts are loaded: the node "main" of
-- the host's loop. What C asks of it are calls of the methods below.
-- @module lp.embed

local core = require "lp.core"

local embed = {}

local programs = {} -- number -> program, or a run that the script launched itself
local count = 0
local scripts = setmetatable({}, {__mode = "k"}) -- program or run -> {name =, arguments =}

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
  if package.loaded["lp.flags"] then package.loaded["lp.flags"].reset() end
  local chunk, message = load(text, name, "t")
  if not chunk then refuse("invalid_argument", message) end
  arg = {[0] = name:gsub("^[@=]", ""), table.unpack(arguments)} -- luacheck: ignore
  local runs = require("lp.launch").runs
  local before = #runs
  local returned = chunk(table.unpack(arguments))
  if package.loaded["lp.flags"] then package.loaded["lp.flags"].finish() end
  count = count + 1
  programs[count] = accept(returned, runs[before + 1])
  scripts[programs[count]] = {name = name, arguments = arguments}
  require("lp.reload").note_stamps()
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

local function read_file(path)
  local text, why = require("lp.files").read(path)
  return text or refuse("not_found", why)
end

--- The same from a file.
function embed.load_file(_, path, _, arguments)
  return run("@" .. path, read_file(path), arguments)
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
    local script = scripts[program]
    launch.script = script.name:match "^@(.*)" -- for `lp ps` and `lp reload`
    local launched, result = pcall(launch.launch, program, options)
    if not launched then -- no line of the host's is to blame
      if type(result) == "string" then refuse("invalid_argument", result) end
      error(result, 0)
    end
    program = result
    scripts[program] = script
  end
  programs[number] = nil
  return program.id, names_of(program.names)
end

-- ---------------------------------------------------------------- reloading

local function run_of(id)
  for _, one in ipairs(require("lp.launch").runs) do
    if one.id == id then return one end
  end
end

--- Gives the nodes of a run new code.
-- @param text of the script, or false: its file is read again
-- @treturn int how many nodes have new code
-- @treturn string notes about the others, a line each
function embed.reload(_, id, text)
  local launched = run_of(id)
  local script = launched and scripts[launched]
  if not script then refuse("failed_precondition", "the run was not launched from a script that was loaded here") end
  if not text then
    local path = script.name:match "^@(.*)"
    if not path then refuse("invalid_argument", "the script was loaded from a text: give the new one") end
    text = read_file(path)
  end
  local ok, result = pcall(require("lp.reload").script, launched, script.name, text, script.arguments)
  if not ok then refuse("invalid_argument", tostring(result)) end
  return result.nodes, table.concat(result.notes, "\n")
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
  require("lp.reload").prepare()
  core.serve(embed)
end

--- The main task of the node that calls in C's name.
function embed.caller()
  require "lp.error"
  core.connector(require "lp.connector")
end

return embed
