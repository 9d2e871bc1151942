--- Runs a program for the launcher itself and waits for it. What it prints is not shown.
-- @module lp.service.command

local core = require "lp.core"
local sync = require "lp.sync"

local host = core.host
local command = {}
local waiting = {} -- pid -> {ended = Event, status =}

--- @treturn boolean did it end with status 0?
function command.run(...)
  local argv = {"sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh", ...}
  local ok, pid = pcall(host.spawn, "sh", argv, host.environment(), "", -1)
  if not ok then return false end
  local record = {ended = sync.Event()}
  waiting[pid] = record
  record.ended:wait()
  return record.status == 0
end

--- The engine's word that a child has ended; false: it is none of these.
function command.exited(pid, status, signal)
  local record = waiting[pid]
  if not record then return false end
  waiting[pid] = nil
  record.status = signal == 0 and status or -1
  record.ended:set()
  return true
end

return command
