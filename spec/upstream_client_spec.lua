--- Launchpad's courier/python/client_test, in Lua (spec/upstream_spec.lua has its other tests). Keyword
-- arguments are a table here, and bytes and text are one type.
local lp = require "lp"
local support = require "spec.nodes.support"
local e2e = require "spec.e2e.support"
local raised, contains = support.raised, support.contains

local Greeter = {}
Greeter.__index = Greeter
function Greeter:hello(name, greeting) return (greeting or "hello") .. " " .. (name or "you") end

--- Binds what it is told to, and serves only that.
local Owner = {}
Owner.__index = Owner
function Owner.new() return setmetatable({}, Owner) end
function Owner:set_courier_server(server)
  local greeter = setmetatable({}, Greeter)
  server:bind("lambda", function(a, b) return a + b end)
  server:bind("bound", function(...) return greeter:hello(...) end)
  server:bind("no_args", function() return 1000 end)
  server:bind("named", function(named) return named.a - named.b end)
  server:bind("same", function(...) return ... end)
  server:bind("fails", function() error "it is broken" end)
  server:bind("slow", function(seconds) lp.sleep(seconds) return "slept" end)
  server:bind("bind", function(result) server:bind("rebind", function() return result end) end)
  server:bind("unbind", function() server:unbind "rebind" end)
  server:start()
end

support.each(describe, "courier/python/client_test", function(place)
  local function serve(use) support.serve(place, Owner, use) end

  it("a lambda, a bound method, no arguments, default and named ones", function()
    serve(function(client)
      assert.equal(12, client:lambda(4, 8))
      assert.equal("hi Lua", client:bound("Lua", "hi"))
      assert.equal("hello you", client:bound())
      assert.equal(1000, client:no_args())
      assert.equal(3, client:named{b = 2, a = 5})
    end)
  end)

  it("rebind, unbind, bind again", function()
    serve(function(client)
      for _, result in ipairs {1, 2} do
        client:bind(result)
        assert.equal(result, client:rebind())
      end
      client:unbind()
      local err = raised(client.rebind, client)
      assert.equal("not_found", err.code)
      contains("rebind", err)
      client:bind(3)
      assert.equal(3, client:rebind())
    end)
  end)

  it("results, errors and cancelling, at once and as futures", function()
    serve(function(client)
      contains("it is broken", raised(client.fails, client))
      contains("it is broken", client.futures:fails():exception())
      assert.equal(12, client.futures:lambda(4, 8):result())
      local future = client.futures:slow(60)
      assert.is_true(future:cancel())
      assert.is_true(future:cancelled())
      assert.equal("cancelled", raised(future.result, future).code)
      assert.equal("not_found", raised(client.nothing, client).code)
      assert.equal("not_found", client.futures:nothing():exception().code)
    end)
  end)

  it("list_methods equals the bound set", function()
    serve(function(client)
      assert.same({"bind", "bound", "fails", "lambda", "named", "no_args", "same", "slow", "unbind"},
                  lp.list_methods(client))
    end)
  end)

  it("bytes stay bytes, unicode stays unicode", function()
    serve(function(client)
      for _, text in ipairs {"\0\xff\x80", "grüße 漢字"} do assert.equal(text, client:same(text)) end
    end)
  end)

  it("time-outs: none, longer than the call, shorter", function()
    serve(function(client)
      for _, timeout in ipairs {0, 60, 60.5} do
        local patient = lp.with(client, {timeout = timeout})
        assert.equal("slept", patient:slow(0.01))
        assert.equal("slept", patient.futures:slow(0.01):result())
      end
      local hasty = lp.with(client, {timeout = 0.05})
      assert.equal("deadline_exceeded", raised(hasty.slow, hasty, 60).code)
      assert.equal("deadline_exceeded", hasty.futures:slow(60):exception().code)
    end)
  end)
end)

describe("courier/python/client_test", function()
  teardown(e2e.clean)

  it("an address where nobody is: the call's time, or with wait_for_ready = false at once", function()
    local client = lp.connect("unix:/nowhere", {timeout = 0.05})
    assert.equal("deadline_exceeded", raised(client.ping, client).code)
    assert.equal("deadline_exceeded", client.futures:ping():exception().code)
    client = lp.connect("unix:/nowhere", {wait_for_ready = false})
    contains("failed to connect", raised(client.ping, client))
  end)

  it("a call before the server's start is answered; its address may be unicode", function()
    local ended = e2e.run([[
      local lp = require "lp"
      local program = lp.Program "early"
      local server = lp.CourierNode(function() lp.sleep(0.2) return {ping = function() return "pong" end} end)
      program:add_node(lp.LuaNode(function(client)
        print(client:ping(), (lp.address(client):find("grüße", 1, true) ~= nil))
        lp.stop()
      end, program:add_node(server, "server")), "user")
      return program]], {"--launch", "local_mp"}, {
        before = "mkdir -m 700 grüße", env = {"XDG_RUNTIME_DIR=$PWD/grüße"}}):expect(0)
    contains("pong\ttrue", ended.out)
  end)
end)
