local lp = require "lp"
local support = require "spec.nodes.support"
local raised = support.raised

--- Waits, and remembers how its waits ended.
local Server = {}
Server.__index = Server

function Server.new(other) return setmetatable({other = other, ended = {}}, Server) end

function Server:note(text) self.ended[#self.ended + 1] = text end
function Server:notes() return self.ended end
function Server:count() return #self.ended end
function Server:ping() return "pong" end

function Server:begun() return self.waits or 0 end

function Server:wait(seconds)
  self.waits = self:begun() + 1
  local ok, err = pcall(lp.sleep, seconds)
  self:note(ok and "slept" or err.code)
  local again, later = pcall(lp.sleep, seconds)
  self:note(again and "slept" or later.code)
end

function Server:pass_on(seconds)
  self:note(lp.context().deadline and "has a deadline" or "has none")
  self.other:wait(seconds)
end

function Server:shielded()
  lp.shield(function()
    lp.sleep(0.8)
    self:note(self.other:ping())
  end)
end

function Server:stubborn()
  local closing <close> = setmetatable({}, {__close = function() self:note "closed" end}) -- luacheck: ignore
  while true do pcall(lp.sleep, 60) end
end

function Server:spawned()
  lp.spawn(function()
    self:note(lp.context().deadline and "has a deadline" or "has none")
    lp.sleep(0.8)
    self:note "slept"
  end)
end

--- Keeps the loop busy, so that what comes meanwhile waits.
function Server:compute(seconds)
  local over = lp.now() + seconds
  repeat until lp.now() > over
end

--- Two servers, the first of which calls the second.
local function two(place, use)
  place(function(program)
    local second = program:add_node(lp.CourierNode(Server.new), "second")
    return program:add_node(lp.CourierNode(Server.new, second), "first"), second
  end, use)
end

--- What a server has noted, once there are so many notes.
local function notes(server, count)
  repeat lp.sleep(0.01) until server:count() >= count
  return server:notes()
end

local ended = {cancelled = true, deadline_exceeded = true}

support.each(describe, "deadlines", function(place)
  it("end the waits of the handler, this one and later ones", function()
    two(place, function(first)
      local err = raised(function() return lp.with(first, {timeout = 0.5}):wait(60) end)
      assert.equal("deadline_exceeded", err.code)
      local list = notes(first, 2)
      assert.is_true(ended[list[1]] and ended[list[2]])
      assert.equal("pong", first:ping())
    end)
  end)

  it("begin when the call comes, also to a node that has slept longer than they are", function()
    two(place, function(first)
      local hasty, ok, err = lp.with(first, {timeout = 0.3})
      first:ping() -- the link is up
      for _ = 1, 5 do -- a busy machine may be late now and then
        lp.sleep(0.35)
        ok, err = pcall(hasty.ping, hasty)
        if ok then break end
      end
      assert.is_true(ok, tostring(err))
    end)
  end)

  it("are inherited by calls the handler makes", function()
    two(place, function(first, second)
      raised(function() return lp.with(first, {timeout = 1}):pass_on(60) end)
      assert.equal("has a deadline", notes(first, 1)[1])
      assert.is_true(ended[notes(second, 2)[1]])
    end)
  end)

  it("are lifted within lp.shield", function()
    two(place, function(first)
      raised(function() return lp.with(first, {timeout = 0.5}):shielded() end)
      assert.same({"pong"}, notes(first, 1))
    end)
  end)

  it("are not inherited by spawned tasks", function()
    two(place, function(first)
      lp.with(first, {timeout = 0.5}):spawned()
      assert.same({"has none", "slept"}, notes(first, 2))
    end)
  end)

  it("of requests that wait for a busy node keep them from being run", function()
    two(place, function(first)
      local busy = first.futures:compute(0.3)
      local late = lp.with(first, {timeout = 0.05}).futures:note "ran"
      assert.equal("deadline_exceeded", late:exception().code)
      busy:result()
      assert.same({}, first:notes())
    end)
  end)

  it("do not disturb calls that come in time, nor the next ones", function()
    two(place, function(first)
      local quick = lp.with(first, {timeout = 60})
      for _ = 1, 100 do assert.equal("pong", quick:ping()) end
      raised(function() return lp.with(first, {timeout = 0.01}):wait(60) end)
      for _ = 1, 100 do assert.equal("pong", first:ping()) end
    end)
  end)
end)

support.each(describe, "callers that give up", function(place)
  it("cancel the handler with future:cancel(), and what it waits for", function()
    two(place, function(first, second)
      local future = first.futures:pass_on(60)
      repeat lp.sleep(0.01) until second:begun() == 1
      assert.is_true(future:cancel())
      assert.is_true(ended[notes(second, 2)[1]])
      assert.equal("pong", first:ping())
    end)
  end)

  it("cancel it by ending", function()
    place(function(program)
      local server = program:add_node(lp.CourierNode(Server.new), "server")
      program:add_node(lp.LuaNode(function(client)
        local future = client.futures:wait(60)
        client:ping()
        return future
      end, server), "caller")
      return server
    end, function(server)
      assert.is_true(ended[notes(server, 2)[1]])
    end)
  end)

  it("are left to a handler that swallows it for a second, not longer", function()
    two(place, function(first)
      raised(function() return lp.with(first, {timeout = 0.5}):stubborn() end)
      assert.same({"closed"}, notes(first, 1))
    end)
  end)
end)
