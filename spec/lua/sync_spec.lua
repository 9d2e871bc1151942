local helper = require "spec.lua.helper"
local core, lp, fails_here = helper.core, helper.lp, helper.fails_here

--- Lets every task that can run do so.
local function settle()
  for _ = 1, 5 do core.yield() end
end

--- Starts a task and lets it run until it waits.
local function start(fn, ...)
  local future = core.spawn(fn, ...)
  settle()
  return future
end

local function count_waiting(list)
  local n, entry = 0, list.first
  while entry do n, entry = n + 1, entry.after end
  return n
end

describe("lp.Event", function()
  it("wakes everybody who waits", function()
    local event, woken = lp.Event(), 0
    local tasks = {}
    for i = 1, 3 do
      tasks[i] = start(function()
        if event:wait() then woken = woken + 1 end
      end)
    end
    assert.equal(0, woken)
    event:set()
    lp.gather(tasks)
    assert.equal(3, woken)
  end)

  it("returns true from wait at once when it is set", function()
    local event = lp.Event()
    event:set()
    assert.is_true(event:is_set())
    assert.is_true(event:wait(0))
    assert.is_true(event:wait())
  end)

  it("polls with a time-out of 0 and gives up after others, leaving nothing behind", function()
    local event = lp.Event()
    assert.is_false(event:wait(0))
    assert.is_false(event:wait(0.01))
    assert.equal(0, count_waiting(event.waiting))
  end)

  it("polls with a time-out of less than 0, too: nobody else runs meanwhile", function()
    local event = lp.Event()
    local task = core.spawn(function() event:set() end)
    assert.is_false(event:wait(-1))
    assert.is_false(event:is_set())
    task:result()
    assert.is_true(event:wait(-1))
  end)

  it("returns true to tasks woken by set, although clear followed at once", function()
    local event = lp.Event()
    local task = start(function() return event:wait() end)
    event:set()
    event:clear()
    assert.is_true((task:result()))
    assert.is_false(event:is_set())
  end)

  it("sees what a probe sees", function()
    local set = false
    local event = require("lp.sync").probed_event(function() return set end)
    assert.is_false(event:wait(0))
    set = true
    assert.is_true(event:wait(0))
  end)

  it("says how to call it when called with a dot", function()
    local event = lp.Event()
    fails_here("call it with a colon: event:wait([timeout])", function() event.wait(1) end)
    fails_here("timeout must be a number", function() event:wait("1") end)
  end)
end)

describe("times", function()
  local event, queue, semaphore, future = lp.Event(), lp.Queue(1), lp.Semaphore(0), helper.core.future()
  queue:put(1)
  local takers = {
    ["event:wait"] = function(time) event:wait(time) end,
    ["queue:get"] = function(time) queue:get(time) end,
    ["queue:put"] = function(time) queue:put(2, time) end,
    ["semaphore:acquire"] = function(time) semaphore:acquire(time) end,
    ["lp.wait_for_stop"] = function(time) lp.wait_for_stop(time) end,
    ["lp.wait"] = function(time) lp.wait({}, {timeout = time}) end,
    ["lp.with"] = function(time) lp.with(helper.core.client("x", "x"), {timeout = time}) end,
    ["result"] = function(time) future:result(time) end,
    ["exception"] = function(time) future:exception(time) end,
    ["sleep"] = function(time) lp.sleep(time) end,
  }

  local function refused(name, take, time)
    local message = helper.failure(take, time)
    assert.truthy(message:find("^%S*sync_spec.lua:%d+: "), message)
    assert.truthy(message:find(name, 1, true), message)
    assert.truthy(message:find("seconds", 1, true), message)
  end

  for name, take in pairs(takers) do
    it("that are none are refused by " .. name, function()
      refused(name, take, 0 / 0)
    end)
  end

  it("below 0 are refused as options", function()
    for _, time in ipairs {-0.5, -math.huge} do refused("lp.with", takers["lp.with"], time) end
  end)

  it("below 0 are over for a wait", function()
    for _, time in ipairs {-0.5, -math.huge} do
      assert.is_false(event:wait(time))
      assert.is_false(queue:put(2, time))
      assert.is_false(semaphore:acquire(time))
      lp.sleep(time)
      helper.failure(takers["result"], time)
    end
  end)
end)

