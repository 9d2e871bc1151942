--- What a second core gives: two nodes that call each other, with handlers that compute.
--
--     lp run programs/bench/mutual.lua [flags]
--
-- Both nodes serve and call at the same time. One pair of them lives on two threads, so that two
-- cores share the work; another, with which it is compared, on one thread. They take turns of a few
-- milliseconds, since the speed of a core may change from one moment to the next; the medians of
-- both count. Prints one line of JSON, as the floors in bench/ do, and stops.

local lp = require "lp"

local flags = lp.flags{
  calls = {200000, "Calls to time, of both nodes of a pair together."},
  window = {32, "Calls each node has under way."},
  steps = {800, "Steps of a loop that a handler computes."},
  turns = {40, "Turns of each pair."},
  timeout = {0.0, "Each call's time-out in seconds; 0: none."},
}

local function compute(steps)
  local sum = 0
  for i = 1, steps do sum = sum + i end
  return sum
end

local Half = {}
Half.__index = Half

function Half.new(other, options) return setmetatable({other = other, options = options}, Half) end

function Half:work() return compute(self.options.steps) end

--- Calls the other node `count` times, `window` at once; returns when all is answered.
function Half:go(count)
  local window, tasks, other = self.options.window, {}, self.other
  if self.options.timeout > 0 then other = lp.with(other, {timeout = self.options.timeout}) end
  for i = 1, window do
    tasks[i] = lp.spawn(function()
      for _ = 1, count * i // window - count * (i - 1) // window do other:work() end
    end)
  end
  lp.gather(tasks)
end

--- Nanoseconds of a call while both nodes of the pair make `count` of them.
local function turn(pair, count)
  local start = lp.now()
  lp.gather{pair[1].futures:go(count // 2), pair[2].futures:go(count // 2)}
  return (lp.now() - start) / count * 1e9
end

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

local function timer(apart, together, options)
  local count = math.max(2 * options.window, options.calls // options.turns)
  local two, one = {}, {}
  turn(apart, count) -- warms up
  turn(together, count)
  for i = 1, options.turns do two[i], one[i] = turn(apart, count), turn(together, count) end
  print(('{"bench":"mutual","calls":%d,"window":%d,"steps":%d,"one_loop_ns":%.1f,"ns_per_op":%.1f}')
        :format(options.calls, options.window, options.steps, median(one), median(two)))
  lp.stop()
end

local program = lp.Program "bench_mutual"

local function pair(loop)
  local one, two = lp.CourierNode(Half):options(loop), lp.CourierNode(Half):options(loop)
  local first, second = program:add_node(one, "half"), program:add_node(two, "half")
  one:configure(second, flags)
  two:configure(first, flags)
  return {first, second}
end

program:add_node(lp.LuaNode(timer, pair{}, pair{loop = "both"}, flags):options{loop = "timer"}, "timer")

return program
