--- What a small call costs: one node calls `echo` of another with 32 bytes.
--
--     lp run [--launch local_mp] programs/bench/rpc.lua [flags]
--
-- Where the two live: with --launch local_mt (the default) on two threads, with local_mp in
-- two processes that talk over a Unix socket, with --one_loop on one thread. With --window 1
-- a call is made when the one before was answered; with more, so many tasks call at once
-- (--futures: one task keeps so many futures under way). Prints one line of JSON, as the
-- floors in bench/ do, and stops.

local lp = require "lp"

local flags = lp.flags{
  calls = {50000, "Calls to time."},
  window = {1, "Calls under way at the same time."},
  bytes = {32, "Bytes in each call, and in each answer."},
  futures = {false, "Keep the window full with futures instead of tasks."},
  one_loop = {false, "Both nodes share one loop."},
  timeout = {0.0, "Each call's time-out in seconds; 0: none."},
}

local Echo = {}
Echo.__index = Echo

function Echo.new() return setmetatable({}, Echo) end
function Echo:echo(text) return text end

--- Calls one after the other, `count` of them.
local function sequence(echo, text, count)
  for _ = 1, count do echo:echo(text) end
end

--- The same by `window` tasks, which share the work.
local function by_tasks(echo, text, count, window)
  local tasks = {}
  for i = 1, window do
    tasks[i] = lp.spawn(sequence, echo, text, count * i // window - count * (i - 1) // window)
  end
  lp.gather(tasks)
end

--- The same by one task that waits for its oldest future before it makes another.
local function by_futures(echo, text, count, window)
  local ring = {}
  for i = 1, count do
    local place = i % window + 1
    if ring[place] then ring[place]:result() end
    ring[place] = echo.futures:echo(text)
  end
  for _, future in pairs(ring) do future:result() end
end

local function caller(echo, options)
  local work = options.window == 1 and sequence or options.futures and by_futures or by_tasks
  local text = ("x"):rep(options.bytes)
  if options.timeout > 0 then echo = lp.with(echo, {timeout = options.timeout}) end
  work(echo, text, options.calls // 10 + options.window, options.window) -- warms up
  local start = lp.now()
  work(echo, text, options.calls, options.window)
  local each = (lp.now() - start) / options.calls
  print(('{"bench":"rpc","launch":"%s","one_loop":%s,"calls":%d,"window":%d,"futures":%s,' ..
         '"bytes":%d,"ns_per_op":%.1f,"ops_per_s":%.0f}')
        :format(lp.context().launch_type, options.one_loop, options.calls, options.window,
                options.futures, options.bytes, each * 1e9, 1 / each))
  lp.stop()
end

local program = lp.Program "bench_rpc"
local loop = flags.one_loop and {loop = "both"} or {}
local echo = program:add_node(lp.CourierNode(Echo):options(loop), "echo")
program:add_node(lp.LuaNode(caller, echo, flags):options(loop), "caller")

return program
