--- Methods as people want to see them: names, parameters, and where they are defined.
-- @module lp.methods

local methods = {}

--- The parameters of a function, `self` left out: {"x", "y", "..."}.
local function parameters(fn)
  local info = debug.getinfo(fn, "u")
  local list = {}
  for i = 1, info.nparams do list[i] = debug.getlocal(fn, i) end
  if list[1] == "self" or list[1] == "_" then table.remove(list, 1) end
  if info.isvararg then list[#list + 1] = "..." end
  return list
end

--- One method as a record {name=, parameters=, source=, line=}.
function methods.describe(name, fn)
  local info = debug.getinfo(fn, "S")
  local known = info.what ~= "C"
  return {name = name, parameters = known and parameters(fn) or {"..."},
          source = known and info.short_src or "[C]", line = known and info.linedefined or 0}
end

--- The function under `name` along the chain of `__index` tables.
local function find(object, name)
  for _ = 1, 100 do
    if type(object) ~= "table" then return nil end
    local found = rawget(object, name)
    if found ~= nil then return found end
    local meta = debug.getmetatable(object)
    if name == "__call" and type(meta) == "table" then return rawget(meta, name) end
    object = type(meta) == "table" and rawget(meta, "__index") or nil
  end
end

--- The methods `names` of an instance, in the order of their names.
function methods.of_instance(instance, names)
  local list = {}
  table.sort(names)
  for i, name in ipairs(names) do
    local fn = find(instance, name)
    if type(fn) ~= "function" then
      list[i] = {name = name, parameters = {"..."}, source = "?", line = 0}
    else
      list[i] = methods.describe(name, fn)
    end
  end
  return list
end

local hidden = {new = true, init = true, initialize = true, set_courier_server = true}

--- The class that a constructor function makes instances of, where that can be seen: the only table
-- among what it names that is its own `__index`.
local function class_of(constructor)
  local found
  for i = 1, 60 do
    local name, value = debug.getupvalue(constructor, i)
    if not name then break end
    if type(value) == "table" and rawget(value, "__index") == value then
      if found and found ~= value then return nil end
      found = value
    end
  end
  return found
end

--- What a class, not constructed yet, will show; empty for a function that
-- does not show what it returns.
function methods.of_class(class)
  if type(class) == "function" then class = class_of(class) end
  local list, seen, first = {}, {}, class
  for _ = 1, 100 do
    if type(class) ~= "table" or class == _G then break end
    for name, fn in next, class do
      if type(name) == "string" and type(fn) == "function" and not seen[name] and
         not name:find "^_" and not hidden[name] then
        seen[name] = true
        list[#list + 1] = methods.describe(name, fn)
      end
    end
    local meta = debug.getmetatable(class)
    local parent = rawget(class, "__index")
    if parent == nil or parent == class then parent = type(meta) == "table" and rawget(meta, "__index") end
    class = parent ~= first and parent or nil
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- `name(x, y)  file.lua:12`.
function methods.text(method)
  return ("%s(%s)  %s:%d"):format(method.name, table.concat(method.parameters, ", "),
                                  method.source, method.line)
end

return methods
