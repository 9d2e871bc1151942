--- How long the command takes from its start to its exit, for a program that says hello.
--
--     lp run bench/start.lua [--command lp] [--rounds N] [--script FILE]
--
-- Prints one line of JSON; a shell's own start (about a millisecond) is in the figure.

local lp = require "lp"

local flags = lp.flags{
  command = {"lp", "The command to start."},
  rounds = {20, "How often."},
  script = {"", "The program; else one that prints a line from a node."},
}

local function example()
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write('local lp = require "lp"\n',
             'local program = lp.Program "hello"\n',
             'program:add_node(lp.LuaNode(function() print "hello" end), "hello")\n',
             'return program\n')
  return path
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local path = flags.script ~= "" and flags.script or example()
local times = {}
for i = 1, flags.rounds do
  local start = lp.now()
  assert(os.execute(("exec %s run %s >/dev/null"):format(flags.command, path)))
  times[i] = lp.now() - start
end
if flags.script == "" then os.remove(path) end
print(('{"bench":"start","rounds":%d,"seconds":%.5f}'):format(flags.rounds, median(times)))
os.exit(0)
