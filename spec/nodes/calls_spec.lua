local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, serve = support.raised, support.contains, support.serve

--- A service with a bit of everything.
local Server = {}
Server.__index = Server

function Server.new()
  return setmetatable({count = 0, seen = {}}, Server)
end

function Server:echo(...) return ... end
function Server:nothing() end
function Server:number_of(...) return select("#", ...) end
function Server:add(n) self.count = self.count + n return self.count end
function Server:note(n) self.seen[#self.seen + 1] = n end
function Server:notes() return self.seen end
function Server:sleep(seconds) lp.sleep(seconds) return "slept" end
function Server:fail(value) error(value, 0) end

function Server:wait_cancelled()
  local ok, err = pcall(lp.sleep, 60)
  self.outcome = ok and "slept" or err.code
  error(err, 0) -- an answer might be there before the caller's own time is over
end

function Server:how() return self.outcome end

Server.__call = function(_, ...) return "called", ... end

support.each(describe, "calls", function(place)
  it("return all results, nils in the middle and at the end too", function()
    serve(place, Server, function(server)
      assert.same({n = 4, 1, nil, "x", nil}, table.pack(server:echo(1, nil, "x", nil)))
      assert.same({n = 0}, table.pack(server:nothing()))
      assert.equal(3, server:number_of(nil, nil, nil))
      assert.equal(0, server:number_of())
      local many = table.pack(server:echo(table.unpack({}, 1, 200)))
      assert.equal(200, many.n)
    end)
  end)

  it("reach __call through the client itself, in all three ways", function()
    serve(place, Server, function(server)
      assert.same({"called", 5, nil, n = 3}, table.pack(server(5, nil)))
      assert.same({"called", 6}, {server.futures(6):result()})
      server.notify()
      assert.same({"called", 7}, {lp.call(server, "__call", 7)})
    end)
  end)

  it("are made by name with lp.call, through each proxy", function()
    serve(place, Server, function(server)
      assert.equal("x", lp.call(server, "echo", "x"))
      assert.equal("slept", lp.call(server.futures, "sleep", 0):result())
      lp.call(server.notify, "note", 1)
      assert.same({1}, server:notes())
      contains("client expected", raised(lp.call, {}, "echo"))
      contains("string expected", raised(lp.call, server, 5))
    end)
  end)

  it("named like a proxy are refused with the remedy, which works", function()
    serve(place, function()
      return {notify = function(_, text) return "notified " .. text end}
    end, function(server)
      assert.equal("notified x", lp.call(server, "notify", "x"))
      contains('lp.call(client, "notify", ...)', raised(server.notify, server, "x"))
      contains('lp.call(client, "futures", ...)', raised(server.futures, server))
    end)
  end)

  it("took any option from lp.with, misspelt ones too", function()
    serve(place, Server, function(server)
      contains('lp.with: unknown option "timout"', raised(lp.with, server, {timout = 1}))
      contains("option timeout must be a number", raised(lp.with, server, {timeout = "1"}))
      assert.equal("x", lp.with(server, {timeout = 60}):echo("x"))
    end)
  end)

  it("of a client with a dot instead of a colon are refused", function()
    serve(place, Server, function(server)
      contains("with a colon", raised(server.echo, 1))
      contains("cannot be set", raised(function() server.field = 1 end))
    end)
  end)

  it("of an unknown method raise not_found with its name", function()
    serve(place, Server, function(server)
      for _, name in ipairs {"nope", "count", "seen", ""} do
        local err = raised(lp.call, server, name)
        assert.equal("not_found", err.code)
        contains("server/0 has no method " .. name, err)
      end
      assert.equal("not_found", server.futures:nope():exception().code)
    end)
  end)

  it("of reserved names never leave the caller", function()
    serve(place, Server, function(server)
      for _, way in ipairs {server, server.futures, server.notify} do
        contains("lp.credit", raised(lp.call, way, "lp.credit", 100))
        contains("lp.bye", raised(function() return way["lp.bye"](way, "x") end))
      end
      assert.equal(1, server:add(1))
    end)
  end)

  it("that nobody waits for arrive in the order they were sent, ten thousand of them", function()
    serve(place, Server, function(server)
      for i = 1, 10000 do server.notify:note(i) end
      local seen = server:notes()
      assert.equal(10000, #seen)
      for i = 1, 10000 do
        if seen[i] ~= i then error(("%d at place %d"):format(seen[i], i)) end
      end
    end)
  end)

  -- Between processes the link may not be up yet when the sender ends, and they go with it.
  local it_here = place.launch_type == "test_mt" and it or pending

  it_here("that nobody waits for arrive although their sender has ended before the node serves", function()
    local function Gate()
      local opened = lp.Event()
      return {open = function() opened:set() end, wait = function() opened:wait() end}
    end
    local function Late(gate)
      gate:wait()
      lp.sleep(0.02) -- the sender's end should come first
      local seen = {}
      return {note = function(_, x) seen[#seen + 1] = x end, notes = function() return seen end}
    end
    place(function(program)
      local gate = program:add_node(lp.CourierNode(Gate), "gate")
      local late = program:add_node(lp.CourierNode(Late, gate), "late")
      program:add_node(lp.LuaNode(function(to, door)
        to.notify:note(7)
        door:open()
      end, late, gate), "sender")
      return late, gate
    end, function(late, gate)
      gate:wait() -- else this call might be held before the sender's
      assert.same({7}, late:notes())
    end)
  end)

  it("with a handler that raises leave notifications lost and the node alive", function()
    serve(place, Server, function(server)
      server.notify:fail("nobody hears this")
      server.notify:nope()
      assert.equal(1, server:add(1))
    end)
  end)

  it("with a time-out raise deadline_exceeded, naming node and method, and cancel", function()
    serve(place, Server, function(server)
      local hasty = lp.with(server, {timeout = 0.02})
      local err
      repeat -- once more if the time was over before the handler had begun
        err = raised(hasty.wait_cancelled, hasty)
        assert.equal("deadline_exceeded", err.code)
        lp.sleep(0.01)
      until server:how()
      -- Ours names them in its text; on a busy machine the handler's own may come first.
      contains("server/0", tostring(err) .. tostring(err.node))
      contains("wait_cancelled", tostring(err) .. tostring(err.method))
      contains(server:how(), "cancelled deadline_exceeded") -- whichever came first
      assert.equal("slept", lp.with(hasty, {timeout = 0}):sleep(0.03))
    end)
  end)
end)

support.each(describe, "futures of calls", function(place)
  it("give the results when they are there", function()
    serve(place, Server, function(server)
      local future = server.futures:sleep(0.02)
      assert.is_false(future:done())
      contains("pending", future)
      assert.equal("slept", future:result())
      assert.is_true(future:done())
      assert.is_nil(future:exception())
      assert.is_false(future:cancelled())
      assert.is_false(future:cancel())
      assert.same({1, nil, 3, nil, n = 4}, table.pack(server.futures:echo(1, nil, 3, nil):result()))
      assert.same({n = 0}, table.pack(server.futures:nothing():result()))
      assert.same({nil, n = 1}, table.pack(server.futures:echo(nil):result()))
    end)
  end)

  it("time out without cancelling", function()
    serve(place, Server, function(server)
      local future = server.futures:sleep(0.05)
      assert.equal("deadline_exceeded", raised(future.result, future, 0.001).code)
      assert.equal("deadline_exceeded", raised(future.result, future, 0).code)
      assert.equal("deadline_exceeded", raised(future.exception, future, 0).code)
      assert.equal("slept", future:result(30))
    end)
  end)

  it("raise what the handler raised, as often as they are asked", function()
    serve(place, Server, function(server)
      local future = server.futures:fail("no")
      local err = raised(future.result, future)
      assert.equal("no", tostring(err))
      assert.equal("server/0", err.node)
      assert.equal(err, raised(future.result, future))
      assert.equal(err, future:exception())
    end)
  end)

  it("cancel the handler, which sees it at its wait", function()
    serve(place, Server, function(server)
      local future = server.futures:wait_cancelled()
      assert.equal(1, server:add(1)) -- the handler has begun
      assert.is_true(future:cancel())
      assert.is_true(future:cancelled())
      assert.is_true(future:done())
      assert.equal("cancelled", future:exception().code)
      assert.equal("cancelled", raised(future.result, future).code)
      while not server:how() do lp.sleep(0.001) end
      assert.equal("cancelled", server:how())
    end)
  end)

  it("call back once they are done, also when they were done before", function()
    serve(place, Server, function(server)
      local heard = lp.Queue()
      local function note(future) heard:put(future) end
      local future = server.futures:echo(1)
      future:add_done_callback(note)
      future:add_done_callback(note)
      assert.equal(1, future:result())
      future:add_done_callback(note)
      for _ = 1, 3 do
        local _, which = heard:get(30)
        assert.equal(future, which)
      end
      assert.is_false((heard:get(0)))
    end)
  end)

  it("raise at once for values that cannot be sent, as notifications do", function()
    serve(place, Server, function(server)
      for _, way in ipairs {server, server.futures, server.notify} do
        local err = raised(way.echo, way, 1, {a = {print}})
        assert.equal("invalid_argument", err.code)
        contains("argument 2: .a[1]: cannot send a function", err)
      end
      assert.equal(1, server:echo(1))
    end)
  end)

  it("of many calls are gathered in order", function()
    serve(place, Server, function(server)
      local list = {}
      for i = 1, 3000 do list[i] = server.futures:echo(i) end
      local results = lp.gather(list)
      for i = 1, 3000 do assert(results[i] == i) end
    end)
  end)

  it("with the time-out of their client fail by themselves", function()
    serve(place, Server, function(server)
      local future = lp.with(server, {timeout = 0.02}).futures:sleep(60)
      assert.equal("deadline_exceeded", future:exception(30).code)
    end)
  end)
end)

support.each(describe, "what a node exposes", function(place)
  local function serve_table(make, use)
    serve(place, make, use)
  end

  it("is found along a chain of tables, and lp.list_methods lists it", function()
    serve_table(function()
      local Base = {base = function() return "base" end, shared = function() return "base's" end}
      Base.__index = Base
      local Class = setmetatable({shared = function() return "class's" end}, Base)
      Class.__index = Class
      return setmetatable({own = function() return "own" end, value = 1}, Class)
    end, function(server)
      assert.same({"base", "class's", "own"}, {server:base(), server:shared(), server:own()})
      local names = lp.list_methods(server)
      table.sort(names)
      assert.same({"base", "own", "shared"}, names)
    end)
  end)

  it("leaves out private and reserved names", function()
    serve_table(function()
      local function yes() return true end
      return {_private = yes, __index = yes, new = yes, init = yes, initialize = yes,
              ["lp.info"] = yes, open = yes, [1] = yes}
    end, function(server)
      assert.same({"open"}, lp.list_methods(server))
      for _, name in ipairs {"_private", "__index", "new", "init", "initialize"} do
        assert.equal("not_found", raised(lp.call, server, name).code)
      end
      assert.is_true(server:open())
    end)
  end)

  it("leaves out the constructor, whatever its name", function()
    place(function(program)
      local Class = {}
      Class.__index = Class
      function Class.create() return setmetatable({}, Class) end
      function Class.work() return "done" end
      return program:add_node(lp.CourierNode(Class.create), "server")
    end, function(server)
      assert.same({"work"}, lp.list_methods(server))
      assert.equal("not_found", raised(server.create, server).code)
    end)
  end)

  it("leaves out a class's __call that constructs", function()
    place(function(program)
      local Class = {work = function() return "done" end}
      Class.__index = Class
      setmetatable(Class, {__call = function(class) return setmetatable({}, class) end})
      return program:add_node(lp.CourierNode(Class), "server")
    end, function(server)
      assert.same({"work"}, lp.list_methods(server))
      assert.equal("not_found", raised(function() return server() end).code)
    end)
  end)

  it("does not follow __index functions, standard tables or _G", function()
    serve_table(function()
      local object = setmetatable({open = function() return 1 end}, {__index = string})
      return object
    end, function(server)
      assert.equal("not_found", raised(server.upper, server).code)
      assert.same({"open"}, lp.list_methods(server))
    end)
    serve_table(function() return setmetatable({}, {__index = _G}) end, function(server)
      assert.equal("not_found", raised(server.print, server, "x").code)
    end)
    serve_table(function()
      return setmetatable({}, {__index = function(_, name) return name ~= "run" and print or nil end})
    end, function(server)
      assert.equal("not_found", raised(server.anything, server).code)
    end)
  end)

  it("is looked up at each call", function()
    serve_table(function()
      local object = {}
      function object:learn(name) self[name] = function() return "learnt" end end
      return object
    end, function(server)
      assert.equal("not_found", raised(server.trick, server).code)
      server:learn "trick"
      assert.equal("learnt", server:trick())
    end)
  end)

  it("is what options{expose} says, private names included", function()
    place(function(program)
      local Class = {_hidden = function() return "hidden" end, open = function() return 1 end}
      Class.__index = Class
      function Class.new() return setmetatable({}, Class) end
      return program:add_node(lp.CourierNode(Class):options{expose = {"_hidden"}}, "server")
    end, function(server)
      assert.equal("hidden", server:_hidden())
      assert.equal("not_found", raised(server.open, server).code)
      assert.same({"_hidden"}, lp.list_methods(server))
    end)
  end)

  it("of a function as instance is its call", function()
    serve_table(function() return function(...) return "function", ... end end, function(server)
      assert.same({"function", 1}, {server(1)})
      assert.same({"__call"}, lp.list_methods(server))
    end)
  end)

  it("of a userdata as instance is found through its metatable", function()
    serve_table(function()
      local file = io.tmpfile()
      file:write("text")
      return file
    end, function(server)
      assert.equal(2, server:seek("set", 2))
      assert.equal("xt", server:read("a"))
    end)
  end)
end)

support.each(describe, "calls of a node that cannot be called", function(place)
  for _, kind in ipairs {"LuaNode", "LuaClassNode"} do
    it("are refused and not kept for ever: " .. kind, function()
      place(function(program)
        local function wait() lp.wait_for_stop() end
        local ctor = kind == "LuaNode" and wait or function() return {run = wait} end
        return (program:add_node(lp[kind](ctor), "other"))
      end, function(other)
        for _, name in ipairs {"run", "anything"} do
          local err = raised(lp.call, lp.with(other, {timeout = 5}), name)
          assert.equal("not_found", err.code)
          contains("node other/0 has no methods that others can call", err)
        end
      end)
    end)
  end
end)

support.each(describe, "a client", function(place)
  it("tells its address and its state", function()
    serve(place, Server, function(server)
      assert.equal("idle", lp.connection_state(server))
      server:nothing()
      assert.equal("ready", lp.connection_state(server))
      local address = lp.address(server)
      contains(place.launch_type == "test_mp" and "unix:/" or "inproc:", address)
      for _, name in ipairs {"list_methods", "address", "connection_state"} do
        contains("calls_spec.lua", raised(function() lp[name](5) end))
        contains(("lp.%s: expected a client, got 5"):format(name),
                 raised(function() lp[name](5) end))
      end
      contains("client of server/0", server)
    end)
  end)
end)
