--- What can be asked about a client that is no call of the node's own methods.
-- @module lp.clients

local core = require "lp.core"

local clients = {}

local function check(what, client)
  if core.is_client(client) then return end
  error(("lp.%s: expected a client, got %s"):format(what,
        require("lp.options").describe(client)), 3)
end

--- Is `key` an address, not the key of a node?
local function is_address(key)
  return key:find "^unix:." or key:find "^tcp:.+:%d+$"
end

--- The names that can be called, sorted. Asks the node, and may wait.
function clients.list_methods(client)
  check("list_methods", client)
  local names = core.list_methods(client)
  table.sort(names)
  return names
end

--- Where the node behind a client listens: `unix:PATH`, `tcp:HOST:PORT`, or `inproc:NAME` within
-- one process. Nil for the caller's side of a call, which does not listen. May wait.
function clients.address(client)
  check("address", client)
  local key = core.target(client)
  if not key or is_address(key) then return key end
  return core.client("service", "service"):resolve(key, core.context().pid)
end

--- A client of whoever listens at `address`. Nothing is sent before the first call, which
-- connects, and waits while nobody answers there.
-- @string address `unix:PATH` or `tcp:HOST:PORT`, as lp.address gives it
-- @tparam[opt] table given `timeout` (seconds), `wait_for_ready` (false: a call fails at once
--   when nobody answers)
function clients.connect(address, given)
  if type(address) ~= "string" or not is_address(address) then
    error(("lp.connect: expected an address, unix:PATH or tcp:HOST:PORT, got %s")
          :format(require("lp.options").describe(address)), 2)
  end
  local options = require "lp.options"
  local wanted = options.check("lp.connect", options.call, given or {}, 2)
  local client = core.client(address, address)
  return next(wanted) and core.with(client, wanted) or client
end

--- `"idle"` (no link is needed), `"connecting"`, `"ready"`, `"transient_failure"` (the last try
-- came to nothing) or `"shutdown"` (it has ended for good).
function clients.connection_state(client)
  check("connection_state", client)
  return core.connection_state(client)
end

return clients
