--- Requests that come together are begun one after the other by one task. Whatever one of them
-- does, each is answered for itself and they begin in the order in which they came.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local Point = {}
Point.__index = Point
function Point:twice() return 2 * self.x end
lp.register("spec.inbox.Point", Point)

--- What takes its time to be unpacked; every node gets the class.
local Slow = {}
Slow.__index = Slow
lp.register("spec.inbox.Slow", Slow, {
  pack = function(slow) return slow.seconds end,
  unpack = function(seconds)
    local over = os.clock() + seconds
    repeat until os.clock() > over
    return setmetatable({seconds = seconds}, Slow)
  end,
})

local Server = {}
Server.__index = Server

function Server.new()
  lp.register("spec.inbox.Point", Point)
  return setmetatable({begun = {}, gate = lp.Event()}, Server)
end

function Server:note(i) self.begun[#self.begun + 1] = i end
function Server:order() return self.begun end
function Server:quick(i) self:note(i) return i end
function Server:table(t) self:note(t.i) return t end
function Server:point(point) return point:twice() end
function Server:sleeps(i, seconds) self:note(i) lp.sleep(seconds) return i end
function Server:fails(i) self:note(i) error("no " .. i) end
function Server:raises(i) self:note(i) error({code = "mine", number = i}) end
function Server:many(i) self:note(i) return i, nil, {i}, ("x"):rep(600), i end
function Server:unsendable(i) self:note(i) return print end
function Server:defers(i)
  self:note(i)
  local reply = lp.defer_reply()
  lp.spawn(function() lp.sleep(0.01) reply:ok(i) end)
end
--- Replies when its caller's time is over; `wanted` tells what became of that.
function Server:replies_late()
  local reply = lp.defer_reply()
  lp.spawn(function() lp.sleep(0.3) self.late = {reply:ok()} end)
end
function Server:wanted()
  repeat lp.sleep(0.01) until self.late
  return self.late[1]
end
function Server:swap()
  self.quick = function(_, i) return -i end
end
function Server:stops(i) self:note(i) lp.stop() end
function Server:waits() self.gate:wait() end
function Server:release(seconds)
  self.gate:set()
  self:compute(seconds)
end
function Server:compute(seconds)
  local over = lp.now() + seconds
  repeat until lp.now() > over
end
function Server:yields(i) return coroutine.wrap(function() lp.sleep(0.01) return i end)() end
function Server:closes(i)
  self:note(i)
  local closing <close> = setmetatable({}, {__close = function() lp.sleep(0.01) self:note(-i) end}) -- luacheck: ignore
  error("closes " .. i)
end

--- Makes all calls before any is answered: {{method, arguments …}, …} -> their futures.
local function together(client, calls)
  local futures = {}
  for i, call in ipairs(calls) do futures[i] = lp.call(client.futures, table.unpack(call)) end
  return futures
end

local function repeated(count, call)
  local calls = {}
  for i = 1, count do calls[i] = call(i) end
  return calls
end

support.each(describe, "requests that came together", function(place)
  local function serve(use) support.serve(place, Server, use) end

  it("begin in order, whatever they do", function()
    serve(function(server)
      local kinds = {"quick", "sleeps", "fails", "raises", "many", "defers", "unsendable", "closes"}
      local calls, expected = {}, {}
      for i = 1, 120 do
        local kind = kinds[i % #kinds + 1]
        calls[i] = {kind, i, 0.01}
        expected[i] = i
      end
      local futures = together(server, calls)
      for i, future in ipairs(futures) do
        local kind = calls[i][1]
        if kind == "quick" or kind == "sleeps" or kind == "defers" then
          assert.equal(i, future:result())
        elseif kind == "many" then
          local results = table.pack(future:result())
          assert.same({n = 5, i, nil, {i}, ("x"):rep(600), i}, results)
        else
          local err = raised(future.result, future)
          if kind == "fails" then contains("no " .. i, err) end
          if kind == "closes" then contains("closes " .. i, err) end
          if kind == "raises" then assert.equal(i, err.data.number) end
          if kind == "unsendable" then contains("result", err) end
        end
      end
      local begun = {}
      for _, i in ipairs(server:order()) do
        if i > 0 then begun[#begun + 1] = i end
      end
      assert.equal(table.concat(expected, " "), table.concat(begun, " "))
    end)
  end)

  it("keep their order when some are written the long way", function()
    serve(function(server)
      local long = ("y"):rep(5000)
      local futures = together(server, repeated(90, function(i)
        if i % 3 == 0 then return {"table", {i = i}} end
        if i % 3 == 1 then return {"table", {i = i, long = long}} end
        return {"quick", i}
      end))
      for i, future in ipairs(futures) do
        local result = future:result()
        assert.equal(i, type(result) == "table" and result.i or result)
      end
      local expected = repeated(90, function(i) return i end)
      assert.equal(table.concat(expected, " "), table.concat(server:order(), " "))
    end)
  end)

  it("keep their order behind notifications when handlers that had waited end", function()
    serve(function(server)
      local waiting = together(server, repeated(150, function() return {"waits"} end))
      server:quick(1)
      local released = server.futures:release(0.3) -- all that follows comes meanwhile
      lp.sleep(0.1)
      for i = 2, 10 do server.notify:note(i) end
      assert.equal(11, server:quick(11))
      released:result()
      lp.gather(waiting)
      assert.equal(table.concat(repeated(11, function(i) return i end), " "),
                   table.concat(server:order(), " "))
    end)
  end)

  it("keep their order behind notifications when all before them were given up", function()
    serve(function(server)
      local computing = server.futures:compute(0.2) -- all that follows comes meanwhile
      lp.sleep(0.05)
      server.futures:quick(1):cancel()
      for i = 2, 10 do server.notify:note(i) end
      assert.equal(11, server:quick(11))
      computing:result()
      assert.equal(table.concat(repeated(10, function(i) return i + 1 end), " "),
                   table.concat(server:order(), " "))
    end)
  end)

  it("keep their order when one before them is given up", function()
    serve(function(server)
      server:quick(0)
      local first = server.futures:quick(1)
      local second = server.futures:table({i = 2, long = ("y"):rep(5000)})
      first:cancel()
      local third = server.futures:quick(3)
      assert.equal(2, second:result().i)
      assert.equal(3, third:result())
      assert.same({0, 2, 3}, server:order())
    end)
  end)

  it("leave the node's other tasks their turns, however many come", function()
    serve(function(server)
      local sleeper, calls, tasks = server.futures:sleeps(1, 0.01), 0, {}
      for i = 1, 500 do
        tasks[i] = lp.spawn(function()
          while not sleeper:done() and calls < 5000 do
            calls = calls + 1
            server:compute(0.0005)
          end
        end)
      end
      lp.gather(tasks)
      assert(calls < 5000, "a handler that had slept did not go on")
    end)
  end)

  it("do not wait for those before them that wait", function()
    serve(function(server)
      local calls = {}
      for i = 1, 40 do calls[i] = {"sleeps", i, 60} end
      calls[#calls + 1] = {"quick", 41}
      local futures = together(server, calls)
      assert.equal(41, futures[41]:result(10))
      for i = 1, 40 do futures[i]:cancel() end
    end)
  end)

  it("may wait by the hundred", function()
    serve(function(server)
      local futures = together(server, repeated(400, function(i) return {"sleeps", i, 0.05} end))
      for i, future in ipairs(futures) do assert.equal(i, future:result(20)) end
    end)
  end)

  it("wait within coroutines of their own", function()
    serve(function(server)
      local futures = together(server, repeated(60, function(i) return {"yields", i} end))
      for i, future in ipairs(futures) do assert.equal(i, future:result(10)) end
    end)
  end)

  it("are refused one by one when there is no such method", function()
    serve(function(server)
      local futures = together(server, repeated(60, function(i)
        return {i % 2 == 0 and "quick" or "nothing_" .. i, i}
      end))
      for i, future in ipairs(futures) do
        if i % 2 == 0 then
          assert.equal(i, future:result())
        else
          local err = raised(future.result, future)
          assert.equal("not_found", err.code)
          contains("nothing_" .. i, err)
        end
      end
    end)
  end)

  it("bring instances of classes", function()
    serve(function(server)
      local futures = together(server, repeated(40, function(i) return {"point", setmetatable({x = i}, Point)} end))
      for i, future in ipairs(futures) do assert.equal(2 * i, future:result()) end
    end)
  end)

  it("find a method that was replaced meanwhile", function()
    serve(function(server)
      assert.equal(1, server:quick(1))
      server:swap()
      assert.equal(-1, server:quick(1))
      local futures = together(server, repeated(40, function(i) return {"quick", i} end))
      for i, future in ipairs(futures) do assert.equal(-i, future:result()) end
    end)
  end)

  it("are not begun when their caller gave up before", function()
    serve(function(server)
      server:quick(0)
      local futures = together(server, repeated(8, function(i) return {"quick", i} end))
      for i = 1, 8, 2 do futures[i]:cancel() end -- leaves together with the calls
      for i = 2, 8, 2 do assert.equal(i, futures[i]:result()) end
      assert.same({0, 2, 4, 6, 8}, server:order())
    end)
  end)

  it("are not begun when their time is over", function()
    serve(function(server)
      server:quick(0)
      local busy = server.futures:compute(0.4)
      local timed = lp.with(server, {timeout = 0.05})
      local futures = together(timed, repeated(10, function(i) return {"quick", i} end))
      local late = server.futures:quick(99)
      for _, future in ipairs(futures) do
        assert.equal("deadline_exceeded", raised(future.result, future).code)
      end
      busy:result()
      assert.equal(99, late:result())
      assert.same({0, 99}, server:order())
    end)
  end)

  it("are not begun when their time is over once their arguments are unpacked", function()
    serve(function(server)
      server:quick(0)
      local busy = server.futures:compute(0.2) -- both come meanwhile
      local refused = lp.with(server, {timeout = 0.05}).futures:quick(1)
      local slow = lp.with(server, {timeout = 0.4}).futures:quick(2, setmetatable({seconds = 0.6}, Slow))
      for _, future in ipairs {refused, slow} do
        assert.equal("deadline_exceeded", raised(future.result, future).code)
      end
      busy:result()
      assert.same({0}, server:order())
    end)
  end)

  it("inherit their caller's time also when they wait", function()
    serve(function(server)
      local timed = lp.with(server, {timeout = 0.2})
      local futures = together(timed, repeated(20, function(i) return {"sleeps", i, 60} end))
      for _, future in ipairs(futures) do
        assert.equal("deadline_exceeded", raised(future.result, future).code)
      end
      local patient = lp.with(server, {timeout = 60})
      assert.equal(7, patient:sleeps(7, 0.01))
    end)
  end)

  it("are over at their caller's time also when the reply was deferred", function()
    serve(function(server)
      server:quick(0)
      local future = lp.with(server, {timeout = 0.1}).futures:replies_late()
      lp.sleep(0.01)
      Server:compute(0.6) -- until then this node cannot give the call up
      assert.is_false(server:wanted())
      assert.equal("deadline_exceeded", raised(future.result, future).code)
    end)
  end)

  it("are all answered, or refused, when the program stops among them", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Server), "server")
    end, function(server)
      local futures = together(server, repeated(80, function(i)
        return {i == 20 and "stops" or "quick", i}
      end))
      for i, future in ipairs(futures) do
        local ok, result = pcall(future.result, future, 20)
        if ok and i ~= 20 then
          assert.equal(i, result)
        elseif not ok then
          assert(result.code == "unavailable" or result.code == "cancelled", tostring(result))
        end
      end
    end)
  end)
end)

describe("requests of a node on the same loop", function()
  local place = support.place "test_mt"

  it("are begun and answered like others", function()
    local Driver = {}
    Driver.__index = Driver
    function Driver.new(server) return setmetatable({server = server}, Driver) end
    function Driver:drive(count)
      local right, tasks = 0, {}
      for i = 1, count do
        tasks[i] = lp.spawn(function()
          local kind, well = i % 5
          if kind == 0 then
            well = self.server:sleeps(i, 0.001) == i
          elseif kind == 1 then
            well = not pcall(self.server.fails, self.server, i)
          elseif kind == 2 then
            well = self.server:table({i = i}).i == i
          else
            well = self.server:quick(i) == i
          end
          if well then right = right + 1 end
        end)
      end
      lp.gather(tasks)
      return right
    end
    place(function(program)
      local server = program:add_node(lp.CourierNode(Server):options{loop = "one"}, "server")
      return program:add_node(lp.CourierNode(Driver, server):options{loop = "one"}, "driver"), server
    end, function(driver)
      assert.equal(500, driver:drive(500))
    end)
  end)
end)
