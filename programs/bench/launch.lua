--- What nodes cost: many start, answer one call each, and stop.
--
--     lp run [--launch local_mp] programs/bench/launch.lua [--nodes N]
--
-- The main chunk launches the program itself and calls the nodes through the run. Prints
-- one line of JSON: the seconds from lp.launch to the last answer and to the end, the
-- launcher's largest resident memory (with threads that is all of it) and how much of that
-- each node has added.

local lp = require "lp"

local flags = lp.flags{nodes = {1000, "Nodes to start."}}

local Echo = {}
Echo.__index = Echo

function Echo.new() return setmetatable({}, Echo) end
function Echo:echo(text) return text end

local program = lp.Program "bench_launch"
program:group("echo", function()
  for _ = 1, flags.nodes do program:add_node(lp.CourierNode(Echo)) end
end)

--- A figure of /proc/self/status, in KiB.
local function memory_kib(name)
  for line in io.lines "/proc/self/status" do
    local figure = line:match("^" .. name .. ":%s*(%d+)")
    if figure then return tonumber(figure) end
  end
  return 0
end

local before = memory_kib "VmRSS"
local start = lp.now()
local run = lp.launch(program)
local answers = {}
for i = 1, flags.nodes do
  answers[i] = run:client("echo/" .. i - 1).futures:echo("here")
end
lp.gather(answers)
local answered = lp.now() - start
local grown = memory_kib "VmRSS" - before
run:stop()
run:wait()
local ended = lp.now() - start

print(('{"bench":"launch","launch":"%s","nodes":%d,"answered_s":%.4f,"ended_s":%.4f,' ..
       '"ns_per_op":%.0f,"peak_mib":%.1f,"node_kib":%.1f}')
      :format(require("lp.launch").defaults.launch_type or "local_mt", flags.nodes, answered, ended,
              ended / flags.nodes * 1e9, memory_kib "VmHWM" / 1024, grown / flags.nodes))
