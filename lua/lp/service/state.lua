--- What the parts of a launcher's policy share.
-- @module lp.service.state

local state = {
  runs = {},         -- run id -> Run
  thread_nodes = {}, -- engine's node id -> Node
  processes = {},    -- pid -> Process
  tokens = {},       -- token -> Process that has not registered yet
}

local serial = 0

--- A number not given before: names of runs and sockets are made of it.
function state.serial()
  serial = serial + 1
  return serial
end

--- The node behind `key`, "RUN/label/index", or nil.
function state.node(key)
  local run_id, name = key:match("^([^/]+)/(.*)$")
  local run = run_id and state.runs[run_id]
  return run and run.by_name[name]
end

return state
