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
  handler = {3.0, "Microseconds a handler computes."},
  one_loop = {false, "Both nodes share one loop."},
  timeout = {0.0, "Each call's time-out in seconds; 0: none."},
}

local function compute(steps)
  local sum = 0
  for i = 1, steps do sum = sum + i end
  return sum
end

--- Steps that take so many microseconds here; the fastest of several tries.
local function steps_of(microseconds)
  local best = math.huge
  for _ = 1, 20 do
    local start = lp.now()
    compute(20000)
    best = math.min(best, lp.now() - start)
  end
  return math.max(1, math.floor(20000 * microseconds * 1e-6 / best))
end

local Half = {}
Half.__index = Half

function Half.new(other, options)
  return setmetatable({other = other, steps = steps_of(options.handler), options = options}, Half)
end

function Half:work() return compute(self.steps) end

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
  print(('{"bench":"mutual","one_loop":%s,"calls":%d,"window":%d,"handler_us":%g,' ..
         '"ns_per_op":%.1f,"ops_per_s":%.0f}')
        :format(options.one_loop, options.calls, options.window, options.handler, each * 1e9,
                1 / each))
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
