--- on_failure and restart: what the failure of a node means.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains
local node_of, until_node = support.node_of, support.until_node

local Worker = {}
Worker.__index = Worker

function Worker.new() return setmetatable({calls = 0}, Worker) end
function Worker:ping() self.calls = self.calls + 1 return self.calls end
function Worker:fail() lp.spawn(function() error "broken on purpose" end) end
function Worker:pid() return lp.context().pid end
function Worker:compute() while true do end end

--- Calls a worker on behalf of whoever asks.
local Caller = {}
Caller.__index = Caller
function Caller.new(worker) return setmetatable({worker = worker}, Caller) end
function Caller:ping() return self.worker:ping() end

--- Fails the worker and waits until it was started again.
local function fail(run, worker, name)
  local before = node_of(run, name).restarts
  worker.notify:fail()
  return until_node(run, name, function(node) return node.restarts > before and node.state == "running" end)
end

support.each(describe, "a node that fails", function(place)
  local function program(options)
    return function(graph)
      local worker = graph:add_node(lp.CourierNode(Worker):options(options or {}), "worker")
      return worker, graph:add_node(lp.CourierNode(Caller, worker), "caller")
    end
  end

  local often = {on_failure = "restart", restart = {max = 20, within = 60, backoff = 0.001}}

  it("stops the program when nothing else is said", function()
    place:failing(function(graph)
      graph:add_node(lp.CourierNode(Worker), "other")
      graph:add_node(lp.LuaNode(function() error "broken on purpose" end), "bad")
    end, function(err) contains("node bad/0 failed: ", err) contains("broken on purpose", err) end)
  end)

  it("is started again with on_failure = restart, and its clients find it", function()
    place(program(often), function(worker, caller, run)
      assert.equal(1, worker:ping())
      assert.equal(2, caller:ping())
      local node = fail(run, worker, "worker/0")
      assert.equal(1, node.restarts)
      assert.equal(1, node.failures)
      contains("broken on purpose", node.last_error)
      assert.equal(1, caller:ping())
      assert.equal(2, worker:ping())
    end)
  end)

  it("is waited for by calls that come while it is away", function()
    local slow = {on_failure = "restart", restart = {backoff = 0.2}}
    place(program(slow), function(worker, caller, run)
      assert.equal(1, caller:ping())
      worker.notify:fail()
      until_node(run, "worker/0", function(node) return node.state == "restarting" end)
      assert.equal(1, caller:ping())
      assert.equal(2, worker:ping())
    end)
  end)

  it("stops the program when it fails more often than restart.max allows", function()
    local run
    place:failing(function(graph)
      graph:add_node(lp.LuaNode(function() error "again and again" end)
        :options{on_failure = "restart", restart = {max = 2, backoff = 0.001}}, "bad")
    end, function(err)
      contains("node bad/0 failed", err)
      contains("again and again", err)
      contains("restarted 2 times", err)
      run = err
    end)
    assert.truthy(run)
  end)

  it("does not harm the others with on_failure = ignore", function()
    place(function(graph)
      graph:add_node(lp.LuaNode(function() error "nobody minds" end):options{on_failure = "ignore"}, "bad")
      return graph:add_node(lp.CourierNode(Worker), "worker")
    end, function(worker, run)
      local node = until_node(run, "bad/0", function(node) return node.state == "ended" end)
      contains("nobody minds", node.ended)
      assert.equal(1, node.failures)
      assert.equal(1, worker:ping())
    end)
  end)

  it("is killed and started again by order", function()
    place(program(often), function(worker, caller, run)
      assert.equal(1, caller:ping())
      local before = node_of(run, "worker/0").restarts
      run:kill "worker/0"
      local node = until_node(run, "worker/0", function(node)
        return node.restarts > before and node.state == "running"
      end)
      contains("killed by the launcher", node.last_error)
      assert.equal(1, caller:ping())
      assert.equal(2, worker:ping())
    end)
  end)

  it("is restarted by order, whatever its policy, without counting as failed", function()
    place(program(), function(worker, caller, run)
      assert.equal(1, caller:ping())
      run:restart "worker/0"
      local node = node_of(run, "worker/0")
      assert.same({1, 0, "running"}, {node.restarts, node.failures, node.state})
      assert.equal(1, caller:ping())
      run:restart "worker/0"
      assert.equal(1, caller:ping())
    end)
  end)

  local it_here = place.launch_type == "test_mt" and
                  require("spec.e2e.support").it_interrupts(it, pending) or it

  it_here("answers the calls under way with unavailable", function()
    place(program(often), function(worker, _, run)
      worker:ping()
      local future = worker.futures:compute()
      run:kill "worker/0"
      local err = raised(future.result, future)
      assert.equal("unavailable", err.code)
      -- Its link may be there for a moment still; what is written to it is not sent again.
      local ok, count
      repeat ok, count = pcall(worker.ping, worker) until ok
      assert.equal(1, count)
    end)
  end)

  it("may have ended well and be started by order", function()
    place(function(graph)
      graph:add_node(lp.LuaNode(function() end), "short")
      return graph:add_node(lp.CourierNode(Worker), "worker")
    end, function(_, run)
      until_node(run, "short/0", function(node) return node.state == "ended" end)
      run:restart "short/0"
      until_node(run, "short/0", function(node) return node.state == "ended" and node.restarts == 1 end)
    end)
  end)

  it("leaves no descriptor, socket, child or folder behind, however often it fails", function()
    local function mine(what)
      local pipe <close> = io.popen(what)
      return pipe:read "a"
    end
    local descriptors = "ls /proc/$PPID/fd | wc -l"
    local zombies = "grep -ls '^State:.Z' $(grep -ls \"^PPid:.$PPID$\" /proc/[0-9]*/status) | wc -l"
    local function round(times)
      place:failing(function(graph)
        local bad = lp.CourierNode(function() return {run = function() os.exit(3) end} end)
        bad:options{on_failure = "restart", restart = {max = times, backoff = 0}}
        graph:add_node(bad, "bad")
      end, function(err)
        contains(("node bad/0 failed: os.exit(3); it was restarted %d times"):format(times), err)
      end)
    end
    round(2)
    -- A few more are the process's own affair; each restart would leave one.
    local most, deadline = tonumber(mine(descriptors)) + 10, lp.now() + 20
    round(40)
    repeat lp.sleep(0.01) until tonumber(mine(descriptors)) <= most or lp.now() > deadline
    assert.truthy(tonumber(mine(descriptors)) <= most, "descriptors are left")
    collectgarbage() -- pipes of other specs, whose children wait for their closing
    repeat lp.sleep(0.01) until tonumber(mine(zombies)) == 0 or lp.now() > deadline
    assert.equal(0, tonumber(mine(zombies)), "children are not reaped")
  end)

  it("is not restarted in vain when it cannot be stopped", function()
    if place.launch_type == "test_mp" then return end -- a process always can
    place(function(graph)
      return graph:add_node(lp.CourierNode(function()
        return {sink = function() -- no hook reaches a C function that waits
          local pipe <close> = io.popen "sleep 3"
          pipe:read "a"
        end}
      end), "stuck")
    end, function(stuck, run)
      lp.list_methods(stuck)
      stuck.notify:sink()
      lp.sleep(0.05)
      local ok, err = pcall(run.restart, run, "stuck/0")
      if not ok then contains("inside a C function", err) end -- else it was over in time
    end, {notice = 0})
  end)

  it("refuses restart = without on_failure, and kills of unknown nodes", function()
    local err = raised(place, function(graph)
      graph:add_node(lp.LuaNode(function() end):options{restart = {max = 1}}, "a")
    end, function() end)
    contains("node a/0: option restart has no effect without on_failure", err)
    place(program(), function(_, _, run)
      contains('has no node "nobody/0"', raised(run.kill, run, "nobody/0"))
      contains("kill(node)", raised(run.kill))
      contains("run:stop: argument 1 must be a text, the reason, got a table", raised(run.stop, run, {}))
    end)
  end)
end)
