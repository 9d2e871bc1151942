--- What a large call costs: one node sends another 1 MiB and gets it back.
--
--     lp run [--launch local_mp] programs/bench/bulk.lua [flags]
--
-- Where the two nodes live is said as for rpc.lua. Prints one line of JSON and stops.

local lp = require "lp"

local flags = lp.flags{
  calls = {200, "Calls to time."},
  bytes = {1 << 20, "Bytes in each call, and in each answer."},
  one_loop = {false, "Both nodes share one loop."},
  timeout = {0.0, "Each call's time-out in seconds; 0: none."},
}

local Echo = {}
Echo.__index = Echo

function Echo.new() return setmetatable({}, Echo) end
function Echo:echo(text) return text end

local function calls(echo, text, count)
  for _ = 1, count do
    if #echo:echo(text) ~= #text then error("a wrong answer") end
  end
end

local function caller(echo, options)
  local text = ("x"):rep(options.bytes)
  if options.timeout > 0 then echo = lp.with(echo, {timeout = options.timeout}) end
  calls(echo, text, options.calls // 10 + 1) -- warms up
  local start = lp.now()
  calls(echo, text, options.calls)
  local each = (lp.now() - start) / options.calls
  print(('{"bench":"bulk","launch":"%s","one_loop":%s,"calls":%d,"bytes":%d,"ns_per_op":%.1f,' ..
         '"mib_per_s":%.0f}')
        :format(lp.context().launch_type, options.one_loop, options.calls, options.bytes,
                each * 1e9, 2 * options.bytes / each / (1 << 20)))
  lp.stop()
end

local program = lp.Program "bench_bulk"
local loop = flags.one_loop and {loop = "both"} or {}
local echo = program:add_node(lp.CourierNode(Echo):options(loop), "echo")
program:add_node(lp.LuaNode(caller, echo, flags):options(loop), "caller")

return program
