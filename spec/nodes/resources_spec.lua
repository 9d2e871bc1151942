--- Resources of nodes: by label, by name, in their options.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

--- Of this process.
local function niceness()
  local fields = read("/proc/self/stat"):match "%) (.*)$"
  return tonumber(fields:match(("%S+ "):rep(16) .. "(%S+)"))
end

--- Tells what it was given.
local function probe()
  return {
    env = function(_, name) return os.getenv(name) end,
    nice = function() return niceness() end,
    cores = function() return (read "/proc/self/status"):match "Cpus_allowed_list:%s*(%S+)" end,
    folder = function() local pipe = io.popen "pwd" return pipe:read "l" end,
    fill = function() return #("x"):rep(64 << 20) end,
  }
end

local function node() return lp.CourierNode(probe) end
local processes = support.place "test_mp"
local own_nice = niceness()

describe("resources", function()
  it("are those of the label, of the node, of its options", function()
    processes(function(program)
      local two = node():options{env = {LP_X = "option", LP_Y = 1}}
      return program:add_node(node(), "one"), program:add_node(two, "two"), program:add_node(node(), "two")
    end, function(one, first, second)
      assert.is_nil(one:env "LP_X")
      assert.same({"label", "1"}, {first:env "LP_X", first:env "LP_Y"})
      assert.same({"name"}, {second:env "LP_X", second:env "LP_Y"})
    end, {resources = {two = {env = {LP_X = "label"}}, ["two/1"] = {env = {LP_X = "name"}}}})
  end)

  it("set nice, cores and the folder of a process", function()
    local core = processes and read("/proc/self/status"):match "Cpus_allowed_list:%s*(%d+)"
    processes(function(program)
      return program:add_node(node():options{nice = 3, affinity = core, folder = "/"}, "one"),
             program:add_node(node(), "two")
    end, function(one, two)
      assert.equal(math.min(own_nice + 3, 19), one:nice())
      assert.equal(core, one:cores())
      assert.equal("/", one:folder())
      assert.equal(own_nice, two:nice())
      assert.not_equal("/", two:folder())
    end)
  end)

  support.each(describe, "memory_limit", function(place)
    it("holds by label", function()
      place(function(program)
        return program:add_node(node(), "small"), program:add_node(node(), "large")
      end, function(small, large)
        assert.equal("resource_exhausted", raised(small.fill, small).code)
        assert.equal(64 << 20, large:fill())
      end, {resources = {small = {memory_limit = "16M"}}})
    end)
  end)

  it("reach the nodes of a colocation", function()
    local first, second = node(), node()
    processes(function(program)
      program:add_node(lp.MultiThreadingColocation {first}, "threads")
      program:add_node(lp.MultiProcessingColocation {second}, "apart")
      return first:create_handle(), second:create_handle()
    end, function(one, two)
      assert.same({"a", "b"}, {one:env "LP_X", two:env "LP_X"})
    end, {resources = {threads = {env = {LP_X = "a"}}, apart = {env = {LP_X = "b"}}}})
  end)

  local function refused(part, options, launch_type, build)
    local program = lp.Program "p"
    if build then build(program) else program:add_node(node(), "worker") end
    contains(part, raised(lp.launch, program, {launch_type = launch_type or "test_mp", resources = options}))
  end

  it("are refused with the label, the value and the remedy", function()
    refused('has no label or node "nobody"', {nobody = {env = {}}})
    refused('resources of "worker": unknown option "cpu"', {worker = {cpu = 1}})
    refused('resources of "worker": option env must be a table of names and texts, got 5', {worker = {env = 5}})
    refused('resources of "worker/0": option nice must be a whole number', {["worker/0"] = {nice = 1.5}})
    refused('option affinity must be an array of core numbers, or a text such as "0-3,8", got "3-1"',
            {worker = {affinity = "3-1"}})
    refused("option affinity must be", {worker = {affinity = {}}})
    refused("option folder must be a text", {worker = {folder = 1}})
    refused("option memory_limit must be a number of bytes", {worker = {memory_limit = "much"}})
    refused("options must be a table, got 1", {worker = 1})
  end)

  it("of processes are refused for threads", function()
    for name, value in pairs {env = {A = "1"}, nice = 1, affinity = "0", folder = "/"} do
      refused("node worker/0: " .. name .. ": a thread cannot have its own; launch it with local_mp",
              {worker = {[name] = value}}, "test_mt")
      local function pair(program)
        program:add_node(lp.MultiThreadingColocation {node():options{[name] = value}}, "pair")
      end
      refused("node pair/0/0: " .. name .. ": it shares the process of pair/0; set it there", {}, "test_mp", pair)
    end
  end)

  it("that the machine does not have fail the node with the reason", function()
    processes:failing(function(program)
      program:add_node(node():options{folder = "/no/such/folder"}, "lost")
    end, function(err) contains("/no/such/folder: No such file", err) end)
    processes:failing(function(program)
      program:add_node(node():options{affinity = {1023}}, "lost")
    end, function(err) contains("node lost/0 failed", err) end)
  end)
end)
