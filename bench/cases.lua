--- What is measured, beside which floor, and what it should reach.
-- A case: `work` (what, in words), `pinned`, `floor` and `ours` (commands), `field` (of our
-- line; else ns_per_op), `rate` (many calls: the ratio is of calls per second), `limit` for
-- the ratio, or without a floor for our figure (at most; `least`: at least), `step` (the
-- limits of step 1 are gated, those of step 2 only shown), `gate` (what is gated where step 2
-- asks for more), `again` (another figure of the run before, if that was of the same command).
-- @module cases

local lp = require "lp"
local machine = require "machine"

local cases = {}

-- `tools` has `lp`, `floors` and `programs` (paths), `core`, `scale` (of counts) and `timeout` (of each
-- call between nodes, in seconds; 0: none).

local function scaled(tools, count)
  return math.max(1, math.floor(count * tools.scale))
end

local calling = {rpc = true, bulk = true, mutual = true}

local function lp_run(tools, cores, launch, name, ...)
  local command = {"taskset", "-c", cores, tools.lp, "run", "--launch", launch,
                   tools.programs .. name .. ".lua", ...}
  if calling[name] and tools.timeout > 0 then
    table.move({"--timeout", tools.timeout}, 1, 2, #command + 1, command)
  end
  return command
end

local function floor_run(tools, cores, name, ...)
  return {tools.floors .. name, "--pin", cores, ...}
end

-- ---------------------------------------------------------------- small calls

local places = {
  {name = "two nodes on one loop", launch = "local_mt", flags = {"--one_loop"},
   one = {0.06, 0.9}},
  {name = "two loops (threads)", launch = "local_mt", flags = {}, wakeup = true,
   one = {1.2, 0.5}, two = {0.03, 2}},
  {name = "two processes, Unix", launch = "local_mp", flags = {}, gated = 1.5,
   one = {1.25, 0.42}, two = {0.2, 1}},
}

--- Processor time compares what is pinned to one core only: elsewhere waiting costs some.
local function counts_of(tools, cores, ours, floor)
  return cores == tools.core and {ours = ours, floor = floor} or nil
end

local function sequential(tools, place, cores, limit)
  local calls, rounds = scaled(tools, 40000), scaled(tools, 50000)
  local name = place.wakeup and cores == tools.core and "thread_wakeup" or "epoll_pingpong"
  return {work = place.name .. ", sequential", limit = limit, step = 2,
          counts = counts_of(tools, cores, calls, rounds),
          floor = floor_run(tools, cores, name, "--rounds", rounds),
          ours = lp_run(tools, cores, place.launch, "rpc", "--calls", calls,
                        table.unpack(place.flags))}
end

local function pipelined(tools, place, cores, limit, ...)
  local calls, rounds, flags = scaled(tools, 400000), scaled(tools, 1000000), {...}
  table.move(place.flags, 1, #place.flags, #flags + 1, flags)
  return {work = place.name .. ", 64 outstanding", rate = true, least = true, limit = limit,
          step = 2, counts = counts_of(tools, cores, calls, rounds),
          floor = floor_run(tools, cores, "epoll_pingpong", "--window", 64, "--rounds", rounds),
          ours = lp_run(tools, cores, place.launch, "rpc", "--window", 64, "--calls", calls,
                        table.unpack(flags))}
end

--- Steps of a loop in Lua that take so many microseconds here.
local function steps_of(microseconds)
  local best = math.huge
  for _ = 1, 200 do
    local start, sum = lp.now(), 0
    for i = 1, 20000 do sum = sum + i end
    best = math.min(best, lp.now() - start)
  end
  return math.ceil(20000 * microseconds * 1e-6 / best)
end

--- Two nodes with handlers of 3 us on two threads, beside the same on one. Both runs are told how
-- much a handler does: each finding it out for itself, they would compare different work.
local function mutual(tools, cores)
  local calls, steps = scaled(tools, 200000), steps_of(3)
  return {work = "two nodes calling each other, 3 us handlers, beside one loop", rate = true,
          least = true, limit = 1.7, step = 2,
          floor = lp_run(tools, cores, "local_mt", "mutual", "--calls", calls, "--steps", steps, "--one_loop"),
          ours = lp_run(tools, cores, "local_mt", "mutual", "--calls", calls, "--steps", steps)}
end

--- What spinning costs where there is one core for both: beside the same without.
local function spinning(tools)
  local calls = scaled(tools, 40000)
  local function run(...)
    return {"taskset", "-c", tools.core, tools.lp, "run", "--launch", "local_mp", ...}
  end
  local program = tools.programs .. "rpc.lua"
  return {work = "two processes, Unix, sequential, beside --spin 0", limit = 1.1, step = 2,
          counts = counts_of(tools, tools.core, calls, calls),
          floor = run("--spin", 0, program, "--calls", calls),
          ours = run(program, "--calls", calls)}
end

local function add(list, case, pinned)
  case.pinned = pinned
  list[#list + 1] = case
end

function cases.rpc(tools)
  local list = {}
  for _, place in ipairs(places) do
    local first = sequential(tools, place, tools.core, place.one[1])
    first.gate = place.gated
    add(list, first, "one core")
    add(list, pipelined(tools, place, tools.core, place.one[2]), "one core")
    if not place.flags[1] then
      local futures = pipelined(tools, place, tools.core, nil, "--futures")
      futures.work = futures.work .. " futures"
      add(list, futures, "one core")
    end
  end
  if not tools.second then return list end
  local both = tools.core .. "," .. tools.second
  for _, place in ipairs(places) do
    if place.two then
      add(list, sequential(tools, place, both, place.two[1]), "two cores")
      add(list, pipelined(tools, place, both, place.two[2]), "two cores")
    end
  end
  add(list, mutual(tools, both), "two cores")
  add(list, spinning(tools), "one core")
  return list
end

-- ---------------------------------------------------------------- the others

function cases.bulk(tools)
  local buffer = math.min(1 << 20, machine.socket_buffer())
  local floor = floor_run(tools, tools.core, "bulk_echo", "--rounds", scaled(tools, 1000),
                          "--sockbuf", buffer)
  local list = {}
  for _, place in ipairs(places) do
    add(list, {work = place.name .. ", 1 MiB echo", floor = floor, step = 2,
               limit = place.launch == "local_mp" and 1.5 or nil,
               ours = lp_run(tools, tools.core, place.launch, "bulk", "--calls",
                             scaled(tools, 500), table.unpack(place.flags))}, "one core")
  end
  return list
end

--- Beside code written for each shape; once more beside code that trusts the value to be of its
-- shape, which is no codec (see bench/codec_hand.c).
function cases.codec(tools)
  local list = {}
  local function pack(shape, trusting)
    local rounds = scaled(tools, shape == "doubles" and 5000 or 100000)
    add(list, {work = ("pack: %s%s"):format(shape, trusting and ", beside blind code" or ""),
               limit = not trusting and 1.3 or nil, step = 2,
               floor = floor_run(tools, tools.core, "codec_hand", "--shape", shape, "--rounds",
                                 rounds, "--trusting", trusting and "yes" or "no"),
               ours = lp_run(tools, tools.core, "local_mt", "codec", "--shape", shape,
                             "--rounds", rounds)}, "one core")
  end
  local shapes = {"small", "map", "doubles", "nested"}
  for _, shape in ipairs(shapes) do pack(shape, false) end
  for _, shape in ipairs(shapes) do pack(shape, true) end
  return list
end

--- Starting and stopping: the command, many nodes in threads, some in processes. Several
-- figures of one run follow each other.
function cases.launch(tools)
  local list = {
    {work = "hello_world: command to exit", unit = "s", field = "seconds", limit = 0.030, step = 1,
     ours = {tools.lp, "run", tools.bench .. "start.lua", "--command", tools.lp, "--script",
             tools.programs .. "../hello_world.lua", "--rounds", scaled(tools, 20)}},
  }
  local function figure(nodes, launch, work, unit, field, limit, step)
    list[#list + 1] = {work = ("%d %s"):format(nodes, work), unit = unit, field = field,
                       limit = limit, step = step or 2, rounds = 3, again = true,
                       ours = {tools.lp, "run", "--launch", launch, tools.programs .. "launch.lua",
                               "--nodes", nodes}}
  end
  local some, many, processes = scaled(tools, 1000), scaled(tools, 10000), scaled(tools, 200)
  figure(some, "local_mt", "nodes start, answer, stop", "s", "ended_s", 2, 1)
  figure(some, "local_mt", "nodes, time of each", "ns", "ns_per_op", 2e6)
  figure(some, "local_mt", "nodes, peak memory", "MiB", "peak_mib", 200, 1)
  figure(some, "local_mt", "nodes, memory of each", "KiB", "node_kib", 85)
  figure(many, "local_mt", "nodes, time of each", "ns", "ns_per_op", 2e6)
  figure(many, "local_mt", "nodes, memory of each", "KiB", "node_kib", 85)
  figure(processes, "local_mp", "processes start, answer, stop", "s", "ended_s", 5)
  for _, case in ipairs(list) do case.pinned = "any core" end
  list[#list + 1] = {work = "a bare Lua state (the floor of a node)", pinned = "one core",
                     rounds = 3, ours = floor_run(tools, tools.core, "lua_state")}
  return list
end

function cases.idle(tools)
  return {{work = "100 idle nodes, part of a core", unit = "%", field = "percent_of_core",
           limit = 1, step = 2, pinned = "any core",
           ours = {tools.lp, "run", tools.programs .. "idle.lua", "--nodes", 100, "--seconds",
                   math.max(0.1, 2 * tools.scale)}}}
end

--- A host program and nodes on its thread, beside entering a function and beside a socket.
function cases.embed(tools)
  local calls = scaled(tools, 300000)
  local floors = {
    {"lua_pcall", floor_run(tools, tools.core, "lua_pcall", "--rounds", scaled(tools, 3000000))},
    {"socket", floor_run(tools, tools.core, "epoll_pingpong", "--rounds", scaled(tools, 50000))},
  }
  local works = {
    {"host to Lua, sequential", "--mode", "host_to_lua"},
    {"host to Lua, 64 outstanding", "--mode", "host_to_lua", "--window", 64},
    {"Lua to host, sequential", "--mode", "lua_to_host"},
  }
  local list = {}
  for _, work in ipairs(works) do
    for _, floor in ipairs(floors) do
      add(list, {work = ("%s (floor: %s)"):format(work[1], floor[1]), floor = floor[2], step = 6,
                 ours = floor_run(tools, tools.core, "embed/embed_calls", "--rounds", calls,
                                  table.unpack(work, 2))}, "one core")
    end
  end
  return list
end

cases.names = {"rpc", "bulk", "codec", "launch", "idle", "embed"}

return cases
