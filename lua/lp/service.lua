--- The policy of a launcher: which nodes run where, what a failure means, how a program
-- ends, what is reported. Runs in the service's own interpreter on the service thread,
-- beside no user code; its methods are called by the main chunk (lp.launch), by nodes
-- (resolve, stop_run) and by node processes (lp.worker).
-- @module lp.service

local core = require "lp.core"
local hosting = require "lp.hosting"
local report = require "lp.report"
local sync = require "lp.sync"

local host = core.host

local SIGKILL = 9
local GRACE = 1 -- seconds between cancelling, killing, and killing from outside

local service = {}

local runs = {}      -- run id -> Run
local thread_nodes = {} -- engine's node id -> Node
local processes = {} -- pid -> Node
local tokens = {}    -- token -> Node whose process has not registered yet
local serial = 0     -- of runs and sockets
local signalled      -- first signal that asked for the end

-- ---------------------------------------------------------------- runs

local Run = {}
Run.__index = Run

--- Something about the run has changed: whoever waits looks again.
function Run:touch()
  local changed = self.changed
  self.changed = sync.Event()
  changed:set()
end

function Run:living()
  local list = {}
  for _, node in ipairs(self.nodes) do
    if node.state ~= "ended" then list[#list + 1] = node end
  end
  return list
end

local function outcome(run, timed_out)
  return {ended = run.state == "ended", failure = run.failure, signal = run.signal,
          killed = run.killed, timed_out = timed_out}
end

--- The last node has ended.
function Run:finish()
  if self.state == "ended" then return end
  self.state = "ended"
  if self.control then host.unlisten(self.control) end
  if self.folder then host.rundir_remove(self.id) end
  host.forget(self.id)
  self:touch()
end

--- Letters and digits of a name, for a folder's.
local function slug(name)
  return name:gsub("[^%w_-]", "_"):sub(1, 24)
end

--- A new run's id. Its folder is made at launch.
function service:new_run(name)
  serial = serial + 1
  local id = ("%s-%d-%d"):format(slug(name), host.pid(), serial)
  runs[id] = setmetatable({id = id, name = name, nodes = {}, by_name = {}, state = "new", alive = 0,
                           killed = {}, changed = sync.Event()}, Run)
  return id
end

function service:free_port()
  return host.free_port()
end

-- ---------------------------------------------------------------- nodes

local Node = {}
Node.__index = Node

function service:add_node(run_id, record)
  local run = runs[run_id]
  local node = setmetatable({run = run, record = record, name = record.name, state = "starting",
                             key = run_id .. "/" .. record.name, hue = #run.nodes % 6,
                             ready = sync.Event()}, Node)
  table.insert(run.nodes, node)
  run.alive = run.alive + 1
  run.by_name[record.name] = node
end

--- What every node is told about its run.
function Node:spec()
  local record, settings = self.record, self.run.settings
  record.run, record.program = self.run.id, self.run.name
  record.launch_type, record.seed = settings.launch_type, settings.seed
  record.log_level = settings.log_level
  return record
end

function Node:print(text)
  host.print(2, ("[%s] "):format(self.name), self.hue, text)
end

--- The node has ended: `status` 0 is well, anything else a failure or a kill.
function Node:ended(status, text)
  if self.state == "ended" then return end
  self.state, self.how = "ended", text
  self.ready:set()
  local run = self.run
  if status ~= 0 and not self.was_killed then self:failed(text) end
  run.alive = run.alive - 1
  if run.alive == 0 then run:finish() end
  run:touch()
end

--- The first failure is the program's; it stops the others. Later ones are logged.
function Node:failed(text)
  local run = self.run
  local message, trace = report.split(text)
  if run.state == "stopping" or run.state == "ended" then
    self:print(("node %s failed while the program was stopping: %s"):format(self.name, message))
    return
  end
  run.failure = {node = self.name, message = message, trace = trace}
  self:print(("node %s failed: %s%s"):format(self.name, message, trace and "\n" .. trace or ""))
  run:stop()
end

-- ---------------------------------------------------------------- placement: threads

local threads = {}

function threads.start(node)
  node.id = hosting.start(node:spec(), node.key, node.run.settings.threads or 64)
  thread_nodes[node.id] = node
  node.record.bundle = nil
  node.state = "running"
  node.ready:set()
end

function threads.stop(node) host.stop(node.id) end
function threads.cancel(node) host.cancel(node.id) end
function threads.kill(node, why) host.kill(node.id, why) end

--- A thread cannot be killed from outside.
function threads.force() end

function threads.address(node, same_process)
  if same_process then return "inproc:" .. node.key end
  if not node.path then
    serial = serial + 1
    local path = ("%s/s%d"):format(node.run.folder, serial)
    host.listen(node.id, path)
    node.path = path
  end
  return "unix:" .. node.path
end

-- ---------------------------------------------------------------- placement: processes

local separate = {}

local function environment(node, token)
  local env = host.environment()
  local function set(name, value) env[#env + 1] = name .. "=" .. value end
  for i = #env, 1, -1 do
    local name = env[i]:match("^[^=]*")
    if name:find("^LP_NODE_") or node.record.env and node.record.env[name] then
      table.remove(env, i)
    end
  end
  for name, value in pairs(node.record.env or {}) do set(name, value) end
  set("LP_NODE_ADDRESS", "unix:" .. node.run.control)
  set("LP_NODE_TOKEN", token)
  set("LP_NODE_FOLDER", node.run.folder)
  if node.run.settings.spin then set("LP_NODE_SPIN", node.run.settings.spin) end
  return env
end

local function new_token()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  return (file:read(16):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

function separate.start(node)
  local run = node.run
  if not run.control then
    run.control = run.folder .. "/control"
    host.listen(0, run.control)
  end
  local token = new_token()
  local command = os.getenv("LP_COMMAND") or host.command()
  tokens[token] = node
  node.token = token
  local ok, pid = pcall(host.spawn, command, {command, "--node"}, environment(node, token),
                        ("[%s] "):format(node.name), node.hue)
  if not ok then
    tokens[token] = nil
    return node:ended(1, "it could not be started: " .. rawget(pid, "message"))
  end
  node.pid = pid
  processes[pid] = node
end

--- A node process is up: gives it its node. Called by the process over its own link.
function service:register(token)
  local node = tokens[token]
  if not node then error("this token was not given out, or was used already", 0) end
  tokens[token] = nil
  node.worker = core.caller()
  core.on_close(node.worker, function() separate.lost(node) end)
  local spec = node:spec()
  core.start(function()
    local ok, err = pcall(node.worker.start_node, node.worker, node.key, spec,
                          node.run.settings.threads or 64)
    node.record.bundle = nil
    if not ok then return node:ended(1, tostring(err)) end
    if node.state ~= "starting" then return end
    node.state = "running"
    node.ready:set()
    if node.run.state == "stopping" then separate.stop(node) end
  end)
end

--- The node's own word about its end; its process leaves after that.
function service:node_ended(key, status, text)
  local run_id, name = key:match("^([^/]+)/(.*)$")
  local node = runs[run_id].by_name[name]
  node.said = {status, text}
end

--- Both the link and the process have to be gone before it is known how the node ended.
function separate.settle(node)
  if node.worker or not node.exit then return end
  if node.said then return node:ended(node.said[1], node.said[2]) end
  local text = report.exit(node.exit.status, node.exit.signal)
  node:ended(1, text)
end

function separate.lost(node)
  node.worker = nil
  separate.settle(node)
end

function separate.exited(node, status, signal)
  processes[node.pid] = nil
  if node.token then tokens[node.token] = nil end
  node.exit = {status = status, signal = signal}
  separate.settle(node)
end

local function tell(node, method, ...)
  if node.worker then pcall(core.call, node.worker.notify, method, node.key, ...) end
end

function separate.stop(node) tell(node, "stop_node") end
function separate.cancel(node) tell(node, "cancel_node") end

function separate.kill(node, why)
  if node.run.notice == 0 or not node.worker then return separate.force(node) end
  tell(node, "kill_node", why)
end

function separate.force(node)
  if node.pid then host.signal(node.pid, SIGKILL, true) end
end

function separate.address(node)
  if not node.path then
    serial = serial + 1
    local path = ("%s/s%d"):format(node.run.folder, serial)
    node.worker:listen(node.key, path)
    node.path = path
  end
  return "unix:" .. node.path
end

local placements = {local_mt = threads, test_mt = threads, local_mp = separate,
                    test_mp = separate}

-- ---------------------------------------------------------------- launching

function service:launch_run(run_id, settings)
  local run = runs[run_id]
  run.settings, run.notice = settings, settings.notice or 10
  settings.seed = settings.seed or math.random(0)
  if settings.spin then host.spin(settings.spin) end
  run.placement = placements[settings.launch_type]
  run.folder = host.rundir(run_id)
  run.state = "running"
  for _, node in ipairs(run.nodes) do
    local ok, err = pcall(run.placement.start, node)
    if not ok then node:ended(1, "it could not be started: " .. tostring(err)) end
  end
end

--- A node that does not answer is ending: how is known in a moment.
local function wait_for_end(node)
  local deadline = core.now() + GRACE
  while node.state ~= "ended" and not node.said and core.now() < deadline do
    node.run.changed:wait(deadline - core.now())
  end
end

--- Where the node behind `key` can be reached by the process `pid` (nil: this one). `again`: it
-- did not answer where it was said to be.
function service:resolve(key, pid, again)
  local run_id, name = key:match("^([^/]+)/(.*)$")
  local node = run_id and runs[run_id] and runs[run_id].by_name[name]
  if not node then error(("unknown node %s"):format(name or key), 0) end
  if node.state == "starting" then node.ready:wait() end
  if again then wait_for_end(node) end
  local ok, found
  if node.state ~= "ended" and not node.said then
    ok, found = pcall(node.run.placement.address, node, pid == nil or pid == host.pid())
    if not ok then wait_for_end(node) end
  end
  local how = node.state == "ended" and node.how or node.said and node.said[2]
  if how then error(report.ending(how), 0) end
  if not ok then error(found, 0) end
  return found
end

-- ---------------------------------------------------------------- stopping

--- Waits until the run has ended, or `deadline` (nil: for ever) has come.
local function wait_ended(run, deadline)
  while run.state ~= "ended" do
    local left = deadline and deadline - core.now()
    if left and left <= 0 then return false end
    run.changed:wait(left)
  end
  return true
end

local function names_of(nodes)
  local list = {}
  for i, node in ipairs(nodes) do list[i] = node.name end
  return table.concat(list, ", ")
end

local function each_living(run, action, ...)
  for _, node in ipairs(run:living()) do run.placement[action](node, ...) end
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
  if wait_ended(run, core.now() + GRACE) then return end
  each_living(run, "force")
  if not wait_ended(run, core.now() + GRACE) then give_up(run) end
end

--- Asks, waits for the notice, cancels, kills.
local function shut_down(run)
  if run.notice ~= 0 then each_living(run, "stop") end
  local deadline = run.notice >= 0 and core.now() + run.notice or nil
  while run.state ~= "ended" and not run.at_once do
    local left = deadline and deadline - core.now()
    if left and left <= 0 then break end
    run.changed:wait(left)
  end
  if run.state == "ended" then return end
  if not run.at_once and run.notice > 0 then
    report.warning(("nodes that did not stop within %g s: %s")
                   :format(run.notice, names_of(run:living())))
    each_living(run, "cancel")
    if wait_ended(run, core.now() + GRACE) then return end
  end
  kill_rest(run, "it was killed: it did not stop in time")
end

function Run:stop()
  if self.state ~= "running" then return end
  self.state = "stopping"
  self:touch()
  core.start(shut_down, self)
end

--- Asks a run to stop. `who` and `reason` are for the log.
function service:stop_run(run_id, who, reason)
  local run = runs[run_id]
  if not run or run.state ~= "running" then return end
  if reason then report.info(("%s stops the program: %s"):format(who, reason)) end
  run:stop()
end

-- ---------------------------------------------------------------- waiting for ends

--- Have all (or with `first` any) of the nodes with these labels ended?
local function labels_ended(run, labels, first)
  local wanted = {}
  for _, label in ipairs(labels) do wanted[label] = true end
  local ended, all = false, true
  for _, node in ipairs(run.nodes) do
    if wanted[node.record.label] then
      if node.state == "ended" then ended = true else all = false end
    end
  end
  if first then return ended end
  return all
end

local function wait_over(run, wanted)
  if run.state == "ended" then return true end
  if wanted.failure then return run.failure ~= nil end
  if not wanted.labels and not wanted.return_on_first_completed then return false end
  if run.failure then return true end
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
    local left = deadline and deadline - core.now()
    if left and left <= 0 then return outcome(run, true) end
    run.changed:wait(left)
  end
  return outcome(run, false)
end

-- ---------------------------------------------------------------- the command

--- The main chunk's node, so that a signal can end it; `id` is the engine's.
function service:adopt_main(id)
  service.main = id
end

--- Kills what still runs and waits for it; for the end of the command. Returns the names
-- of nodes that could not be stopped.
function service:close_all()
  for _, run in pairs(runs) do
    run:stop()
    if run.state ~= "ended" and run.state ~= "new" then wait_ended(run) end
  end
  local stuck = {}
  for _, run in pairs(runs) do
    for _, node in ipairs(run.nodes) do
      if node.stuck then stuck[#stuck + 1] = node.name end
    end
  end
  return stuck
end

function service:signal_received()
  return signalled
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
    if run.state ~= "new" then wait_ended(run) end
  end
  core.sleep(GRACE)
  end_main(number)
end

local function on_signal(number)
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
    local node = thread_nodes[first]
    thread_nodes[first] = nil
    if node then node:ended(second, text) end
    if name == "main" and second ~= 0 and not signalled then report.line("lp: " .. text) end
  elseif kind == "child" then
    local node = processes[tonumber(name)]
    if node then separate.exited(node, first, second) end
  elseif kind == "signal" then
    on_signal(first)
  end
end

--- Starts the policy; the main task of the service's node.
function service.boot()
  require "lp.error"
  require "lp.require"
  host.events(on_event)
  core.serve(service)
  host.sweep()
end

return service
