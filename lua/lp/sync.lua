--- Waiting between the tasks of one node: Event, Queue, Semaphore, and timers.
-- All four stand on a list of waiting tasks in the order they came. Who wakes a task hands
-- it what it waits for in the same step, so that nobody can take it in between; a task
-- that was handed something and is cancelled before it runs gives it on. Leaving the list
-- is a to-be-closed variable, which runs however the wait ends: also by a time-out, by
-- cancellation, and when the whole task is closed.
-- Time-outs are seconds; nil waits for ever, 0 and less polls.
-- @module lp.sync

local core = require "lp.core"

local sync = {}

-- ---------------------------------------------------------------- waiting tasks

--- Takes an entry out of its list, if it is still in one.
local function unlink(entry)
  local list = entry.list
  if not list then return end
  local before, after = entry.before, entry.after
  if before then before.after = after else list.first = after end
  if after then after.before = before else list.last = before end
  entry.list, entry.before, entry.after = nil, nil, nil
end

--- An entry leaves when its wait ends; `undo` is called if it was granted something that
-- the wait did not live to return.
local Entry = {
  __close = function(entry)
    unlink(entry)
    if entry.granted and not entry.taken and entry.undo then entry.undo(entry) end
  end,
}

--- Appends the current task to `list`.
local function join(list, owner, undo)
  local entry = setmetatable({token = core.token(), list = list, before = list.last,
                              owner = owner, undo = undo}, Entry)
  if list.last then list.last.after = entry else list.first = entry end
  list.last = entry
  return entry
end

--- Wakes the task that waits longest, handing it `value`, and returns its entry. Waits
-- that are over already are passed by. nil: nobody waits.
local function grant(list, value)
  while list.first do
    local entry = list.first
    unlink(entry)
    -- Set before the wake: where a wake runs the task at once, it must find them.
    entry.granted, entry.value = true, value
    if core.wake(entry.token) then return entry end
    entry.granted, entry.value = nil, nil
  end
end

--- Waits for a grant. Returns true when there was one.
local function await(entry, timeout)
  core.park(timeout)
  entry.taken = entry.granted
  return entry.granted or false
end

--- For a method's argument; the options are loaded for a mistake only.
local function check_timeout(timeout, what)
  if timeout == nil or type(timeout) == "number" and timeout == timeout then return end
  require("lp.options").check_timeout(what, timeout, 3)
end

local function check_self(self, class, what)
  if type(self) == "table" and getmetatable(self) == class then return end
  error(("call it with a colon: %s"):format(what), 3)
end

local function polls(timeout)
  return timeout ~= nil and timeout <= 0
end

-- ---------------------------------------------------------------- Event

local Event = {__name = "lp.Event"}
Event.__index = Event

--- A flag that tasks can wait for.
function sync.Event()
  return setmetatable({flag = false, waiting = {}}, Event)
end

--- An event that can become true without a task telling it, as a stop does.
-- @func probe consulted besides the flag; whoever makes it true must also call `set`, for
--   those who wait
function sync.probed_event(probe)
  return setmetatable({flag = false, probe = probe, waiting = {}}, Event)
end

--- Sets the flag and wakes every task that waits.
function Event:set()
  check_self(self, Event, "event:set()")
  self.flag = true
  while grant(self.waiting) do end
end

--- Takes the flag back. Tasks woken by an earlier `set` still return true.
function Event:clear()
  check_self(self, Event, "event:clear()")
  self.flag = false
end

function Event:is_set()
  check_self(self, Event, "event:is_set()")
  return self.flag or (self.probe ~= nil and self.probe()) or false
end

--- Waits until the flag is set.
-- @number[opt] timeout seconds
-- @treturn boolean false: the time is over
function Event:wait(timeout)
  check_self(self, Event, "event:wait([timeout])")
  check_timeout(timeout, "event:wait")
  if self:is_set() then return true end
  if polls(timeout) then return false end
  local entry <close> = join(self.waiting)
  return await(entry, timeout) or self:is_set() -- perhaps set after the time was over
end

-- ---------------------------------------------------------------- Semaphore

local Semaphore = {__name = "lp.Semaphore"}
Semaphore.__index = Semaphore

--- A number of permits. Tasks get them in the order they asked.
-- @int[opt=1] n permits at the start, 0 or more
function sync.Semaphore(n)
  n = n == nil and 1 or n
  local permits = type(n) == "number" and math.tointeger(n)
  if not permits or permits < 0 then
    error("lp.Semaphore: expected a whole number of permits, 0 or more, got " .. tostring(n), 2)
  end
  return setmetatable({permits = permits, waiting = {}}, Semaphore)
end

local function give(semaphore)
  if not grant(semaphore.waiting) then semaphore.permits = semaphore.permits + 1 end
end

local function give_back(entry)
  give(entry.owner)
end

--- Gives one permit back, or one more than there were at the start.
function Semaphore:release()
  check_self(self, Semaphore, "semaphore:release()")
  give(self)
end

