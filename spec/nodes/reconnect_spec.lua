--- Calls to servers that are not there: yet, for a while, or any more.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains
local node_of, until_node = support.node_of, support.until_node
local stop_process = support.stop_process

local Server = {}
Server.__index = Server

function Server.new() return setmetatable({seen = {}}, Server) end
function Server:ping() return "pong" end
function Server:fail() lp.spawn(function() error "broken on purpose" end) end
function Server:note(i) table.insert(self.seen, i) return i end
function Server:noted() return self.seen end
function Server:pid() return lp.context().pid end
function Server:slow(seconds) lp.sleep(seconds) return seconds end

--- Computes until a file is there: nothing of the node's own can answer meanwhile.
function Server:compute(path)
  repeat
    for _ = 1, 1000000 do end
    local file = io.open(path)
  until file and file:close()
  return "computed"
end

--- Calls a server on behalf of whoever asks, with options of its own.
local Caller = {}
Caller.__index = Caller
function Caller.new(server, options)
  return setmetatable({server = options and lp.with(server, options) or server}, Caller)
end
function Caller:call(...) return lp.call(self.server, ...) end
function Caller:state() return lp.connection_state(self.server) end

local function until_state(client, wanted)
  repeat lp.sleep(0.01) until lp.connection_state(client) == wanted
end

