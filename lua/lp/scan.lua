--- Finds the handles that would travel with a node: at any depth of tables, in upvalues
-- of functions, in metatables, and behind the globals that carried functions name.
-- It follows the rules of what travels (lp.ship.named, lp.ship.bytecode) but copies nothing and
-- refuses nothing, so that the edges of a graph can be shown which cannot be launched.
-- @module lp.scan

local bytecode = require "lp.ship.bytecode"
local handle = require "lp.handle"
local named = require "lp.ship.named"

local scan = {}

--- Tables that are never looked into: the graph itself, refused as an argument anyway.
local function opaque(meta)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return name == "lp.Program" or name == "lp.Node"
end

--- The path of an entry in words: "argument 2.peers[1]".
local function path_of(entry)
  local steps = {}
  while entry do
    table.insert(steps, 1, entry.step)
    entry = entry.parent
  end
  return table.concat(steps)
end

local function step_of(key)
  if math.type(key) == "integer" then return "[" .. key .. "]" end
  if type(key) == "string" and key:find("^[%a_][%w_]*$") then return "." .. key end
  return "[" .. require("lp.options").describe(key) .. "]"
end

--- One walk over a list of work: cycles and depth do not matter. An entry that is `bare` was
-- reached from a global without passing through a function: handles there are not carried.
local Walk = {}
Walk.__index = Walk

function Walk:add(value, parent, step, bare)
  local kind = type(value)
  if kind ~= "table" and kind ~= "function" or self.seen[value] or value == _G then return end
  if bare and handle.is(value) then return end
  self.seen[value] = true
  if named.find(self.names, value) ~= nil then return end
  self.work[#self.work + 1] = {value = value, parent = parent, step = step, bare = bare}
end

function Walk:enter_table(entry)
  local meta = debug.getmetatable(entry.value)
  if opaque(meta) then return end
  for key, value in next, entry.value do
    self:add(key, entry, ".(key)", entry.bare)
    self:add(value, entry, step_of(key), entry.bare)
  end
  self:add(meta, entry, ".(metatable)", entry.bare)
end

--- Notes the globals a function names through its upvalue `index`.
function Walk:note_globals(entry, index)
  local use = bytecode.uses(entry.value)[index - 1]
  for _, name in ipairs(use.names) do table.insert(self.wanted, {name, entry}) end
  if not use.dynamic then return end
  for name in next, _G do table.insert(self.wanted, {name, entry}) end
end

--- Is this how a function reaches its globals? The runner of specs gives functions an empty
-- environment that looks names up elsewhere.
local function is_environment(name, value)
  return value == _G or name == "_ENV" and type(value) == "table" and next(value) == nil
end

function Walk:enter_function(entry)
  if debug.getinfo(entry.value, "S").what == "C" then return end
  local index = 1
  local name, value = debug.getupvalue(entry.value, index)
  while name do
    if is_environment(name, value) then
      self:note_globals(entry, index)
    else
      self:add(value, entry, ": upvalue '" .. name .. "'")
    end
    index = index + 1
    name, value = debug.getupvalue(entry.value, index)
  end
end

function Walk:enter(entry, found)
  if handle.is(entry.value) then
    found(entry.value, path_of(entry))
  elseif type(entry.value) == "table" then
    self:enter_table(entry)
  else
    self:enter_function(entry)
  end
end

--- Works the list off, and only then what is behind globals.
function Walk:run(found)
  local at, global = 1, 1
  while self.work[at] or self.wanted[global] do
    if self.work[at] then
      self:enter(self.work[at], found)
      at = at + 1
    else
      local name, entry = table.unpack(self.wanted[global])
      global = global + 1
      self:add(rawget(_G, name), entry, ": global " .. tostring(name), true)
    end
  end
end

--- A scanner for the nodes of one program: what travels by name is worked out once.
-- @treturn func scan(roots, found): `roots` is an array of {value, "its name"}; calls
--   `found(handle, path)` once for each handle object
function scan.scanner()
  local names = named.map(named.snapshot())
  return function(roots, found)
    local walk = setmetatable({names = names, seen = {}, work = {}, wanted = {}}, Walk)
    for _, root in ipairs(roots) do walk:add(root[1], nil, root[2]) end
    walk:run(found)
  end
end

return scan
