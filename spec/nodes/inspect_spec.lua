--- What the engine tells about nodes from outside, whatever they are doing.
local core = require "lp.core"
local lp = require "lp"
local support = require "spec.nodes.support"
local contains = support.contains

--- Asks the service, as a command at the run's control socket does. The node gets the time a busy
-- machine may need.
local function ask(run, what, name)
  return core.ask(lp.with(core.client("service", "service"), {timeout = 60}), "lp." .. what, run.id, name, 30)
end

local Node = {}
Node.__index = Node

function Node.new(other, path) return setmetatable({other = other, path = path, gate = lp.Event()}, Node) end
function Node:ping() return "pong" end
function Node:wait() self.gate:wait() end
function Node:open() self.gate:set() end
function Node:pass_on(...) return self.other:wait(...) end
function Node:in_coroutine()
  local inside = coroutine.wrap(function() self.gate:wait() end)
  inside()
end

--- Computes until a file is there.
function Node:compute()
  repeat local file = io.open(self.path) until file and file:close()
  return "computed"
end

--- Two nodes, the first of which calls the second, and a path where nothing is yet.
local function two(place, use)
  local path = os.tmpname()
  os.remove(path)
  place(function(program)
    local second = program:add_node(lp.CourierNode(Node.new, nil, path), "second")
    return program:add_node(lp.CourierNode(Node.new, second, path), "first"), second
  end, function(first, second, run)
    use(first, second, run, function()
      assert(io.open(path, "w")):close()
    end)
  end)
  os.remove(path)
end

--- The time left of a call that was given a minute. Times of a second and more are counted up to
-- 10 ms late at each call that hands them on.
local function is_of_a_minute(left) return left > 0 and left <= 60.02 end

local function until_told(run, what, name, check)
  local answer
  repeat
    lp.sleep(0.01)
    answer = ask(run, what, name)
    local found = not answer.partial and check(answer) -- it may not have started yet
    if found then return found, answer end
  until false
end

local function task_of(method, state)
  return function(answer)
    for _, task in ipairs(answer.tasks) do
      if task.method == method and (not state or task.state == state) then return task end
    end
  end
end

support.each(describe, "the tasks of a node", function(place)
  it("are told with what they wait for and their Lua stacks", function()
    two(place, function(first, second, run)
      local future = first.futures:pass_on()
      local task = until_told(run, "tasks", "first/0", task_of("pass_on", "waiting"))
      assert.equal("handler", task.kind)
      assert.equal("answer", task.waits_for.what)
      assert.equal("second/0", task.waits_for.node)
      assert.equal("wait", task.waits_for.method)
      contains("inspect_spec.lua:", table.concat(task.stack, "\n"))
      contains("in function <", table.concat(task.stack, "\n"))
      local other = until_told(run, "tasks", "second/0", task_of("wait", "waiting"))
      assert.equal("event", other.waits_for.what)
      assert.equal("first/0", other.caller)
      second:open()
      future:result()
    end)
  end)

  it("are told with the stacks of coroutines within them", function()
    two(place, function(first, _, run)
      local future = first.futures:in_coroutine()
      local task = until_told(run, "tasks", "first/0", task_of("in_coroutine", "waiting"))
      local text = table.concat(task.stack, "\n")
      local line = debug.getinfo(Node.in_coroutine).linedefined
      local inner = text:find(("inspect_spec.lua:%d:"):format(line + 1), 1, true)
      local outer = text:find(("inspect_spec.lua:%d:"):format(line + 2), 1, true)
      assert(inner and outer and inner < outer, text)
      first:open()
      future:result()
    end)
  end)

  it("are told while one computes", function()
    two(place, function(first, _, run, let_go)
      local future = first.futures:compute()
      local task = until_told(run, "tasks", "first/0", task_of("compute", "running"))
      contains("compute", table.concat(task.stack, "\n") .. task.method)
      contains("inspect_spec.lua:", task.stack[1] .. (task.stack[2] or ""))
      let_go()
      assert.equal("computed", future:result())
    end)
  end)

  it("with equal stacks can be grouped", function()
    two(place, function(first, _, run)
      local futures = {}
      for i = 1, 20 do futures[i] = first.futures:wait() end
      local _, answer = until_told(run, "tasks", "first/0", function(answer)
        local waiting = 0
        for _, task in ipairs(answer.tasks) do
          if task.method == "wait" and task.state == "waiting" then waiting = waiting + 1 end
        end
        return waiting == 20
      end)
      local groups = require("lp.stacks").group(answer.tasks)
      assert.equal(20, groups[1].count)
      assert.equal("wait", groups[1].tasks[1].method)
      first:open()
      lp.gather(futures)
    end)
  end)
end)

