local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local Server = {}
Server.__index = Server
function Server.new() return setmetatable({}, Server) end
function Server:echo(...) return ... end
function Server:address_of(client) return lp.address(client) end
function Server:call_through(client, x) return client:echo(x) end

--- Two nodes in processes: only these have sockets.
local function two(use)
  support.place "test_mp"(function(program)
    local a = program:add_node(lp.CourierNode(Server.new), "a")
    return a, program:add_node(lp.CourierNode(Server.new), "b")
  end, use)
end

describe("lp.connect", function()
  it("reaches a node by the address it listens at", function()
    two(function(a, b)
      local address = b:address_of(a)
      contains("unix:", address)
      local direct = lp.connect(address)
      assert.same({n = 2, 1, nil}, table.pack(direct:echo(1, nil)))
      assert.equal(address, lp.address(direct))
      assert.equal("x", b:call_through(direct, "x"))
    end)
  end)

  it("finds one address for all who look for a node at once", function()
    support.place "test_mp"(function(program)
      local askers = {}
      for i = 1, 6 do askers[i] = program:add_node(lp.CourierNode(Server.new), "asker") end
      return program:add_node(lp.CourierNode(Server.new), "sought"), table.unpack(askers)
    end, function(sought, ...)
      local futures = {}
      for i = 1, 6 do futures[i] = (select(i, ...)).futures:address_of(sought) end
      local first = futures[1]:result()
      for _, future in ipairs(futures) do assert.equal(first, (future:result())) end
    end)
  end)

  it("fails at the call when nobody answers there and it does not wait", function()
    local client = lp.connect("unix:/nowhere/at/all", {wait_for_ready = false})
    local err = raised(client.echo, client)
    assert.equal("unavailable", err.code)
    contains("failed to connect to unix:/nowhere/at/all: No such file", err)
    assert.equal("transient_failure", lp.connection_state(client))
    client = lp.connect("tcp:127.0.0.1:1", {wait_for_ready = false})
    contains("failed to connect to tcp:127.0.0.1:1: Connection refused", raised(client.echo, client))
  end)

  it("waits for whoever is not there, within the time of a call", function()
    local client = lp.connect("unix:/nowhere/at/all", {timeout = 0.2})
    local hasty = lp.with(client, {wait_for_ready = false})
    assert.equal("unavailable", raised(hasty.echo, hasty).code) -- so that the reason is known
    local err = raised(client.echo, client)
    assert.equal("deadline_exceeded", err.code)
    contains("failed to connect to unix:/nowhere/at/all", err)
    err = client.futures:echo():exception()
    assert.equal("deadline_exceeded", err.code)
    contains("failed to connect to unix:/nowhere/at/all", err)
  end)

  it("refuses what is no address, and options it does not know", function()
    contains("expected an address", raised(lp.connect, "a/0"))
    contains("expected an address", raised(lp.connect, 5))
    contains("lp.connect", raised(lp.connect, "unix:/x", {wrong = 1}))
  end)
end)
