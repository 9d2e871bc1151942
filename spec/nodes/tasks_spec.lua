local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, serve = support.raised, support.contains, support.serve

local Tasks = {}
Tasks.__index = Tasks
function Tasks.new() return setmetatable({log = {}}, Tasks) end

function Tasks:spawn()
  local order = {}
  local future = lp.spawn(function(a, b)
    order[#order + 1] = "task"
    lp.sleep(0.001)
    return a + b, nil, "third", nil
  end, 1, 2)
  order[#order + 1] = "spawner"
  local results = table.pack(future:result())
  local failing = lp.spawn(function() error("in the task") end)
  local err = failing:exception()
  return order, results.n, results[1], results[3], err.message, err.traceback
end

function Tasks:turns()
  local order = {}
  local function turn(name)
    return lp.spawn(function()
      for i = 1, 3 do
        order[#order + 1] = name .. i
        lp.yield()
      end
    end)
  end
  lp.gather {turn "a", turn "b"}
  return table.concat(order, " ")
end

function Tasks:cancel()
  local seen = {}
  local event = lp.Event()
  local future = lp.spawn(function()
    local _ <close> = setmetatable({}, {__close = function(_, err)
      seen.closed = err.code
      seen.shielded = lp.shield(function() lp.sleep(0.001) return "waited" end)
    end})
    local ok, err = pcall(event.wait, event)
    seen.first = {ok, err.code}
    local again, same = pcall(lp.sleep, 0)
    seen.again = {again, same.code}
    lp.sleep(1)
  end)
  lp.yield()
  seen.cancel = future:cancel()
  seen.code = future:exception().code
  while not seen.shielded do lp.sleep(0.001) end
  return seen
end

function Tasks:queue()
  local queue, got = lp.Queue(2), {}
  local producer = lp.spawn(function()
    for i = 1, 20 do queue:put(i) end
    queue:put(nil)
    queue:close()
  end)
  while true do
    local ok, value = queue:get()
    if not ok then break end
    got[#got + 1] = value or "nil"
  end
  producer:result()
  return got, (queue:get(0)), #queue
end

function Tasks:semaphore()
  local semaphore, most, now = lp.Semaphore(2), 0, 0
  local list = {}
  for i = 1, 10 do
    list[i] = lp.spawn(function()
      semaphore:acquire()
      now = now + 1
      most = math.max(most, now)
      lp.sleep(0.001)
      now = now - 1
      semaphore:release()
    end)
  end
  lp.gather(list)
  return most, semaphore:acquire(0), semaphore:acquire(0), semaphore:acquire(0.001)
end

function Tasks:event()
  local event, woken = lp.Event(), 0
  local list = {}
  for i = 1, 5 do
    list[i] = lp.spawn(function() event:wait() woken = woken + 1 end)
  end
  local before = event:wait(0.001)
  event:set()
  lp.gather(list)
  return before, woken, event:is_set(), event:wait()
end

function Tasks:every()
  local beats = 0
  local timer = lp.every(0.005, function() beats = beats + 1 end)
  while beats < 3 do lp.sleep(0.001) end
  timer:cancel()
  local count = beats
  lp.sleep(0.03)
  return beats - count
end

function Tasks:now()
  local before = lp.now()
  lp.sleep(0.01)
  return lp.now() - before >= 0.01, math.type(before)
end

function Tasks:shield()
  local results = {lp.shield(function(...) lp.sleep(0) return ... end, 1, nil, 3)}
  local ok, err = pcall(lp.shield, function() lp.sleep(0) error("within", 0) end)
  return results[1], results[3], ok, tostring(err)
end

function Tasks:slow_shielded()
  local ok, err = pcall(lp.sleep, 60)
  lp.shield(function() lp.sleep(0.02) self.log[#self.log + 1] = ok and "slept" or err.code end)
end

function Tasks:logged() return self.log end

support.each(describe, "tasks of a node", function(place)
  it("are spawned with arguments and give results or the error", function()
    serve(place, Tasks, function(node)
      local order, n, first, third, message, trace = node:spawn()
      assert.same({"spawner", "task"}, order)
      assert.same({4, 3, "third"}, {n, first, third})
      contains("in the task", message)
      contains("tasks_spec.lua", trace)
    end)
  end)

  it("take turns with lp.yield", function()
    serve(place, Tasks, function(node) assert.equal("a1 b1 a2 b2 a3 b3", node:turns()) end)
  end)

  it("that are cancelled see it at their wait and at each later one, close handlers may wait", function()
    serve(place, Tasks, function(node)
      assert.same({cancel = true, code = "cancelled", first = {false, "cancelled"},
                   again = {false, "cancelled"}, closed = "cancelled", shielded = "waited"},
                  (node:cancel()))
    end)
  end)

  it("share queues, semaphores and events", function()
    serve(place, Tasks, function(node)
      local got, more, left = node:queue()
      assert.equal(21, #got)
      assert.same({1, 20, "nil"}, {got[1], got[20], got[21]})
      assert.same({false, 0}, {more, left})
      assert.same({2, true, true, false}, {node:semaphore()})
      assert.same({false, 5, true, true}, {node:event()})
    end)
  end)

  it("are called by timers until these are cancelled", function()
    serve(place, Tasks, function(node) assert.equal(0, node:every()) end)
  end)

  it("sleep at least as long as they ask", function()
    serve(place, Tasks, function(node) assert.same({true, "float"}, {node:now()}) end)
  end)

  it("are shielded from a caller that gives up, and only there", function()
    serve(place, Tasks, function(node)
      assert.same({1, 3, false, "within"}, {node:shield()})
      local hasty = lp.with(node, {timeout = 0.01})
      assert.equal("deadline_exceeded", raised(hasty.slow_shielded, hasty).code)
      while #node:logged() == 0 do lp.sleep(0.001) end
      contains(node:logged()[1], "cancelled deadline_exceeded") -- whichever came first
    end)
  end)
end)

-- ---------------------------------------------------------------- failures of tasks

support.each(describe, "a task that fails", function(place)
  --- The failure of a program with one node that runs `fn`.
  local function failure_of(fn)
    local failure
    place:failing(function(program)
      program:add_node(lp.LuaNode(fn), "worker")
    end, function(err) failure = err end)
    return failure
  end

  it("while nobody holds its future fails the node", function()
    local err = failure_of(function()
      lp.spawn(function() error("nobody looks") end)
      lp.wait_for_stop()
    end)
    contains("worker/0", err)
    contains("nobody looks", err)
  end)

  it("as a timer fails the node", function()
    contains("in the timer", failure_of(function()
      lp.every(0.001, function() error("in the timer") end)
      lp.wait_for_stop()
    end))
  end)

  it("as a callback of a future fails the node", function()
    contains("in the callback", failure_of(function()
      lp.spawn(function() end):add_done_callback(function() error("in the callback") end)
      lp.wait_for_stop()
    end))
  end)

  it("whose future is read is nobody else's business", function()
    place(function(program)
      program:add_node(lp.LuaNode(function()
        local future = lp.spawn(function() error("seen") end)
        assert(future:exception())
        local held = lp.spawn(function() error("seen later") end)
        lp.sleep(0.01)
        assert(not pcall(held.result, held))
        lp.spawn(function() lp.sleep(60) end):cancel()
        collectgarbage()
        lp.sleep(0.01)
      end), "worker")
    end, function() end)
  end)

  it("because its node has ended was a failure of the node", function()
    place(function(program)
      program:add_node(lp.LuaNode(function()
        local begun = lp.Semaphore(1)
        begun:acquire()
        lp.spawn(function() lp.sleep(60) end)
        lp.spawn(function() while true do lp.yield() end end)
        lp.every(0.001, function() begun:release() lp.sleep(60) end)
        begun:acquire()
      end), "worker")
    end, function(run) assert.is_true(run:wait()) end)
  end)
end)
