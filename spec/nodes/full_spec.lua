--- What callers meet when a node, or the way to it, is full.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local Gate = {}
Gate.__index = Gate
function Gate.new() return setmetatable({gate = lp.Event(), calls = 0}, Gate) end

function Gate:pass(i)
  self.calls = self.calls + 1
  self.gate:wait()
  return i
end

function Gate:take(text)
  self.calls = self.calls + 1
  self.gate:wait()
  return #text
end

function Gate:begun() return self.calls end
function Gate:open() self.gate:set() end

--- Begins calls of the gate for others, so that the spec's own node has room.
local Caller = {}
Caller.__index = Caller
function Caller.new(gate) return setmetatable({gate = gate, futures = {}, ended = {}}, Caller) end

--- Each in a task of its own; how it ended is kept.
function Caller:pass(from, to, timeout)
  local gate = timeout and lp.with(self.gate, {timeout = timeout}) or self.gate
  for i = from, to do
    lp.spawn(function()
      local ok, value = pcall(gate.pass, gate, i)
      self.ended[i] = ok and value or value.code
    end)
  end
end

function Caller:take(text) self.futures[#self.futures + 1] = self.gate.futures:take(text) end
function Caller:call(name, ...) return lp.call(self.gate, name, ...) end

--- The code of what a future fails with; making it must not raise.
function Caller:future_code(timeout)
  local future = lp.with(self.gate, {timeout = timeout}).futures:begun()
  return future:exception().code, future:done()
end

function Caller:outcome(i) return self.ended[i] end
function Caller:results() return lp.gather(self.futures) end

local function gate_and_caller(place, settings, use)
  place(function(program)
    local gate = program:add_node(lp.CourierNode(Gate.new):options(settings), "gate")
    return gate, program:add_node(lp.CourierNode(Caller.new, gate), "caller")
  end, function(gate, caller)
    caller:call "begun" -- before a link is up its caller does not know what the node takes
    use(gate, caller)
  end)
end

local function until_begun(gate, count)
  repeat lp.sleep(0.01) until gate:begun() >= count
end

support.each(describe, "a node that takes so many calls of one caller", function(place)
  it("fails the next one at once with on_full = fail, and takes others when there is room", function()
    gate_and_caller(place, {edge_calls = 2, on_full = "fail"}, function(gate, caller)
      caller:pass(1, 2)
      until_begun(gate, 2)
      local err = raised(caller.call, caller, "begun")
      assert.equal("resource_exhausted", err.code)
      contains("node gate/0 is full", err)
      assert.equal("resource_exhausted", caller:future_code(60))
      contains("2 calls", err)
      contains("edge_calls", err)
      gate:open() -- another caller has room of its own
      repeat lp.sleep(0.01) until caller:outcome(1) and caller:outcome(2)
      assert.equal(2, caller:call("begun"))
    end)
  end)

  it("keeps the next ones at the caller otherwise, until there is room", function()
    gate_and_caller(place, {edge_calls = 2}, function(gate, caller)
      caller:pass(1, 5)
      until_begun(gate, 2)
      lp.with(caller, {timeout = 60}):pass(6, 6)
      for _ = 1, 5 do
        lp.sleep(0)
        assert.equal(2, gate:begun())
      end
      gate:open()
      for i = 1, 6 do
        repeat lp.sleep(0.01) until caller:outcome(i)
        assert.equal(i, caller:outcome(i))
      end
    end)
  end)

  it("does not keep them beyond their deadline", function()
    gate_and_caller(place, {edge_calls = 1}, function(gate, caller)
      caller:pass(1, 1)
      until_begun(gate, 1)
      caller:pass(2, 2, 0.05)
      repeat lp.sleep(0.01) until caller:outcome(2)
      assert.equal("deadline_exceeded", caller:outcome(2))
      assert.equal("deadline_exceeded", caller:future_code(0.05)) -- and no error where it is made
      assert.equal(1, gate:begun())
      gate:open()
    end)
  end)

  it("lets a caller give up what it keeps", function()
    gate_and_caller(place, {edge_calls = 1}, function(gate, caller)
      caller:pass(1, 1)
      until_begun(gate, 1)
      raised(function() lp.with(caller, {timeout = 0.05}):call("pass", 2) end)
      gate:open()
      repeat lp.sleep(0.01) until caller:outcome(1)
      assert.equal(1, caller:call("begun"))
    end)
  end)
end)

support.each(describe, "a node that takes so many bytes of one caller", function(place)
  it("takes another call while any is left, and the next when they are back", function()
    gate_and_caller(place, {edge_bytes = "64K", on_full = "fail"}, function(gate, caller)
      caller:take(("x"):rep(100000))
      until_begun(gate, 1)
      local err = raised(caller.call, caller, "begun")
      assert.equal("resource_exhausted", err.code)
      contains("65536 bytes", err)
      contains("edge_bytes", err)
      gate:open()
      assert.same({n = 1, 100000}, caller:results())
      assert.equal(1, caller:call("begun"))
    end)
  end)
end)

support.each(describe, "max_pending", function(place)
  it("with on_full = wait refuses nothing", function()
    local settings = {max_concurrency = 1, max_pending = 2, on_full = "wait",
                      priority_methods = {"begun", "open"}}
    gate_and_caller(place, settings, function(gate, caller)
      caller:pass(1, 12)
      until_begun(gate, 1)
      gate:open()
      for i = 1, 12 do
        repeat lp.sleep(0.01) until caller:outcome(i)
        assert.equal(i, caller:outcome(i))
      end
    end)
  end)

  it("in bytes refuses what is beyond it", function()
    local settings = {max_concurrency = 1, max_pending_bytes = "64K",
                      priority_methods = {"begun", "open"}}
    gate_and_caller(place, settings, function(gate)
      local text = ("x"):rep(40000)
      local running, futures = gate.futures:take(text), {}
      until_begun(gate, 1)
      for i = 1, 3 do futures[i] = gate.futures:take(text) end
      local err = raised(futures[3].result, futures[3], 60)
      assert.equal("resource_exhausted", err.code)
      contains("max_pending_bytes", err)
      gate:open()
      assert.same({n = 3, 40000, 40000, 40000}, lp.gather {running, futures[1], futures[2]})
      assert.equal(40000, gate:take(text)) -- what was refused has left nothing behind
    end)
  end)
end)

local Source = {}
function Source.new()
  local given = 0
  return {
    give = function(_, bytes)
      given = given + 1
      return ("x"):rep(bytes)
    end,
    given = function() return given end,
  }
end

--- Asks for a lot, and does not look at it before a file is there.
local Reader = {}
Reader.__index = Reader
function Reader.new(source) return setmetatable({source = source}, Reader) end

function Reader:read(path, count, bytes)
  local futures, failures, last = {}, 0, nil
  self.source:given() -- the link is up
  for i = 1, count do futures[i] = self.source.futures:give(bytes) end
  lp.yield() -- they are sent
  repeat local file = io.open(path) until file and file:close()
  for _, future in ipairs(futures) do
    local ok, value = pcall(future.result, future)
    if not ok then failures, last = failures + 1, value end
    assert(not ok or #value == bytes)
  end
  return failures, last and last.code, last and last.message, #self.source:give(bytes)
end

support.each(describe, "answers that a caller does not read", function(place)
  it("pile up to answer_bytes; those beyond are errors", function()
    local path = os.tmpname()
    os.remove(path)
    place(function(program)
      local source = program:add_node(lp.CourierNode(Source.new):options {answer_bytes = "4M"}, "source")
      return source, program:add_node(lp.CourierNode(Reader.new, source), "reader")
    end, function(source, reader)
      local reading = reader.futures:read(path, 20, 1 << 20)
      repeat lp.sleep(0.01) until source:given() == 20
      assert(io.open(path, "w")):close()
      local failures, code, text, after = reading:result(60)
      os.remove(path)
      assert(failures > 0 and failures < 20, failures)
      assert.equal("resource_exhausted", code)
      contains("answer_bytes of source/0", text)
      assert.equal(1 << 20, after)
    end)
  end)
end)
