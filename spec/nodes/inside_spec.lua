local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, serve = support.raised, support.contains, support.serve

local Inside = {}
Inside.__index = Inside
function Inside.new(...) return setmetatable({arguments = {...}}, Inside) end

function Inside:context()
  local context = lp.context()
  return {node = context.node, label = context.label, index = context.index,
          group_size = context.group_size, launch_type = context.launch_type,
          program = context.program, run = context.run, pid = context.pid}
end

function Inside:random()
  return math.random(1 << 60), math.random(1 << 60)
end

function Inside:argument(path)
  local value = self.arguments[1]
  for key in path:gmatch "[^.]+" do value = value[key] end
  return value
end

function Inside:resolve() return self.arguments[1]:resolve() end

function Inside:cjson()
  local cjson = require "cjson"
  local lfs = require "lfs"
  return cjson.decode('{"a": [1, 2]}').a[2], cjson.encode {x = true}, lfs.attributes("/", "mode")
end

function Inside:files()
  local name = os.tmpname()
  local before = io.output()
  io.output(name)
  io.write("first ", 2, "\n")
  io.output():write("second\n")
  io.close()
  io.output(before)
  local lines = {}
  for line in io.lines(name) do lines[#lines + 1] = line end
  local file <close> = assert(io.open(name))
  local all = file:read "a"
  os.remove(name)
  return lines, all, io.type(file), io.type(io.stdout), io.type(before), io.type(5)
end

function Inside:streams()
  local chained = io.stdout:write "" :write ""
  return chained == io.stdout, io.stderr:write "" == io.stderr, io.write "" == io.stdout,
         (io.stdout:seek()), (io.stdout:read()), tostring(io.stdout)
end

function Inside:exit(code) os.exit(code) end

function Inside:log()
  local level = lp.log.level()
  lp.log.debug("literal %d")
  local ok, err = pcall(lp.log.error, "%d", "no number")
  return level, ok, tostring(err)
end

COUNTED = {count = 3} -- luacheck: ignore
function Inside:global() COUNTED.count = COUNTED.count + 1 return COUNTED.count end -- luacheck: ignore

local shared = {n = 0}
function Inside:bump() shared.n = shared.n + 1 return shared.n end
function Inside:shared() return shared.n end

support.each(describe, "inside a node", function(place)
  it("lp.context tells where it is", function()
    place(function(program)
      local handles = program:group("twins", function()
        return {program:add_node(lp.CourierNode(Inside)), program:add_node(lp.CourierNode(Inside))}
      end)
      return handles[2]
    end, function(node, run)
      local context = node:context()
      assert.same({"twins/1", "twins", 1, 2, place.launch_type, run.id},
                  {context.node, context.label, context.index, context.group_size,
                   context.launch_type, context.run})
      contains("spec_", context.program)
      assert.equal("integer", math.type(context.pid))
    end)
  end)

  it("math.random differs by node and is the same again with the same seed", function()
    local function numbers(seed)
      local list = {}
      place(function(program)
        return program:add_node(lp.CourierNode(Inside), "a"), (program:add_node(lp.CourierNode(Inside), "b"))
      end, function(a, b)
        list = {a:random()}
        list[3], list[4] = b:random()
      end, {seed = seed})
      return list
    end
    local first, second, other = numbers(42), numbers(42), numbers(43)
    assert.same(first, second)
    assert.not_same(first, other)
    assert.not_equal(first[1], first[3])
  end)

  it("flags have the values of the group's args", function()
    local flags = require("lp.flags").flags {size = {4, "How large."}, name = {"x", "A name."}}
    place(function(program)
      local node = lp.CourierNode(Inside, {flags = flags})
      return program:add_node(node, "tuned"), (program:add_node(lp.CourierNode(Inside, {flags = flags}), "plain"))
    end, function(tuned, plain)
      assert.same({9, "x"}, {tuned:argument "flags.size", tuned:argument "flags.name"})
      assert.same({4, "x"}, {plain:argument "flags.size", plain:argument "flags.name"})
    end, {resources = {tuned = {args = {size = 9}}}})
  end)

  it("an lp.Address resolves to one host and port everywhere", function()
    local address = lp.Address()
    place(function(program)
      local listener = lp.CourierNode(Inside, address)
      listener:allocate(address)
      return program:add_node(listener, "listener"), (program:add_node(lp.CourierNode(Inside, address), "user"))
    end, function(listener, user)
      local where = listener:resolve()
      assert(where:find "^[%w.]+:%d+$", where)
      assert.equal(where, user:resolve())
    end)
  end)

  it("lp.deferred is built there, once for all who refer to it", function()
    local built = lp.deferred(function(text)
      local file = io.tmpfile()
      file:write(text)
      file:seek "set"
      return {read = function() return file:read "a" end, id = {}}
    end, "deferred text")
    serve(place, function(a, b)
      return {
        read = function() return a.one.read() end,
        same = function() return rawequal(a.one, b) end,
      }
    end, function(node)
      assert.equal("deferred text", node:read())
      assert.is_true(node:same())
    end, {one = built}, built)
  end)

  it("lp.deferred that fails names where it was defined", function()
    place:failing(function(program)
      local broken = lp.deferred(function() error("no such device") end)
      program:add_node(lp.CourierNode(Inside, broken), "user")
    end, function(err)
      contains("user/0", err)
      contains("lp.deferred defined at", err)
      contains("inside_spec.lua:150: cannot be built", err)
      contains("no such device", err)
    end)
  end)

  it("C modules for the stock Lua load", function()
    serve(place, Inside, function(node)
      assert.same({2, '{"x":true}', "directory"}, {node:cjson()})
    end)
  end)

  it("files work as in the stock Lua", function()
    serve(place, Inside, function(node)
      local lines, all, open, out, before, none = node:files()
      assert.same({"first 2", "second"}, lines)
      assert.equal("first 2\nsecond\n", all)
      assert.same({"file", "file", "file"}, {open, out, before})
      assert.is_nil(none)
    end)
  end)

  it("stdout and stderr chain like files, and cannot be read", function()
    serve(place, Inside, function(node)
      local out, err, write, seek, read, text = node:streams()
      assert.same({true, true, true}, {out, err, write})
      assert.is_nil(seek)
      assert.is_nil(read)
      contains("file (", text)
    end)
  end)

  it("globals and upvalues are copies of its own", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Inside), "a"), (program:add_node(lp.CourierNode(Inside), "b"))
    end, function(a, b)
      assert.same({4, 5}, {a:global(), a:global()})
      assert.equal(4, b:global())
      assert.equal(3, COUNTED.count) -- luacheck: ignore
      a:bump()
      assert.same({1, 0, 0}, {a:shared(), b:shared(), shared.n})
    end)
  end)

  it("a global that could not be carried says so when it is read", function()
    UNCARRIED = coroutine.create(print) -- luacheck: ignore
    serve(place, function()
      return {read = function() return UNCARRIED end, other = function() return NEVER_SET end} -- luacheck: ignore
    end, function(node)
      contains("UNCARRIED", raised(node.read, node))
      assert.is_nil((node:other()))
    end)
    UNCARRIED = nil -- luacheck: ignore
  end)

  it("lp.log has a level and refuses bad formats", function()
    place(function(program) return program:add_node(lp.CourierNode(Inside), "a") end, function(node)
      local level, ok, text = node:log()
      assert.same({"warning", false}, {level, ok})
      contains("bad argument", text)
    end, {log_level = "warning"})
  end)

  it("os.exit ends it: well with 0, as a failure else", function()
    serve(place, Inside, function(node)
      contains("exited", raised(node.exit, node))
    end)
    place:failing(function(program)
      program:add_node(lp.LuaNode(function() os.exit(3) end), "leaver")
    end, function(err)
      contains("leaver/0", err)
      contains("3", err)
    end)
  end)
end)

local Small = {}
Small.__index = Small
function Small.new() return setmetatable({}, Small) end
function Small:kept()
  collectgarbage() -- what is reachable counts, not when the collector came by
  return collectgarbage "count", package.loaded["lp.runtime"]
end

support.each(describe, "inside a node that needs little", function(place)
  it("little is kept of what it took to start", function()
    serve(place, Small, function(node)
      local kib, runtime = node:kept()
      assert(kib < 100, ("%.0f KiB of Lua memory"):format(kib))
      assert.is_nil(runtime)
    end)
  end)
end)
