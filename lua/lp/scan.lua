--- Finds the handles that would travel with a node: at any depth of tables, in upvalues
-- of functions, in metatables, and behind the globals that carried functions name.
-- It follows the rules of what travels (lp.named, lp.bytecode) but copies nothing and
-- refuses nothing, so that the edges of a graph can be shown which cannot be launched.
-- @module lp.scan

local handle = require "lp.handle"
local named = require "lp.named"

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

--- One walk, breadth first over a list of work: cycles and depth do not matter.
local Walk = {}
Walk.__index = Walk

function Walk:add(value, parent, step)
  local kind = type(value)
  if kind ~= "table" and kind ~= "function" or self.seen[value] or value == _G then return end
  self.seen[value] = true
  if named.find(self.names, value) ~= nil then return end
  self.work[#self.work + 1] = {value = value, parent = parent, step = step}
end

function Walk:enter_table(entry)
  local meta = debug.getmetatable(entry.value)
  if opaque(meta) then return end
  for key, value in next, entry.value do
    self:add(key, entry, ".(key)")
    self:add(value, entry, step_of(key))
  end
  self:add(meta, entry, ".(metatable)")
end

--- A global goes along with the function that names it; a handle that is itself the value
-- of a global does not.
function Walk:add_global(name, entry)
  local value = rawget(_G, name)
  if not handle.is(value) then
    self:add(value, entry, ": global " .. require("lp.options").describe(name))
  end
end

function Walk:enter_globals(entry, index, count)
  local use = require("lp.bytecode").uses(string.dump(entry.value, true), count)[index - 1]
  for _, name in ipairs(use.names) do self:add_global(name, entry) end
  if not use.dynamic then return end
  for name in next, _G do self:add_global(name, entry) end
end

function Walk:enter_function(entry)
  local info = debug.getinfo(entry.value, "Su")
  if info.what == "C" then return end
  for index = 1, info.nups do
    local name, value = debug.getupvalue(entry.value, index)
    if value == _G then
      self:enter_globals(entry, index, info.nups)
    elseif name ~= "_ENV" then
      self:add(value, entry, ": upvalue '" .. name .. "'")
    end
  end
end

function Walk:run(found)
  local at = 1
  while self.work[at] do
    local entry = self.work[at]
    if handle.is(entry.value) then
      found(entry.value, path_of(entry))
    elseif type(entry.value) == "table" then
      self:enter_table(entry)
    else
      self:enter_function(entry)
    end
    at = at + 1
  end
end

--- A scanner for the nodes of one program: what travels by name is worked out once.
-- @treturn func scan(roots, found): `roots` is an array of {value, "its name"}; calls
--   `found(handle, path)` once for each handle object
function scan.scanner()
  local names = named.map(named.snapshot())
  return function(roots, found)
    local walk = setmetatable({names = names, seen = {}, work = {}}, Walk)
    for _, root in ipairs(roots) do walk:add(root[1], nil, root[2]) end
    walk:run(found)
  end
end

return scan
