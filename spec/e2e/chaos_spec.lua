--- Chaos: a program of node processes under load, in which at random a node is killed, stopped
-- and continued, or told to end, and the launcher is killed or told to end, with room on the log's
-- disk or without. Each outcome has to be the documented one, and after each end nothing may be left.
-- `./dev chaos [ROUNDS]` runs many rounds with twenty nodes; LP_CHAOS_SEED repeats one.

local lp = require "lp"
local decode = require "lp.json.decode"
local support = require "spec.e2e.support"

local ROUNDS = math.tointeger(os.getenv "LP_CHAOS_ROUNDS") or 6
local NODES = math.tointeger(os.getenv "LP_CHAOS_NODES") or 6
local SEED = math.tointeger(os.getenv "LP_CHAOS_SEED") or os.time()

--- Half of the nodes serve, the others call them without end. What must never happen is printed
-- with the word CHAOS.
local SCRIPT = [[
local lp = require "lp"
local count = ]] .. NODES // 2 .. [[

local again = {on_failure = "restart", restart = {max = 1000000, within = 1000000, backoff = 0.01}}
local function Server()
  return {
    double = function(_, x) return 2 * x end,
    wait = function(_, x) lp.sleep(x) return x end,
    echo = function(_, text) return text end,
  }
end

local Caller = {}
Caller.__index = Caller
function Caller.new(servers) return setmetatable({servers = servers, answered = 0}, Caller) end
function Caller:count() return self.answered end

