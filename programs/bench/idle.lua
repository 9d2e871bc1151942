--- What a program costs that has nothing to do: nodes that wait to be called.
--
--     lp run programs/bench/idle.lua [--nodes N] [--seconds S]
--
-- Prints one line of JSON with the part of one core that the whole process used (threads;
-- nodes in processes of their own would not be counted).

local lp = require "lp"

local flags = lp.flags{
  nodes = {100, "Nodes that wait."},
  seconds = {2.0, "How long to watch them."},
}

local Quiet = {}
Quiet.__index = Quiet

function Quiet.new() return setmetatable({}, Quiet) end
function Quiet:ready() return true end

local program = lp.Program "bench_idle"
program:group("quiet", function()
  for _ = 1, flags.nodes do program:add_node(lp.CourierNode(Quiet)) end
end)

local run = lp.launch(program)
for i = 1, flags.nodes do run:client("quiet/" .. i - 1):ready() end

local used = os.clock()
local start = lp.now()
lp.sleep(flags.seconds)
local part = (os.clock() - used) / (lp.now() - start)
run:stop()
run:wait()

print(('{"bench":"idle","nodes":%d,"seconds":%g,"percent_of_core":%.3f}')
      :format(flags.nodes, flags.seconds, part * 100))
