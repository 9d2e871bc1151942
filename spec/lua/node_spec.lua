local helper = require "spec.lua.helper"
local lp, fails_here = helper.lp, helper.fails_here
local construct = require "lp.construct"

local function noop() end

describe("nodes", function()
  it("keep constructor and arguments, nils included", function()
    local node = lp.CourierNode(noop, 1, nil, nil)
    assert.equal("CourierNode", node.kind)
    assert.equal(noop, node.ctor)
    assert.equal(3, node.args.n)
    assert.equal(node, node:configure("a", nil))
    assert.same({"a", n = 2}, node.args)
  end)

  it("take a function, a callable table or a class with new", function()
    lp.LuaNode(noop)
    lp.LuaNode(setmetatable({}, {__call = noop}))
    lp.LuaClassNode(setmetatable({}, {__call = noop}))
    lp.CourierNode {new = noop}
  end)

  it("refuse other constructors at the caller's line", function()
    fails_here("lp.LuaNode: expected a function, got nil", function() lp.LuaNode() end)
    fails_here("lp.LuaNode: expected a function", function() lp.LuaNode {new = noop} end)
    fails_here("lp.LuaClassNode: the constructor must be", function() lp.LuaClassNode {} end)
    fails_here("got \"Worker\"", function() lp.CourierNode "Worker" end)
    local handle = lp.CourierNode(noop):create_handle()
    fails_here("got handle of", function() lp.CourierNode(handle) end)
    fails_here("expected a function, got", function() lp.LuaNode(handle) end)
  end)

  it("can be told not to run, where there is something else to do", function()
    local node = lp.CourierNode(noop)
    assert.equal(node, node:disable_run())
    assert.is_false(node.run_enabled)
    assert.equal(node, node:enable_run())
    assert.is_true(node.run_enabled)
    fails_here("nothing but its function", function() lp.LuaNode(noop):disable_run() end)
    fails_here("nothing but its function", function() lp.LuaNode(noop):enable_run() end)
  end)

  it("say how to call their methods when called with a dot", function()
    local node = lp.CourierNode(noop)
    fails_here("call it with a colon: node:configure", function() node.configure(1) end)
    fails_here("call it with a colon: node:options", function() node.options {} end)
  end)

  it("accept no change after the launch", function()
    local program = lp.Program "p"
    local node = lp.CourierNode(noop)
    program:add_node(node, "a")
    program.launched = true
    fails_here("a/0 has been launched already", function() node:configure() end)
    fails_here("a/0 has been launched already", function() node:options {gc = "incremental"} end)
    fails_here("a/0 has been launched already", function() node:disable_run() end)
    fails_here("has been launched already", function() program:add_node(node, "b") end)
    fails_here("has been launched already", function() program:group("b", noop) end)
  end)
end)

describe("node:options", function()
  local node
  before_each(function() node = lp.CourierNode(noop) end)

  local function refused(options, text)
    fails_here(text, function() node:options(options) end)
  end

  it("takes every documented option and returns the node", function()
    local options = {
      timeslice = 0.01, max_pending = 10, max_concurrency = 2, on_full = "fail",
      memory_limit = 4096, on_failure = "restart", restart = {max = 3, within = 60, backoff = 0.5},
      priority_methods = {"ping"}, expose = {"work"}, listen = "tcp:127.0.0.1:0", token = "t",
      insecure = false, env = {A = "1"}, args = {rate = 2}, gc = "generational", loop = "own",
    }
    assert.equal(node, node:options(options))
    assert.same(options, node.settings)
  end)

  it("keeps what earlier calls set", function()
    node:options {max_pending = 1, on_full = "wait"}
    node:options {max_pending = 2}
    assert.same({max_pending = 2, on_full = "wait"}, node.settings)
  end)

  it("understands units of memory", function()
    for text, bytes in pairs {["256M"] = 256 << 20, ["1.5G"] = 3 << 29, ["100"] = 100,
                              ["64KiB"] = 65536, ["2MB"] = 2 << 20} do
      assert.equal(bytes, node:options {memory_limit = text}.settings.memory_limit)
    end
    refused({memory_limit = "much"}, 'memory_limit must be a number of bytes or a text such as')
    refused({memory_limit = 0}, "got 0")
    refused({memory_limit = 1.5}, "got 1.5")
  end)

  it("writes variables of the environment as text", function()
    node:options {env = {A = 1, B = true, C = "c"}}
    assert.same({A = "1", B = "true", C = "c"}, node.settings.env)
    refused({env = {["A=B"] = "x"}}, "env must be")
    refused({env = {A = {}}}, "env must be")
    refused({env = "A=1"}, "env must be")
  end)

  it("refuses unknown names and wrong types", function()
    refused({max_pendign = 1}, 'unknown option "max_pendign" (known: affinity, answer_bytes, args, ')
    refused({[1] = "x"}, "unknown option 1")
    refused({timeslice = 0}, "timeslice must be a number of seconds, more than 0, got 0")
    refused({timeslice = 0 / 0}, "timeslice must be")
    refused({max_pending = 1.5}, "max_pending must be a whole number")
    refused({on_full = "block"}, 'on_full must be one of "wait", "fail", got "block"')
    refused({priority_methods = "ping"}, "priority_methods must be an array of names")
    refused({expose = {"a", x = "b"}}, "expose must be an array of names")
    refused({listen = "localhost:80"}, "listen must be an address")
    refused({listen = "tcp:127.0.0.1:0"}, "needs token")
    refused({restart = {max = 1, often = true}}, 'unknown option "often"')
    refused({restart = {max = -1}}, "max must be")
    -- What is wrong inside of a table is told without a line of the engine's own.
    refused({restart = {often = true}}, "(restart: unknown option")
    refused({sandbox = {often = true}}, "(sandbox: unknown option")
    refused(nil, "expected a table")
  end)
end)

