--- A small lp.core in Lua, for specs that run without the engine. Tasks are coroutines of
-- one queue and time is virtual: it moves to the next time-out when nobody can run.
-- The main chunk is no coroutine; its waits run the queue.

local core = {}

local now = 0.0
local ready = {}    -- tasks to be resumed, in order
local waiting = {}  -- tasks in core.park
local main = {is_main = true}
local current = main
local error_metatable = {}

function core.error_metatable() return error_metatable end

local function fail(code, message)
  error(require("lp.error").new(code, message), 0)
end

function core.now() return now end

-- ---------------------------------------------------------------- tasks

local function make_ready(task)
  waiting[task] = nil
  ready[#ready + 1] = task
end

local function run(task)
  current = task
  local ok, err = coroutine.resume(task.co)
  current = main
  if not ok then error(debug.traceback(task.co, tostring(err)), 0) end
end

local function earliest()
  local first
  for task in pairs(waiting) do
    if task.due and (not first or task.due < first.due or
                     task.due == first.due and task.id < first.id) then
      first = task
    end
  end
  return first
end

--- Resumes one task, or lets time pass until the next time-out.
local function step()
  local task = table.remove(ready, 1)
  if not task then
    task = earliest()
    if not task then error("deadlock: every task waits for ever", 0) end
    now = math.max(now, task.due)
    task.timed_out = true
    make_ready(task)
    return
  end
  if task.is_main then task.resumed = true else run(task) end
end

local tokens, owner, ids = 0, {}, 0

function core.token()
  local task = current
  if task.token then owner[task.token] = nil end
  tokens = tokens + 1
  task.token, task.woken, task.timed_out = tokens, false, false
  owner[tokens] = task
  return tokens
end

local function raise_if_cancelled(task)
  if task.cancelled then fail("cancelled", "the task was cancelled") end
end

function core.park(timeout)
  local task = current
  raise_if_cancelled(task)
  if not task.woken then
    task.due = timeout and now + timeout
    waiting[task] = true
    if task.is_main then
      task.resumed = false
      repeat step() until task.resumed
      current = task
    else
      coroutine.yield()
    end
  end
  owner[task.token or 0] = nil
  raise_if_cancelled(task)
  return task.woken
end

function core.wake(token)
  local task = owner[token]
  if not task or task.timed_out or task.cancelled then return false end
  owner[token] = nil
  task.woken = true
  if waiting[task] then make_ready(task) end
  return true
end

function core.sleep(seconds)
  core.token()
  core.park(seconds)
end

function core.yield() core.sleep(0) end

function core.shield(fn, ...) return fn(...) end

-- ---------------------------------------------------------------- futures

local Future = {__name = "lp.Future"}
Future.__index = Future

function core.is_future(value) return getmetatable(value) == Future end

function core.future() return setmetatable({callbacks = {}, tokens = {}}, Future) end

function core.resolve(future, ok, ...)
  if future.resolved then return end
  future.resolved, future.ok, future.values = true, ok, table.pack(...)
  for _, callback in ipairs(future.callbacks) do callback(future) end
  for _, token in ipairs(future.tokens) do core.wake(token) end
end

function Future:done() return self.resolved == true end

function Future:add_done_callback(fn)
  if self.resolved then fn(self) else table.insert(self.callbacks, fn) end
end

local function wait_for(future, timeout)
  if future.resolved then return end
  table.insert(future.tokens, core.token())
  if not core.park(timeout) then fail("deadline_exceeded", "future:result") end
end

function Future:result(timeout)
  wait_for(self, timeout)
  if not self.ok then error(self.values[1], 0) end
  return table.unpack(self.values, 1, self.values.n)
end

function Future:exception()
  wait_for(self)
  if not self.ok then return require("lp.error").from(self.values[1]) end
end

function Future:cancel()
  if self.resolved then return false end
  local task = self.task
  if task then
    task.cancelled = true
    if waiting[task] then make_ready(task) end
  else
    core.resolve(self, false, require("lp.error").new("cancelled", "the future was cancelled"))
  end
  return true
end

function core.spawn(fn, ...)
  local future, args = core.future(), table.pack(...)
  ids = ids + 1
  local task = {id = ids}
  task.co = coroutine.create(function()
    core.resolve(future, pcall(fn, table.unpack(args, 1, args.n)))
  end)
  future.task = task
  make_ready(task)
  return future
end

-- ---------------------------------------------------------------- the rest

local context = {}
function core.context() return context end
function core.stopping() return false end

core.logged = {}
function core.log(level, text) table.insert(core.logged, {level = level, text = text}) end

function core.is_client() return false end
function core.map(t) return t end
function core.array(t) return t end
function core.register() end

main.id = 0

return core
