--- Nodes: what a service is made of, before it runs.
-- A node is a record: a constructor with its arguments, and options. It knows nothing of
-- threads or processes. Its place in a program (`name`, `label`, `index`) is filled in by
-- program:add_node.
-- @module lp.node

local address = require "lp.address"
local construct = require "lp.construct"
local handle = require "lp.handle"
local options = require "lp.options"
local resources = require "lp.resources"

local bytes = resources.rules.memory_limit

local nodes = {}

local Node = {__name = "lp.Node"}
Node.__index = Node
nodes.metatable = Node

--- What each kind is: `constructs` makes an instance, whose `run` may be disabled;
-- `serves`: other nodes can call it.
local kinds = {
  LuaNode = {constructs = false, serves = false},
  LuaClassNode = {constructs = true, serves = false},
  CourierNode = {constructs = true, serves = true},
  HostNode = {constructs = false, serves = true},
  CacherNode = {constructs = true, serves = true},
  MultiThreadingColocation = {constructs = false, serves = false},
  MultiProcessingColocation = {constructs = false, serves = false},
}

--- Is `value` a node?
function nodes.is(value)
  return type(value) == "table" and debug.getmetatable(value) == Node
end

local function new(kind, ctor, ...)
  return setmetatable({
    kind = kind,
    constructs = kinds[kind].constructs,
    serves = kinds[kind].serves,
    ctor = ctor,
    args = table.pack(...),
    settings = {},
    addresses = {},
    run_enabled = true,
  }, Node)
end

--- A function that is run once: the node ends when it returns.
-- @param fn a function, or anything callable
-- @param ... its arguments
function nodes.LuaNode(fn, ...)
  if handle.is(fn) or not construct.callable(fn) then
    error("lp.LuaNode: expected a function, got " .. options.describe(fn), 2)
  end
  return new("LuaNode", fn, ...)
end

--- An object with a `run` method, if it has one.
-- @param ctor a constructor: a function, a class table with `__call`, or a table with `new`
-- @param ... its arguments
function nodes.LuaClassNode(ctor, ...)
  construct.check("lp.LuaClassNode", ctor, 2)
  return new("LuaClassNode", ctor, ...)
end

--- An object whose public methods other nodes can call.
-- @param ctor a constructor: a function, a class table with `__call`, or a table with `new`
-- @param ... its arguments
function nodes.CourierNode(ctor, ...)
  construct.check("lp.CourierNode", ctor, 2)
  return new("CourierNode", ctor, ...)
end

local cacher_schema = {
  ttl = options.number("a number of seconds, 0 or more", 0),
  max_entries = options.integer("a whole number, 1 or more", 1),
}

--- A node that answers for another and remembers its answers.
-- @param target the handle of the node behind
-- @tparam table given `ttl` (seconds an answer is good for; 0: only calls under way at the same time
--   share one), `max_entries` (10000)
function nodes.CacherNode(target, given)
  if not handle.is(target) then
    error("lp.CacherNode: expected the handle of a node, got " .. options.describe(target), 2)
  end
  local checked = options.check("lp.CacherNode", cacher_schema, given, 2)
  if not checked.ttl then error("lp.CacherNode: ttl is needed: the seconds an answer is good for", 2) end
  checked.max_entries = checked.max_entries or 10000
  return new("CacherNode", require "lp.cacher", target, checked)
end

--- A node that the program around the engine implements, in C (lp_host_node). It lives on that
-- program's thread.
-- @string name as the program knows it
function nodes.HostNode(name)
  if not options.text(name) then
    error("lp.HostNode: expected the name of a host node, a text, got " .. options.describe(name), 2)
  end
  local node = new("HostNode")
  node.native = name
  node.settings.loop = "host"
  return node
end

--- A node that holds others; see lp.colocation, which has checked them.
-- @tparam table inner array of nodes
-- @tparam table how its options
function nodes.colocation(kind, inner, how)
  local node = new(kind)
  node.inner, node.how = inner, how
  return node
end

--- The node in words: its name, or its kind while it is in no program.
function Node:describe()
  return self.name or ("a %s in no program"):format(self.kind)
end

function Node:__tostring()
  return self.name and ("%s %s"):format(self.kind, self.name) or self.kind
end

--- Refuses calls with a dot, and changes that would come too late.
local function check_open(self, method, level)
  if not nodes.is(self) then
    error(("call it with a colon: node:%s(…)"):format(method), level + 1)
  end
  if self.program and self.program.launched then
    error(("node:%s: %s has been launched already"):format(method, self.name), level + 1)
  end
end

--- Replaces the arguments of the constructor: for cyclic graphs.
-- @return the node
function Node:configure(...)
  check_open(self, "configure", 2)
  if self.inner then error("node:configure: a colocation has no arguments; configure its nodes", 2) end
  self.args = table.pack(...)
  return self
end

--- A handle of this node. Each call gives the same one.
function Node:create_handle()
  if not nodes.is(self) then error("call it with a colon: node:create_handle()", 2) end
  self.handle = self.handle or handle.new(self)
  return self.handle
end