local expected = {unavailable = true, deadline_exceeded = true, cancelled = true}
function Caller:step(i)
  local server = lp.with(self.servers[math.random(#self.servers)], {timeout = 2})
  local method, argument = "double", i
  if i % 7 == 0 then method, argument = "wait", 0.001 end
  if i % 11 == 0 then method, argument = "echo", ("x"):rep(100000) end
  local ok, answer = pcall(server[method], server, argument)
  if ok then
    self.answered = self.answered + 1
    if answer ~= (method == "double" and 2 * i or argument) then
      io.stderr:write("CHAOS: a wrong answer to ", method, "\n")
    end
  elseif not expected[answer.code] then
    io.stderr:write("CHAOS: unexpected error ", tostring(answer), "\n")
  end
  print("step", i, ("x"):rep(200))
  lp.sleep(0.005)
end

function Caller:run()
  local i = 0
  while not lp.wait_for_stop(0) do
    i = i + 1
    self:step(i)
  end
end

local program, servers = lp.Program "chaos", {}
for i = 1, count do servers[i] = program:add_node(lp.CourierNode(Server):options(again), "server") end
for _ = 1, count do program:add_node(lp.CourierNode(Caller, servers):options(again), "caller") end
return program
]]

-- ---------------------------------------------------------------- a run

local Run = {}
Run.__index = Run

function Run:ask(words)
  return support.shell("XDG_RUNTIME_DIR=%s/run %s %s 2>/dev/null", self.command.folder, support.lp(), words)
end

--- The nodes by name, or nil while the run cannot be asked.
function Run:nodes()
  local ok, list = pcall(decode, self:ask "nodes chaos --json")
  if not ok or type(list) ~= "table" or #list == 0 then return nil end
  local by_name = {}
  for _, node in ipairs(list) do by_name[node.name] = node end
  return by_name
end

--- Waits until the node satisfies the condition.
function Run:until_node(what, name, condition)
  return support.until_true(what .. " of " .. name, function()
    local nodes = self:nodes()
    return nodes and condition(nodes[name]) and nodes[name]
  end)
end

function Run:all_up()
  support.until_true("all nodes", function()
    local nodes = self:nodes()
    if not nodes then return false end
    for _, node in pairs(nodes) do
      if node.state ~= "running" then return false end
    end
    return true
  end)
end

local function start(full)
  local words = {"--launch", "local_mp", "--notice", "30", "--log-dir", "logs", "--log-size", "100K"}
  local run = setmetatable({full = full}, Run)
  run.command = support.run(SCRIPT, words, {background = true,
    before = full and "trap '' XFSZ; ulimit -f 16;" or nil})
  run:all_up()
  return run
end

--- What was printed that must never be; the files of the nodes are read as well.
function Run:check_words()
  local text = self.command:read "err" .. support.shell("cat %s/logs/*/* 2>/dev/null", self.command.folder)
  assert(not text:find("CHAOS", 1, true), text:match "[^\n]*CHAOS[^\n]*")
  if self.full then
    assert.truthy(select(2, self.command:read "err":gsub("output is lost", "")) <= 1)
  end
end

--- Before the end of a run: a full disk was said.
function Run:last_words()
  if self.full then self.command:wait_for("output is lost", "err") end
end

--- Calls are answered.
function Run:progress(random)
  local name = ("caller/%d"):format(random(NODES // 2) - 1)
  local first
  support.until_true("answers to " .. name, function()
    local count = tonumber(self:ask(("call chaos %s count"):format(name)))
    if not count then return false end
    first = first or count
    return count ~= first
  end)
end

-- ---------------------------------------------------------------- what happens

local events = {}

function events.kill(run, node)
  support.shell("kill -9 %d", node.pid)
  run:until_node("the restart", node.name, function(now)
    return now.restarts > node.restarts and now.state == "running"
  end)
end

function events.stop_and_continue(run, node, random)
  support.shell("kill -STOP %d", node.pid)
  lp.sleep(random(100) / 1000)
  support.shell("kill -CONT %d", node.pid)
  local now = run:until_node("the answer", node.name, function(now) return now.state == "running" end)
  assert.same({node.pid, node.restarts}, {now.pid, now.restarts})
end

--- It ends well, which stops nobody, and is started again by order.
function events.terminate(run, node)
  support.shell("kill -TERM %d", node.pid)
  run:until_node("the end", node.name, function(now) return now.state == "ended" end)
  run:ask("restart chaos " .. node.name)
  run:until_node("the restart", node.name, function(now) return now.state == "running" end)
end

--- The next command removes what a killed launcher could not.
function events.launcher_killed(run)
  run:last_words()
  run.command:signal "KILL":wait_gone(10)
  run:ask "ps"
  assert.equal("", run.command:leftovers())
  return start(run.next_full)
end

function events.launcher_told(run)
  run:last_words()
  run.command:signal "TERM":finish():expect(143)
  return start(run.next_full)
end

local names = {"kill", "kill", "kill", "stop_and_continue", "stop_and_continue", "terminate",
               "launcher_killed", "launcher_told"}

describe("chaos", function()
  teardown(support.clean)

  it(("of seed %d does no harm that is not documented"):format(SEED), function()
    print(("chaos: %d rounds, %d nodes; LP_CHAOS_SEED=%d"):format(ROUNDS, NODES, SEED))
    math.randomseed(SEED)
    local random, run, happened = math.random, start(false), {}
    for round = 1, ROUNDS do
      local event = names[random(#names)]
      if round == 1 then event = "kill" elseif round == ROUNDS then event = "launcher_killed" end
      happened[#happened + 1] = event
      if os.getenv "LP_CHAOS_TALK" then print(("%.2f %s%s"):format(lp.now(), event, run.full and " (full)" or "")) end
      local nodes = assert(run:nodes(), "the run does not answer")
      local label = random(2) == 1 and "server" or "caller"
      local node = nodes[("%s/%d"):format(label, random(NODES // 2) - 1)]
      run.next_full = random(4) == 1
      local ok, result = xpcall(events[event], debug.traceback, run, node, random)
      if not ok then
        error(("round %d of seed %d, %s of %s: %s\nbefore: %s\n%s"):format(round, SEED, event, node.name, result,
              table.concat(happened, " "), run.command:read "err":sub(-2000)), 0)
      end
      run:check_words()
      run = result or run
      run:progress(random)
    end
    run.command:signal "TERM":finish():expect(143)
    run:check_words()
  end)
end)
