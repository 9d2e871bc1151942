--- Finds a node of another process, when a client of this interpreter calls it first, and again
-- when its link is gone.
-- @module lp.connector

local core = require "lp.core"

--- Asks the service where the node behind `key` listens, and has the client dial it. While the
-- node is away (it is started again after a failure) calls that wait for it do.
-- `again`: nobody answered there; the node is ending, or has moved.
return function(client, key, again)
  local service, pid = core.client("service", "service"), core.context().pid
  local ok, answer, why = pcall(service.resolve, service, key, pid, again, true)
  if ok and not answer then
    if not core.away(client, why) then return end
    ok, answer = pcall(service.resolve, service, key, pid)
  end
  if ok then
    core.dial(client, answer)
  else
    core.refuse(client, rawget(answer, "message") or tostring(answer))
  end
end