support.each(describe, "a server that is away", function(place)
  --- A server that is started again after `backoff` seconds, and callers of both kinds.
  local function program(backoff)
    return function(graph)
      local server = graph:add_node(lp.CourierNode(Server)
        :options{on_failure = "restart", restart = {backoff = backoff, max = 100}}, "server")
      return server, graph:add_node(lp.CourierNode(Caller, server, {wait_for_ready = false}), "hasty"),
             graph:add_node(lp.CourierNode(Caller, server), "patient")
    end
  end

  --- Until it is away, as its clients see it, too.
  local function fail(run, server, ...)
    server.notify:fail()
    until_node(run, "server/0", function(node) return node.state == "restarting" end)
    for _, caller in ipairs {...} do
      repeat lp.sleep(0.01) until caller:state() ~= "ready"
    end
  end

  local function finish(run)
    run:restart "server/0" -- at once
  end

  it("is waited for by calls, and by those of wait_for_ready = false not", function()
    place(program(3600), function(server, hasty, patient, run)
      assert.equal("pong", hasty:call "ping")
      assert.equal("pong", patient:call "ping")
      fail(run, server, hasty, patient)
      local waits = patient.futures:call "ping"
      for _ = 1, 3 do
        local err = raised(hasty.call, hasty, "ping")
        assert.equal("unavailable", err.code)
        contains("failed to connect to node server/0: ", err)
        contains("broken on purpose", err)
        contains("started again", err)
      end
      repeat lp.sleep(0.01) until patient:state() == "transient_failure"
      assert.is_false(waits:done())
      finish(run)
      assert.equal("pong", waits:result())
      assert.equal("ready", patient:state())
      assert.equal("pong", hasty:call "ping")
    end)
  end)

  it("is waited for within the deadline of a call, the waiting included", function()
    place(program(3600), function(server, _, _, run)
      server:ping()
      fail(run, server)
      local waits = server.futures:ping()
      until_state(server, "transient_failure")
      local brief = lp.with(server, {timeout = 0.05})
      local begun = lp.now()
      local err = raised(brief.ping, brief)
      assert.equal("deadline_exceeded", err.code)
      contains("failed to connect to node server/0", err)
      assert.equal("deadline_exceeded", brief.futures:ping():exception().code)
      assert.truthy(lp.now() - begun >= 0.1)
      assert.is_false(waits:done())
      finish(run)
      assert.equal("pong", waits:result())
    end)
  end)

  it("gets the calls that waited in their order, and none that was given up", function()
    place(program(3600), function(server, _, _, run)
      server:ping()
      fail(run, server)
      local futures = {}
      for i = 1, 50 do
        futures[i] = server.futures:note(i)
        server.notify:note(100 + i)
      end
      for i = 2, 50, 2 do futures[i]:cancel() end
      finish(run)
      for i = 1, 50, 2 do assert.equal(i, futures[i]:result()) end
      local expected = {}
      for i = 1, 50 do
        if i % 2 == 1 then expected[#expected + 1] = i end
        expected[#expected + 1] = 100 + i
      end
      assert.same(expected, server:noted())
    end)
  end)

  it("is found again as often as it fails", function()
    place(program(0), function(server, hasty, patient, run)
      for i = 1, 10 do
        assert.equal("pong", server:ping())
        assert.equal("pong", patient:call "ping")
        local before = node_of(run, "server/0").restarts
        server.notify:fail()
        until_node(run, "server/0", function(node)
          return node.restarts > before and node.state == "running"
        end)
        assert.equal(i, node_of(run, "server/0").restarts)
        -- Its old link may be there for a moment still; what is written to that fails.
        repeat until pcall(hasty.call, hasty, "ping")
      end
    end)
  end)

  it("fails calls at once when it has ended for good, and says how", function()
    place(function(graph)
      local server = graph:add_node(lp.CourierNode(Server):options{on_failure = "ignore"}, "server")
      return server, graph:add_node(lp.CourierNode(Caller, server), "caller")
    end, function(server, caller, run)
      assert.equal("pong", caller:call "ping")
      local waits = caller.futures:call("slow", 3600)
      server.notify:fail()
      assert.equal("unavailable", waits:exception().code)
      until_node(run, "server/0", function(node) return node.state == "ended" end)
      for _ = 1, 2 do
        local err = raised(caller.call, caller, "ping")
        assert.equal("unavailable", err.code)
        contains("broken on purpose", err)
        err = raised(server.ping, server)
        assert.equal("unavailable", err.code)
        contains("broken on purpose", err)
      end
      assert.equal("shutdown", caller:state())
      assert.equal("shutdown", lp.connection_state(server))
    end)
  end)
end)

support.each(describe, "options of calls", function(place)
  it("belong to their client or handle alone", function()
    place(function(graph)
      local server = graph:add_node(lp.CourierNode(Server), "server")
      local brief = graph:add_node(lp.CourierNode(Caller, lp.with(server, {timeout = 0.05})), "brief")
      return server, brief, graph:add_node(lp.CourierNode(Caller, server), "patient")
    end, function(server, brief, patient)
      assert.equal("deadline_exceeded", raised(brief.call, brief, "slow", 3600).code)
      assert.equal(0.1, patient:call("slow", 0.1))
      assert.equal(0.1, server:slow(0.1))
      local both = lp.with(lp.with(server, {timeout = 0.05}), {wait_for_ready = false})
      assert.equal("deadline_exceeded", raised(both.slow, both, 3600).code)
      assert.equal(0.1, lp.with(both, {timeout = 0}):slow(0.1))
    end)
  end)
end)

describe("of two processes that do not answer", function()
  local function two(use)
    support.place "test_mp"(function(graph)
      local stopped = graph:add_node(lp.CourierNode(Server), "stopped")
      return stopped, graph:add_node(lp.CourierNode(Caller, stopped, {wait_for_ready = false}), "hasty"),
             graph:add_node(lp.CourierNode(Server), "busy")
    end, use)
  end

  it("the one that is stopped is noticed, until SIGCONT; the one that computes is busy", function()
    two(function(server, hasty, busy, run)
      local path = os.tmpname()
      os.remove(path)
      local computes = lp.with(busy, {wait_for_ready = false}).futures:compute(path)
      assert.equal("pong", hasty:call "ping")
      local pid = server:pid()
      stop_process(pid)
      local waits = server.futures:ping()
      local burst = {}
      for i = 1, 500 do burst[i] = server.futures:note(i) end
      local err = raised(hasty.call, hasty, "ping") -- sent before it was known
      assert.equal("unavailable", err.code)
      contains(("node stopped/0: its process %d "):format(pid), err)
      assert.equal("transient_failure", hasty:state())
      until_state(server, "transient_failure")
      assert.truthy(node_of(run, "stopped/0").silent >= 3)
      err = raised(hasty.call, hasty, "ping") -- and after
      contains("failed to connect to node stopped/0", err)
      run:restart "hasty/0" -- who comes later hears of it, too
      contains("failed to connect to node stopped/0", raised(hasty.call, hasty, "ping"))
      local brief = lp.with(server, {timeout = 0.05})
      assert.equal("deadline_exceeded", raised(brief.ping, brief).code)
      assert.is_false(waits:done())

      assert.is_nil(node_of(run, "busy/0").silent)
      assert.is_false(computes:done())
      assert.equal("ready", lp.connection_state(busy))

      assert(os.execute("kill -CONT " .. pid))
      assert.equal("pong", waits:result())
      for i = 1, 500 do assert.equal(i, burst[i]:result()) end
      assert.equal(500, #server:noted()) -- each was run once
      until_state(server, "ready")
      repeat lp.sleep(0.01) until pcall(hasty.call, hasty, "ping")
      assert.is_nil(node_of(run, "stopped/0").silent)
      assert(io.open(path, "w")):close()
      assert.equal("computed", computes:result())
      os.remove(path)
    end)
  end)
end)
