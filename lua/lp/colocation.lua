--- Colocations: several nodes in the place of one.
-- The nodes inside carry the colocation's label and index and a number of their own
-- (`label/index/k`, from 0); one inside another adds one more. The one holds its nodes in
-- threads of one process, the other each in a process, whatever the launch type.
-- @module lp.colocation

local nodes = require "lp.node"
local options = require "lp.options"

local colocation = {}

local function check_inner(what, position, node, level)
  if require("lp.handle").is(node) then
    error(("%s: node %d is a handle; give it the node itself"):format(what, position), level + 1)
  end
  if not nodes.is(node) then
    error(("%s: expected an array of nodes, got %s at %d")
          :format(what, options.describe(node), position), level + 1)
  end
  if node.program or node.colocation then
    error(("%s: node %d is in %s already; a node has one place")
          :format(what, position, node.program and node.name or "a colocation"), level + 1)
  end
end

local function new(what, list, schema, given, level)
  if type(list) ~= "table" or nodes.is(list) or require("lp.handle").is(list) then
    error(("%s: expected an array of nodes, got %s"):format(what, options.describe(list)), level + 1)
  end
  if next(list) == nil then error(what .. ": at least one node is needed", level + 1) end
  for position = 1, #list do check_inner(what, position, list[position], level + 1) end
  for key in next, list do
    if math.type(key) ~= "integer" or key < 1 or key > #list then
      error(("%s: expected an array of nodes, got the key %s"):format(what, options.describe(key)), level + 1)
    end
  end
  local checked = options.check(what, schema, given, level + 1)
  local made = nodes.colocation(what:match "%.(.*)", table.move(list, 1, #list, 1, {}), checked)
  for position, node in ipairs(list) do
    if node.colocation then -- only now: it stands in the list twice
      for i = 1, position - 1 do list[i].colocation = nil end
      error(("%s: node %d is in the list twice"):format(what, position), level + 1)
    end
    node.colocation = made
  end
  return made
end

local threading = {return_on_first_completed = options.boolean}

--- Nodes in threads of one process: that of the launcher under local_mt, one of their own
-- under local_mp. Ends when all have ended, or with `return_on_first_completed` when the first
-- has: then the others are asked to stop.
-- @tparam table list of nodes in no program
-- @tparam[opt] table given
function colocation.MultiThreadingColocation(list, given)
  local made = new("lp.MultiThreadingColocation", list, threading, given, 2) -- no tail call: mistakes name our caller
  return made
end

local processing = {
  num_retries_on_failure = options.integer("a whole number, 0 or more", 0),
}

--- Nodes each in a process of its own with a private TMPDIR. One that fails is started again as
-- long as all of them together have not been `num_retries_on_failure` (0) times.
-- @tparam table list of nodes in no program
-- @tparam[opt] table given
function colocation.MultiProcessingColocation(list, given)
  local made = new("lp.MultiProcessingColocation", list, processing, given, 2) -- no tail call: mistakes name our caller
  return made
end

return colocation
