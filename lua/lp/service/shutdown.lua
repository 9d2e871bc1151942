--- How a run is stopped: asks, waits for the notice, cancels, kills.
-- @module lp.service.shutdown

local core = require "lp.core"
local report = require "lp.report"

local GRACE = 1 -- seconds between cancelling, killing, and killing from outside

local function names_of(nodes)
  local list = {}
  for i, node in ipairs(nodes) do list[i] = node.name end
  return table.concat(list, ", ")
end

local function each_living(run, action, ...)
  for _, node in ipairs(run:living()) do node.placement[action](node, ...) end
end

--- What could not be stopped is given up: only the end of the process helps.
local function give_up(run)
  for _, node in ipairs(run:living()) do
    report.error(("node %s could not be stopped: it is inside a C function"):format(node.name))
    node.was_killed, node.stuck = true, true
    node:ended(1, "it could not be stopped")
  end
end

local function kill_rest(run, why)
  for _, node in ipairs(run:living()) do
    node.was_killed = true
    if run.notice ~= 0 then table.insert(run.killed, node.name) end
  end
  each_living(run, "kill", why)
  if run:wait_ended(core.now() + GRACE) then return end
  run:kill_processes()
  if not run:wait_ended(core.now() + GRACE) then give_up(run) end
end

--- A task of its own for each run that stops.
return function(run)
  if run.notice ~= 0 then each_living(run, "stop") end
  local deadline = run.notice >= 0 and core.now() + run.notice or nil
  while run.state ~= "ended" and not run.at_once do
    if not run:wait_change(deadline) then break end
  end
  if run.state == "ended" then return end
  if not run.at_once and run.notice > 0 then
    report.warning(("nodes that did not stop within %g s: %s")
                   :format(run.notice, names_of(run:living())))
    run.overdue = core.now() + GRACE -- for those that a node closes itself, see Run:note_late
    each_living(run, "cancel")
    if run:wait_ended(run.overdue) then return end
  end
  kill_rest(run, "it was killed: it did not stop in time")
end
