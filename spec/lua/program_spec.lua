local helper = require "spec.lua.helper"
local lp, fails_here = helper.lp, helper.fails_here

local function noop() end
local function service(...) return lp.CourierNode(noop, ...) end

describe("lp.Program", function()
  local program
  before_each(function() program = lp.Program "test" end)

  it("has a name", function()
    assert.equal("test", program.name)
    for _, name in ipairs {"", "a/b", 5, false} do
      fails_here("lp.Program: expected a name", function() lp.Program(name) end)
    end
    fails_here("lp.Program: expected a name", function() lp.Program() end)
  end)

  it("stores nodes under their labels, in order", function()
    local a, b, c = service(), service(), service()
    program:add_node(a, "x")
    program:add_node(b, "y")
    program:add_node(c, "x")
    assert.equal(2, #program.groups)
    assert.equal("x", program.groups[1].label)
    assert.same({a, c}, program.groups[1].nodes)
    assert.same({b}, program.groups[2].nodes)
    assert.equal("x/1", c.name)
  end)

  it("lists nodes as plain records", function()
    program:add_node(service():disable_run(), "x")
    program:add_node(lp.LuaNode(noop), "y")
    assert.same({{name = "x/0", label = "x", index = 0, kind = "CourierNode", run = false},
                 {name = "y/0", label = "y", index = 0, kind = "LuaNode", run = true}},
                program:nodes())
  end)

  it("gives a group's label to the nodes added in it", function()
    local results = table.pack(program:group("g", function()
      local handle = program:add_node(service())
      program:add_node(service(), "g")
      return handle, nil, nil
    end))
    assert.equal(3, results.n)
    assert.equal("handle of g/0", tostring(results[1]))
    assert.equal(2, #program.groups[1].nodes)
    program:group("g", function() program:add_node(service()) end)
    assert.equal(1, #program.groups)
    assert.equal("g/2", program:nodes()[3].name)
  end)

  it("wants labels", function()
    fails_here("add_node: a label is needed", function() program:add_node(service()) end)
    fails_here("add_node: a label is needed", function() program:add_node(service(), "") end)
    fails_here("group: a label is needed", function() program:group("", noop) end)
    fails_here("group: a label is needed", function() program:group(nil, noop) end)
    fails_here("label must be a text, got 5", function() program:add_node(service(), 5) end)
    for _, label in ipairs {"a/b", "..", ".", "a\nb"} do
      fails_here("label \"", function() program:add_node(service(), label) end)
    end
    assert.equal(0, #program.groups)
  end)

  it("refuses a label that differs from the group's, naming both", function()
    program:group("outer", function()
      fails_here('label "other" differs from the group\'s, "outer"',
                 function() program:add_node(service(), "other") end)
    end)
  end)

  it("refuses nested groups, naming both", function()
    program:group("outer", function()
      fails_here('group "inner" inside group "outer"',
                 function() program:group("inner", noop) end)
    end)
    fails_here("expected a function", function() program:group("g") end)
  end)

  it("ends a group also when its function raises", function()
    assert.truthy(helper.failure(program.group, program, "g", function() error "oops" end)
                  :find("oops"))
    program:group("h", function() program:add_node(service()) end)
    assert.equal("h/0", program:nodes()[1].name)
  end)

  it("refuses a node added twice, and what is no node", function()
    local node = service()
    local handle = program:add_node(node, "a")
    fails_here('this node is a/0 of program "test" already',
               function() program:add_node(node, "b") end)
    fails_here("is a/0", function() lp.Program("other"):add_node(node, "b") end)
    fails_here("expected a node, got the handle of a/0",
               function() program:add_node(handle, "b") end)
    fails_here("expected a node", function() program:add_node(noop, "b") end)
    fails_here("call it with a colon", function() program.add_node(node, "b") end)
    for _, name in ipairs {"nodes", "all_nodes", "edges", "check"} do
      fails_here(("call it with a colon: program:%s()"):format(name), function() program[name]() end)
    end
  end)
end)

describe("edges", function()
  local program, target
  before_each(function()
    program = lp.Program "test"
    target = program:add_node(service(), "target")
  end)

  local function edges_of(node)
    program:add_node(node, "caller")
    return program:edges()
  end

  local one = {{from = "caller/0", to = "target/0"}}

  it("follow from handles at any depth of the arguments", function()
    assert.same(one, edges_of(service(1, nil, {list = {{target}}, [target] = true})))
  end)

  it("follow from handles in upvalues and metatables", function()
    local function inner() return target end
    assert.same(one, edges_of(lp.LuaNode(function() return inner() end)))
    assert.same(one, {edges_of(service(setmetatable({}, {__index = {target}})))[1]})
  end)

  it("follow from handles of lp.with and in lp.deferred", function()
    assert.same(one, edges_of(service(lp.with(target, {timeout = 1}))))
    assert.same({from = "caller/1", to = "target/0"},
                edges_of(service(lp.deferred(noop, {target})))[2])
  end)

  it("follow from upvalues of global functions that a carried function names", function()
    rawset(_G, "spec_global", function() return target end)
    rawset(_G, "spec_handle", target)
    finally(function() rawset(_G, "spec_global", nil) rawset(_G, "spec_handle", nil) end)
    local naming = load("return spec_global()")
    local touching = load("return spec_handle")
    assert.same({}, edges_of(lp.LuaNode(touching)))
    assert.same({{from = "caller/1", to = "target/0"}}, edges_of(lp.LuaNode(naming)))
  end)

  it("are drawn once for each pair, in the order of the nodes", function()
    local second = program:add_node(service(), "target")
    program:add_node(service(second, {second, target}), "caller")
    program:add_node(service(target), "caller")
    assert.same({{from = "caller/0", to = "target/0"}, {from = "caller/0", to = "target/1"},
                 {from = "caller/1", to = "target/0"}}, program:edges())
  end)

  it("can make a circle, and follow configure", function()
    local peer = service(target)
    local handle = program:add_node(peer, "caller")
    require("lp.handle").node(target):configure(handle)
    assert.same({{from = "target/0", to = "caller/0"}, one[1]}, program:edges())
    peer:configure()
    assert.same({{from = "target/0", to = "caller/0"}}, program:edges())
  end)

  it("do not follow from tables that travel by name, cycles or depth", function()
    local cyclic = {}
    cyclic.me = cyclic
    for _ = 1, 10000 do cyclic = {cyclic} end
    package.loaded.spec_module = {target}
    finally(function() package.loaded.spec_module = nil end)
    assert.same({}, edges_of(service(cyclic, package.loaded.spec_module, _G)))
  end)
end)

describe("program:check", function()
  local function noop_program() return lp.Program "test" end

  it("passes a sound program", function()
    local program = noop_program()
    program:add_node(service(program:add_node(service(), "a")), "b")
    assert.is_true(program:check())
  end)

  it("refuses handles of nodes that have nothing to call", function()
    local program = noop_program()
    local handle = program:add_node(lp.LuaNode(noop), "worker")
    program:add_node(service(1, {peers = {handle}}), "b")
    local ok, message = program:check()
    assert.is_nil(ok)
    assert.equal("node b/0: argument 2.peers[1] is the handle of worker/0, a LuaNode, which has " ..
                 "no methods to call", message)
  end)

  it("refuses handles of nodes in no program or in another", function()
    local program = noop_program()
    program:add_node(service(service():create_handle()), "a")
    assert.equal("node a/0: argument 1 is the handle of a CourierNode in no program: add the " ..
                 "node to the program first", select(2, program:check()))
    local other = lp.Program("other"):add_node(service(), "x")
    program = noop_program()
    program:add_node(service(function() return other end), "a")
    assert.equal("node a/0: argument 1: upvalue 'other' is the handle of x/0 of another " ..
                 'program, "other"', select(2, program:check()))
  end)
end)
