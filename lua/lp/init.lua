--- The module `lp`: one table whose fields are loaded when first touched.
-- A serving node uses a handful of names; what it does not touch (programs, flags, the
-- command line) never enters its interpreter. Unknown names are nil, as in any table.
-- @module lp

local core = require "lp.core"

--- Where each name lives: the module `home` returns a table with a field of that name.
local homes = {
  now = "lp.core", sleep = "lp.core", yield = "lp.core", spawn = "lp.core", shield = "lp.core",
  context = "lp.core", map = "lp.core", array = "lp.core", register = "lp.core",
  call = "lp.core", defer_reply = "lp.core", stats = "lp.stats",
  list_methods = "lp.clients", address = "lp.clients", connection_state = "lp.clients",

  error = "lp.error", log = "lp.log",
  Event = "lp.sync", Queue = "lp.sync", Semaphore = "lp.sync", every = "lp.sync",
  gather = "lp.futures", wait = "lp.futures", as_completed = "lp.futures",

  stop = "lp.lifecycle", wait_for_stop = "lp.lifecycle", stop_event = "lp.lifecycle",
  register_stop_handler = "lp.lifecycle", unregister_stop_handler = "lp.lifecycle",

  Program = "lp.program",
  LuaNode = "lp.node", LuaClassNode = "lp.node", CourierNode = "lp.node", HostNode = "lp.node",
  CacherNode = "lp.node",
  MultiThreadingColocation = "lp.colocation", MultiProcessingColocation = "lp.colocation",
  Address = "lp.address", deferred = "lp.deferred", flags = "lp.flags",
  launch = "lp.launch", connect = "lp.clients",
}

local lp = {}

--- The same client, or handle, with other call options.
-- @param target a client, or the handle of a node
-- @tparam table options `timeout` (seconds; 0 or nil: none), `wait_for_ready`, …
-- @return a new client or handle; `target` stays as it is
function lp.with(target, options)
  if core.is_client(target) then
    local schema = require "lp.options"
    return core.with(target, schema.check("lp.with", schema.call, options, 2))
  end
  local handle = require "lp.handle"
  if handle.is(target) then
    local changed = handle.with(target, options, 2) -- no tail call: mistakes name our caller
    return changed
  end
  error("lp.with: expected a client or a handle, got " ..
        require("lp.options").describe(target), 2)
end

return setmetatable(lp, {
  __index = function(self, name)
    local home = homes[name]
    if not home then return nil end
    local value = require(home)[name]
    rawset(self, name, value)
    return value
  end,
})
