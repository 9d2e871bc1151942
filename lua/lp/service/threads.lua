--- Placement of nodes in threads of the launcher.
-- @module lp.service.threads

local core = require "lp.core"
local hosting = require "lp.hosting"
local state = require "lp.service.state"

local host = core.host

local threads = {name = "thread"}

--- When it ends it will be started again: callers wait.
function threads.returns(node) host.returns(node.key, true) end

function threads.start(node)
  if node.policy.on_failure == "restart" then threads.returns(node) end
  node.id = hosting.start(node:spec(), node.key, node.run.settings.threads or 64)
  state.thread_nodes[node.id] = node
  node:started()
end

--- The engine's word that a node of this process has ended.
function threads.ended(id, status, text)
  local node = state.thread_nodes[id]
  if not node then return end
  state.thread_nodes[id] = nil
  if node.path then os.remove(node.path) end
  node.path = nil
  node:ended(status, text)
end

function threads.stop(node) host.stop(node.id) end
function threads.cancel(node) host.cancel(node.id) end
function threads.kill(node, why) host.kill(node.id, why) end
threads.destroy = threads.kill

function threads.gone() end

function threads.pid() return host.pid() end

function threads.address(node, same_process)
  if same_process then return "inproc:" .. node.key end
  if not node.path then
    local path = node.run:socket_path()
    host.listen(node.id, path)
    node.path = path
  end
  return "unix:" .. node.path
end

return threads
