--- A round of calls while things go wrong: callers and servers, calls of every kind, faults drawn
-- from a seed. Every call must end with its own answer or an error, and nothing may be left.
--
--    LP_FAULTS="window=2;first_id=4294967200" lp run --launch local_mp spec/faults/load.lua --seed 7
--
-- What LP_FAULTS sets (window, first_id) holds from the start, the faults while calls are made.
-- Needs a build with fault points. Prints what happened; fails with what should not have.

local lp = require "lp"
local core = require "lp.core"
local mixed = require "spec.faults.mixed"

local expected, generator = mixed.expected, mixed.generator

local settings = os.getenv "LP_FAULTS" or ""

local flags = lp.flags {
  seed = {1, "Decides which faults there are, and when they strike."},
  calls = {1000, "How many calls are made."},
  callers = {3, "Nodes that call."},
  servers = {2, "Nodes that are called."},
  patience = {60.0, "Seconds after which what has not ended counts as hung."},
  faults = {"", "The faults, instead of those the seed chooses (see LP_FAULTS)."},
  kind = {"link", "What goes wrong: links, frames as well, or memory of servers.",
          choices = {"link", "frame", "memory"}},
  shared = {false, "All nodes on one loop."},
}

-- ---------------------------------------------------------------- both sides

--- What every node here can be told and asked besides; all of it may be asked twice.
local Node = {}

function Node.faults(_, text)
  core.faults(text)
  return true
end

function Node.struck() return core.faults_struck() end

--- What is in use, apart from the call that asks.
function Node.left()
  collectgarbage()
  collectgarbage()
  local left = core.faults_left()
  left.kib = collectgarbage "count"
  left.descriptors = 0
  for _ in require "lfs".dir "/proc/self/fd" do left.descriptors = left.descriptors + 1 end
  return left
end

--- A class of spec/faults/mixed.lua with that.
local function with_control(class)
  local made = setmetatable({}, {__index = class})
  made.__index = made
  for name, method in pairs(Node) do made[name] = method end
  function made.new(...) return setmetatable(class.new(...), made) end
  return made
end

local Server, Caller = with_control(mixed.Server), with_control(mixed.Caller)

-- ---------------------------------------------------------------- the round

--- Probabilities that hurt and let most calls through; by name of the point and kind of fault.
local menu = {
  link = {["stream.read"] = {short = 0.3, delay = 0.1, reset = 0.0005},
          ["stream.write"] = {short = 0.3, delay = 0.1, reset = 0.0005},
          pipe = {split = 0.3, delay = 0.2, reset = 0.0005}},
  memory = {memory = {fail = 0.0005}, ["memory.lua"] = {fail = 0.03}},
  frame = {frame = {drop = 0.004, delay = 0.05, duplicate = 0.05, reset = 0.0005}},
}

local function choose(seed)
  local random = generator(seed)
  local rules = {}
  for _ = 1, 5 do random() end
  for _, kind in ipairs(flags.kind == "frame" and {"frame", "link"} or {flags.kind}) do
    for point, kinds_there in pairs(menu[kind]) do
      for what, most in pairs(kinds_there) do
        table.insert(rules, ("%s:%s:%.5f"):format(point, what, most))
      end
    end
  end
  table.sort(rules)
  -- What is lost does not give its credit back, and a small window would soon be gone.
  local lossless = settings:find "window" ~= nil
  local chosen, seen = {}, {}
  for _, rule in ipairs(rules) do
    local name, most = rule:match "^(.*):(.-)$"
    if not (lossless and name == "frame:drop") and not seen[name] and random() < 0.7 then
      table.insert(chosen, ("%s:%.5f"):format(name, tonumber(most) * random()))
    end
    seen[name] = true
  end
  return ("%s;seed=%d;%s"):format(table.concat(chosen, ","), seed, settings)
end

--- Asks until there is an answer: links go wrong under these calls as well.
local function ask(client, method, ...)
  local give_up = lp.now() + flags.patience
  local hasty = lp.with(client, {timeout = 2})
  repeat
    local results = table.pack(pcall(lp.call, hasty, method, ...))
    if results[1] then return table.unpack(results, 2, results.n) end
    if not expected[results[2].code] then error(results[2], 0) end
    lp.sleep(0.01)
  until lp.now() > give_up or lp.stop_event():is_set()
  error(("%s does not answer %s"):format(hasty, method), 0)