--- Takes a permit.
-- @number[opt] timeout seconds
-- @treturn boolean false: the time is over
function Semaphore:acquire(timeout)
  check_self(self, Semaphore, "semaphore:acquire([timeout])")
  check_timeout(timeout, "semaphore:acquire")
  if self.permits > 0 then
    self.permits = self.permits - 1
    return true
  end
  if polls(timeout) then return false end
  local entry <close> = join(self.waiting, self, give_back)
  return await(entry, timeout)
end

-- ---------------------------------------------------------------- Queue

local Queue = {__name = "lp.Queue"}
Queue.__index = Queue

--- A first-in-first-out queue of any values, nil included.
-- Values sit in `items[first .. last]`. Tasks wait to get only while it is empty, and to
-- put only while it is full.
-- @int[opt] n how many values it holds before `put` waits; without it, any number
function sync.Queue(n)
  local capacity = n == nil and math.huge or type(n) == "number" and math.tointeger(n)
  if not capacity or capacity < 1 then
    error("lp.Queue: expected how many values it holds, 1 or more (nothing: any number), got "
          .. tostring(n), 2)
  end
  return setmetatable({capacity = capacity, items = {}, first = 1, last = 0, closed = false,
                       getting = {}, putting = {}}, Queue)
end

local function append(queue, value)
  queue.last = queue.last + 1
  queue.items[queue.last] = value
end

--- A value whose receiver was cancelled goes back to the front.
local function return_value(entry)
  local queue = entry.owner
  if grant(queue.getting, entry.value) then return end
  queue.first = queue.first - 1
  queue.items[queue.first] = entry.value
end

local function refuse_closed()
  require("lp.error").error("failed_precondition", "the queue is closed")
end

--- The number of values that can be got without waiting.
function Queue:__len()
  return self.last - self.first + 1
end

--- Appends a value, waiting while the queue is full. Raises `failed_precondition` when
-- the queue is closed, or becomes so while waiting.
-- @param value anything, also nil
-- @number[opt] timeout seconds
-- @treturn boolean false: the time is over and the value is not in the queue
function Queue:put(value, timeout)
  check_self(self, Queue, "queue:put(value, [timeout])")
  check_timeout(timeout, "queue:put")
  if self.closed then refuse_closed() end
  if grant(self.getting, value) then return true end
  if #self < self.capacity then
    append(self, value)
    return true
  end
  if polls(timeout) then return false end
  local entry <close> = join(self.putting)
  entry.offered = value
  if await(entry, timeout) then return true end
  if self.closed then refuse_closed() end
  return false
end

--- Moves the value of the task that waits longest to put into the room there is now.
local function admit(queue)
  if #queue >= queue.capacity then return end
  local entry = grant(queue.putting)
  if entry then append(queue, entry.offered) end
end

--- Takes the oldest value.
-- @number[opt] timeout seconds
-- @treturn boolean false: the time is over, or the queue is closed and empty
-- @return the value
function Queue:get(timeout)
  check_self(self, Queue, "queue:get([timeout])")
  check_timeout(timeout, "queue:get")
  if #self > 0 then
    local value = self.items[self.first]
    self.items[self.first] = nil
    self.first = self.first + 1
    admit(self)
    return true, value
  end
  if self.closed or polls(timeout) then return false end
  local entry <close> = join(self.getting, self, return_value)
  if await(entry, timeout) then return true, entry.value end
  return false
end

--- Wakes everybody in `list` without a grant.
local function dismiss(list)
  while list.first do
    local entry = list.first
    unlink(entry)
    core.wake(entry.token)
  end
end

--- Refuses further values; what is in the queue can still be got. May be called again.
function Queue:close()
  check_self(self, Queue, "queue:close()")
  self.closed = true
  dismiss(self.getting)
  dismiss(self.putting)
end

-- ---------------------------------------------------------------- timers

local Timer = {__name = "lp.Timer"}
Timer.__index = Timer

--- No further call; one that is running finishes.
function Timer:cancel()
  check_self(self, Timer, "timer:cancel()")
  self.stopped:set()
end

--- Calls in a fixed rhythm; beats missed by a slow `fn` are left out, not made up for.
local function beat(timer, period, fn)
  local due = core.now() + period
  while not timer.stopped:wait(math.max(due - core.now(), 0)) do
    fn()
    local late = core.now() - due
    due = due + period * math.max(1, math.ceil(late / period))
    core.yield()
  end
end

--- Calls `fn` every `period` seconds in a task of its own, the first time after one period.
-- An error in it is a failure of the node.
-- @treturn table a timer with `:cancel()`
function sync.every(period, fn)
  if type(period) ~= "number" or period ~= period or period <= 0 or period == math.huge then
    error("lp.every: expected a period in seconds, more than 0, got " .. tostring(period), 2)
  end
  if type(fn) ~= "function" and not (getmetatable(fn) or {}).__call then
    error("lp.every: expected a function, got a " .. type(fn), 2)
  end
  local timer = setmetatable({stopped = sync.Event()}, Timer)
  core.spawn(beat, timer, period, fn)
  return timer
end

return sync
