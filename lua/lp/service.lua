--- The policy of a launcher: which nodes run where, what a failure means, how a program
-- ends, what is reported. Runs in the service's own interpreter on the service thread,
-- beside no user code; its methods are called by the main chunk (lp.launch), by nodes
-- (resolve, stop_run) and by node processes (lp.worker).
-- @module lp.service

local core = require "lp.core"
local Node = require "lp.service.node"
local Run = require "lp.service.run"
local Unit = require "lp.service.unit"
local command = require "lp.service.command"
local processes = require "lp.service.processes"
local prompt = require "lp.service.prompt"
local report = require "lp.report"
local state = require "lp.service.state"
local terminal = require "lp.service.terminal"
local threads = require "lp.service.threads"

local host = core.host
local runs = state.runs

local GRACE = 1 -- seconds that something which is about to end gets for it

local service = {}

local signalled -- first signal that asked for the end

--- A new run's id.
function service:new_run(name)
  return Run.new(name).id
end

--- Folders of the runs that live on this machine, by id.
function service:runs_here()
  return host.runs()
end

function service:free_port()
  return host.free_port()
end

function service:add_node(run_id, record)
  local kind = record.how and Unit or Node
  kind.new(runs[run_id], record)
end

--- A node process is up: gives it its node. Called by the process over its own link.
function service:register(token)
  processes.register(token, core.caller())
end

--- A node's own word about its end; its process leaves after that.
function service:node_ended(key, status, text)
  processes.said(state.node(key), status, text)
end

-- ---------------------------------------------------------------- launching

--- The program, a node or a unit that has a process to itself: `home` of its nodes; or nil for
-- those in threads of ours. Nodes share the process of the outermost unit whose threads they
-- are, unless one further inside puts them in processes.
local function home_of(place, in_process)
  local unit = place.parent or place.unit
  if not unit then return in_process and place or nil end
  return unit.separate and place or home_of(unit, in_process)
end

local function settle_places(run)
  local in_process = run.settings.launch_type:find "_mp$" ~= nil
  for _, node in ipairs(run.nodes) do
    -- The thread of a program that embeds the engine is in this process only.
    local here = core.native and node.record.options.loop == "host"
    node.home = not here and home_of(node, in_process) or nil
    node.placement = node.home and processes or threads
  end
end

--- Opens the run to those who look for it: its control socket and its manifest. Nodes in threads do
-- without, should that fail.
local function announce(run)
  run.started, run.started_at = os.time(), core.now()
  local ok, err = pcall(run.control_path, run)
  if ok then
    ok, err = pcall(host.rundir_write, run.id, "manifest", require("lp.control").manifest(run))
  end
  if not ok then report.warning("this run cannot be reached by other commands: " .. tostring(err)) end
end

function service:launch_run(run_id, settings)
  local run = runs[run_id]
  run.settings, run.notice = settings, settings.notice or 10
  settings.seed = settings.seed or math.random(0)
  if settings.spin then host.spin(settings.spin) end
  host.metrics(settings.metrics ~= "off")
  run.folder = host.rundir(run_id)
  announce(run)
  run.state = "running"
  settle_places(run)
  terminal.open(run)
  for _, node in ipairs(run.nodes) do node:start() end
end

--- A node that does not answer is ending: how is known in a moment.
local function wait_for_end(node)
  local deadline, restarts = core.now() + GRACE, node.restarts
  while node.state == "running" and node.restarts == restarts do
    if not node.run:wait_change(deadline) then return end
  end
end

--- Where the node behind `key` can be reached by the process `pid` (nil: this one). Waits for a
-- node that is being started, also again after a failure. `again`: it did not answer where
-- it was said to be. `away`: for one that is to be started again, answers false and why at once.
function service:resolve(key, pid, again, away)
  local node = state.node(key)
  if not node then error(("unknown node %s"):format(key:match("/(.*)$") or key), 0) end
  if again then wait_for_end(node) end
  local ok, found
  for _ = 1, 2 do
    if away and node:is_away() then return false, node:absence() end
    while node:is_coming() do node.ready:wait() end
    if node.state == "ended" then error(report.ending(node.how), 0) end
    ok, found = pcall(node.placement.address, node, pid == nil or pid == host.pid())
    if ok then return found end
    wait_for_end(node)
  end
  error(found, 0)
end

-- ---------------------------------------------------------------- stopping

--- Asks a run to stop. `who` and `reason` are for the log.
function service:stop_run(run_id, who, reason)
  local run = runs[run_id]
  if not run or run.state ~= "running" then return end
  if reason then report.info(("%s stops the program: %s"):format(who, reason)) end
  run:stop()
end

local function living_node(run_id, name)
  local run = runs[run_id]
  local node = run and run.by_name[name]
  if not node then error(("no node %s in run %s"):format(name, run_id), 0) end
  if run.state ~= "running" then error(("the program stops, and node %s with it"):format(name), 0) end
  return node
end

--- Kills a node; its on_failure says what comes of that. `who` is for the log.
function service:kill_node(run_id, name, who)
  local node = living_node(run_id, name)
  if node.state == "ended" then
    error(("node %s has ended already: %s"):format(name, report.ending(node.how)), 0)
  end
  node:kill("it was killed by " .. who)
end

