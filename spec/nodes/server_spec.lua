local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, serve = support.raised, support.contains, support.serve

--- Owns its server: binds, unbinds and stops it when told to.
local Owner = {}
Owner.__index = Owner

function Owner.new() return setmetatable({}, Owner) end
function Owner:ping() return "pong" end

function Owner:set_courier_server(server)
  self.server = server
  server:bind("twice", function(x) return 2 * x end)
  server:start()
end

function Owner:bind_star()
  self.server:bind("*", function(name, ...) return "star", name, ... end)
end

function Owner:rebind()
  self.server:bind("twice", function(x) return x .. x end)
end

--- Binds a function that serves one call, and no other.
function Owner:bind_once()
  self.server:bind("once", function()
    self.server:unbind "once"
    return "served"
  end)
end

function Owner:unbind(name) self.server:unbind(name) end
function Owner:names() return self.server:list_methods() end
function Owner:stop() self.server:stop() end
function Owner:set_healthy(well) self.server:set_healthy(well) end

function Owner:misuse()
  local server = self.server
  local function text(fn, ...) return tostring(select(2, pcall(fn, ...))) end
  return {text(server.start, server), text(server.bind, server, "", print),
          text(server.bind, server, "x", 5), text(server.bind), text(server.set_healthy, server)}
end

support.each(describe, "an instance with set_courier_server", function(place)
  it("has its public methods bound, and what it binds itself", function()
    serve(place, Owner, function(owner)
      assert.equal("pong", owner:ping())
      assert.equal(42, owner:twice(21))
      assert.same(owner:names(), lp.list_methods(owner))
      contains("twice", table.concat(owner:names(), " "))
      assert.equal("not_found", raised(owner.set_courier_server, owner).code)
    end)
  end)

  it("rebinds and unbinds while it serves", function()
    serve(place, Owner, function(owner)
      owner:rebind()
      assert.equal("xx", owner:twice("x"))
      owner:unbind "twice"
      owner:unbind "twice"
      local err = raised(owner.twice, owner, 1)
      assert.equal("not_found", err.code)
      contains("twice", err)
      owner:rebind()
      assert.equal("yy", owner:twice("y"))
    end)
  end)

  it("unbinds also for calls that came together with the one that does it", function()
    serve(place, Owner, function(owner)
      owner:bind_once()
      local futures = {}
      for i = 1, 5 do futures[i] = owner.futures:once() end
      assert.equal("served", futures[1]:result())
      for i = 2, 5 do assert.equal("not_found", raised(futures[i].result, futures[i]).code) end
    end)
  end)

  it("catches unknown names with *", function()
    serve(place, Owner, function(owner)
      assert.equal("not_found", raised(owner.anything, owner).code)
      owner:bind_star()
      assert.same({n = 4, "star", "anything", 1, nil}, table.pack(owner:anything(1, nil)))
    end)
  end)

  it("refuses calls after it stopped the server", function()
    serve(place, Owner, function(owner)
      owner:stop()
      local err = raised(owner.ping, owner)
      assert.equal("unavailable", err.code)
      contains("stopped its server", err)
    end)
  end)

  it("is known to be unhealthy by its callers, and answers those that wait", function()
    serve(place, Owner, function(owner)
      local hasty = lp.with(owner, {wait_for_ready = false})
      owner:ping()
      assert.equal("pong", hasty:ping())
      owner:set_healthy(false)
      repeat lp.sleep(0.01) until lp.connection_state(owner) == "transient_failure"
      local err = raised(hasty.ping, hasty)
      assert.equal("unavailable", err.code)
      contains("node server/0 is unavailable: it says that it is not healthy", err)
      assert.equal("pong", owner:ping())
      owner:set_healthy(true)
      repeat lp.sleep(0.01) until lp.connection_state(owner) == "ready"
      assert.equal("pong", hasty:ping())
    end)
  end)

  it("is told of wrong use", function()
    serve(place, Owner, function(owner)
      local texts = owner:misuse()
      contains("started already", texts[1])
      contains("name of a method", texts[2])
      contains("expected a function", texts[3])
      contains("colon", texts[4])
      contains("true or false", texts[5])
    end)
  end)
end)

--- Handlers that end when told to.
local Busy = {}
Busy.__index = Busy

function Busy.new() return setmetatable({gate = lp.Event(), now = 0, most = 0}, Busy) end

function Busy:work(i)
  self.now = self.now + 1
  self.most = math.max(self.most, self.now)
  self.gate:wait()
  self.now = self.now - 1
  return i
end

function Busy:open() self.gate:set() end
function Busy:running() return self.now end
function Busy:peak() return self.most end

local function busy(place, options, use)
  place(function(program)
    return program:add_node(lp.CourierNode(Busy.new):options(options), "busy")
  end, use)
end

--- Handlers that end when all are there, and some that never rest.
local Crowd = {}
Crowd.__index = Crowd
function Crowd.new() return setmetatable({here = 0, all = lp.Event(), over = false}, Crowd) end

function Crowd:meet(count)
  self.here = self.here + 1
  if self.here == count then self.all:set() end
  self.all:wait()
  lp.sleep(0.01)
end

function Crowd:toil()
  self.here = self.here + 1
  repeat lp.yield() until self.over
end

function Crowd:count() return self.here end
function Crowd:rest() self.over = true end

support.each(describe, "handlers", function(place)
  it("run at once, as many as there are calls", function()
    serve(place, Crowd, function(crowd)
      local patient, futures = lp.with(crowd, {timeout = 60}), {}
      for i = 1, 16 do futures[i] = patient.futures:meet(16) end
      lp.gather(futures)
      assert.equal(16, crowd:count())
    end)
  end)

  it("that never rest let a quick call pass", function()
    serve(place, Crowd, function(crowd)
      local futures = {}
      for i = 1, 200 do futures[i] = crowd.futures:toil() end
      local quick = lp.with(crowd, {timeout = 60})
      repeat until quick:count() == 200
      for _ = 1, 20 do assert.equal(200, quick:count()) end
      quick:rest()
      lp.gather(futures)
    end)
  end)
end)

