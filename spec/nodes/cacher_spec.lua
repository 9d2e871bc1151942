--- lp.CacherNode: another node's answers, remembered.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local Source = {}
Source.__index = Source
function Source.new() return setmetatable({asked = 0, gate = lp.Event()}, Source) end
function Source:get(...) self.asked = self.asked + 1 return self.asked, ... end
function Source:answer() return "its own" end
function Source:count() return self.asked end
function Source:slow(x)
  self.asked = self.asked + 1
  self.gate:wait()
  if x == "bad" then lp.error("data_loss", "no " .. x, {x = x}) end
  return x
end
function Source:open() self.gate:set() end
function Source:__call(x) return "called", x end

support.each(describe, "a cacher", function(place)
  local function program(options)
    return function(graph)
      local source = graph:add_node(lp.CourierNode(Source), "source")
      return source, graph:add_node(lp.CacherNode(source, options), "cache")
    end
  end

  it("answers the same question once, within its time", function()
    place(program {ttl = 1000}, function(_, cache)
      assert.same({n = 4, 1, "a", nil, "b"}, table.pack(cache:get("a", nil, "b")))
      assert.same({n = 4, 1, "a", nil, "b"}, table.pack(cache:get("a", nil, "b")))
      assert.equal(2, (cache:get("a", nil)))
      assert.equal(3, (cache:get("a", nil, nil)))
      assert.equal(4, (cache:get(1)))
      assert.equal(5, (cache:get(1.0)))
      assert.equal(6, (cache:get {x = 1, y = {2, 3}}))
      assert.equal(6, (cache:get {y = {2, 3}, x = 1}))
      assert.equal(7, (cache:get {x = 1, y = {3, 2}}))
    end)
  end)

  it("asks again when the time is over", function()
    place(program {ttl = 0.02}, function(_, cache)
      assert.equal(1, (cache:get()))
      repeat lp.sleep(0.01) until cache:get() > 1
    end)
  end)

  it("asks once for many that wait", function()
    place(program {ttl = 0}, function(source, cache)
      local futures = {}
      for i = 1, 50 do futures[i] = cache.futures:slow "x" end
      local other = cache.futures:slow "y"
      repeat lp.sleep(0.01) until source:count() == 2
      source:open()
      for _, x in ipairs(lp.gather(futures)) do assert.equal("x", x) end
      assert.equal("y", other:result())
      assert.equal(2, source:count())
      assert.equal("x", cache:slow "x") -- with ttl = 0 nothing is kept
      assert.equal(3, source:count())
    end)
  end)

  it("goes on for the others when the first gives up", function()
    place(program {ttl = 1000}, function(source, cache)
      local first = lp.with(cache, {timeout = 0.05})
      local future, late = first.futures:slow "x", cache.futures:slow "x"
      assert.equal("deadline_exceeded", raised(future.result, future).code)
      source:open()
      assert.equal("x", late:result())
      assert.equal(1, source:count())
    end)
  end)

  it("gives errors to all who waited and keeps none", function()
    place(program {ttl = 1000}, function(source, cache)
      local one, two = cache.futures:slow "bad", cache.futures:slow "bad"
      repeat lp.sleep(0.01) until source:count() == 1
      source:open()
      for _, future in ipairs {one, two} do
        local err = raised(future.result, future)
        assert.same({"data_loss", "bad"}, {err.code, err.data.x})
      end
      raised(cache.slow, cache, "bad")
      assert.equal(2, source:count())
    end)
  end)

  it("has the methods of the node behind, and is called like it", function()
    place(program {ttl = 1000}, function(source, cache)
      assert.same({"called", 5}, {cache(5)})
      assert.equal("its own", cache:answer())
      local err = raised(cache.nothing, cache)
      contains("nothing", err)
      assert.equal("not_found", err.code)
      local wanted = lp.list_methods(source)
      repeat lp.sleep(0.01) until #lp.list_methods(cache) >= #wanted
      contains("slow", table.concat(lp.list_methods(cache), " "))
    end)
  end)

  it("keeps no more than max_entries", function()
    place(program {ttl = 1000, max_entries = 2}, function(_, cache)
      assert.same({1, 2, 3}, {(cache:get "a"), (cache:get "b"), (cache:get "c")})
      assert.same({2, 3}, {(cache:get "b"), (cache:get "c")})
      assert.equal(4, (cache:get "a"))
    end)
  end)
end)

describe("lp.CacherNode", function()
  it("refuses what is no handle, and a missing ttl, at the caller", function()
    local source = lp.CourierNode(Source)
    local function refused(part, ...) contains(part, raised(lp.CacherNode, ...)) end
    refused("expected the handle of a node, got", source, {ttl = 1})
    refused("ttl is needed", source:create_handle())
    refused("0 or more", source:create_handle(), {ttl = -1})
    refused("unknown option", source:create_handle(), {tll = 1})
  end)

  it("draws an edge to the node behind", function()
    local program = lp.Program "p"
    program:add_node(lp.CacherNode(program:add_node(lp.CourierNode(Source), "source"), {ttl = 1}), "cache")
    assert.same({{from = "cache/0", to = "source/0"}}, program:edges())
  end)
end)
