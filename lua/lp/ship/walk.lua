--- Goes through everything reachable from a node's arguments and makes a record
-- of every object.
--
-- A record describes one object: `kind` (the instruction that creates it),
-- `value`, `stage`, where it was met first (`parent`, `step`, `key`), and what it
-- consists of. A *token* stands for a value in it: a string is a value already
-- written, a table is the record of an object. The walk keeps a list of what is
-- still to be looked into and never recurses: depth is bounded by memory only.
-- @module lp.ship.walk

local bytecode = require "lp.ship.bytecode"
local named = require "lp.ship.named"
local refusal = require "lp.ship.refusal"
local scalar = require "lp.ship.scalar"

local Walk = {}
Walk.__index = Walk

local GLOBALS = package.loaded._G
local getmetatable, getupvalue, upvalueid = debug.getmetatable, debug.getupvalue, debug.upvalueid

--- Stages in which objects are created, see `lp.ship.write`.
Walk.PLAIN, Walk.MODULE, Walk.RESTORED = 0, 1, 2
local PLAIN, MODULE, RESTORED = Walk.PLAIN, Walk.MODULE, Walk.RESTORED

-- The specs' runner gives their functions an environment of its own, which looks
-- names up in the runner's state and then in the globals. It cannot travel, and
-- nobody means it to: it counts as the globals.
local function is_spec_environment(value)
  local metatable = type(value) == "table" and getmetatable(value)
  local index = metatable and rawget(metatable, "__index")
  if type(index) ~= "function" or next(value) ~= nil then return false end
  return debug.getinfo(index, "S").source:find("busted/environment.lua", 1, true) ~= nil
end

--- Starts a walk.
-- @tparam table options those of `ship.pack`
-- @tparam table baseline what counts as standard
function Walk.new(options, baseline)
  local walk = setmetatable({
    options = options,
    baseline = baseline,
    names = named.map(baseline),
    records = {}, -- in the order met
    seen = {}, -- object or long string -> record
    cells = {}, -- upvalue id -> the record of the first function with it, and its index
    pending = {}, -- records to be looked into, a stack
    wanted = {}, -- globals that functions name: name, environment, name, …
    everything = false, -- some function may read any global
    in_global = false, -- looking at a global's value
  }, Walk)
  walk.globals = walk:token(GLOBALS, nil, "root", "_G")
  walk.everything = false
  return walk
end

