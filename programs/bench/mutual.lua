--- What a second core gives: two nodes that call each other, with handlers that compute.
--
--     lp run programs/bench/mutual.lua [flags]
--
-- Both nodes serve and call at the same time. On two threads the work is shared by two cores;
-- with --one_loop everything happens on one thread, which is what it is compared with. Prints
-- one line of JSON, as the floors in bench/ do, and stops.

local lp = require "lp"

local flags = lp.flags{
  calls = {100000, "Calls to time, of both nodes together."},
  window = {32, "Calls each node has under way."},
  steps = {800, "Steps of a loop that a handler computes."},
  one_loop = {false, "Both nodes share one loop."},
  timeout = {0.0, "Each call's time-out in seconds; 0: none."},
}

local function compute(steps)
  local sum = 0
  for i = 1, steps do sum = sum + i end
  return sum
end

local Half = {}
Half.__index = Half

function Half.new(other, options)
  return setmetatable({other = other, options = options}, Half)
end

function Half:work() return compute(self.options.steps) end

--- Microseconds that a handler takes.
function Half:takes()
  local start = lp.now()
  for _ = 1, 1000 do self:work() end
  return (lp.now() - start) * 1e3
end

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

local function timer(halves, options)
  local function both(count)
    local waiting = {}
    for i, half in ipairs(halves) do waiting[i] = half.futures:go(count // 2) end
    lp.gather(waiting)
  end
  both(options.calls // 10 + 2 * options.window) -- warms up
  local start = lp.now()
  both(options.calls)
  local each = (lp.now() - start) / options.calls
  print(('{"bench":"mutual","one_loop":%s,"calls":%d,"window":%d,"handler_us":%.2f,' ..
         '"ns_per_op":%.1f,"ops_per_s":%.0f}')
        :format(options.one_loop, options.calls, options.window, halves[1]:takes(),
                each * 1e9, 1 / each))
  lp.stop()
end

local program = lp.Program "bench_mutual"
local loop = flags.one_loop and {loop = "both"} or {}
local one, two = lp.CourierNode(Half):options(loop), lp.CourierNode(Half):options(loop)
local first, second = program:add_node(one, "one"), program:add_node(two, "two")
one:configure(second, flags)
two:configure(first, flags)
program:add_node(lp.LuaNode(timer, {first, second}, flags):options{loop = "timer"}, "timer")

return program
