--- A node, as its launcher sees it: started, perhaps more than once, and ended.
--
--     starting -> running -> ending -> ended
--         ^                    |
--         +---- restarting <---+
--
-- `ready` is an event of the state: set when the node runs or has ended, a new one each
-- time it is on its way back. Where it runs is its placement's affair.
-- @module lp.service.node

local core = require "lp.core"
local policy = require "lp.service.policy"
local report = require "lp.report"
local sync = require "lp.sync"
local Unit = require "lp.service.unit"

local host = core.host

local Node = {}
Node.__index = Node

--- A package larger than this is let go of once its node has it, unless the node's policy
-- says it may be needed again.
local KEPT_PACKAGE = 1 << 20

local GRACE = 1 -- seconds between cancelling and killing

--- @tparam table record of lp.launch
function Node.new(run, record)
  local node = setmetatable({
    run = run, record = record, name = record.name, key = run.id .. "/" .. record.name,
    hue = #run.nodes % 6, state = "starting", ready = sync.Event(), since = core.now(),
    policy = policy.of(record.options), history = {}, restarts = 0, failures = 0,
  }, Node)
  node.unit = run.units[record.colocation]
  if node.unit then node.unit:add(node) end
  table.insert(run.nodes, node)
  run.alive = run.alive + 1
  run.by_name[record.name] = node
  return node
end

--- What every node is told about its run.
function Node:spec()
  local record, settings = self.record, self.run.settings
  record.run, record.program = self.run.id, self.run.name
  record.launch_type, record.seed = settings.launch_type, settings.seed
  record.log_level = settings.log_level
  return record
end

--- In the terminal, and where its output goes.
function Node:print(text)
  local key = self.home and self.run.id .. "/" .. self.home.name or self.key
  host.print(2, ("[%s] "):format(self.name), self.hue, text, key)
end

local function set_state(node, name)
  node.state, node.since = name, core.now()
  node.run:touch()
end

-- ---------------------------------------------------------------- starting

function Node:start()
  local ok, err = pcall(self.placement.start, self)
  if not ok then self:ended(1, "it could not be started: " .. tostring(err)) end
end

--- Called by the placement: the node has its package.
function Node:started()
  local retrying = Unit.retrying(self.unit)
  local restartable = self.policy.on_failure == "restart" or retrying and retrying.retries > 0
  if not restartable and #(self.record.bundle or "") > KEPT_PACKAGE then self.record.bundle = nil end
  if self.state ~= "starting" then return end
  self.paused = nil
  set_state(self, "running")
  self.ready:set()
  if self.run.state == "stopping" then self.placement.stop(self) end
end

--- Is it not there, but will be, or will have ended, in a moment?
function Node:is_coming()
  return self.state == "starting" or self.state == "restarting" or self.state == "ending"
end

--- Has it failed, and is to be back?
function Node:is_away()
  return self.state == "restarting" or self.state == "starting" and self.restarts > 0
end

--- Why it is away, for callers.
function Node:absence()
  return ("%s; it is started again"):format(self.last_error or "it was asked to restart")
end

--- From now on whoever asks for the node waits.
local function unready(node, name)
  local ready = node.ready
  node.ready = sync.Event()
  set_state(node, name)
  ready:set()
end

-- ---------------------------------------------------------------- ending

--- It has said how it ended; its process has not yet.
function Node:ending(status, text)
  if self.state == "ended" then return end
  self.said = {status, text}
  if self.state ~= "ending" then unready(self, "ending") end
end

--- Starts it again after `delay` seconds, unless the program stops before.
local function come_back(node, delay)
  unready(node, "restarting")
  node.said, node.restart_asked = nil, nil
  node.restarts = node.restarts + 1
  core.start(function()
    local run, due = node.run, core.now() + delay
    while run.state == "running" and not node.hurried and run:wait_change(due) do end
    node.hurried = nil
    if run.state ~= "running" then return node:gone(1, node.last_error) end
    set_state(node, "starting")
    node:start()
  end)
end

--- What a task is told that is cancelled for a stop (host_nodes.c).
local CANCELLED = "the program is stopping"

--- Did it fail of nothing but the stop: its wait was cancelled, or a node that it called had ended
-- before it? Code that waits in a loop ends so.
function Node:fell_to_stop(text)
  if self.run.state ~= "stopping" then return false end
  local message = report.split(text):gsub("\n%(raised in node %S+%)$", "")
  if message == CANCELLED then return true end
  local other = self.run.by_name[message:match "^node (%S+) is unavailable: "]
  return other ~= nil and other.failures == 0
end