describe("lp.Semaphore", function()
  it("gives its permits and then makes wait", function()
    local semaphore = lp.Semaphore(2)
    assert.is_true(semaphore:acquire())
    assert.is_true(semaphore:acquire(0))
    assert.is_false(semaphore:acquire(0))
    assert.is_false(semaphore:acquire(0.01))
    semaphore:release()
    assert.is_true(semaphore:acquire(0))
  end)

  it("serves in the order of asking, and nobody overtakes", function()
    local semaphore, order = lp.Semaphore(0), {}
    local tasks = {}
    for i = 1, 4 do
      tasks[i] = start(function() semaphore:acquire() order[#order + 1] = i end)
    end
    semaphore:release()
    assert.is_false(semaphore:acquire(0)) -- it belongs to task 1 already
    for _ = 2, 4 do semaphore:release() end
    lp.gather(tasks)
    assert.same({1, 2, 3, 4}, order)
  end)

  it("passes a permit on when the task that was woken is cancelled before it runs", function()
    local semaphore = lp.Semaphore(0)
    local function take_and_give()
      if semaphore:acquire() then semaphore:release() end
    end
    local first, second = start(take_and_give), start(take_and_give)
    semaphore:release()
    first:cancel()
    assert.is_nil(second:exception())
    first:exception()
    assert.is_true(semaphore:acquire(0))
    assert.is_false(semaphore:acquire(0))
  end)

  it("loses no permit to waits that timed out", function()
    local semaphore = lp.Semaphore(0)
    local short = start(function() return semaphore:acquire(0.01) end)
    local long = start(function() return semaphore:acquire() end)
    assert.is_false((short:result()))
    assert.equal(1, count_waiting(semaphore.waiting))
    semaphore:release()
    assert.is_true((long:result()))
    assert.equal(0, count_waiting(semaphore.waiting))
  end)

  it("loses no permit to a task that was cancelled while waiting", function()
    local semaphore = lp.Semaphore(0)
    local task = start(function() return semaphore:acquire() end)
    task:cancel()
    assert.equal("cancelled", task:exception().code)
    settle() -- the future is cancelled at once, the task at its next turn
    assert.equal(0, count_waiting(semaphore.waiting))
    semaphore:release()
    assert.is_true(semaphore:acquire(0))
  end)

  it("passes by a wait that is over although its task has not run since", function()
    local semaphore = lp.Semaphore(0)
    local task = start(function() return semaphore:acquire() end)
    task:cancel()
    semaphore:release()
    assert.is_true(semaphore:acquire(0))
    assert.equal("cancelled", task:exception().code)
    assert.is_false(semaphore:acquire(0))
  end)

  it("refuses counts that are none", function()
    fails_here("lp.Semaphore", function() lp.Semaphore(-1) end)
    fails_here("lp.Semaphore", function() lp.Semaphore(1.5) end)
    fails_here("lp.Semaphore", function() lp.Semaphore("2") end)
  end)
end)

describe("lp.Queue", function()
  it("is first in, first out, and carries nil", function()
    local queue = lp.Queue(3)
    assert.is_true(queue:put(1))
    assert.is_true(queue:put(nil))
    assert.is_true(queue:put(false))
    assert.equal(3, #queue)
    assert.same({true, 1}, {queue:get()})
    assert.equal(2, select("#", queue:get()))
    assert.same({true, false}, {queue:get()})
    assert.is_false((queue:get(0)))
    assert.equal(0, #queue)
  end)

  it("makes put wait while it is full", function()
    local queue, put = lp.Queue(1), 0
    queue:put("a")
    assert.is_false(queue:put("b", 0))
    assert.is_false(queue:put("b", 0.01))
    local task = start(function()
      for _, value in ipairs {"b", "c"} do queue:put(value) put = put + 1 end
    end)
    assert.equal(0, put)
    assert.same({true, "a"}, {queue:get()})
    settle()
    assert.equal(1, put)
    assert.same({true, "b"}, {queue:get()})
    assert.same({true, "c"}, {queue:get()})
    assert.is_nil(task:exception())
    assert.equal(0, count_waiting(queue.putting))
  end)

  it("keeps the order of the tasks that wait to put", function()
    local queue, tasks = lp.Queue(1), {}
    queue:put(0)
    for i = 1, 3 do tasks[i] = start(function() return queue:put(i) end) end
    for i = 0, 3 do assert.same({true, i}, {queue:get()}) end
    lp.gather(tasks)
  end)

  it("hands a value to the task that waits longest", function()
    local queue, got = lp.Queue(), {}
    local tasks = {}
    for i = 1, 3 do
      tasks[i] = start(function()
        local _, value = queue:get()
        got[i] = value
      end)
    end
    for i = 1, 3 do queue:put(i * 10) end
    lp.gather(tasks)
    assert.same({10, 20, 30}, got)
    assert.equal(0, #queue)
  end)

  it("keeps a value whose receiver was cancelled before it ran", function()
    local queue, got = lp.Queue(2), {}
    local task = start(function()
      local ok, value = queue:get()
      if ok then got[1] = value end
    end)
    queue:put("x")
    queue:put("y")
    task:cancel()
    settle()
    if not got[1] then assert.same({true, "x"}, {queue:get(0)}) end
    assert.same({true, "y"}, {queue:get(0)})
    assert.is_false((queue:get(0)))
  end)

  it("does not put the value of a put that gave up", function()
    local queue = lp.Queue(1)
    queue:put(1)
    local task = start(function() return queue:put(2) end)
    task:cancel()
    assert.equal("cancelled", task:exception().code)
    queue:get()
    assert.is_false((queue:get(0)))
  end)

  it("when closed gives what is left and refuses more", function()
    local queue = lp.Queue()
    queue:put(1)
    queue:close()
    queue:close()
    assert.same({true, 1}, {queue:get()})
    assert.is_false((queue:get()))
    local ok, err = pcall(queue.put, queue, 2)
    assert.is_false(ok)
    assert.equal("failed_precondition", err.code)
  end)

  it("when closed wakes those who wait: get returns false, put raises", function()
    local empty, full = lp.Queue(), lp.Queue(1)
    full:put(1)
    local getting = start(function() return empty:get() end)
    local putting = start(function() return full:put(2) end)
    empty:close()
    full:close()
    assert.is_false((getting:result()))
    assert.equal("failed_precondition", putting:exception().code)
    assert.same({true, 1}, {full:get()})
  end)

  it("refuses capacities that are none", function()
    fails_here("1 or more", function() lp.Queue(0) end)
    fails_here("1 or more", function() lp.Queue("many") end)
  end)
end)

describe("lp.every", function()
  it("calls in a rhythm until it is cancelled", function()
    local beats, timer = 0, nil
    timer = lp.every(0.01, function()
      beats = beats + 1
      if beats == 3 then timer:cancel() end
    end)
    repeat core.sleep(0.005) until beats >= 3
    core.sleep(0.05)
    assert.equal(3, beats)
  end)

  it("leaves out the beats a slow call has missed", function()
    local times, done = {}, lp.Event()
    local from = lp.now()
    local timer = lp.every(0.1, function()
      times[#times + 1] = lp.now() - from
      if #times == 1 then lp.sleep(0.25) else done:set() end
    end)
    done:wait()
    timer:cancel()
    -- One made up for would come as soon as the sleep is over, and not with the next beat.
    assert.is_true(times[2] // 0.1 > (times[1] + 0.25) // 0.1)
  end)

  it("refuses periods that are none", function()
    fails_here("lp.every", function() lp.every(0, print) end)
    fails_here("lp.every", function() lp.every(1, 2) end)
  end)
end)