support.each(describe, "limits", function(place)
  it("max_concurrency bounds handlers at once; the others wait and are answered in order", function()
    busy(place, {max_concurrency = 2, priority_methods = {"open", "running", "peak"}}, function(node)
      local futures = {}
      for i = 1, 10 do futures[i] = node.futures:work(i) end
      repeat lp.sleep(0.01) until node:running() == 2
      node:open()
      local results = lp.gather(futures)
      assert.same({n = 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, results)
      assert.equal(2, node:peak())
    end)
  end)

  it("max_pending refuses what is beyond it, at once", function()
    busy(place, {max_concurrency = 1, max_pending = 2, priority_methods = {"open"}}, function(node)
      local futures = {}
      for i = 1, 5 do futures[i] = node.futures:work(i) end
      local err = raised(futures[4].result, futures[4], 30)
      assert.equal("resource_exhausted", err.code)
      contains("max_pending", err)
      assert.equal("resource_exhausted", raised(futures[5].result, futures[5], 30).code)
      node:open()
      for i = 1, 3 do assert.equal(i, futures[i]:result()) end
    end)
  end)

  it("priority methods answer while every handler is busy", function()
    busy(place, {max_concurrency = 1, priority_methods = {"running", "open"}}, function(node)
      local first, second = node.futures:work(1), node.futures:work(2)
      repeat lp.sleep(0.01) until node:running() == 1
      assert.is_false(second:done())
      node:open()
      assert.equal(1, first:result())
      assert.equal(2, second:result())
    end)
  end)

  it("a call that waits too long for a handler is not run", function()
    busy(place, {max_concurrency = 1, priority_methods = {"running", "open"}}, function(node)
      local first = node.futures:work(1)
      repeat lp.sleep(0.01) until node:running() == 1
      local late = raised(function() return lp.with(node, {timeout = 0.05}):work(2) end)
      assert.equal("deadline_exceeded", late.code)
      node:open()
      assert.equal(1, first:result())
      assert.equal(1, node:work(1)) -- behind whatever was still held
      assert.equal(1, node:peak())
    end)
  end)
end)

--- Answers later, wrongly, or never.
local Later = {}
Later.__index = Later

function Later.new() return setmetatable({}, Later) end

function Later:ok(...)
  local reply, values = lp.defer_reply(), table.pack(...)
  lp.spawn(function()
    lp.yield()
    self.told = reply:ok(table.unpack(values, 1, values.n))
    self.again = reply:ok "again"
  end)
  return "not sent"
end

function Later:at_once(x)
  local reply = lp.defer_reply()
  reply:ok(x)
  return "not sent"
end

function Later:outcome() return self.told, self.again end

function Later:fail()
  local reply = lp.defer_reply()
  lp.spawn(function() reply:error{reason = "later"} end)
end

function Later:raise()
  self.kept = lp.defer_reply()
  error("raised all the same", 0)
end

function Later:lose() lp.defer_reply() end
function Later:collect() collectgarbage() end
function Later:keep() self.kept = lp.defer_reply() end

function Later:unsendable()
  local reply = lp.defer_reply()
  lp.spawn(function()
    local ok, err = pcall(reply.ok, reply, print)
    reply:ok(ok, tostring(err))
  end)
end

function Later:twice()
  local reply = lp.defer_reply()
  reply:ok(select(2, pcall(lp.defer_reply)))
end

support.each(describe, "deferred replies", function(place)
  it("answer with all values, once, instead of what the handler returns", function()
    serve(place, Later, function(later)
      assert.same({n = 3, 1, nil, nil}, table.pack(later:ok(1, nil, nil)))
      assert.same({true, false}, {later:outcome()})
      assert.equal(5, later:at_once(5))
    end)
  end)

  it("answer with errors", function()
    serve(place, Later, function(later)
      assert.equal("later", raised(later.fail, later).data.reason)
      contains("raised all the same", raised(later.raise, later))
    end)
  end)

  it("that are lost say so, with the handler's place", function()
    serve(place, Later, function(later)
      local future = later.futures:lose()
      repeat later:collect() lp.sleep(0.01) until future:done()
      local err = raised(future.result, future)
      contains("no reply", err)
      contains("server_spec.lua:", err)
    end)
  end)

  it("that are lost because the node ends say that it ended", function()
    local Ending = {}
    Ending.__index = Ending
    function Ending.new() return setmetatable({asked = lp.Event()}, Ending) end
    function Ending:run() self.asked:wait() end
    function Ending:ask()
      local reply = lp.defer_reply()
      lp.spawn(function()
        pcall(lp.sleep, 1000)
        reply = nil
        collectgarbage()
      end)
      self.asked:set()
      return reply
    end
    serve(place, Ending, function(ending)
      local err = raised(ending.ask, ending)
      assert.equal("unavailable", err.code)
      contains("it has finished", err)
    end)
  end)

  it("may be tried again when a value cannot be sent", function()
    serve(place, Later, function(later)
      local ok, text = later:unsendable()
      assert.is_false(ok)
      contains("cannot send a function", text)
    end)
  end)

  it("end with their caller's time, and cannot be taken twice", function()
    serve(place, Later, function(later)
      local late = raised(function() return lp.with(later, {timeout = 0.05}):keep() end)
      assert.equal("deadline_exceeded", late.code)
      contains("once", later:twice())
    end)
  end)
end)
