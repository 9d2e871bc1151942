--- New code for a node that runs: the receiving half of lp.reload, loaded into a node when it is
-- first given new code.
--
-- What the node has made stays: its instance, tables it can reach, clients. Functions are replaced
-- where they are, in the class of the instance, in modules that changed, in tables of functions
-- that these hold. Whatever runs goes on with the functions it began with.
-- @module lp.renew

local core = require "lp.core"

local renew = {}

local getupvalue, upvaluejoin = debug.getupvalue, debug.upvaluejoin

--- Finds the upvalue of a name.
local function upvalue_named(fn, name)
  local i = 1
  while true do
    local known, value = getupvalue(fn, i)
    if not known then return nil end
    if known == name then return i, value end
    i = i + 1
  end
end

local patch

--- Gives a new function what the one in whose place it comes has made: upvalues that hold tables,
-- clients and the like are the old ones (tables with their functions replaced), functions and
-- plain values are the new ones.
local function adopt(old, new, seen)
  if seen[new] then return end
  seen[new] = true
  local i = 1
  while true do
    local name, value = getupvalue(new, i)
    if not name then return end
    local at, before = upvalue_named(old, name)
    local kind = type(value)
    if at and name ~= "_ENV" and type(before) == kind then
      if kind == "table" then
        patch(before, value, seen)
        upvaluejoin(new, i, old, at)
      elseif kind == "userdata" or kind == "thread" then
        upvaluejoin(new, i, old, at)
      elseif kind == "function" then
        adopt(before, value, seen)
      end
    end
    i = i + 1
  end
end

--- Makes the table `old` one of the new code: functions and plain values are replaced, functions
-- that are gone are removed, tables within are treated alike, what only `old` has stays.
function patch(old, new, seen)
  if rawequal(old, new) or seen[old] or old == _G then return end
  seen[old] = true
  for key, value in next, new do
    local before = rawget(old, key)
    if type(value) == "table" and type(before) == "table" then
      patch(before, value, seen)
    elseif type(value) == "function" and type(before) == "function" then
      adopt(before, value, seen)
      rawset(old, key, value)
      renew.count = renew.count + 1
    elseif rawequal(value, new) then
      rawset(old, key, old)
    else
      rawset(old, key, value)
    end
  end
  for key, value in next, old do
    if type(value) == "function" and rawget(new, key) == nil then rawset(old, key, nil) end
  end
  local before, after = debug.getmetatable(old), debug.getmetatable(new)
  if type(before) == "table" and type(after) == "table" then
    patch(before, after, seen)
  elseif before == nil and type(after) == "table" then
    debug.setmetatable(old, after)
  end
end

--- Where this node's modules are, and what loads them.
local function modules_of_node()
  local kept = package.loaded["lp.kept"]
  local sandbox = kept and kept.sandbox
  if sandbox then return sandbox.loaded, sandbox.require end
  return package.loaded, require
end

--- Loads the modules that have changed, all or none. Returns name -> value, before and now.
local function load_modules(names, loaded, load_module)
  local old, new = {}, {}
  for _, name in ipairs(names) do old[name], loaded[name] = loaded[name], nil end
  for name in pairs(old) do
    local ok, value = pcall(load_module, name)
    if not ok then
      for other, before in pairs(old) do loaded[other] = before end
      error(value, 0)
    end
    new[name] = value
  end
  return old, new
end

local function patch_modules(names, seen)
  local loaded, load_module = modules_of_node()
  local old, new = load_modules(names, loaded, load_module)
  for name, value in pairs(new) do
    if type(value) == "table" and type(old[name]) == "table" then
      patch(old[name], value, seen)
      loaded[name] = old[name]
    end
  end
end

--- A copy of the class as it is, for `__reload`.
local function class_of(instance)
  local metatable = debug.getmetatable(instance)
  local class = type(metatable) == "table" and rawget(metatable, "__index")
  if type(class) ~= "table" then class = type(instance) == "table" and instance or {} end
  local copy = {}
  for key, value in next, class do copy[key] = value end
  return copy
end

local function hook_of(instance)
  local metatable = type(instance) == "table" and debug.getmetatable(instance)
  local class = type(metatable) == "table" and rawget(metatable, "__index")
  local hook = type(class) == "table" and class.__reload or rawget(instance, "__reload")
  return type(hook) == "function" and hook or nil
end

--- Takes new code.
-- @tparam function unpack gives the values of the bundle
-- @tparam table modules names of modules whose files have changed
-- @treturn int how many functions were replaced
-- @raise what is wrong with the new code; then nothing has been replaced, unless it was the
--   instance's `__reload` that raised
function renew.take(unpack, modules)
  local instance, old = core.instance(), core.constructor()
  if instance == nil or old == nil then
    error("there is nothing to replace: the node has no instance whose class could get new methods", 0)
  end
  local before = class_of(instance)
  local seen = {}
  renew.count = 0
  patch_modules(modules, seen)
  local new = unpack()
  if type(old) == "table" and type(new) == "table" then
    patch(old, new, seen)
  elseif type(old) == "function" and type(new) == "function" then
    adopt(old, new, seen)
  else
    error(("the constructor was a %s and is a %s now: restart the node"):format(type(old), type(new)), 0)
  end
  if renew.count == 0 and #modules == 0 then
    error("there is nothing to replace: its methods are not in a class that the constructor refers to", 0)
  end
  local hook = hook_of(instance)
  if hook then hook(instance, before) end
  return renew.count
end

return renew