describe("handles", function()
  it("say what they are and refuse to be used", function()
    local program = lp.Program "p"
    local handle = program:add_node(lp.CourierNode(noop), "producer")
    assert.equal("handle of producer/0", tostring(handle))
    local text = "handle of producer/0 is not a client yet: pass it to a node's arguments"
    fails_here(text, function() handle:work() end)
    fails_here(text, function() handle() end)
    fails_here(text, function() return handle.futures end)
    fails_here(text, function() handle.x = 1 end)
    fails_here(text, function() return #handle end)
    fails_here(text, function() return pairs(handle) end)
    assert.equal("handle of a CourierNode in no program",
                 tostring(lp.CourierNode(noop):create_handle()))
  end)

  it("get call options from lp.with, and stay as they were", function()
    local handles = require "lp.handle"
    local node = lp.CourierNode(noop)
    local plain = node:create_handle()
    local quick = lp.with(plain, {timeout = 1})
    local patient = lp.with(quick, {wait_for_ready = false})
    assert.equal(node, handles.node(patient))
    assert.is_nil(handles.options(plain))
    assert.same({timeout = 1}, handles.options(quick))
    assert.same({timeout = 1, wait_for_ready = false}, handles.options(patient))
    fails_here("lp.with: unknown option", function() lp.with(plain, {timout = 1}) end)
    fails_here("expected a client or a handle, got 5", function() lp.with(5, {}) end)
  end)
end)

describe("constructors", function()
  local call = function(ctor, ...) return construct.call(ctor, table.pack(...)) end

  it("are called as T:new when the first parameter is self, else as T.new", function()
    local with_self, without = {}, {}
    function with_self:new(...) return {class = self, ...} end
    function without.new(...) return {...} end
    assert.same({class = with_self, 1, 2}, call(with_self, 1, 2))
    assert.same({1, 2}, call(without, 1, 2))
  end)

  it("are called themselves when they can be", function()
    local class = setmetatable({new = error}, {__call = function(_, x) return {x} end})
    assert.same({7}, call(class, 7))
    assert.same({8}, call(function(x) return {x} end, 8))
  end)

  it("fail with the message they return, and must make an object", function()
    local function instance(...)
      local results = table.pack(...)
      return construct.instance(function() return table.unpack(results, 1, results.n) end, {n = 0})
    end
    assert.same({}, instance {})
    assert.equal("no disk", helper.failure(instance, nil, "no disk"))
    assert.equal("no disk", helper.failure(instance, false, "no disk"))
    assert.truthy(helper.failure(instance):find("returned nil; expected a table"))
    assert.truthy(helper.failure(instance, 5):find("returned 5; expected a table"))
  end)
end)

describe("lp.deferred", function()
  local deferred = require "lp.deferred"

  it("is built once", function()
    local count = 0
    local record = lp.deferred(function(a, b)
      count = count + 1
      return {a, b}
    end, 1, lp.deferred(function() return "inner" end))
    local value = deferred.build(record)
    assert.same({1, "inner"}, value)
    assert.equal(value, deferred.build(record))
    assert.equal(1, count)
  end)

  it("names the place of its definition when it fails, every time", function()
    local here = debug.getinfo(1, "Sl")
    local record = lp.deferred(io.open, "/no/such/file")
    for _ = 1, 2 do
      local ok, err = pcall(deferred.build, record)
      assert.is_false(ok)
      assert.equal(("lp.deferred defined at %s:%d: cannot be built: /no/such/file: " ..
                    "No such file or directory"):format(here.short_src, here.currentline + 1),
                   err.message)
    end
  end)

  it("keeps the code of an error", function()
    local record = lp.deferred(function() lp.error("unavailable", "later") end)
    local _, err = pcall(deferred.build, record)
    assert.equal("unavailable", err.code)
    assert.truthy(err.message:find("cannot be built: later", 1, true))
    assert.truthy(err.traceback)
  end)

  it("refuses what is no constructor", function()
    fails_here("lp.deferred: the constructor must be", function() lp.deferred(5) end)
  end)

  it("fails when it needs itself", function()
    local record
    record = lp.deferred(function() return deferred.build(record) end)
    assert.truthy(helper.failure(deferred.build, record):find("needs itself"))
  end)
end)

describe("lp.Address", function()
  it("is assigned to one node and resolved when bound", function()
    local address, node = lp.Address "http", lp.CourierNode(noop)
    fails_here("belongs to no node", function() address:resolve() end)
    assert.equal(node, node:allocate(address))
    fails_here("has no port before launch", function() address:resolve() end)
    fails_here("assigned to this node already", function() node:allocate(address) end)
    fails_here("already", function() lp.CourierNode(noop):allocate(address) end)
    address:bind "localhost:8080"
    assert.equal("localhost:8080", address:resolve())
  end)

  it("checks its name", function()
    lp.Address()
    lp.Address "http2"
    for _, name in ipairs {"", "Http", "2x", "a-b"} do
      fails_here("lp.Address: the name must be", function() lp.Address(name) end)
    end
    fails_here("expected an lp.Address", function() lp.LuaNode(noop):allocate("http") end)
  end)
end)
