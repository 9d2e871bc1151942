local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local Worker = {}
Worker.__index = Worker
function Worker.new() return setmetatable({calls = 0, done = false}, Worker) end

--- Computes until `stop` is called from elsewhere, at most a minute.
function Worker:compute()
  local give_up = lp.now() + 60
  while not self.stopped do
    if lp.now() > give_up then error "nobody got through" end
  end
  return "stopped"
end

function Worker:stop() self.stopped = true end

function Worker:ping() return "pong" end

function Worker:compute_for(seconds)
  local until_then = lp.now() + seconds
  while lp.now() < until_then do end
  self.done = true
  return self.done
end

function Worker:is_done() return self.done end

function Worker:compute_in_coroutine()
  local step = coroutine.wrap(function() return self:compute() end)
  return step()
end

function Worker:eat(bytes)
  local list, piece = {}, ("x"):rep(1 << 16)
  for i = 1, bytes >> 16 do list[i] = piece .. i end
  return #list
end

function Worker:keep(value)
  self.kept = self.kept or {}
  table.insert(self.kept, value)
end

function Worker:forget()
  self.kept = nil
  self.open:set()
end

function Worker:wait_for_open()
  self.open = self.open or lp.Event()
  self.open:wait()
  return "opened"
end

support.each(describe, "nodes that compute", function(place)
  it("do not keep others of their loop from answering", function()
    place(function(program)
      local busy = program:add_node(lp.CourierNode(Worker):options {loop = "shared"}, "busy")
      local other = program:add_node(lp.CourierNode(Worker):options {loop = "shared"}, "other")
      return busy, other
    end, function(busy, other)
      other:ping()
      local computing = busy.futures:compute_for(1)
      for _ = 1, 3 do other:ping() end
      assert.is_false(computing:done())
      computing:result()
    end)
  end)

  it("are not preempted against their own tasks without a time slice", function()
    place(function(program)
      local busy = program:add_node(lp.CourierNode(Worker):options {loop = "shared"}, "busy")
      return busy, (program:add_node(lp.CourierNode(Worker):options {loop = "shared"}, "other"))
    end, function(busy)
      local computing = busy.futures:compute_for(0.1)
      assert.is_true(busy:is_done())
      computing:result()
    end)
  end)

  for _, method in ipairs {"compute", "compute_in_coroutine"} do
    it("give way to their own tasks with a time slice: " .. method, function()
      place(function(program)
        return program:add_node(lp.CourierNode(Worker):options {timeslice = 0.002}, "sliced")
      end, function(sliced)
        local computing = sliced.futures[method](sliced.futures)
        assert.equal("pong", sliced:ping())
        assert.is_false(computing:done())
        sliced:stop()
        assert.equal("stopped", computing:result(60))
      end)
    end)
  end
end)

support.each(describe, "a memory limit", function(place)
  it("fails the call that goes over it, and the node goes on", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Worker):options {memory_limit = "8M"}, "small")
    end, function(small)
      assert.equal(16, small:eat(1 << 20))
      local err = raised(small.eat, small, 64 << 20)
      contains("memory", err)
      assert.equal("resource_exhausted", err.code)
      assert.equal("pong", small:ping())
      assert.equal(16, small:eat(1 << 20))
    end)
  end)

  it("failed all calls of the link when one brought too much", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Worker):options {memory_limit = "8M"}, "small")
    end, function(small)
      local other = small.futures:wait_for_open()
      local accepted, err = 0, nil
      repeat
        local ok, raised_error = pcall(small.keep, small, ("x"):rep(1 << 18))
        if ok then accepted = accepted + 1 else err = raised_error end
      until err
      assert(accepted > 8 and accepted < 40, accepted)
      assert.equal("resource_exhausted", err.code)
      contains("node small/0 has no memory for the call (its memory_limit)", err)
      assert.is_false(other:done())
      small:forget()
      assert.equal("opened", other:result())
      small:keep(("x"):rep(1 << 18))
    end)
  end)

  it("fails the node whose own work goes over it, and no other", function()
    place:failing(function(program)
      program:add_node(lp.LuaNode(function()
        local list = {}
        while true do list = {list} end
      end):options {memory_limit = "8M"}, "hungry")
    end, function(err)
      contains("hungry/0", err)
      contains("memory", err)
    end)
  end)
end)

local Busy = {}
Busy.__index = Busy
function Busy.new() return setmetatable({gate = lp.Event()}, Busy) end
function Busy:wait() self.gate:wait() end
function Busy:open() self.gate:set() end
function Busy:take(text) lp.sleep(60) return #text end
function Busy:ping() return "pong" end

function Busy:defer()
  self.replies = self.replies or {}
  table.insert(self.replies, lp.defer_reply())
end

--- More calls than a link's window has room for, each given up at once.
local function give_up(client, method, times, ...)
  for _ = 1, times do
    assert.is_true(lp.with(client, {timeout = 60}).futures[method](client.futures, ...):cancel())
  end
end

support.each(describe, "calls that were given up", function(place)
  local function busy(use, options)
    place(function(program)
      return program:add_node(lp.CourierNode(Busy):options(options or {}), "busy")
    end, function(client)
      use(lp.with(client, {timeout = 60}))
    end)
  end

  it("while they waited for a handler leave room for others", function()
    busy(function(client)
      local first = client.futures:wait()
      give_up(client, "ping", 1100)
      client:open()
      first:result()
      assert.equal("pong", client:ping())
    end, {max_concurrency = 1, priority_methods = {"open"}})
  end)

  it("before their deferred reply leave room for others", function()
    busy(function(client)
      for _ = 1, 11 do
        give_up(client, "defer", 100)
        assert.equal("pong", client:ping())
      end
    end)
  end)

  it("in their handler give the room for their bytes back", function()
    busy(function(client)
      local text = ("x"):rep(8 << 20)
      for _ = 1, 10 do
        give_up(client, "take", 1, text)
        assert.equal("pong", client:ping())
      end
    end)
  end)
end)
