--- Placement of nodes in processes. A process hosts one node, or the nodes that are to share
-- one; it dials the launcher with a token, gets its nodes, and says how each has ended.
-- That it ended itself is known once its link and the process are both gone.
-- @module lp.service.processes

local core = require "lp.core"
local heartbeat = require "lp.service.heartbeat"
local report = require "lp.report"
local state = require "lp.service.state"
local sync = require "lp.sync"
local Unit = require "lp.service.unit"

local host = core.host

local SIGKILL = 9

local Process = {}
Process.__index = Process

-- ---------------------------------------------------------------- starting

local function new_token()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  return (file:read(16):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

--- Ours, with `extra` over it, without what was meant for us.
local function environment(run, extra, token)
  local env = host.environment()
  local function set(name, value) env[#env + 1] = name .. "=" .. value end
  for i = #env, 1, -1 do
    local name = env[i]:match("^[^=]*")
    if name:find("^LP_NODE_") or extra[name] then table.remove(env, i) end
  end
  for name, value in pairs(extra) do set(name, value) end
  set("LP_NODE_ADDRESS", "unix:" .. run:control_path())
  set("LP_NODE_TOKEN", token)
  set("LP_NODE_FOLDER", run.folder)
  if run.settings.spin then set("LP_NODE_SPIN", run.settings.spin) end
  if run.settings.metrics then set("LP_NODE_METRICS", run.settings.metrics) end
  return env
end

--- Spawns the process of a home (a node, or a colocation whose nodes share it). An error when
-- that is not possible.
local function launch(home)
  local self = setmetatable({run = home.run, home = home, nodes = {}, token = new_token(),
                             shared = home.nodes ~= nil}, Process)
  local command = host.command()
  local options, env = home.record.options, {}
  for name, value in pairs(home.record.env or {}) do env[name] = value end
  env.LP_NODE_NICE = options.nice
  env.LP_NODE_AFFINITY = options.affinity and table.concat(options.affinity, ",")
  if Unit.retrying(home.parent or home.unit) then
    self.tmpdir = host.tmpdir()
    env.TMPDIR, env.LP_NODE_TMPDIR = self.tmpdir, self.tmpdir
  end
  local ok, pid = pcall(host.spawn, command, {command, "--node"},
                        environment(home.run, env, self.token), ("[%s] "):format(home.name),
                        home.hue or 0, options.folder, home.run.id .. "/" .. home.name, true)
  if not ok then
    self:clear()
    error(rawget(pid, "message"), 0)
  end
  state.tokens[self.token] = self
  self.pid = pid
  state.processes[pid] = self
  home.current = self
  home.run:process_started(self)
  return self
end

--- Removes what was made for it.
function Process:clear()
  if self.tmpdir then host.tmpdir_remove(self.tmpdir) end
  self.tmpdir = nil
end

--- Gives the process, which is there, one of its nodes.
function Process:give(node)
  local worker = self.worker
  local ok, err = pcall(worker.start_node, worker, node.key, node:spec(),
                        self.run.settings.threads or 64, self.shared)
  if ok then return node:started() end
  if core.connection_state(worker) ~= "ready" then return end -- its end says more
  node.doom = tostring(err)
  self:kill()
end

--- A node process is up: it has called with its token.
local function register(token, worker)
  local self = state.tokens[token]
  if not self then error("this token was not given out, or was used already", 0) end
  state.tokens[token] = nil
  self.worker = worker
  core.on_close(worker, function() self:lost() end)
  for _, node in ipairs(self.nodes) do core.start(self.give, self, node) end
  core.start(heartbeat.watch, self)
end

-- ---------------------------------------------------------------- ending

local function forget_path(node)
  if node.path then os.remove(node.path) end
  node.path = nil
end

--- How the process ended, for nodes that did not say.
function Process:settle()
  if self.worker or not self.exit then return end
  local text = report.exit(self.exit.status, self.exit.signal)
  for _, node in ipairs(self.nodes) do
    if node.process == self then
      node.process = nil
      forget_path(node)
      if node.said then
        node:ended(node.said[1], node.said[2], self)
      else
        node:ended(1, node.doom or text, self)
      end
      node.doom = nil
    end
  end
end

--- A node's own word about its end. A process of its own leaves with it; a shared one stays as
-- long as one of its nodes may be started again.
local function said(node, status, text)
  local process = node.process
  if not process or not process.shared then return node:ending(status, text) end
  node.process = nil
  for i, each in ipairs(process.nodes) do
    if each == node then table.remove(process.nodes, i) break end
  end
  forget_path(node)
  local doom = node.doom
  node.doom = nil
  node:ended(status, status ~= 0 and doom or text)
end

local function is_done(home)
  for _, node in ipairs(home.nodes) do
    if node.state ~= "ended" then return false end
  end
  return true
end

function Process:kill()
  host.signal(self.pid, SIGKILL, true)
end

function Process:lost()
  self.worker = nil
  self:settle()
end

local function exited(pid, status, signal)
  local self = state.processes[pid]
  if not self then return end
  state.processes[pid] = nil
  state.tokens[self.token] = nil
  if self.home.current == self then self.home.current = nil end
  self:clear()
  self.exit = {status = status, signal = signal}
  self:settle()
  self.run:process_gone(self)
end

-- ---------------------------------------------------------------- the placement

local processes = {name = "process", register = register, exited = exited, said = said}

--- In the process of its home; a new one when there is none, or it is leaving.
function processes.start(node)
  local process = node.home.current
  if not process or process.leaving then
    process = launch(node.home)
  end
  node.process = process
  table.insert(process.nodes, node)
  if process.worker then core.start(process.give, process, node) end
end

--- The node will not be started again.
function processes.gone(node)
  local process = node.home.current
  if not process or not process.shared or not is_done(node.home) then return end
  process.leaving = true
  if process.worker then pcall(core.call, process.worker.notify, "leave") end
end

local function tell(node, method, ...)
  local worker = node.process and node.process.worker
  if worker then pcall(core.call, worker.notify, method, node.key, ...) end
end

function processes.stop(node) tell(node, "stop_node") end
function processes.cancel(node) tell(node, "cancel_node") end

local function force(node)
  if node.process then node.process:kill() end
end

function processes.kill(node, why)
  if node.run.notice == 0 or not (node.process and node.process.worker) then
    return force(node)
  end
  tell(node, "kill_node", why)
end

--- At once, by order from outside. A process that others share stays.
function processes.destroy(node, why)
  if node.process and node.process.shared then return tell(node, "kill_node", why) end
  force(node)
end

--- Callers of other processes ask where it is anyway.
function processes.returns() end

function processes.pid(node)
  return node.process and node.process.pid
end

--- Has the node listen. Others who ask meanwhile wait for that; each would have got a socket of its own.
local function listen(node)
  local process, path = node.process, node.run:socket_path()
  local opening = sync.Event()
  node.opening = opening
  local ok, err = pcall(process.worker.listen, process.worker, node.key, path)
  node.opening = nil
  opening:set()
  if not ok then error(err, 0) end
  if node.process ~= process then -- it has ended meanwhile
    os.remove(path)
    return path
  end
  node.path = path
  return path
end

function processes.address(node)
  while node.opening do node.opening:wait() end
  return "unix:" .. (node.path or listen(node))
end

return processes
