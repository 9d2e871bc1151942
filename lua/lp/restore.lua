--- Unpacks the package of a node, when it starts and when it gets new code: brings back what does
-- not travel as it is. The other half is in lp.launch.
-- @module lp.restore

local core = require "lp.core"

local restore = {}

--- What is needed again when there is new code: args of the node's group, and its sandbox.
local KEPT = "lp.kept"

function restore.keep(args, sandbox)
  package.loaded[KEPT] = {args = args, sandbox = sandbox}
end

local kinds = {}

function kinds.client(data)
  local client = core.client(data.key, data.name)
  return data.options and core.with(client, data.options) or client
end

function kinds.deferred(data)
  return require("lp.deferred").build(data)
end

function kinds.flags(data)
  return require("lp.flags").restore(data, package.loaded[KEPT] and package.loaded[KEPT].args)
end

function kinds.address(data)
  local address = require("lp.address").Address(data.name)
  address:bind(data.place)
  return address
end

local function register(class)
  core.register(class.name, class.class, class.pack and {pack = class.pack, unpack = class.unpack})
end

function kinds.packed(data)
  register(data.class)
  return (core.unpack(data.bytes))
end

--- Constructor or function, and arguments.
-- @string bundle
-- @treturn table as made by table.pack
function restore.load(bundle)
  local how = {}
  local kept = package.loaded[KEPT]
  for name, value in pairs(kept and kept.sandbox or {}) do how[name] = value end
  how.restore = function(kind, data) return kinds[kind](data) end
  local values = table.pack(require("lp.unship").load(bundle, how))
  for _, class in ipairs(values[values.n]) do register(class) end -- the last value
  values.n = values.n - 1
  return values
end

return restore
