--- The server of a node, for instances that want to own it: an instance with a method
-- `set_courier_server(server)` is given one, and calls are answered from `server:start()` on.
-- Its public methods are bound already; binding again replaces, also while calls run (these
-- finish on the function they began with). `"*"` catches names that are not bound and gets
-- the name first.
-- @module lp.server

local core = require "lp.core"

local Server = {__name = "lp.Server"}
Server.__index = Server

local function check(self, call)
  if getmetatable(self) ~= Server then error("call it with a colon: server:" .. call, 3) end
end

local function check_name(name, what)
  if type(name) ~= "string" or name == "" or name:find "^lp%." then
    error(("server:%s: expected the name of a method (none that begins with lp.), got %s")
          :format(what, require("lp.options").describe(name)), 3)
  end
end

--- Binds a method: `fn(...)` is called with the call's arguments.
function Server:bind(name, fn)
  check(self, "bind(name, fn)")
  check_name(name, "bind")
  if type(fn) ~= "function" then
    error(("server:bind: %s: expected a function, got %s"):format(name,
          require("lp.options").describe(fn)), 2)
  end
  self.bound[name] = fn
  core.rebound()
end

--- Calls of this name are not found from now on. An unknown name is no mistake.
function Server:unbind(name)
  check(self, "unbind(name)")
  check_name(name, "unbind")
  self.bound[name] = nil
  core.rebound()
end

--- The names that are bound, sorted.
function Server:list_methods()
  check(self, "list_methods()")
  local names = {}
  for name in pairs(self.bound) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- Answers calls from now on, those that waited first.
function Server:start()
  check(self, "start()")
  if self.started then error("server:start: the server was started already", 2) end
  self.started = true
  core.serve(self.instance, nil, nil, self.bound)
end

--- Refuses calls from now on; handlers that run finish.
function Server:stop()
  check(self, "stop()")
  if not self.started then error("server:stop: the server was not started", 2) end
  core.unserve()
end

--- Says whether the node is well. It answers calls all the same, but its callers are told: clients
-- with `wait_for_ready = false` fail at once while it is not.
function Server:set_healthy(healthy)
  check(self, "set_healthy(boolean)")
  if type(healthy) ~= "boolean" then error("server:set_healthy: expected true or false", 2) end
  if not self.started then error("server:set_healthy: the server was not started", 2) end
  core.healthy(healthy)
end

--- The server of an instance; `methods` are the names of its public methods.
local function new(instance, methods)
  local bound = {}
  for _, name in ipairs(methods) do
    bound[name] = function(...) return instance[name](instance, ...) end
  end
  bound.__call = bound.__call and function(...) return instance(...) end
  return setmetatable({instance = instance, bound = bound}, Server)
end

return {new = new}