--- Stops a node (its notice is the program's), starts it again and waits until it runs. A node
-- that has ended is started, too.
function service:restart_node(run_id, name, who)
  local node = living_node(run_id, name)
  report.info(("%s restarts node %s"):format(who, name))
  node:restart()
  while node:is_coming() do node.ready:wait() end
  if node.state == "ended" then error(report.ending(node.how), 0) end
end

--- Gives a node new code. `modules` are names of modules whose files have changed; `bundle` (or nil)
-- is what it is started from when it is started again.
function service:reload_node(run_id, name, code, modules, bundle)
  local node = living_node(run_id, name)
  local count = require("lp.control").ask(node, 10, "lp.reload", code, modules)
  if node.record.bundle and bundle then node.record.bundle = bundle end
  return count
end

--- The nodes of a run in plain values.
function service:describe_nodes(run_id)
  local list = {}
  for i, node in ipairs(runs[run_id].nodes) do list[i] = node:describe() end
  return list
end

-- ---------------------------------------------------------------- waiting for ends

--- Has a node ended, or the outermost colocation it is in?
local function is_over(node)
  local unit = node.unit
  if not unit then return node.state == "ended" end
  while unit.parent do unit = unit.parent end
  return unit.completed == true
end

--- Have all (or with `first` any) of the nodes with these labels ended?
local function labels_ended(run, labels, first)
  local wanted = {}
  for _, label in ipairs(labels) do wanted[label] = true end
  local ended, all = false, true
  for _, node in ipairs(run.nodes) do
    if wanted[node.record.label] then
      if is_over(node) then ended = true else all = false end
    end
  end
  if first then return ended end
  return all
end

local function wait_over(run, wanted)
  if run.state == "ended" then return true end
  if wanted.failure then return run.failure ~= nil end
  if not wanted.labels and not wanted.return_on_first_completed then return false end
  if run.failure and not wanted.raised then return true end
  local labels = wanted.labels
  if not labels then
    labels = {}
    for i, node in ipairs(run.nodes) do labels[i] = node.record.label end
  end
  return labels_ended(run, labels, wanted.return_on_first_completed)
end

function service:wait_run(run_id, wanted)
  local run = runs[run_id]
  local deadline = wanted.timeout and core.now() + wanted.timeout
  while not wait_over(run, wanted) do
    if not run:wait_change(deadline) then return run:outcome(true) end
  end
  return run:outcome(false)
end

-- ---------------------------------------------------------------- the command

--- The main chunk's node, so that a signal can end it; `id` is the engine's.
function service:adopt_main(id)
  service.main = id
end

--- The main chunk runs its script again, see lp.evaluation.
function service:script_begins(files)
  return require("lp.evaluation").supervise(service.main, files)
end

function service:script_ended(statement)
  require("lp.evaluation").ended(statement)
end

--- What is stopping already gets no more than these seconds.
local function hasten(run, notice)
  core.sleep(notice)
  run.at_once = true
  run:touch()
end

--- A prompt of this command asks for a line, see lp.service.prompt.
function service:prompt_ready()
  prompt.ready(service.main)
end

--- How often Ctrl-C was pressed since.
function service:prompt_asked()
  return prompt.asked()
end

--- Stops what still runs and waits for its end; for the end of the command, or of the engine in
-- another program, which gives its own notice. Returns the names of nodes that could not be
-- stopped.
function service:close_all(notice)
  for _, run in pairs(runs) do
    if notice and run.state == "stopping" then core.start(hasten, run, notice) end
    if notice and run.state == "running" then run.notice = notice end
    run:stop()
  end
  for _, run in pairs(runs) do
    if run.state ~= "ended" and run.state ~= "new" then run:wait_ended() end
  end
  local stuck = {}
  for _, run in pairs(runs) do
    for _, node in ipairs(run.nodes) do
      -- (It may have come out of its C function since.)
      if node.stuck and (not node.id or state.thread_nodes[node.id]) then stuck[#stuck + 1] = node.name end
    end
  end
  return stuck
end

--- No program runs: the main chunk is ended, or when it is inside of a C function, left.
local function end_main(number)
  core.command.status(128 + number)
  if service.main then host.kill(service.main, "it was ended by a signal") end
  core.sleep(GRACE)
  core.command.abandon()
end

--- A main chunk that waits for its programs ends with them; any other is ended a moment later.
local function end_main_behind(number)
  for _, run in pairs(runs) do
    if run.state ~= "new" then run:wait_ended() end
  end
  core.sleep(GRACE)
  end_main(number)
end

local function on_signal(number)
  if number == 2 and prompt.interrupt() then return end
  local running = false
  for _, run in pairs(runs) do
    if run.state == "running" or run.state == "stopping" then
      running = true
      run.signal = run.signal or number
      if signalled or number == 3 then
        run.at_once = true
        run:touch()
      end
    end
  end
  if not running then
    signalled = signalled or number
    return end_main(number)
  end
  if not signalled and number == 2 then
    report.line("\nStopping the program at the user's request; press Ctrl-C again to kill it.")
  end
  if not signalled then core.start(end_main_behind, number) end
  signalled = signalled or number
  for _, run in pairs(runs) do run:stop() end
  if number == 3 then
    for _, run in pairs(runs) do run.at_once = true; run:touch() end
  end
end

local function on_event(kind, first, second, name, text)
  if kind == "node" then
    threads.ended(first, second, text)
    if name == "main" and second ~= 0 and not signalled then report.line("lp: " .. text) end
  elseif kind == "child" then
    local pid = tonumber(name)
    if not command.exited(pid, first, second) then processes.exited(pid, first, second) end
  elseif kind == "answer" then
    require("lp.asking").answered(first, second, text)
  elseif kind == "signal" then
    on_signal(first)
  end
end

--- Starts the policy; the main task of the service's node.
function service.boot()
  require "lp.error"
  require "lp.require"
  host.events(on_event)
  host.watchdog()
  core.serve(service)
  host.sweep()
end

return service
