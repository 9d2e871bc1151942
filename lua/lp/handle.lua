--- Handles: what stands for a node's client while the graph is built.
-- A handle does nothing but be passed on. In the node that received it, it has become a
-- client; touching it before that is a mistake which the error explains.
-- @module lp.handle

local handle = {}

-- Private keys, so that no field or method name of a user's class meets ours.
local NODE, OPTIONS = {}, {}

local Handle = {__name = "lp.Handle"}
handle.metatable = Handle

--- A new handle of a node.
-- @tparam[opt] table options of calls, as lp.with takes them
function handle.new(node, options)
  return setmetatable({[NODE] = node, [OPTIONS] = options}, Handle)
end

--- Is `value` a handle?
function handle.is(value)
  return type(value) == "table" and debug.getmetatable(value) == Handle
end

--- The node behind a handle.
function handle.node(self)
  return rawget(self, NODE)
end

--- The call options of a handle: a table, or nil when it has none of its own.
function handle.options(self)
  return rawget(self, OPTIONS)
end

--- A handle of the same node with other call options on top of its own.
function handle.with(self, given, level)
  local merged = {}
  for name, value in pairs(rawget(self, OPTIONS) or {}) do merged[name] = value end
  local options = require "lp.options"
  for name, value in pairs(options.check("lp.with", options.call, given, level + 1)) do
    merged[name] = value
  end
  return handle.new(rawget(self, NODE), merged)
end

function Handle.__tostring(self)
  return "handle of " .. rawget(self, NODE):describe()
end

local function refuse(self, level)
  error(tostring(self) .. " is not a client yet: pass it to a node's arguments; " ..
        "run:client(...) gives a client", level + 1)
end

local function not_a_client(self)
  refuse(self, 2)
end

Handle.__index = not_a_client
Handle.__newindex = not_a_client
Handle.__call = not_a_client
Handle.__len = not_a_client
Handle.__pairs = function(self) refuse(self, 3) end -- level 2 is pairs itself

return handle
