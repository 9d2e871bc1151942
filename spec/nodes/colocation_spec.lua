--- Colocations: nodes in the place of one.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local Server = {}
Server.__index = Server
function Server.new() return setmetatable({}, Server) end
function Server:where() local c = lp.context() return {node = c.node, label = c.label, pid = c.pid} end
function Server:tmpdir() return os.getenv "TMPDIR" end
function Server:crash() lp.spawn(function() error "crashed on purpose" end) end

local function server() return lp.CourierNode(Server) end
local function own_pid() return math.tointeger(io.open("/proc/self/stat"):read "n") end

local function until_node(run, name, condition)
  while true do
    for _, node in ipairs(run:nodes()) do
      if node.name == name and condition(node) then return node end
    end
    lp.sleep(0.01)
  end
end

local function exists(path) return os.execute(("test -d '%s'"):format(path)) == true end

support.each(describe, "MultiThreadingColocation", function(place)
  it("puts its nodes in one process, named label/index/k", function()
    local a, b, c = server(), server(), server()
    place(function(program)
      program:add_node(lp.MultiThreadingColocation {a, lp.MultiThreadingColocation {b}}, "pair")
      program:add_node(c, "alone")
      return a:create_handle(), b:create_handle(), c:create_handle()
    end, function(first, second, third, run)
      local one, two, three = first:where(), second:where(), third:where()
      assert.equal("pair/0/0", one.node)
      assert.equal("pair/0/1/0", two.node)
      assert.equal("pair", two.label)
      assert.equal(one.pid, two.pid)
      assert.equal(place.launch_type == "test_mt", one.pid == three.pid)
      assert.equal(place.launch_type == "test_mt", one.pid == own_pid())
      assert.same({"pair/0/0", "pair/0/1/0", "alone/0"},
                  (function() local l = {} for i, n in ipairs(run:nodes()) do l[i] = n.name end return l end)())
    end)
  end)

  it("restarts one of its nodes in the same process", function()
    local a, b = server():options{on_failure = "restart", restart = {backoff = 0}}, server()
    place(function(program)
      program:add_node(lp.MultiThreadingColocation {a, b}, "pair")
      return a:create_handle(), b:create_handle()
    end, function(first, second, run)
      local pid = first:where().pid
      first.notify:crash()
      until_node(run, "pair/0/0", function(node) return node.restarts == 1 and node.state == "running" end)
      assert.equal(pid, first:where().pid)
      assert.equal(pid, second:where().pid)
    end)
  end)

  it("is one place for wait: over when all of its nodes are", function()
    place(function(program)
      program:add_node(lp.MultiThreadingColocation {
        lp.LuaNode(function() end), lp.LuaNode(function() lp.wait_for_stop() end)}, "pair")
      program:add_node(server(), "other")
    end, function(run)
      until_node(run, "pair/0/0", function(node) return node.state == "ended" end)
      assert.is_false(run:wait{labels = {"pair"}, return_on_first_completed = true, timeout = 0})
    end)
  end)
end)

