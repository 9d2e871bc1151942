--- Placement of nodes in processes. A process hosts one node, or the nodes that are to share
-- one; it dials the launcher with a token, gets its nodes, and says how each has ended.
-- That it ended itself is known once its link and the process are both gone.
-- @module lp.service.processes

local core = require "lp.core"
local report = require "lp.report"
local state = require "lp.service.state"

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
  return env
end

--- Spawns a process for nodes. An error when that is not possible.
local function launch(run, name, hue, env)
  local token = new_token()
  local command = host.command()
  local self = setmetatable({run = run, nodes = {}, token = token}, Process)
  state.tokens[token] = self
  local ok, pid = pcall(host.spawn, command, {command, "--node"}, environment(run, env, token),
                        ("[%s] "):format(name), hue)
  if not ok then
    state.tokens[token] = nil
    error(rawget(pid, "message"), 0)
  end
  self.pid = pid
  state.processes[pid] = self
  return self
end

--- Gives the process, which is there, one of its nodes.
function Process:give(node)
  local worker = self.worker
  local ok, err = pcall(worker.start_node, worker, node.key, node:spec(),
                        self.run.settings.threads or 64)
  if ok then return node:started() end
  if core.connection_state(worker) ~= "ready" then return end -- its end says more
  node.doom = tostring(err)
  host.signal(self.pid, SIGKILL, true)
end

--- A node process is up: it has called with its token.
local function register(token, worker)
  local self = state.tokens[token]
  if not self then error("this token was not given out, or was used already", 0) end
  state.tokens[token] = nil
  self.worker = worker
  core.on_close(worker, function() self:lost() end)
  core.start(function()
    for _, node in ipairs(self.nodes) do self:give(node) end
  end)
end

-- ---------------------------------------------------------------- ending

--- How the process ended, for nodes that did not say.
function Process:settle()
  if self.worker or not self.exit then return end
  local text = report.exit(self.exit.status, self.exit.signal)
  for _, node in ipairs(self.nodes) do
    if node.process == self then
      if node.path then os.remove(node.path) end
      node.process, node.path = nil, nil
      if node.said then node:ended(node.said[1], node.said[2]) else node:ended(1, node.doom or text) end
      node.doom = nil
    end
  end
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
  self.exit = {status = status, signal = signal}
  self:settle()
end

-- ---------------------------------------------------------------- the placement

local processes = {name = "process", register = register, exited = exited}

function processes.start(node)
  local process = launch(node.run, node.name, node.hue, node.record.env or {})
  node.process = process
  table.insert(process.nodes, node)
end

local function tell(node, method, ...)
  local worker = node.process and node.process.worker
  if worker then pcall(core.call, worker.notify, method, node.key, ...) end
end

function processes.stop(node) tell(node, "stop_node") end
function processes.cancel(node) tell(node, "cancel_node") end

function processes.kill(node, why)
  if node.run.notice == 0 or not (node.process and node.process.worker) then
    return processes.force(node)
  end
  tell(node, "kill_node", why)
end

function processes.force(node)
  if node.process then host.signal(node.process.pid, SIGKILL, true) end
end

--- At once, by order from outside.
processes.destroy = processes.force

--- Callers of other processes ask where it is anyway.
function processes.returns() end

function processes.pid(node)
  return node.process and node.process.pid
end

function processes.address(node)
  if not node.path then
    local path = node.run:socket_path()
    node.process.worker:listen(node.key, path)
    node.path = path
  end
  return "unix:" .. node.path
end

return processes
