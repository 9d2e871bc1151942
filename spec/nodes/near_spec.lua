--- Two nodes of one loop need no frames for most of their calls. What their calls do is the same as
-- between threads and processes, also where one kind of way follows the other.
local lp = require "lp"
local support = require "spec.nodes.support"

--- Computes without giving way to other nodes: Lua cannot suspend a callback of gsub.
local function compute(seconds)
  local over = lp.now() + seconds
  ;("x"):gsub("x", function() repeat until lp.now() > over end)
end

--- What takes long to be read.
local Slow = {}
Slow.__index = Slow
local slowly = {
  pack = function() return {"slow"} end,
  unpack = function(value) compute(0.1) return setmetatable(value, Slow) end,
}
local function register() lp.register("spec.near.Slow", Slow, slowly) end

local Server = {}
Server.__index = Server

function Server.new()
  register()
  return setmetatable({begun = {}}, Server)
end
function Server:note(value) self.begun[#self.begun + 1] = type(value) == "table" and value[1] or value end
function Server:echo(...) self:note((...)) return ... end
function Server:order() return self.begun end
function Server:sleep(seconds) lp.sleep(seconds) return seconds end
function Server:compute(seconds) compute(seconds) return seconds end
function Server:fail(value) error("no " .. tostring(value)) end
function Server:leave() os.exit(0) end
function Server:bounce(caller, depth)
  if depth == 0 then return "" end
  return "s" .. caller:bounce(depth - 1)
end

--- What drives the server, from another node.
local Driver = {}
Driver.__index = Driver

function Driver.new(server)
  register()
  return setmetatable({server = server}, Driver)
end

--- Behind the first calls, whose frames make the link, there is the shorter way.
function Driver:configure(own)
  self.own = own
  for _ = 1, 3 do self.server:sleep(0) end
end

--- Calls and notifications of all sizes and kinds, one after the other.
function Driver:mix(count)
  local server, futures, long = self.server, {}, ("y"):rep(5000)
  for i = 1, count do
    local kind = i * 7 % 11
    if kind < 2 then
      server.notify:note(i)
    elseif kind == 2 then
      futures[#futures + 1] = server.futures:echo(i)
    elseif kind == 3 then
      futures[#futures + 1] = server.futures:echo({i})
    elseif kind == 4 then
      assert(select("#", server:echo(i, long, nil)) == 3)
    elseif kind == 5 then
      assert(server:echo({i})[1] == i)
    else
      assert(server:echo(i) == i)
    end
  end
  for _, future in ipairs(futures) do future:result() end
  return table.concat(server:order(), " ")
end

--- What the link to the server counted for calls of the values given.
function Driver:count(calls, ...)
  local function link()
    for _, each in ipairs(lp.stats().links) do
      if each.peer == "server/0" then return each end
    end
  end
  self.server:echo(...)
  local before = link()
  for _ = 1, calls do self.server:echo(...) end
  local after, counted = link(), {}
  counted.calls = after.made.calls - before.made.calls
  for _, name in ipairs {"sent_bytes", "received_bytes", "credit", "credit_bytes", "pending"} do
    counted[name] = after[name] - before[name]
  end
  return counted
end

local function outcome(fn, ...)
  local ok, result = pcall(fn, ...)
  if ok then return result end
  return result.code == "unknown" and tostring(result) or result.code
end

--- The outcomes of calls by tasks of their own: {{time-out or false, method, arguments …}, …}.
function Driver:together(calls)
  local tasks, outcomes = {}, {}
  for i, call in ipairs(calls) do
    tasks[i] = lp.spawn(function()
      local server = call[1] and lp.with(self.server, {timeout = call[1]}) or self.server
      outcomes[i] = outcome(lp.call, server, table.unpack(call, 2))
    end)
  end
  lp.gather(tasks)
  return outcomes
end

--- A call some time from now, which is answered in time.
function Driver:hurried(after, timeout, argument)
  lp.sleep(after)
  return lp.with(self.server, {timeout = timeout}):echo(argument)
end

--- A call that cannot have begun is given up.
function Driver:give_up()
  local future = self.server.futures:echo("given up")
  future:cancel()
  self.server:echo("after")
  return outcome(future.result, future), self.server:order()
end

--- Outcomes of calls whose handlers take longer than the callers' time: such a one as others look
-- at the clock for, too, and one that leaves when some of its time has passed.
function Driver:too_late()
  local server = lp.with(self.server, {timeout = 0.1})
  lp.with(self.server, {timeout = 5}):sleep(0)
  local long = outcome(server.compute, server, 0.15, ("x"):rep(5000))
  local held_up = lp.spawn(outcome, server.compute, server, 0.07, {})
  lp.spawn(compute, 0.07)
  return long, held_up:result()
end

--- The outcome of a call whose arguments take longer to be read than it has time, behind another.
function Driver:read_slowly()
  for _ = 1, 200 do self.server:order() end -- quick ones, so that one resume goes on with the next
  local before = lp.spawn(outcome, lp.call, lp.with(self.server, {timeout = 5}), "note", {"before"})
  local slow = lp.spawn(outcome, lp.call, lp.with(self.server, {timeout = 0.05}), "note", setmetatable({}, Slow))
  before:result()
  return slow:result()
end

function Driver:bounce(depth)
  if depth == 0 then return "" end
  return "d" .. self.server:bounce(self.own, depth - 1)
end

function Driver:echo(...) return ... end
function Driver:call_itself(value) return self.own:echo(value) end
function Driver:within_a_coroutine(value)
  local inner = coroutine.wrap(function()
    coroutine.yield(self.server:echo(value))
    return self.server:echo(value)
  end)
  return inner(), inner()
end

local function check(title, launch_type, loop)
  local place = support.place(launch_type)

  local function drive(use, server_options)
    place(function(program)
      local server, driver = lp.CourierNode(Server), lp.CourierNode(Driver)
      local options = server_options or {}
      options.loop = loop
      local to_server = program:add_node(server:options(options), "server")
      driver:configure(to_server)
      return program:add_node(driver:options{loop = loop}, "driver"), to_server
    end, function(driver, server, run)
      driver:configure(driver)
      use(driver, server, run)
    end)
  end

  describe("calls " .. title, function()
    it("begin in the order in which they were made, whatever kind they are", function()
      local expected = {}
      for i = 1, 300 do expected[i] = i end
      drive(function(driver) assert.equal(table.concat(expected, " "), driver:mix(300)) end)
    end)

    it("begin in that order through narrow windows", function()
      local expected = {}
      for i = 1, 300 do expected[i] = i end
      drive(function(driver)
        assert.equal(table.concat(expected, " "), driver:mix(300))
      end, {edge_calls = 2, edge_bytes = 6000})
    end)

    it("are counted by what their frames would have taken", function()
      drive(function(driver)
        local values = {"text", 7, -40000, 0.5, true, ("x"):rep(33)}
        local counted = driver:count(100, table.unpack(values))
        local body = 1 + 5 + 1 + 5 + 9 + 1 + 2 + 33 -- of each message
        assert.same({calls = 100, sent_bytes = 100 * (6 + 8 + 4 + body), received_bytes = 100 * (6 + 8 + body),
                     credit = 0, credit_bytes = 0, pending = 0}, counted)
      end)
    end)

    it("end at their time, and do not begin after it", function()
      drive(function(driver, server)
        local outcomes = driver:together {
          {0.05, "compute", 0.2}, {0.05, "echo", "late"}, {5, "echo", "early"}, {0.05, "sleep", 5},
          {false, "echo", "any time"},
        }
        assert.same({"deadline_exceeded", "deadline_exceeded", "early", "deadline_exceeded", "any time"},
                    outcomes)
        local begun = table.concat(server:order(), " ")
        assert.equal("early any time", begun)
      end)
    end)

    it("do not begin after their time when it passed while their arguments were read", function()
      drive(function(driver, server)
        assert.equal("deadline_exceeded", driver:read_slowly())
        assert.same({"before"}, server:order())
      end)
    end)

    it("begin in time however long the node was busy before", function()
      drive(function(driver, server)
        driver:count(2000, "quick ones, so that the loop seldom looks at its clock")
        local computing = server.futures:compute(0.5)
        local simple, wide = driver.futures:hurried(0.4, 0.45, 1), driver.futures:hurried(0.4, 0.45, {1})
        assert.equal(1, simple:result())
        assert.same({1}, wide:result())
        computing:result()
      end)
    end)

    it("end at their time when the loop has not seen that it has come", function()
      drive(function(driver)
        assert.same({"deadline_exceeded", "deadline_exceeded"}, {driver:too_late()})
      end)
    end)

    it("are not begun when they were given up before", function()
      drive(function(driver)
        local code, order = driver:give_up()
        assert.equal("cancelled", code)
        assert.same({"after"}, order)
      end)
    end)

    it("fail each by itself", function()
      drive(function(driver)
        local outcomes = driver:together {
          {false, "echo", 1}, {false, "fail", 2}, {false, "echo", 3}, {false, "nothing", 4}, {false, "echo", 5},
        }
        assert.same({1, 3, 5}, {outcomes[1], outcomes[3], outcomes[5]})
        support.contains("no 2", outcomes[2])
        support.contains("not_found", outcomes[4])
      end)
    end)

    it("go on among those that wait", function()
      drive(function(driver)
        local calls, expected = {}, {}
        for i = 1, 200 do
          calls[i] = i % 3 == 0 and {false, "sleep", i / 1e5} or {false, "echo", i}
          expected[i] = i % 3 == 0 and i / 1e5 or i
        end
        assert.same(expected, driver:together(calls))
      end)
    end)

    it("bounce between the two, twenty deep", function()
      drive(function(driver)
        assert.equal(("ds"):rep(10), driver:bounce(20))
      end)
    end)

    it("reach the node itself", function()
      drive(function(driver)
        for i = 1, 100 do assert.equal(i, driver:call_itself(i)) end
      end)
    end)

    it("are made in a coroutine of a task, too", function()
      drive(function(driver)
        for _ = 1, 100 do assert.same({"v", "v"}, {driver:within_a_coroutine "v"}) end
      end)
    end)

    it("are answered when the node called ends among them", function()
      drive(function(driver, _, run)
        local calls = {}
        for i = 1, 100 do calls[i] = i == 30 and {false, "leave"} or {false, "echo", i} end
        for i, result in ipairs(driver:together(calls)) do
          assert(result == i or result == "unavailable", tostring(result))
        end
        run:stop()
      end, {on_failure = "ignore"})
    end)
  end)
end

check("between two nodes of one loop", "test_mt", "shared")
check("between two threads", "test_mt")
check("between two processes", "test_mp")