function Walk:add(record)
  self.records[#self.records + 1] = record
  if record.value ~= nil then self.seen[record.value] = record end
  return record
end

function Walk:long_string(value)
  return self.seen[value] or self:add { kind = "S", value = value, stage = PLAIN }
end

-- A handle that a global holds is not carried, though one in an upvalue of a
-- global function is.
function Walk:check_global(value, parent, step, key)
  if not self.in_global or step == "upvalue" or parent and parent.in_function then return end
  if type(value) ~= "table" and type(value) ~= "userdata" then return end
  local text = self.options.global_refusal and self.options.global_refusal(value)
  if text then refusal.raise(parent, step, key, text) end
end

--- The token of a value met at a step from a parent record.
function Walk:token(value, parent, step, key)
  local bytes = scalar.write(value)
  if bytes then return bytes end
  if type(value) == "string" then return self:long_string(value) end
  if rawequal(value, GLOBALS) then self.everything = true end
  self:check_global(value, parent, step, key)
  local record = self.seen[value]
  if record then return record end
  record = self:new_record(value, parent, step, key)
  record.value, record.parent, record.step, record.key = value, parent, step, key
  record.in_function = step == "upvalue" or parent and parent.in_function
  self.pending[#self.pending + 1] = record
  return self:add(record)
end

local function by_name(walk, value)
  local name, path, standard = named.find(walk.names, value)
  if not name then return nil end
  return {
    kind = standard and "N" or "M", stage = standard and PLAIN or MODULE, name = name, path = path,
  }
end

local function replaced(walk, value, parent, step, key)
  local hook = walk.options.replace
  local special = hook and hook(value, function() return refusal.path(parent, step, key) end)
  return special and { kind = "R", stage = RESTORED, name = special.kind, data = special.data }
end

local function registered(walk, value)
  local hook = walk.options.pack_object
  if not hook or getmetatable(value) == nil then return nil end
  local data = table.pack(hook(value))
  if data[1] == nil then return nil end
  return { kind = "R", stage = RESTORED, name = "object", data = data }
end

-- Tables and userdata may mean something to the engine.
local function special_record(walk, value, parent, step, key)
  local record = replaced(walk, value, parent, step, key)
  if record then return record end
  local text = walk.options.refuse and walk.options.refuse(value)
  if text then refusal.raise(parent, step, key, text) end
  return by_name(walk, value) or registered(walk, value)
end

local NEW_RECORD = {
  table = function(walk, value, parent, step, key)
    return special_record(walk, value, parent, step, key) or { kind = "T", stage = PLAIN }
  end,
  userdata = special_record,
  ["function"] = function(walk, value)
    local record = by_name(walk, value)
    if record or debug.getinfo(value, "S").what == "C" then return record end
    local code = walk:long_string(bytecode.dump(value, walk.options.strip))
    return { kind = "F", stage = PLAIN, code = code }
  end,
  thread = function() end,
}

function Walk:new_record(value, parent, step, key)
  local record = NEW_RECORD[type(value)](self, value, parent, step, key)
  return record or refusal.raise(parent, step, key, refusal.describe(value))
end

function Walk:add_field(record, key, value)
  local fields = record.fields
  fields[#fields + 1] = self:token(key, record, "key")
  fields[#fields + 1] = self:token(value, record, "field", key)
end

local LOOK_INTO = {}

function LOOK_INTO.T(walk, record)
  local value = record.value
  local count, items = rawlen(value), {}
  record.items, record.fields = items, {}
  for i = 1, count do
    items[i] = walk:token(rawget(value, i), record, "field", i)
  end
  for key, field in next, value do
    local is_item = math.type(key) == "integer" and key >= 1 and key <= count
    if not is_item then walk:add_field(record, key, field) end
  end
  local metatable = getmetatable(value)
  if metatable then record.metatable = walk:token(metatable, record, "metatable") end
end

function Walk:want(names, environment)
  for _, name in ipairs(names) do
    local wanted = self.wanted
    wanted[#wanted + 1], wanted[#wanted + 2] = name, environment
  end
end

-- An upvalue through which a function reaches globals is followed by name only,
-- as far as the function does nothing else with it.
function Walk:environment(record, index, value)
  local uses = bytecode.uses(record.value)[index - 1]
  self:want(uses.names, value)
  if uses.dynamic then self.everything = true end
  return self.globals
end

function Walk:upvalue(record, index, name, value)
  if rawequal(value, GLOBALS) or is_spec_environment(value) then
    return self:environment(record, index, value)
  end
  return self:token(value, record, "upvalue", name)
end

-- Every function is asked for its globals, also where it shares the upvalue.
function LOOK_INTO.F(walk, record)
  local fn, index = record.value, 1
  record.upvalues, record.cells = {}, {}
  local name, value = getupvalue(fn, index)
  while name do
    local id = upvalueid(fn, index)
    local token = walk:upvalue(record, index, name, value)
    local cell = walk.cells[id]
    if not cell then
      walk.cells[id] = { record = record, index = index }
      record.cells[#record.cells + 1] = id
    end
    record.upvalues[index] = cell or token
    index = index + 1
    name, value = getupvalue(fn, index)
  end
end

function LOOK_INTO.R(walk, record)
  record.content = walk:token(record.data, record, "data", record.name)
end

-- Depth first, in no particular order.
function Walk:finish()
  local pending = self.pending
  while #pending > 0 do
    local record = table.remove(pending)
    local look = LOOK_INTO[record.kind]
    if look then look(self, record) end
  end
end

-- Removes what was met since there were `count` records.
function Walk:forget(count, wanted, everything)
  for i = #self.records, count + 1, -1 do
    local record = self.records[i]
    self.seen[record.value] = nil
    for _, id in ipairs(record.cells or {}) do
      self.cells[id] = nil
    end
    self.records[i] = nil
  end
  for i = #self.wanted, wanted + 1, -1 do
    self.wanted[i] = nil
  end
  self.pending, self.everything = {}, everything
end

--- Puts a field of a standard table into the bundle if its value can be carried.
-- @treturn nil or the Refusal
function Walk:try_field(holder, key, value, root)
  local count, wanted, everything = #self.records, #self.wanted, self.everything
  local ok, token, key_token = pcall(function()
    local token = self:token(value, nil, "root", root)
    local key_token = self:token(key, nil, "root", root)
    self:finish()
    return token, key_token
  end)
  if ok then
    holder.fields = holder.fields or {}
    table.insert(holder.fields, key_token)
    table.insert(holder.fields, token)
    return nil
  end
  if not refusal.is(token) then error(token, 0) end
  self:forget(count, wanted, everything)
  return token
end

return Walk
