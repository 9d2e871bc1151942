local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, serve = support.raised, support.contains, support.serve

local Server = {}
Server.__index = Server
function Server.new() return setmetatable({}, Server) end

local function deep_inside(value)
  error(value)
end

function Server:text(text) deep_inside(text) end
function Server:raw(value) error(value, 0) end
function Server:none() error() end

function Server:coded(code, message, data)
  lp.error(code, message, data)
end

function Server:object()
  error(setmetatable({count = 3, list = {1, 2}},
                     {__tostring = function(object) return "object of " .. object.count end}))
end

function Server:broken()
  error(setmetatable({}, {__tostring = function() error("no words") end}))
end

function Server:with_function()
  lp.error("aborted", "see the data", {callback = print})
end

local function generator()
  coroutine.yield(1)
  deep_inside("in the generator")
end

function Server:generate()
  local total = 0
  for n in coroutine.wrap(generator) do total = total + n end
  return total
end

function Server:nested()
  local outer = coroutine.wrap(function()
    local inner = coroutine.wrap(function() deep_inside("innermost") end)
    inner()
  end)
  outer()
end

function Server:overflow()
  return 1 + self:overflow()
end

function Server:handler()
  return xpcall(error, function() error("in the message handler") end, "first")
end

support.each(describe, "errors of a call", function(place)
  it("carry text, place, node, method and the remote traceback", function()
    serve(place, Server, function(server)
      local err = raised(server.text, server, "boom")
      assert.equal("unknown", err.code)
      assert(err.message:find("errors_spec.lua:%d+: boom$"), err.message)
      assert.equal("server/0", err.node)
      assert.equal("text", err.method)
      assert.same({"server/0"}, err.chain)
      contains("in upvalue 'deep_inside'", err.traceback)
      contains("errors_spec.lua", err.traceback)
    end)
  end)

  it("behave like their text", function()
    serve(place, Server, function(server)
      local err = raised(server.raw, server, "code 42")
      assert.equal("code 42", tostring(err))
      assert.equal("it said: code 42!", "it said: " .. err .. "!")
      assert.equal("42", err:match "%d+")
      assert.equal(6, (err:find "4"))
      assert.equal("CODE 42", err:upper())
      assert.is_nil(err.no_such_field)
    end)
  end)

  it("of lp.error carry code, message and data", function()
    serve(place, Server, function(server)
      local err = raised(server.coded, server, "out_of_range", "too far", {limit = 5, at = {6, 7}})
      assert.same({"out_of_range", "too far"}, {err.code, err.message})
      assert.same({limit = 5, at = {6, 7}}, err.data)
      assert.equal("out_of_range: too far", tostring(err))
      assert.equal("my_own", raised(server.coded, server, "my_own", "x").code)
      assert.equal("code must be a string",
                   raised(server.coded, server, nil):match "code must be a string")
    end)
  end)

  it("that are tables give their fields as data and their text as message", function()
    serve(place, Server, function(server)
      local err = raised(server.object, server)
      assert.equal("object of 3", err.message)
      assert.same({count = 3, list = {1, 2}}, err.data)
      assert.equal("unknown", err.code)
    end)
  end)

  it("that are neither text nor table arrive in words", function()
    serve(place, Server, function(server)
      assert.equal("nil", raised(server.none, server).message)
      assert.equal("true", raised(server.raw, server, true).message)
      assert.equal("5", raised(server.raw, server, 5).message)
    end)
  end)

  it("whose __tostring fails are errors all the same", function()
    serve(place, Server, function(server)
      contains("__tostring failed", raised(server.broken, server))
    end)
  end)

  it("lose data that cannot be sent, and nothing else", function()
    serve(place, Server, function(server)
      local err = raised(server.with_function, server)
      assert.same({"aborted", "see the data"}, {err.code, err.message})
      assert.is_nil(err.data)
      contains("lp.error", err.traceback .. "lp.error")
    end)
  end)

  it("inside coroutines have the traceback of where they were raised", function()
    serve(place, Server, function(server)
      local err = raised(server.generate, server)
      contains("in the generator", err)
      contains("'deep_inside'", err.traceback)
      contains("for iterator", err.traceback)
      err = raised(server.nested, server)
      contains("innermost", err)
      contains("'deep_inside'", err.traceback)
      contains("in local 'outer'", err.traceback)
      assert(err.traceback:find "deep_inside" < err.traceback:find "local 'outer'")
    end)
  end)

  it("of endless recursion are errors", function()
    serve(place, Server, function(server)
      contains("stack overflow", raised(server.overflow, server))
      assert(#raised(server.overflow, server).traceback < 10000)
    end)
  end)

  it("in a message handler are what xpcall gives for them", function()
    serve(place, Server, function(server)
      local ok, value = server:handler()
      assert.is_false(ok)
      assert.equal("string", type(value))
    end)
  end)

  it("are the same for a future, and for lp.call", function()
    serve(place, Server, function(server)
      for _, err in ipairs {server.futures:raw("x"):exception(), raised(lp.call, server, "raw", "x")} do
        assert.same({"x", "server/0", "raw"}, {err.message, err.node, err.method})
      end
    end)
  end)
end)

-- ---------------------------------------------------------------- over several nodes

local Link = {}
Link.__index = Link
function Link.new(next_link) return setmetatable({following = next_link}, Link) end

local function break_here() error("the last link broke") end

function Link:pass()
  if not self.following then break_here() end
  return self.following:pass()
end

function Link:catch()
  local ok, err = pcall(self.following.pass, self.following)
  assert(not ok)
  error(err)
end

function Link:wrap()
  local ok, err = pcall(self.following.pass, self.following)
  assert(not ok)
  error("wrapped: " .. err, 0)
end

support.each(describe, "errors that pass several nodes", function(place)
  local function links(use)
    place(function(program)
      local c = program:add_node(lp.CourierNode(Link), "c")
      local b = program:add_node(lp.CourierNode(Link, c), "b")
      local a = program:add_node(lp.CourierNode(Link, b), "a")
      return a
    end, use)
  end

  it("name their origin and the way they came", function()
    links(function(a)
      local err = raised(a.pass, a)
      assert.same({"c/0", "b/0", "a/0"}, err.chain)
      assert.equal("c/0", err.node)
      assert.equal("pass", err.method)
      contains("break_here", err.traceback)
    end)
  end)

  it("keep everything when they are caught and raised again", function()
    links(function(a)
      local err = raised(a.catch, a)
      assert.same({"c/0", "b/0", "a/0"}, err.chain)
      contains("break_here", err.traceback)
      contains("the last link broke", err)
    end)
  end)

  it("begin anew when a text is made of them", function()
    links(function(a)
      local err = raised(a.wrap, a)
      assert.same({"a/0"}, err.chain)
      assert(tostring(err):find("^wrapped: .*the last link broke$"))
    end)
  end)
end)