--- The instance has ended: `status` 0 is well, anything else a failure or a kill. `cause` is one
-- for nodes whose common process ended.
function Node:ended(status, text, cause)
  if self.state == "ended" or self.state == "restarting" then return end
  if self.run.state == "running" and self.restart_asked then return come_back(self, 0) end
  if status == 0 or self.was_killed then return self:gone(status, text) end
  if self:fell_to_stop(text) then return self:gone(0, "it ended when the program stopped") end
  self.failures, self.last_error = self.failures + 1, report.ending(text)
  if not self:judge(text, cause) then self:gone(status, text) end
end

--- What the options of the node, or the colocation around it, say about a failure; as
-- policy.decide.
function Node:verdict(cause)
  local unit = not self.record.options.on_failure and Unit.retrying(self.unit)
  if not unit then return policy.decide(self.policy, self.history, core.now()) end
  local again, why = unit:retry(cause)
  if again then return "restart", 0 end
  return "stop", why
end

--- What its failure means. True: it will be back.
function Node:judge(text, cause)
  local message, trace = report.failure(text)
  trace = trace and "\n" .. trace or ""
  if self.run.state ~= "running" or self.dismissed then
    self:print(("node %s failed while %s was stopping: %s")
               :format(self.name, self.dismissed and "it" or "the program", message))
    return false
  end
  local verdict, detail = self:verdict(cause)
  if verdict == "restart" then
    self:print(("node %s failed: %s%s\nIt is started again in %g s (restart %d).")
               :format(self.name, message, trace, detail, self.restarts + 1))
    come_back(self, detail)
    return true
  elseif verdict == "ignore" then
    self:print(("node %s failed, the others go on: %s%s"):format(self.name, message, trace))
    return false
  end
  if detail then message = message .. "; " .. detail end
  self:print(("node %s failed: %s%s"):format(self.name, message, trace))
  self.run.failure = {node = self.name, message = message, trace = trace ~= "" and trace:sub(2) or nil}
  return false
end

--- It has ended for good. A failure that is the program's stops the others.
function Node:gone(status, text)
  if self.state == "ended" then return end
  self.how, self.status = text, status
  host.returns(self.key, false)
  set_state(self, "ended")
  self.ready:set()
  local run = self.run
  if self.unit then self.unit:member_gone(status == 0) end
  self.placement.gone(self)
  run:note_late(self)
  run:node_gone()
  if run.failure then run:stop() end
end

-- ---------------------------------------------------------------- orders from outside

--- Kills the instance; its policy says what comes of that.
function Node:kill(why)
  self.doom = why
  self.placement.destroy(self, why)
end

--- Ends the instance in order, or when it does not within the notice by force. False: it is a
-- thread inside a C function, which cannot be ended.
function Node:dismiss()
  local node = self
  local run, notice, restarts = node.run, node.run.notice, node.restarts
  local function is_over() return node.restarts ~= restarts or node.state == "ended" end
  local function wait(seconds)
    local deadline = seconds and core.now() + seconds
    while not is_over() and run:wait_change(deadline) do end
    return is_over()
  end
  if notice ~= 0 then
    node.placement.stop(node)
    if wait(notice > 0 and notice or nil) then return true end
    node.placement.cancel(node)
    if wait(GRACE) then return true end
  end
  node.placement.destroy(node, "it was killed: it did not stop in time")
  if wait(2 * GRACE) then return true end
  report.warning(("node %s could not be stopped: it is inside a C function"):format(node.name))
  return false
end

--- Ends it and starts it again, whatever its policy. The callers wait until it is back.
function Node:restart()
  if not self.record.bundle then
    error(("node %s: its package of more than %d bytes was not kept; give it on_failure = \"restart\"")
          :format(self.name, KEPT_PACKAGE), 0)
  end
  if self.state == "ended" then
    self.run.alive = self.run.alive + 1
    if self.unit then self.unit:back() end
    return come_back(self, 0)
  end
  if self.state == "restarting" then -- its pause is over
    self.hurried = true
    return self.run:touch()
  end
  if self.restart_asked then return end
  while self:is_coming() do self.ready:wait() end
  self.restart_asked = true
  self.placement.returns(self)
  local restarts = self.restarts
  core.start(function()
    if self:dismiss() then return end
    self.restart_asked = nil
    self.run:touch()
  end)
  while self.restarts == restarts and self.state ~= "ended" do
    if not self.restart_asked then
      error(("node %s could not be stopped: it is inside a C function"):format(self.name), 0)
    end
    self.run:wait_change()
  end
end

--- The seconds its process has not answered for, or nil.
function Node:silence()
  local silent = self.process and self.process.silent
  return silent and core.now() - silent.since
end

--- For lists: plain values only.
function Node:describe()
  return {name = self.name, label = self.record.label, index = self.record.index,
          kind = self.record.kind, state = self.state, seconds = core.now() - self.since,
          pid = self.placement.pid(self), restarts = self.restarts, failures = self.failures,
          last_error = self.last_error, silent = self:silence(),
          ended = self.state == "ended" and report.ending(self.how) or nil}
end

return Node
