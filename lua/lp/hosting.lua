--- Starting a node in a thread of this process, for a launcher (lp.service) and for a node
-- process (lp.worker) alike.
-- @module lp.hosting

local core = require "lp.core"

local host = core.host
local hosting = {}

local SANDBOX_MEMORY = 64 << 20 -- bytes of a sandboxed node that has no memory_limit

--- The name of the loop a node wants: nodes of one name share it, and nil leaves the choice
-- to the engine. Nobody else can name the loop of a node that wants its own.
local function loop_of(spec, key)
  local wanted = spec.options.loop
  if wanted == "own" then return "\1" .. key end
  return wanted
end

--- What the node takes from each of its callers. With `on_full = "wait"` nothing beyond
-- max_pending is sent: all that one caller may have under way has room here.
local function terms_of(given)
  local calls = given.edge_calls
  if given.on_full == "wait" and given.max_pending then
    local room = given.max_pending + (given.max_concurrency or 0)
    calls = math.min(calls or room, room, 1 << 20)
  end
  return calls, given.edge_bytes and math.min(given.edge_bytes, 1 << 40), given.on_full == "fail"
end

--- Starts the node that `spec` describes.
-- @int threads loops the engine may choose from before nodes share
-- @treturn int the engine's id of the node
function hosting.start(spec, key, threads)
  spec.pid = host.pid()
  local memory = spec.options.memory_limit or spec.options.sandbox and SANDBOX_MEMORY
  return host.start(spec.name, key, core.pack(spec), loop_of(spec, key), threads, memory,
                    spec.options.timeslice, terms_of(spec.options))
end

return hosting
