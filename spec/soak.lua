--- Calls of every kind for as long as asked, while servers are killed and started again: what the
-- program has in use at the end must be what it had once it was warm. (./dev soak)
--
--    lp run --launch local_mp spec/soak.lua --seconds 60
--
-- Prints a table; ends with status 1 and what is wrong if something is.

local lp = require "lp"
local mixed = require "spec.faults.mixed"

local flags = lp.flags {
  seconds = {60.0, "How long."},
  seed = {os.time() % 100000, "Decides who is killed and when."},
  callers = {3, "Nodes that call."},
  servers = {4, "Nodes that are called, and killed."},
  growth = {0.10, "What memory may grow by, of what it was once warm."},
}

-- ---------------------------------------------------------------- in nodes

local function read_all(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

--- What this node and its process have in use.
local function usage()
  collectgarbage()
  collectgarbage()
  local stats = lp.stats()
  local descriptors = {} -- by what they are of
  for name in require "lfs".dir "/proc/self/fd" do
    local target = require "lfs".symlinkattributes("/proc/self/fd/" .. name, "target")
    local kind = target and target:match "^%a[%w_]*:%[?[%a_]*" or target or name
    -- Not what is open because we look.
    if not kind:find "^/proc/" then descriptors[kind] = (descriptors[kind] or 0) + 1 end
  end
  local pending = 0
  for _, link in ipairs(stats.links) do pending = pending + link.pending end
  return {
    pid = read_all "/proc/self/stat":match "%d+",
    launch_type = lp.context().launch_type,
    rss = tonumber(read_all "/proc/self/statm":match "%d+ (%d+)") * 4,
    descriptors = descriptors,
    lua = collectgarbage "count",
    tasks = stats.tasks,
    running = stats.running,
    waiting = stats.waiting,
    pending = pending,
    links = #stats.links,
  }
end

local function with_usage(class)
  local made = setmetatable({usage = usage}, {__index = class})
  made.__index = made
  function made.new(...) return setmetatable(class.new(...), made) end
  return made
end

local Server, Caller = with_usage(mixed.Server), with_usage(mixed.Caller)

--- Has links from here to all servers and back, so that they are all counted.
function Caller:touch(me)
  for _, server in ipairs(self.servers) do
    local token, back = server:back("touch", me)
    assert(token == "touch" and back == "own touch")
  end
end

-- ---------------------------------------------------------------- the program

local program = lp.Program "soak"
local servers, callers = {}, {}
for i = 1, flags.servers do
  local node = lp.CourierNode(Server):options {
    on_failure = "restart",
    restart = {max = 1000, within = 1, backoff = 0.02},
  }
  servers[i] = program:add_node(node, "server")
end
for i = 1, flags.callers do callers[i] = program:add_node(lp.CourierNode(Caller, servers), "caller") end

local run <close> = lp.launch(program)
local random = mixed.generator(flags.seed)
for _ = 1, 5 do random() end

local names, clients = {}, {}
for i, handle in ipairs(servers) do
  names[i] = "server/" .. i - 1
  clients[names[i]] = run:client(handle)
end
for i, handle in ipairs(callers) do
  local name = "caller/" .. i - 1
  table.insert(names, name)
  clients[name] = run:client(handle)
end

--- Asks again while the node is being started anew.
local function ask(name, method, ...)
  local hasty, give_up = lp.with(clients[name], {timeout = 5}), lp.now() + 60
  repeat
    local results = table.pack(pcall(lp.call, hasty, method, ...))
    if results[1] then return table.unpack(results, 2, results.n) end
    if not mixed.expected[results[2].code] then error(results[2], 0) end
    lp.sleep(0.02)
  until lp.now() > give_up
  error(("%s does not answer %s"):format(name, method), 0)
end

local function each_caller(method, ...)
  for i = 1, #callers do ask("caller/" .. i - 1, method, ...) end
end

-- ---------------------------------------------------------------- what is going on

local kills, restarts = 0, 0

--- How calls have ended so far, and how many tasks of callers are at work.
local function progress()
  local sum, busy, all = {}, 0, 0
  for i = 1, #callers do
    local running, wrong, ended = ask("caller/" .. i - 1, "progress")
    if #wrong > 0 then error(table.concat(wrong, "\n"), 0) end
    busy = busy + running
    for code, count in pairs(ended) do
      sum[code] = (sum[code] or 0) + count
      all = all + count
    end
  end
  return sum, busy, all
end

local columns = {"answered", "own", "cancelled", "deadline_exceeded", "unavailable", "resource_exhausted"}
local titles = {"answered", "raised", "cancelled", "late", "unavailable", "exhausted"}

local function print_row(seconds, cells, rss)
  local words = {("%7s"):format(seconds)}
  for _, cell in ipairs(cells) do table.insert(words, ("%12s"):format(cell)) end
  print(table.concat(words) .. ("%7s%9s%9s"):format(rss[1], rss[2], rss[3]))
end

local began = lp.now()

local function report(rss)
  local sum, cells = (progress()), {}
  for i, code in ipairs(columns) do cells[i] = sum[code] or 0 end
  print_row(("%.0f s"):format(lp.now() - began), cells, {kills, restarts, rss or ""})
end

--- Ends or restarts one of the servers.
local function strike()
  local name = "server/" .. random(0, #servers - 1)
  local how = random(1, 10)
  if how > 8 then
    -- It may be on its way already.
    local ok = pcall(run.restart, run, name)
    if ok then restarts = restarts + 1 end
  elseif pcall(run.kill, run, name) then
    kills = kills + 1
  end
end

local function strike_for(seconds)
  local until_then = lp.now() + seconds
  while lp.now() < until_then do
    lp.sleep(0.05 + random() * 0.4)
    strike()
  end
end

-- ---------------------------------------------------------------- what is in use

local function is_settled(name, used, idle_tasks)
  local rest = name:find "caller" and idle_tasks or 0
  return used.tasks <= 1 + rest and used.running <= 1 and used.waiting == 0 and used.pending == 0
end

--- Waits until nothing of any call is left in a node; what is still in use then.
local function settled(name, idle_tasks)
  local give_up = lp.now() + 30
  local used
  repeat
    used = ask(name, "usage")
    if is_settled(name, used, idle_tasks) then return used end
    lp.sleep(0.05)
  until lp.now() > give_up
  error(("%s: %d tasks, %d calls running, %d waiting, %d pending are left")
        :format(name, used.tasks, used.running, used.waiting, used.pending), 0)
end

local TASKS = 12 -- of each caller, which rest

local seen = {} -- pids of node processes

--- What all processes of the program have in use together; `who` tells them apart.
local function add_up()
  local processes, sum = {}, {rss = 0, descriptors = {}, lua = 0, who = ""}
  for _, name in ipairs(names) do
    local used = settled(name, TASKS)
    sum.lua = sum.lua + used.lua
    sum.who = sum.who .. name .. " " .. used.pid .. " " .. used.links .. "\n"
    used.name = processes[used.pid] and processes[used.pid].name or name
    processes[used.pid] = used
  end
  local here = usage()
  here.name = "launcher"
  processes[here.pid] = here
  for pid, used in pairs(processes) do
    seen[pid] = pid ~= here.pid or nil
    sum.rss = sum.rss + used.rss
    for kind, count in pairs(used.descriptors) do sum.descriptors[used.name .. " " .. kind] = count end
  end
  return sum
end

--- The same while nothing goes on.
local function measure()
  each_caller "rest"
  local give_up = lp.now() + 60
  while select(2, progress()) > 0 do
    if lp.now() > give_up then error("calls hang", 0) end
    lp.sleep(0.05)
  end
  local last, sum
  repeat -- until a server that was on its way out has gone, and the next has its links
    last = sum
    for i, caller in ipairs(callers) do ask("caller/" .. i - 1, "touch", caller) end
    lp.sleep(0.2)
    sum = add_up()
    if lp.now() > give_up then error("servers come and go though nobody kills them", 0) end
  until last and last.who == sum.who
  report(("%.1f"):format(sum.rss / 1024))
  return sum
end

local function grown(what, before, after, slack)
  local bound = before * (1 + flags.growth) + slack
  print(("%s: %.1f once warm, %.1f at the end (at most %.1f)"):format(what, before, after, bound))
  return after > bound
end

print(("seed %d, %s"):format(flags.seed, ask(names[1], "usage").launch_type))
print_row("", titles, {"kills", "restarts", "MiB"})
for i, caller in ipairs(callers) do
  ask("caller/" .. i - 1, "begin", caller, 12 << 40, flags.seed * 100 + i)
end
local warm = math.max(1, flags.seconds / 3)
strike_for(warm)
local before = measure()
local parts = 6
for _ = 1, parts do
  each_caller "resume"
  strike_for((flags.seconds - warm) / parts)
  report()
end
local after = measure()
local _, _, all = progress()
print(("%d calls, %.0f a second"):format(all, all / (lp.now() - began)))
local wrong = {}
-- A thread's stack or arena more or less is a mebibyte, which is much of a small program.
if grown("memory of all processes, MiB", before.rss / 1024, after.rss / 1024, 1) then
  table.insert(wrong, "memory has grown")
end
if grown("memory of the interpreters, KiB", before.lua, after.lua, 64) then
  table.insert(wrong, "the interpreters' memory has grown")
end
for kind, count in pairs(after.descriptors) do
  local had = before.descriptors[kind] or 0
  if count > had then table.insert(wrong, ("%s: %d descriptors, once warm %d"):format(kind, count, had)) end
end
run:close()
for pid in pairs(seen) do
  if io.open("/proc/" .. pid .. "/stat") then table.insert(wrong, "process " .. pid .. " is left") end
end
if #wrong > 0 then error(table.concat(wrong, "; "), 0) end
