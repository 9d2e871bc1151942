--- A run: a launched program, as its launcher sees it.
-- @module lp.service.run

local core = require "lp.core"
local shutdown = require "lp.service.shutdown"
local terminal = require "lp.service.terminal"
local state = require "lp.service.state"
local sync = require "lp.sync"

local host = core.host

local Run = {}
Run.__index = Run

--- Letters and digits of a name, for a folder's.
local function slug(name)
  return name:gsub("[^%w_-]", "_"):sub(1, 24)
end

--- Its folder is made at launch.
function Run.new(name)
  local id = ("%s-%d-%d"):format(slug(name), host.pid(), host.serial())
  local run = setmetatable({id = id, name = name, nodes = {}, by_name = {}, units = {}, processes = {},
                            state = "new", alive = 0, killed = {}, changed = sync.Event()}, Run)
  state.runs[id] = run
  return run
end

--- Something about the run has changed: whoever waits looks again.
function Run:touch()
  local changed = self.changed
  self.changed = sync.Event()
  changed:set()
end

--- Waits for a change, or `deadline` (nil: for ever). False: it has come.
function Run:wait_change(deadline)
  local left = deadline and deadline - core.now()
  if left and left <= 0 then return false end
  self.changed:wait(left)
  return true
end

--- Waits until the run has ended, or `deadline` (nil: for ever) has come.
function Run:wait_ended(deadline)
  while self.state ~= "ended" do
    if not self:wait_change(deadline) then return false end
  end
  return true
end

--- A node that has ended. A task that swallows its cancellation is closed by its own node after the
-- same second as here, before the order to kill it comes or behind it: it was killed in either case.
function Run:note_late(node)
  if not self.overdue or node.was_killed or core.now() < self.overdue then return end
  node.was_killed = true
  table.insert(self.killed, node.name)
end

function Run:living()
  local list = {}
  for _, node in ipairs(self.nodes) do
    if node.state ~= "ended" then list[#list + 1] = node end
  end
  return list
end

--- Where the service listens for the run's processes.
function Run:control_path()
  if not self.control then
    local path = self.folder .. "/control"
    host.listen(0, path)
    self.control = path
  end
  return self.control
end

--- A path for one more socket.
function Run:socket_path()
  return ("%s/s%d"):format(self.folder, state.serial())
end

--- What `wait_run` answers.
function Run:outcome(timed_out)
  return {ended = self.state == "ended", failure = self.failure, signal = self.signal,
          killed = self.killed, timed_out = timed_out}
end

--- Asks the nodes to stop, and sees to it that they do.
function Run:stop()
  if self.state ~= "running" then return end
  core.start(shutdown, self) -- first: without memory it raises, and can be tried again
  self.state = "stopping"
  self:touch()
end

--- One node less; the last one ends the run, once the processes have ended, too.
function Run:node_gone()
  self.alive = self.alive - 1
  self:finish_if_over()
  self:touch()
end

function Run:process_started(process)
  self.processes[process] = true
end

function Run:process_gone(process)
  self.processes[process] = nil
  self:finish_if_over()
  self:touch()
end

--- Kills every process of the run.
function Run:kill_processes()
  for process in pairs(self.processes) do process:kill() end
end

--- The last node and the last process have ended.
function Run:finish_if_over()
  if self.alive > 0 or next(self.processes) or self.finishing then return end
  self.finishing = true
  if not terminal.lingers(self) then return self:finish() end
  core.start(function()
    terminal.close(self)
    self:finish()
    self:touch()
  end)
end

function Run:finish()
  self.state = "ended"
  host.unroute(self.id)
  if self.control then host.unlisten(self.control) end
  if self.folder then host.rundir_remove(self.id) end
  host.forget(self.id)
end

return Run
