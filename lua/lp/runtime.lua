--- The life of a node, from its bundle to its end. Runs as the node's main task.
-- @module lp.runtime

local core = require "lp.core"
require "lp.error" -- errors may arrive before anybody loads it

local runtime = {}

--- A handle that whoever built the graph passed in a call arrives as a client.
core.register("lp.Handle", {}, {
  pack = function() error("a handle in a node", 0) end,
  unpack = function(client, options) return options and core.with(client, options) or client end,
})

--- Constructor or function, arguments and, last, the classes that were registered.
local function unpack_bundle(spec)
  local sandbox = spec.options.sandbox and require("lp.sandbox").enter(spec.options.sandbox)
  local restore = require "lp.restore"
  if spec.args or sandbox then restore.keep(spec.args, sandbox) end
  local values = restore.load(spec.bundle)
  package.loaded["lp.unship"], package.loaded["lp.restore"] = nil, nil -- a node keeps what it needs
  spec.bundle = nil
  return values
end

--- Whole numbers that depend on the program's seed and the node's name only.
local function seed(spec)
  local high, low = spec.seed, 0xcbf29ce484222325
  for i = 1, #spec.name do low = (low ~ spec.name:byte(i)) * 0x100000001b3 end
  math.randomseed(high, low)
end

local function set_context(spec)
  local context = core.context()
  for _, field in ipairs {"label", "index", "group_size", "launch_type", "program", "run",
                          "pid", "log_level"} do
    context[field] = spec[field]
  end
  context.node = spec.name
end

local function set_of(names)
  if not names then return nil end
  local set = {}
  for _, name in ipairs(names) do set[name] = true end
  return set
end

--- A class that exposes a method named like a client's proxy is easily misunderstood.
local function warn_of_shadowed()
  for _, name in ipairs(core.methods()) do
    if name == "notify" or name == "futures" then
      core.log("warning", ("method %s: client:%s(…) does not call it; use lp.call(client, %q, …)")
               :format(name, name, name))
    end
  end
end

--- A function found raw along the chain of `__index` tables: what a class defines, not what
-- some function makes up.
local function find_method(instance, name)
  local depth = 0
  while type(instance) == "table" and depth < 100 do
    local found = rawget(instance, name)
    if type(found) == "function" then return found end
    local meta = debug.getmetatable(instance)
    instance = type(meta) == "table" and rawget(meta, "__index")
    depth = depth + 1
  end
end

--- Begins to answer calls, or leaves that to an instance that wants to own its server.
local function serve(spec, instance, ctor)
  local options = spec.options
  local most = options.on_full ~= "wait" and options.max_pending or nil -- lp.hosting has it
  core.limits(options.max_concurrency, most, set_of(options.priority_methods),
              options.max_pending_bytes, options.answer_bytes)
  local owns = find_method(instance, "set_courier_server")
  if owns then
    local server = require("lp.server").new(instance, core.methods(instance, ctor, set_of(options.expose)))
    return owns(instance, server)
  end
  core.serve(instance, ctor, set_of(options.expose))
  warn_of_shadowed()
end

--- What was only needed to get here is let go of: this module, and what it has made.
local function settle()
  package.loaded["lp.runtime"] = nil
  core.settle()
end

--- Nodes with an object: construct it, serve, run.
local function run_object(spec, ctor, args)
  local instance = require("lp.construct").instance(ctor, args)
  package.loaded["lp.construct"] = nil
  settle()
  local run = spec.run_enabled and
              (type(instance) == "userdata" and instance.run or find_method(instance, "run"))
  if spec.serves then
    serve(spec, instance, ctor)
  else
    core.keep_instance(instance, ctor)
  end
  if run then
    run(instance)
    return core.finish()
  end
  local lifecycle = require "lp.lifecycle"
  if spec.serves or not spec.run_enabled then return lifecycle.finish_at_stop() end
  core.log("warning", "its object has no method run: the node ends")
  core.finish()
end

local function run_function(fn, args)
  settle()
  fn(table.unpack(args, 1, args.n))
  core.finish()
end

--- Nodes whose calls are answered in C.
local function run_native(spec)
  settle()
  core.serve_native(spec.native)
  require("lp.lifecycle").finish_at_stop()
end

--- Starts the node that `bytes`, the packed record of the service, describe.
function runtime.boot(bytes)
  local spec = core.unpack(bytes)
  runtime.spec = spec
  set_context(spec)
  seed(spec)
  if spec.options.gc then collectgarbage(spec.options.gc) end
  require "lp.stdio"
  require "lp.require"
  local lifecycle = require "lp.lifecycle"
  -- Loaded by the first call to another process; most nodes make none.
  core.connector(function(...) return require "lp.connector"(...) end)
  core.on_stop(lifecycle.stopped)
  if not spec.serves then core.serve_nobody() end -- who asks by name would wait for ever
  local values = unpack_bundle(spec)
  local args = table.pack(table.unpack(values, 2, values.n))
  if spec.kind == "HostNode" then return run_native(spec) end
  if spec.kind == "LuaNode" then return run_function(values[1], args) end
  return run_object(spec, values[1], args)
end

return runtime