end

local function add_up(sum, counts)
  for name, count in pairs(counts) do sum[name] = (sum[name] or 0) + count end
end

local function describe(counts)
  local words = {}
  for name, count in pairs(counts) do
    if count ~= 0 then table.insert(words, ("%d %s"):format(count, name)) end
  end
  table.sort(words)
  return table.concat(words, ", ")
end

--- Waits until every caller is done; returns how calls ended.
local function wait_for(callers)
  local give_up = lp.now() + flags.patience
  local sum = {}
  for i, caller in ipairs(callers) do
    local running, wrong, ended, open
    repeat
      running, wrong, ended, open = ask(caller, "progress")
      if #wrong > 0 then error(table.concat(wrong, "\n"), 0) end
      if lp.now() > give_up then
        local hung = {}
        for token, name in pairs(open) do table.insert(hung, token .. " (" .. name .. ")") end
        error(("caller %d: %d tasks hang in: %s"):format(i - 1, running, table.concat(hung, ", ")), 0)
      end
      if running > 0 then lp.sleep(0.02) end
    until running == 0
    add_up(sum, ended)
  end
  return sum
end

--- What of `left` should not be there, in words, or nil. The call that asks is one task. Answers
-- that were lost have not brought their credit back; hints bring theirs in steps.
local function remains(left, lossy)
  local bounds = {tasks = left.idle_tasks + 1, running = 1, held = 0, deferred = 0, pending = 0,
                  missing = lossy and math.huge or 256}
  for name, bound in pairs(bounds) do
    if left[name] > bound then return ("%d %s"):format(left[name], name) end
  end
end

--- Waits until nothing is left of the calls in this node.
local function settle(name, client, before, lossy)
  local give_up = lp.now() + flags.patience
  while true do
    local left = ask(client, "left")
    left.idle_tasks = before.tasks - before.running
    local what = remains(left, lossy)
    if not what then return left end
    if lp.now() > give_up then error(("%s: still in use: %s"):format(name, what), 0) end
    lp.sleep(0.05)
  end
end

local function driver(callers, servers)
  local text = flags.faults ~= "" and flags.faults .. ";" .. settings or choose(flags.seed)
  -- Who has no memory to answer may have none to give credit back.
  local lossy = text:find "frame:drop" ~= nil or flags.kind == "memory"
  print("seed " .. flags.seed .. ": " .. text)
  local nodes, before, struck = {}, {}, {}
  for i, server in ipairs(servers) do nodes["server/" .. i - 1] = server end
  for i, caller in ipairs(callers) do nodes["caller/" .. i - 1] = caller end
  for name, client in pairs(nodes) do before[name] = ask(client, "left") end
  for name, client in pairs(nodes) do
    if flags.kind ~= "memory" or name:find "server" then ask(client, "faults", text) end
  end
  for i, caller in ipairs(callers) do
    ask(caller, "begin", caller, flags.calls // #callers, flags.seed * 100 + i)
  end
  local ended = wait_for(callers)
  for _, client in pairs(nodes) do add_up(struck, ask(client, "struck")) end
  for _, client in pairs(nodes) do ask(client, "faults", settings) end
  for name, client in pairs(nodes) do
    local left = settle(name, client, before[name], lossy)
    local grown = left.kib - before[name].kib
    -- Pools and caches fill once; what each call left behind would be more.
    if grown > 256 + flags.calls * 0.05 then
      error(("%s: %.0f KiB more than before"):format(name, grown), 0)
    end
    if left.descriptors > before[name].descriptors + 2 * (#callers + #servers + 2) then
      error(("%s: %d descriptors, before %d"):format(name, left.descriptors,
                                                     before[name].descriptors), 0)
    end
  end
  print("calls: " .. describe(ended))
  print("struck: " .. describe(struck))
  lp.stop()
end

local program = lp.Program "fault_load"
local function placed(node)
  if flags.shared then node:options {loop = "shared"} end
  return node
end
local servers, callers = {}, {}
for i = 1, flags.servers do servers[i] = program:add_node(placed(lp.CourierNode(Server)), "server") end
for i = 1, flags.callers do
  callers[i] = program:add_node(placed(lp.CourierNode(Caller, servers)), "caller")
end
program:add_node(lp.LuaNode(driver, callers, servers), "driver")
return program