local function set_run(self, method, enabled)
  check_open(self, method, 3)
  if not self.constructs then
    error(("node:%s: a %s is nothing but its %s; this is for nodes with an object")
          :format(method, self.kind, self.inner and "nodes" or "function"), 3)
  end
  self.run_enabled = enabled
end

--- Constructs the object but does not call its `run`: for tests, which call its methods.
-- @return the node
function Node:disable_run()
  set_run(self, "disable_run", false)
  return self
end

--- Undoes disable_run.
-- @return the node
function Node:enable_run()
  set_run(self, "enable_run", true)
  return self
end

--- Makes this node the listener of an lp.Address.
-- @return the node
function Node:allocate(place)
  check_open(self, "allocate", 2)
  if not address.is(place) then
    error("node:allocate: expected an lp.Address, got " .. options.describe(place), 2)
  end
  local ok, why = place:assign(self)
  if not ok then error("node:allocate: " .. why, 2) end
  self.addresses[#self.addresses + 1] = place
  return self
end

-- ---------------------------------------------------------------- options

--- An array of texts that are not empty.
local function names(value)
  local expected = "an array of names"
  if type(value) ~= "table" then return nil, expected end
  local copy = {}
  for key, name in next, value do
    if not math.tointeger(key) or not options.text(name) then return nil, expected end
    copy[key] = name
  end
  if #copy ~= #value then return nil, expected end
  return copy
end

local restart_schema = {
  max = options.integer("how many restarts are allowed, 0 or more", 0),
  within = options.number("a number of seconds, more than 0", 0, true),
  backoff = options.number("a number of seconds, 0 or more", 0),
}

local function restart(value)
  if type(value) ~= "table" then return nil, "a table {max =, within =, backoff =}" end
  local ok, checked = pcall(options.check, "restart", restart_schema, value, 0)
  if ok then return checked end
  return nil, "a table {max =, within =, backoff =} (" .. checked .. ")"
end

local function listen(value)
  if type(value) == "string" and
     (value:find("^tcp:.+:%d+$") or value:find("^unix:.+") or value:find("^inproc:.+")) then
    return value
  end
  return nil, 'an address: "tcp:HOST:PORT", "unix:PATH" or "inproc:NAME"'
end

local count = options.integer("a whole number, 1 or more", 1)

local sandbox_libraries = {"coroutine", "io", "math", "os", "string", "table", "utf8"}

--- An array of libraries that a sandbox knows.
local function libraries(value)
  local list, expected = names(value), "an array of " .. table.concat(sandbox_libraries, ", ")
  for _, name in ipairs(list or {}) do
    local known = false
    for _, one in ipairs(sandbox_libraries) do known = known or one == name end
    if not known then return nil, expected end
  end
  return list, expected
end

local sandbox_schema = {
  libraries = libraries,
  instructions = options.integer("a whole number of instructions, 0 (no bound) or more", 0),
  pattern_steps = count,
  string_bytes = bytes,
}

--- `true`, or a table; what is left out gets its default.
local function sandbox(value)
  if value == true then value = {} end
  if type(value) ~= "table" then return nil, "true or a table of bounds" end
  local ok, checked = pcall(options.check, "sandbox", sandbox_schema, value, 0)
  if not ok then return nil, "a table of bounds (" .. checked .. ")" end
  checked.libraries = checked.libraries or sandbox_libraries
  checked.instructions = checked.instructions or 100000000
  checked.pattern_steps = checked.pattern_steps or 1000000
  checked.string_bytes = checked.string_bytes or 16 << 20
  return checked
end

local function edge_calls(value)
  local most = count(value)
  if most and most <= 1 << 20 then return most end
  return nil, "a whole number from 1 to 1048576"
end

local schema = {
  sandbox = sandbox,
  timeslice = options.number("a number of seconds, more than 0", 0, true),
  max_pending = count,
  max_pending_bytes = bytes,
  max_concurrency = count,
  edge_calls = edge_calls,
  edge_bytes = bytes,
  answer_bytes = bytes,
  on_full = options.one_of("wait", "fail"),
  on_failure = options.one_of("stop", "restart", "ignore"),
  restart = restart,
  priority_methods = names,
  expose = names,
  listen = listen,
  token = options.text,
  insecure = options.boolean,
  gc = options.one_of("incremental", "generational"),
  loop = options.text,
}
for name, rule in pairs(resources.rules) do schema[name] = rule end

--- Sets options; those of earlier calls stay unless named again. docs list them all.
-- @tparam table given name -> value; unknown names and wrong types are refused
-- @return the node
function Node:options(given)
  check_open(self, "options", 2)
  if type(given) ~= "table" then
    error("node:options: expected a table, node:options{name = value}, got " ..
          options.describe(given), 2)
  end
  local checked = options.check("node:options", schema, given, 2)
  if self.native and checked.loop and checked.loop ~= "host" then
    error(("node:options: loop = %q: a HostNode lives on the thread of its program"):format(checked.loop), 2)
  end
  for name, value in pairs(self.settings) do
    if checked[name] == nil then checked[name] = value end
  end
  if checked.listen and checked.listen:find("^tcp:") and not checked.token and
     not checked.insecure then
    error("node:options: listen on tcp needs token = \"…\" or insecure = true", 2)
  end
  self.settings = checked
  return self
end

return nodes