support.each(describe, "calls under way", function(place)
  it("are told by both sides, with age and time left", function()
    two(place, function(first, second, run)
      local future = lp.with(first, {timeout = 60}).futures:pass_on()
      local made = until_told(run, "calls", "first/0", function(answer) return answer.made[1] end)
      assert.equal("second/0", made.to)
      assert.equal("wait", made.method)
      assert(made.seconds >= 0 and is_of_a_minute(made.deadline))
      local served = until_told(run, "calls", "second/0", function(answer) return answer.served[1] end)
      assert.equal("first/0", served.from)
      assert.equal("wait", served.method)
      assert(is_of_a_minute(served.deadline))
      second:open()
      future:result()
      until_told(run, "calls", "first/0", function(answer) return #answer.made == 0 and #answer.served == 0 end)
    end)
  end)
end)

support.each(describe, "a paused node", function(place)
  it("tells of the calls that have come, with the time they have left", function()
    two(place, function(first, _, run)
      first:ping()
      ask(run, "pause", "first/0")
      until_told(run, "state", "first/0", function(answer) return answer.paused end)
      local futures = {first.futures:ping(), lp.with(first, {timeout = 60}).futures:ping()}
      local calls = until_told(run, "calls", "first/0", function(answer)
        return #answer.served == 2 and answer.served
      end)
      for _, call in ipairs(calls) do assert.same({"ping", "ready"}, {call.method, call.state}) end
      assert.is_nil(calls[1].deadline)
      assert(is_of_a_minute(calls[2].deadline))
      ask(run, "resume", "first/0")
      for _, future in ipairs(futures) do assert.equal("pong", future:result(60)) end
    end)
  end)

  it("runs nothing until it is resumed, and tells that it is", function()
    two(place, function(first, _, run)
      first:ping()
      ask(run, "pause", "first/0")
      until_told(run, "state", "first/0", function(answer) return answer.paused end)
      local future = first.futures:ping()
      until_told(run, "state", "first/0", function(answer) return answer.waiting == 1 end)
      assert.is_false(future:done())
      ask(run, "resume", "first/0")
      assert.equal("pong", future:result(60))
      assert.is_false(ask(run, "state", "first/0").paused)
    end)
  end)

  it("gives way even while it computes", function()
    two(place, function(first, _, run, let_go)
      local future = first.futures:compute()
      until_told(run, "tasks", "first/0", task_of("compute", "running"))
      ask(run, "pause", "first/0")
      until_told(run, "tasks", "first/0", task_of("compute", "ready"))
      let_go()
      assert.is_false(future:done())
      ask(run, "resume", "first/0")
      assert.equal("computed", future:result(60))
    end)
  end)

  it("stops with its program", function()
    two(place, function(first, _, run)
      first:ping()
      ask(run, "pause", "first/0")
      until_told(run, "state", "first/0", function(answer) return answer.paused end)
    end)
  end)
end)

support.each(describe, "counts and times", function(place)
  it("are kept by both sides, per method and link", function()
    two(place, function(first, second, run)
      for _ = 1, 10 do second:ping() end
      assert.is_false(pcall(second.nope, second))
      second:open()
      for _ = 1, 5 do first:pass_on() end
      local stats = ask(run, "stats", "second/0")
      assert.equal(10, stats.served.methods.ping.calls)
      assert.equal(5, stats.served.methods.wait.calls)
      assert.equal(0, stats.served.methods.wait.errors)
      assert.equal(1, stats.refused)
      local times = stats.served.methods.ping.latency
      assert.equal(10, times.count)
      assert(times.min > 0 and times.min <= times.p50 and times.p50 <= times.p99 and times.p99 <= times.max)
      local links = {}
      for _, link in ipairs(stats.links) do links[link.peer] = link end
      assert.equal(5, links["first/0"].served.calls)
      local made = ask(run, "stats", "first/0").made.methods.wait
      assert.equal(5, made.calls)
      assert(made.latency.sum >= stats.served.methods.wait.latency.sum)
    end)
  end)

  it("are counts only with metrics = off", function()
    place(function(program)
      return program:add_node(lp.CourierNode(Node.new), "node")
    end, function(node, run)
      for _ = 1, 3 do node:ping() end
      local ping = ask(run, "stats", "node/0").served.methods.ping
      assert.equal(3, ping.calls)
      assert.is_nil(ping.latency)
    end, {metrics = "off"})
  end)

  it("tell the totals of all nodes, also of loops and colocations that are shared", function()
    place(function(program)
      local function node(loop) return lp.CourierNode(Node.new):options {loop = loop} end
      local nodes = {}
      for i = 1, 3 do nodes[i] = program:add_node(node "shared", "on_one_loop") end
      nodes[4] = program:add_node(lp.CourierNode(Node.new), "alone")
      program:add_node(lp.LuaNode(function() end), "over")
      program:add_node(lp.MultiThreadingColocation {lp.CourierNode(Node.new), lp.CourierNode(Node.new)}, "pair")
      return table.unpack(nodes)
    end, function(a, b, c, alone, run)
      for i, client in ipairs {a, b, c, alone} do
        for _ = 1, i do client:ping() end
      end
      support.until_node(run, "over/0", function(node) return node.state == "ended" end)
      local answers, names
      repeat
        answers, names = {}, {}
        for i, answer in ipairs(ask(run, "totals")) do
          answers[answer.node], names[i] = answer, answer.node
        end
      until not (answers["pair/0/0"].partial or answers["pair/0/1"].partial) -- they may not be there yet
      local expected = {}
      for i, node in ipairs(run:nodes()) do expected[i] = node.name end
      assert.same(expected, names)
      for i, name in ipairs {"on_one_loop/0", "on_one_loop/1", "on_one_loop/2", "alone/0"} do
        assert.equal(i, answers[name]["in"])
      end
      contains("it has ended", answers["over/0"].partial_reason)
      for _, state in ipairs(ask(run, "state")) do assert(state.partial or state.tasks or state.state, state.node) end
    end)
  end)

  it("tell of all nodes at once", function()
    two(place, function(first, _, run)
      first:ping()
      local names = {}
      for i, stats in ipairs(ask(run, "stats")) do names[i] = stats.node end
      table.sort(names)
      assert.same({"first/0", "second/0"}, names)
    end)
  end)
end)
