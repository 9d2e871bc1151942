--- The policy of a node process: registers with the launcher, runs the nodes it is given,
-- and ends when they have, or when the launcher is gone. Started as `lp --node`.
-- @module lp.worker

local core = require "lp.core"
local hosting = require "lp.hosting"

local host, command = core.host, core.command

local GRACE = 1 -- seconds that nodes get when the launcher is gone

local worker = {}
local launcher
local nodes, ids = {}, {} -- key -> engine's id and back
local failed, stays = false, false
local orphaned = false -- the launcher is gone

-- ---------------------------------------------------------------- for the launcher

--- `shared`: it stays when its nodes have ended, until it is told to leave.
function worker:start_node(key, spec, threads, shared)
  stays = stays or shared
  local id = hosting.start(spec, key, threads)
  nodes[key], ids[id] = id, key
end

function worker:stop_node(key)
  if nodes[key] then host.stop(nodes[key]) end
end

function worker:cancel_node(key)
  if nodes[key] then host.cancel(nodes[key]) end
end

function worker:kill_node(key, why)
  if nodes[key] then host.kill(nodes[key], why) end
end

function worker:listen(key, path)
  if not nodes[key] then error("the node has ended", 0) end
  host.listen(nodes[key], path)
end

--- A heartbeat; that it is answered says enough (lp.service.heartbeat).
function worker:alive() end

--- The node behind `key`, in another process, does not answer at present, or (no `why`) does again.
function worker:silence(key, why)
  host.silence(key, why)
end

--- Calls a reserved method of a node for somebody at the run's control socket (lp.control).
function worker:ask_node(key, method, ...)
  if not nodes[key] then error("the node has ended", 0) end
  local client = core.client(key, key)
  if method == "lp.eval" then return require("lp.evaluation").ask(nodes[key], client, ...) end
  return core.ask(client, method, ...)
end

--- Ends what a node computes.
function worker:interrupt_node(key)
  if nodes[key] then host.interrupt(nodes[key]) end
end

--- What the loop of a node tells about it, see lp.asking.
function worker:inspect_node(key, what, seconds)
  if not nodes[key] then return nil, "the node has ended" end
  return require("lp.asking").ask(nodes[key], what, seconds)
end

--- The same of many, see asking.ask_many: key -> what it gives.
function worker:inspect_nodes(keys, what, seconds)
  local wanted, results = {}, {}
  for _, key in ipairs(keys) do wanted[#wanted + 1] = nodes[key] end
  for id, result in pairs(require("lp.asking").ask_many(wanted, what, seconds)) do
    results[ids[id] or id] = {answer = result[1], why = result[2], known = result[3]}
  end
  return results
end

--- Pauses a node, or lets it go on.
function worker:pause_node(key, paused)
  if not nodes[key] then error("the node has ended", 0) end
  host[paused and "pause" or "resume"](nodes[key])
end

-- ---------------------------------------------------------------- for its nodes

function worker:resolve(...)
  return launcher:resolve(...)
end

function worker:stop_run(...)
  launcher.notify:stop_run(...)
end

-- ---------------------------------------------------------------- events

--- Nobody is left to serve: the nodes get a second, then everything of this process's
-- group goes, children of nodes included.
local function on_launcher_gone()
  if orphaned then return end
  orphaned = true
  for _, id in pairs(nodes) do host.stop(id) end
  local deadline = core.now() + GRACE
  while next(nodes) ~= nil and core.now() < deadline do core.sleep(0.02) end
  host.rundir_sweep(os.getenv "LP_NODE_FOLDER")
  local tmpdir = os.getenv "LP_NODE_TMPDIR"
  if tmpdir then host.tmpdir_remove(tmpdir) end
  host.kill_group()
end

--- The last node has ended. Whoever started this process ends what nodes have left in its
-- group; without a launcher that is left to us.
local function leave()
  if core.connection_state(launcher) ~= "ready" then return on_launcher_gone() end
  command.quit(failed and 1 or 0)
end

local function on_node(id, status, text)
  local key = ids[id]
  if not key then return end
  ids[id], nodes[key] = nil, nil
  failed = failed or status ~= 0
  pcall(launcher.node_ended, launcher, key, status, text)
  if next(nodes) == nil and not stays then leave() end
end

--- Its nodes have ended and will not be started again.
function worker:leave()
  leave()
end

local function on_event(kind, first, second, _, text)
  if kind == "node" then
    on_node(first, second, text)
  elseif kind == "answer" then
    require("lp.asking").answered(first, second, text)
  elseif kind == "signal" then
    for _, id in pairs(nodes) do host.stop(id) end
  end
end

--- The main task of the service's node in a node process.
function worker.boot()
  require "lp.error"
  require "lp.require"
  local address, token = os.getenv "LP_NODE_ADDRESS", os.getenv "LP_NODE_TOKEN"
  if not address or not token then
    io.stderr:write("lp: --node is for the engine's own use\n")
    return command.quit(2)
  end
  local spin = math.tointeger(os.getenv "LP_NODE_SPIN")
  if spin then host.spin(spin) end
  host.metrics(os.getenv "LP_NODE_METRICS" ~= "off")
  host.events(on_event)
  host.watchdog()
  core.serve(worker)
  -- It is there, or this process is of no use.
  launcher = core.with(core.client(address, "the launcher"), {wait_for_ready = false})
  local ok, err = pcall(launcher.register, launcher, token)
  if not ok then
    io.stderr:write("lp: cannot register with the launcher: ", tostring(err), "\n")
    return command.quit(1)
  end
  core.on_close(launcher, on_launcher_gone)
  -- It may have gone right behind its answer.
  if core.connection_state(launcher) ~= "ready" then on_launcher_gone() end
end

return worker
