--- Messages with large strings: whole, in order, and never twice.
local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, until_node = support.raised, support.contains, support.until_node

local Server = {}
Server.__index = Server

function Server.new() return setmetatable({seen = {}}, Server) end
function Server:echo(...) return ... end
function Server:digest(text) return #text, text:sub(1, 3), text:sub(-3) end
function Server:make(pattern, times) return pattern:rep(times) end
function Server:note(value) self.seen[#self.seen + 1] = type(value) == "string" and #value or value end
function Server:noted() return self.seen end
function Server:number(i, text) self.seen[#self.seen + 1] = i return i, #text end
function Server.fail(_, text) error("failed with " .. #text) end
function Server:pid() return lp.context().pid end

--- A call of each size around the thresholds: a string of its own, the buffers of a socket, what is
-- taken in at once.
local sizes = {32767, 32768}
for _, size in ipairs{65536, 1 << 20, 2 << 20, 5 << 20} do
  for more = -1, 1 do sizes[#sizes + 1] = size + more end
end

--- Strings of exactly `size` bytes, by what they are; no two places look alike.
local function strings(size)
  local numbers = {}
  for i = 1, size // 7 + 1 do numbers[i] = ("%06x "):format(i) end
  local text = table.concat(numbers):sub(1, size)
  return {
    text = text,
    ["text but its last byte"] = text:sub(1, -2) .. "\xff",
    ["text beyond ASCII"] = text:sub(1, size - size // 9 * 2) .. ("é"):rep(size // 9),
    bytes = "\xfe\0" .. text:sub(3),
  }
end

support.each(describe, "a large string", function(place)
  local function serve(use) support.serve(place, Server, use) end

  it("comes back as it was, whatever is in it", function()
    serve(function(server)
      for _, size in ipairs(sizes) do
        for what, text in pairs(strings(size)) do
          assert(server:echo(text) == text, ("%s of %d bytes"):format(what, size))
        end
      end
    end)
  end)

  it("comes back from within tables, and beside others", function()
    serve(function(server)
      local text = strings(300000).text
      local more = strings(70000).bytes
      local number, got, other, same, flag = server:echo(1, {text, {body = more}}, more, text, true)
      assert.equal(1, number)
      assert(got[1] == text and got[2].body == more and other == more and same == text and flag)
      local keyed = server:echo({[text] = more, 1, 2})
      assert(keyed[text] == more and keyed[1] == 1 and keyed[2] == 2)
    end)
  end)

  it("stands between small calls in the order of the calls", function()
    serve(function(server)
      local expected = {}
      local function tell(value, as)
        server.notify:note(value)
        expected[#expected + 1] = as
      end
      for round = 1, 5 do
        for i = 1, 200 do tell(i, i) end
        tell(("x"):rep(100000 * round), 100000 * round)
        tell(("x"):rep(70000), 70000)
      end
      assert.same(expected, server:noted())
    end)
  end)

  it("is answered in time, and so are many at once", function()
    serve(function(server)
      local text = strings(200000).bytes
      local timed = lp.with(server, {timeout = 60})
      local futures = {}
      for i = 1, 60 do futures[i] = (i % 2 == 0 and timed or server).futures:echo(text, i) end
      for i = 1, 60 do
        local got, number = futures[i]:result()
        assert(got == text and number == i)
      end
      local length, first, last = timed:digest(text)
      assert.same({200000, text:sub(1, 3), text:sub(-3)}, {length, first, last})
    end)
  end)

  it("stays what it is while others are collected", function()
    serve(function(server)
      local kept = {}
      for round = 1, 3 do
        for i = 1, 40 do
          local text = ("%03d"):format(i):rep(30000 + round)
          local got = server:echo(text)
          assert(got == text)
          if i % 2 == 0 then kept[i] = got end
        end
        collectgarbage()
        for i, text in pairs(kept) do assert(text == ("%03d"):format(i):rep(30000 + round)) end
      end
    end)
  end)

  it("does not hide which method was meant", function()
    serve(function(server)
      local text = strings(100000).text
      contains("has no method nothing", raised(server.nothing, server, text))
      local err = raised(server.fail, server, text)
      contains("failed with 100000", err)
      assert.equal("fail", err.method)
      assert(server:echo(text) == text)
    end)
  end)

  it("too large to be sent is refused, and what follows is not touched", function()
    serve(function(server)
      local err = raised(server.digest, server, ("x"):rep(65 << 20))
      assert.equal("resource_exhausted", err.code)
      contains("message too large", err)
      err = raised(server.make, server, "x", 65 << 20)
      contains("message too large", err)
      err = raised(server.echo, server, ("x"):rep(1 << 20), print)
      contains("argument 2: cannot send a function", err)
      assert.equal(3, (server:digest("abc")))
    end)
  end)

  it("goes over the memory_limit of a node that goes on", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Server):options{memory_limit = "8M"}, "server")
    end, function(server)
      local text = strings(1 << 20).text
      assert(server:echo(text) == text)
      local err = raised(server.echo, server, ("x"):rep(16 << 20))
      assert.equal("resource_exhausted", err.code)
      assert(server:echo(text) == text)
    end)
  end)
end)

describe("large strings for a process", function()
  local place = support.place "test_mp"
  local text = ("y"):rep(600000)

  local function stopped(server)
    local pid = server:pid()
    support.stop_process(pid)
    return pid
  end

  it("that is stopped wait for it, in order", function()
    support.serve(place, Server, function(server)
      local pid, futures = stopped(server), {}
      for i = 1, 12 do
        futures[i] = server.futures:number(i, text)
        server.notify:note(100 + i)
      end
      assert(os.execute("kill -CONT " .. pid))
      local expected = {}
      for i = 1, 12 do
        assert.same({i, #text}, {futures[i]:result()})
        expected[#expected + 1] = i
        expected[#expected + 1] = 100 + i
      end
      assert.same(expected, server:noted())
    end)
  end)

  it("that is killed in the middle of one are lost or sent again, and none is run twice", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Server)
        :options{on_failure = "restart", restart = {backoff = 0.01}}, "server")
    end, function(server, run)
      local pid, futures = stopped(server), {}
      for i = 1, 12 do futures[i] = server.futures:number(i, text) end
      assert(os.execute("kill -KILL " .. pid))
      until_node(run, "server/0", function(node) return node.restarts == 1 end)
      local expected = {}
      for i = 1, 12 do
        local ok, number, length = pcall(futures[i].result, futures[i])
        if ok then
          assert.same({i, #text}, {number, length})
          expected[#expected + 1] = i
        else
          assert.equal("unavailable", number.code)
          contains("node server/0 is unavailable", number)
        end
      end
      -- The first was sent at least in part, and of the last nothing was.
      assert(#expected > 0 and #expected < 12, #expected)
      assert.same(expected, server:noted())
    end)
  end)
end)
