--- Stopping, as a node sees it: lp.stop, lp.wait_for_stop, lp.stop_event, stop handlers.
-- @module lp.lifecycle

local core = require "lp.core"

local lifecycle = {}

local event
local handlers, told = {}, false
local at_stop = false

--- The engine's mark is set at once, even while this node computes; the event is for those
-- who wait, and made for the first of them: most nodes have none.
local function the_event()
  event = event or require("lp.sync").probed_event(core.stopping)
  return event
end

local function in_node(what)
  if not core.context().node then error(what .. ": only a node of a running program can", 3) end
end

--- Asks for the whole program to be stopped. Returns at once; every node is told,
-- this one too.
-- @string[opt] reason for the log
function lifecycle.stop(reason)
  in_node "lp.stop"
  if reason ~= nil and type(reason) ~= "string" then
    error("lp.stop: the reason must be a text, got " .. type(reason), 2)
  end
  local context = core.context()
  core.client("service", "service").notify:stop_run(context.run, context.node, reason)
end

--- Waits until the program stops.
-- @number[opt] timeout seconds; 0 looks only
-- @treturn boolean true: it stops; false: the time is over
function lifecycle.wait_for_stop(timeout)
  if timeout ~= nil then require("lp.options").check_timeout("lp.wait_for_stop", timeout, 2) end
  return the_event():wait(timeout)
end

--- The event that is set when the program stops.
function lifecycle.stop_event()
  return the_event()
end

--- Has `fn` called when the program stops: once, in the order registered, each in a task
-- of its own. Registered after the stop began, it is called right away.
function lifecycle.register_stop_handler(fn)
  if type(fn) ~= "function" then
    error("lp.register_stop_handler: expected a function, got " .. type(fn), 2)
  end
  if told then return core.start(fn) end
  handlers[#handlers + 1] = fn
end

--- Takes a handler back. Unknown ones are ignored.
function lifecycle.unregister_stop_handler(fn)
  for i, handler in ipairs(handlers) do
    if handler == fn then return table.remove(handlers, i) and nil end
  end
end

--- A handler's error is logged: it must not keep the others from being called.
local function run_handlers()
  told = true
  for _, fn in ipairs(handlers) do
    local ok, err = xpcall(fn, core.handler)
    if not ok then core.log("error", "in a stop handler: " .. tostring(err)) end
  end
  handlers = {}
end

--- Called by the engine in a task of its own when the program stops.
function lifecycle.stopped()
  if event then event:set() end
  run_handlers()
  if at_stop then core.finish() end
end

--- For nodes without `run`: they end when the program stops.
function lifecycle.finish_at_stop()
  at_stop = true
  if told then core.finish() end
end

return lifecycle
