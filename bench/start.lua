--- How long the command takes from its start to its exit, for one program.
--
--     lp run bench/start.lua --command lp --script programs/hello_world.lua [--rounds N]
--
-- Prints one line of JSON; a shell's own start (about a millisecond) is in the figure.

local lp = require "lp"

local flags = lp.flags{
  command = {"lp", "The command to start."},
  rounds = {20, "How often."},
  script = {"programs/hello_world.lua", "The program it runs."},
}

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local times = {}
for i = 1, flags.rounds do
  local start = lp.now()
  assert(os.execute(("exec %s run %s >/dev/null"):format(flags.command, flags.script)))
  times[i] = lp.now() - start
end
print(('{"bench":"start","rounds":%d,"seconds":%.5f}'):format(flags.rounds, median(times)))
os.exit(0)
