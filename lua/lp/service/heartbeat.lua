--- Do the processes of a run still answer? Each is asked once a second, and its service thread
-- answers, whatever its nodes compute: a process that is silent is stopped, or its machine is.
-- That is said in the log, and to everybody who has clients of its nodes. It is not a failure: after
-- a SIGCONT all goes on.
-- @module lp.service.heartbeat

local core = require "lp.core"
local report = require "lp.report"

local host = core.host

local heartbeat = {}

local TICK = 1  -- seconds between questions
local LIMIT = 3 -- seconds without an answer that are silence

-- ---------------------------------------------------------------- counting

local Pulse = {}
Pulse.__index = Pulse

--- How long somebody has been silent.
function heartbeat.pulse()
  return setmetatable({waited = 0, silent = false}, Pulse)
end

--- `elapsed` more seconds have gone by without an answer. True when that has become a silence. A
-- launcher that was stopped itself, or slept with its machine, must not take its own absence for
-- that of others: so one look counts a tick at most.
function Pulse:waits(elapsed)
  self.waited = self.waited + math.min(elapsed, TICK)
  if self.silent or self.waited < LIMIT then return false end
  self.silent = true
  return true
end

--- An answer came. True when that ends a silence.
function Pulse:answers()
  local ended = self.silent
  self.waited, self.silent = 0, false
  return ended
end

-- ---------------------------------------------------------------- telling

--- Whoever may have clients of the process's nodes.
local function tell(process, key, why)
  host.silence(key, why)
  for other in pairs(process.run.processes) do
    if other ~= process and other.worker then
      pcall(core.call, other.worker.notify, "silence", key, why)
    end
  end
end

--- Is it stopped, by what the system knows of it?
local function is_stopped(pid)
  local file = io.open(("/proc/%d/stat"):format(pid))
  local line = file and file:read "a" or ""
  if file then file:close() end
  return line:match("^.*%) (%a)") == "T"
end

local function names(process)
  local list = {}
  for i, node in ipairs(process.nodes) do list[i] = node.name end
  return (#list == 1 and "node " or "nodes ") .. table.concat(list, ", ")
end

local function fall_silent(process)
  local why = is_stopped(process.pid) and ("its process %d is stopped"):format(process.pid) or
              ("its process %d has not answered for %d s"):format(process.pid, LIMIT)
  process.silent = {since = core.now() - LIMIT, why = why, keys = {}}
  report.warning(("%s: %s"):format(names(process), why))
  for i, node in ipairs(process.nodes) do
    process.silent.keys[i] = node.key
    tell(process, node.key, why)
  end
  process.run:touch()
end

--- It answers again, or its link has gone, and is no silence any more.
local function be_heard(process, answers)
  local silent = process.silent
  if not silent then return end
  process.silent = nil
  for _, key in ipairs(silent.keys) do tell(process, key, nil) end
  if answers then
    report.info(("%s: process %d answers again, after %.1f s")
                :format(names(process), process.pid, core.now() - silent.since))
  end
  process.run:touch()
end

--- A process that has just come hears who is silent.
local function brief(process)
  for other in pairs(process.run.processes) do
    for _, key in ipairs(other.silent and other.silent.keys or {}) do
      pcall(core.call, process.worker.notify, "silence", key, other.silent.why)
    end
  end
end

-- ---------------------------------------------------------------- asking

--- One question and its answer, however long that takes.
local function ask(process, pulse)
  local answer = process.worker.futures:alive()
  repeat
    local since = core.now()
    pcall(answer.result, answer, TICK)
    if not answer:done() and pulse:waits(core.now() - since) then fall_silent(process) end
  until answer:done()
  if pulse:answers() then be_heard(process, not answer:exception()) end
end

--- Watches over a process as long as it has a link. Called in a task of its own.
function heartbeat.watch(process)
  local pulse = heartbeat.pulse()
  brief(process)
  while process.worker do
    pcall(ask, process, pulse)
    core.sleep(TICK)
  end
  be_heard(process)
end

return heartbeat
