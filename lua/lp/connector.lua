--- Finds a node of another process, when a client of this interpreter calls it first.
-- @module lp.connector

local core = require "lp.core"

--- Asks the service where the node behind `key` listens, and has the client dial it; `key`
-- may be an address itself.
-- `again`: nobody answered there; the node is ending, or has moved.
return function(client, key, again)
  if key:find "^unix:" or key:find "^tcp:" then
    if not again then return core.dial(client, key) end
    return core.refuse(client, "nobody answers at " .. key)
  end
  local service = core.client("service", "service")
  local ok, answer = pcall(service.resolve, service, key, core.context().pid, again)
  if ok then
    core.dial(client, answer)
  else
    core.refuse(client, rawget(answer, "message") or tostring(answer))
  end
end
