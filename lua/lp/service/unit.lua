--- A colocation, as its launcher sees it: what its nodes share. A failure policy
-- (MultiProcessingColocation), a process (MultiThreadingColocation under local_mp), an end.
-- @module lp.service.unit

local core = require "lp.core"

local Unit = {}
Unit.__index = Unit

--- @tparam table record of lp.launch
function Unit.new(run, record)
  local how = record.how
  local unit = setmetatable({
    run = run, record = record, name = record.name, parent = run.units[record.colocation],
    separate = record.kind == "MultiProcessingColocation",
    first = how.return_on_first_completed, retries = how.num_retries_on_failure or 0, retried = 0,
    nodes = {}, -- all that run, at any depth
    left = 0,   -- members (nodes and units) that have not ended
  }, Unit)
  if unit.parent then unit.parent.left = unit.parent.left + 1 end
  run.units[record.name] = unit
  return unit
end

--- Enters a node, here and further outside.
function Unit:add(node)
  self.left = self.left + 1
  local unit = self
  while unit do
    table.insert(unit.nodes, node)
    unit = unit.parent
  end
end

--- A member is there again after its end.
function Unit:back()
  if self.left == 0 and self.parent then self.parent:back() end
  self.left = self.left + 1
end

--- A member has ended.
function Unit:member_gone(well)
  self.left = self.left - 1
  if self.first and well then self:complete() end
  if self.left > 0 then return end
  self.completed = true
  if self.parent then self.parent:member_gone(well) end
end

--- The first has completed: the others are asked to stop, as at the end of a program.
function Unit:complete()
  if self.completed then return end
  self.completed = true
  for _, node in ipairs(self.nodes) do
    if node.state ~= "ended" then
      node.dismissed = true
      core.start(node.dismiss, node)
    end
  end
end

--- May the node that failed be started again? Failures of one `cause` (a process that several
-- nodes shared) count once.
-- @treturn boolean, and the reason in words when not
function Unit:retry(cause)
  if cause and cause == self.cause then return true end
  if self.retried >= self.retries then
    return false, ("num_retries_on_failure (=%d) is reached."):format(self.retries)
  end
  self.retried, self.cause = self.retried + 1, cause
  return true
end

--- The unit around a node or unit that retries, or nil.
function Unit.retrying(unit)
  while unit and not unit.separate do unit = unit.parent end
  return unit
end

return Unit