support.each(describe, "MultiProcessingColocation", function(place)
  it("puts each node in a process of its own with a private TMPDIR, removed afterwards", function()
    local a, b, c = server(), server(), server()
    local kept = {}
    place(function(program)
      program:add_node(lp.MultiProcessingColocation {a, lp.MultiThreadingColocation {b, c}}, "team")
      return a:create_handle(), b:create_handle(), c:create_handle()
    end, function(first, second, third)
      local one, two, three = first:where(), second:where(), third:where()
      assert.equal("team/0/0", one.node)
      assert.equal("team/0/1/1", three.node)
      assert.not_equal(one.pid, two.pid)
      assert.equal(two.pid, three.pid)
      assert.not_equal(own_pid(), one.pid)
      kept = {first:tmpdir(), second:tmpdir()}
      assert.not_equal(kept[1], kept[2])
      assert.is_true(exists(kept[1]) and exists(kept[2]))
      io.open(kept[1] .. "/left", "w"):close()
      assert.equal(kept[2], third:tmpdir())
    end)
    assert.is_false(exists(kept[1]) or exists(kept[2]))
  end)

  it("starts a killed process again, with all its nodes, for one retry", function()
    local a, b = server(), server()
    place(function(program)
      program:add_node(lp.MultiProcessingColocation({lp.MultiThreadingColocation {a, b}},
                                                    {num_retries_on_failure = 1}), "team")
      return a:create_handle(), b:create_handle()
    end, function(first, second, run)
      local pid, tmpdir = first:where().pid, first:tmpdir()
      os.execute("kill -9 " .. pid)
      for _, name in ipairs {"team/0/0/0", "team/0/0/1"} do
        until_node(run, name, function(node) return node.restarts == 1 and node.state == "running" end)
      end
      assert.not_equal(pid, first:where().pid)
      assert.equal(first:where().pid, second:where().pid)
      assert.is_false(exists(tmpdir))
    end)
  end)

  it("obeys a node's own on_failure before its retries", function()
    local a = server():options{on_failure = "restart", restart = {backoff = 0}}
    place(function(program)
      program:add_node(lp.MultiProcessingColocation {a}, "team")
      return a:create_handle()
    end, function(first, run)
      first.notify:crash()
      until_node(run, "team/0/0", function(node) return node.restarts == 1 and node.state == "running" end)
    end)
  end)
end)

describe("colocations", function()
  local function refused(part, fn, ...) contains(part, raised(fn, ...)) end

  it("refuse what is no array of nodes, at the caller", function()
    for _, make in ipairs {lp.MultiThreadingColocation, lp.MultiProcessingColocation} do
      refused("colocation_spec.lua", function() local _ = make {} end)
      refused("at least one node", make, {})
      refused("expected an array of nodes, got 5 at 1", make, {5})
      refused("expected an array of nodes, got nil", make, nil)
      refused("expected an array of nodes", make, server())
      refused("got the key \"x\"", make, {server(), x = server()})
      refused("is a handle", make, {server():create_handle()})
      local twice = server()
      refused("twice", make, {twice, twice})
      assert(make {twice}) -- the mistake left no mark
      refused("is in a colocation already", make, {twice})
    end
    refused("unknown option", lp.MultiThreadingColocation, {server()}, {num_retries_on_failure = 1})
    refused("0 or more", lp.MultiProcessingColocation, {server()}, {num_retries_on_failure = -1})
    refused("true or false", lp.MultiThreadingColocation, {server()}, {return_on_first_completed = 1})
  end)

  it("refuse nodes that are in the program, and the program nodes that are in one", function()
    local program, a, b = lp.Program "p", server(), server()
    program:add_node(a, "a")
    refused("a/0 already", lp.MultiThreadingColocation, {a})
    lp.MultiThreadingColocation {b}
    refused("in a colocation; add that", program.add_node, program, b, "b")
  end)

  it("have no methods to call, no arguments and no run", function()
    local program = lp.Program "p"
    local pair = lp.MultiThreadingColocation {server()}
    local handle = program:add_node(pair, "pair")
    program:add_node(lp.LuaNode(function() end, handle), "user")
    contains("has no methods to call", select(2, program:check()))
    refused("has no arguments", pair.configure, pair, 1)
    refused("nothing but its nodes", pair.disable_run, pair)
  end)

  it("are shown with their nodes and edges", function()
    local program, a = lp.Program "p", server()
    program:add_node(lp.MultiThreadingColocation {a, lp.LuaNode(function() end, a:create_handle())}, "pair")
    local nodes = program:nodes()
    assert.same({"pair/0", "pair/0/0", "pair/0/1"}, {nodes[1].name, nodes[2].name, nodes[3].name})
    assert.equal("MultiThreadingColocation", nodes[1].kind)
    assert.equal("pair/0", nodes[2].colocation)
    assert.same({{from = "pair/0/1", to = "pair/0/0"}}, program:edges())
    local text = require("lp.graph").text(program, "text")
    contains("pair/0    MultiThreadingColocation", text)
    contains("pair/0/1 -> pair/0/0", text)
    contains("folder", require("lp.graph").text(program, "dot"))
  end)
end)
