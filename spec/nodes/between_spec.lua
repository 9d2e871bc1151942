local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

--- Two of these, each with a client of the other.
local Peer = {}
Peer.__index = Peer
function Peer.new(name, other) return setmetatable({name = name, other = other, seen = 0}, Peer) end
function Peer:who() return self.name end
function Peer:note() self.seen = self.seen + 1 end
function Peer:seen_so_far() return self.seen end
function Peer:ask_back(depth)
  if depth == 0 then return self.name end
  return self.name .. self.other:ask_back(depth - 1)
end

function Peer:flood(count)
  local list = {}
  for i = 1, count do list[i] = self.other.futures:echo(i) end
  local sum = 0
  for _, future in ipairs(list) do sum = sum + future:result() end
  return sum
end

function Peer:echo(n) return n end

function Peer:flood_notifications(count)
  for _ = 1, count do self.other.notify:note() end
  return self.other:seen_so_far()
end

support.each(describe, "nodes that call each other", function(place)
  local function peers(use)
    place(function(program)
      local a = lp.CourierNode(Peer)
      local b = lp.CourierNode(Peer)
      local handle_a, handle_b = program:add_node(a, "a"), program:add_node(b, "b")
      a:configure("a", handle_b)
      b:configure("b", handle_a)
      return handle_a, handle_b
    end, use)
  end

  it("answer while they wait for an answer, fifty levels deep", function()
    peers(function(a)
      assert.equal(("ab"):rep(25) .. "a", a:ask_back(50))
    end)
  end)

  it("flood each other with futures without locking up", function()
    peers(function(a, b)
      local first, second = a.futures:flood(5000), b.futures:flood(5000)
      assert.equal(5000 * 5001 // 2, first:result(60))
      assert.equal(5000 * 5001 // 2, second:result(60))
    end)
  end)

  it("flood each other with notifications, none of which is lost", function()
    peers(function(a, b)
      local first, second = a.futures:flood_notifications(10000), b.futures:flood_notifications(10000)
      assert.equal(10000, first:result(60))
      assert.equal(10000, second:result(60))
    end)
  end)
end)

-- ---------------------------------------------------------------- nodes that end

local Mortal = {}
Mortal.__index = Mortal
function Mortal.new() return setmetatable({}, Mortal) end
function Mortal:sleep() lp.sleep(60) end
function Mortal:exit() os.exit(0) end
function Mortal:run()
  self.leave = lp.Event()
  self.leave:wait()
end
function Mortal:finish() self.leave:set() return "finishing" end
function Mortal:slow_answer() lp.sleep(0.05) return "answered" end

support.each(describe, "a node that ends", function(place)
  local function mortal(use)
    place(function(program) return program:add_node(lp.CourierNode(Mortal), "mortal") end, use)
  end

  it("fails the calls that wait for it at once, saying how it ended", function()
    mortal(function(node)
      local pending = {node.futures:sleep(), node.futures:sleep()}
      local err = raised(node.exit, node)
      assert.equal("unavailable", err.code)
      contains("mortal/0", err)
      contains("exited", err)
      for _, future in ipairs(pending) do
        assert.equal("unavailable", future:exception(30).code)
        contains("mortal/0", future:exception())
      end
    end)
  end)

  it("fails later calls at once, in every way", function()
    mortal(function(node)
      pcall(node.exit, node)
      for _ = 1, 3 do
        local err = raised(node.sleep, node)
        assert.equal("unavailable", err.code)
        contains("mortal/0", err)
        contains("exited", err)
      end
      local ok, future = pcall(node.futures.sleep, node.futures)
      assert.equal("unavailable", (ok and future:exception(30) or future).code)
    end)
  end)

  it("because run has returned, lets its handlers finish and refuses new calls", function()
    mortal(function(node)
      local slow = node.futures:slow_answer()
      assert.equal("finishing", node:finish())
      assert.equal("answered", slow:result(30))
      contains("finished", raised(node.sleep, node))
    end)
  end)
end)

-- ---------------------------------------------------------------- construction

local function slow(seconds)
  lp.sleep(seconds)
  return {ready = function() return "ready" end}
end

local function caller(name, ...)
  local answers = {}
  for i, other in ipairs {...} do answers[i] = other:answers() end
  return {answers = function() return name .. "(" .. table.concat(answers, ",") .. ")" end}
end

support.each(describe, "construction", function(place)
  it("is waited for by calls, futures and notifications", function()
    place(function(program) return program:add_node(lp.CourierNode(slow, 0.1), "slow") end, function(node)
      node.notify:ready()
      local future = node.futures:ready()
      assert.equal("ready", node:ready())
      assert.equal("ready", future:result())
    end)
  end)

  it("may call other nodes, which construct themselves meanwhile", function()
    place(function(program)
      local c = program:add_node(lp.CourierNode(caller, "c"), "c")
      local b = program:add_node(lp.CourierNode(caller, "b", c), "b")
      return program:add_node(lp.CourierNode(caller, "a", b, c, b), "a")
    end, function(a)
      assert.equal("a(b(c()),c(),b(c()))", a:answers())
    end)
  end)

  it("that fails fails the calls that wait for it", function()
    place:failing(function(program)
      local broken = program:add_node(lp.CourierNode(function()
        lp.sleep(0.05)
        error("no object today")
      end), "broken")
      program:add_node(lp.LuaNode(function(node)
        local ok, err = pcall(node.method, node)
        assert(not ok and err.code == "unavailable" and err:find "no object today", tostring(err))
      end, broken), "user")
    end, function(err)
      contains("broken/0", err)
      contains("no object today", err)
    end)
  end)

  it("of nil and a message, or of something else than an object, is a failure", function()
    place:failing(function(program)
      program:add_node(lp.CourierNode(function() return nil, "cannot open it" end), "broken")
    end, function(err) contains("cannot open it", err) end)
    place:failing(function(program)
      program:add_node(lp.CourierNode(function() return 5 end), "broken")
    end, function(err) contains("returned 5", err) end)
  end)

  for _, size in ipairs {1, 2, 3} do
    it("that waits for itself in a circle of " .. size .. " fails, naming it", function()
      place:failing(function(program)
        local nodes, handles = {}, {}
        for i = 1, size do
          nodes[i] = lp.CourierNode(caller)
          handles[i] = program:add_node(nodes[i], "n" .. i)
        end
        for i = 1, size do nodes[i]:configure("n" .. i, handles[i % size + 1]) end
      end, function(err)
        contains("circle", err)
        for i = 1, size do contains("n" .. i .. "/0", err) end
      end)
    end)
  end
end)
