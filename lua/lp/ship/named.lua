--- What every node can find by itself: standard functions, and whatever hangs
-- in package.loaded. Such values travel to a node as a name, not as a copy.
-- The map is built when first needed and again when package.loaded has changed.
--
-- The standard library is known by its names in the reference manual and not by
-- what a snapshot happens to find, so that it does not matter whether the script
-- or this module came first. The snapshot adds to it the values behind the names,
-- to notice when a script has replaced one.
-- @module lp.ship.named

local named = {}

-- The strings' metatable is reachable through no module; it gets an empty name.
local STRING_METATABLE = ""

-- package.path and package.cpath are left out on purpose: as "additions" they
-- always go along.
local STANDARD = {
  _G = "_G _VERSION assert collectgarbage coroutine debug dofile error getmetatable io ipairs load "
    .. "loadfile math next os package pairs pcall print rawequal rawget rawlen rawset require "
    .. "select setmetatable string table tonumber tostring type utf8 warn xpcall",
  coroutine = "close create isyieldable resume running status wrap yield",
  debug = "debug gethook getinfo getlocal getmetatable getregistry getupvalue getuservalue "
    .. "sethook setlocal setmetatable setupvalue setuservalue traceback upvalueid upvaluejoin setcstacklimit",
  io = "close flush input lines open output popen read stderr stdin stdout tmpfile type write",
  math = "abs acos asin atan ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max "
    .. "maxinteger min mininteger modf pi pow rad random randomseed sin sinh sqrt tan tanh "
    .. "tointeger type ult",
  os = "clock date difftime execute exit getenv remove rename setlocale time tmpname",
  package = "config loaded loadlib preload searchers searchpath",
  string = "byte char dump find format gmatch gsub len lower match pack packsize rep reverse sub "
    .. "unpack upper",
  table = "concat insert move pack remove sort unpack",
  utf8 = "char charpattern codepoint codes len offset",
  [STRING_METATABLE] = "__add __div __idiv __index __mod __mul __pow __sub __unm",
}

local LIBRARIES = {
  "_G", "coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8",
  STRING_METATABLE,
}

-- Types of values that have an identity to be named by.
local NAMEABLE = { ["function"] = true, table = true, userdata = true }

local PATH_KEYS = { string = true, number = true }

local function library_table(name)
  if name == STRING_METATABLE then return debug.getmetatable("") end
  return package.loaded[name]
end

--- Takes down the standard library as it is now.
-- @treturn table a baseline, for `named.map` and `named.additions`
function named.snapshot()
  local baseline = { libraries = {} }
  for _, name in ipairs(LIBRARIES) do
    local object = library_table(name)
    if type(object) == "table" then
      local values = {}
      for key in STANDARD[name]:gmatch("%S+") do
        values[key] = rawget(object, key)
      end
      table.insert(baseline.libraries, { name = name, object = object, values = values })
    end
  end
  return baseline
end

--- What was added to a library table, or replaced in it, since the snapshot.
-- @tparam table library an entry of a baseline
-- @treturn function an iterator over keys and values
function named.additions(library)
  local values, object = library.values, library.object
  return function(_, key)
    local value
    repeat
      key, value = next(object, key)
    until key == nil or values[key] ~= value
    return key, value
  end
end

-- Weak, so that the map does not keep alive what a module has let go.
local function new_map(baseline)
  return {
    baseline = baseline,
    holder = setmetatable({}, { __mode = "k" }), -- object -> table or userdata it was found in
    key = setmetatable({}, { __mode = "k" }), -- object -> key there; nil: it is the metatable
    root = {}, -- object -> name of the module it is
    standard = {}, -- the roots that need no require
    modules = {}, modules_count = 0, -- package.loaded as it was
  }
end

local function known(map, object)
  return map.root[object] ~= nil or map.holder[object] ~= nil
end

local function add(map, queue, object, holder, key)
  if NAMEABLE[type(object)] and not known(map, object) then
    map.holder[object], map.key[object] = holder, key
    queue[#queue + 1] = object
  end
end

local function add_root(map, queue, object, name)
  if NAMEABLE[type(object)] and not known(map, object) then
    map.root[object] = name
    queue[#queue + 1] = object
  end
end

local function is_weak(metatable)
  return type(metatable) == "table" and rawget(metatable, "__mode") ~= nil
end

-- Weak tables are registries more often than interfaces: a node's copy of the
-- module will not have the same entries.
local function visit(map, queue, object)
  if type(object) == "function" then return end
  local metatable = debug.getmetatable(object)
  if type(object) == "table" and not is_weak(metatable) then
    for key, value in next, object do
      if PATH_KEYS[type(key)] then add(map, queue, value, object, key) end
    end
  end
  if metatable then add(map, queue, metatable, object, nil) end
end

-- Breadth first, so that every object gets a shortest path.
local function walk(map, queue)
  local at = 1
  while queue[at] ~= nil do
    visit(map, queue, queue[at])
    at = at + 1
  end
end

local function add_library(map, queue, library)
  for key, value in next, library.values do
    -- These two have names, but what is in them has names of its own or none.
    local registry = value == package.loaded or value == package.preload
    add(map, registry and {} or queue, value, library.object, key)
  end
end

local function add_libraries(map, queue)
  local libraries = map.baseline.libraries
  for _, library in ipairs(libraries) do
    map.root[library.object] = library.name
    map.standard[library.name] = true
  end
  for _, library in ipairs(libraries) do
    add_library(map, queue, library)
  end
end

local function sorted_modules(map)
  local names = {}
  for name, value in next, package.loaded do
    map.modules[name] = value
    map.modules_count = map.modules_count + 1
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function build(baseline)
  local map = new_map(baseline)
  local queue = {}
  add_libraries(map, queue)
  walk(map, queue)
  queue = {}
  for _, name in ipairs(sorted_modules(map)) do
    add_root(map, queue, package.loaded[name], name)
  end
  walk(map, queue)
  return map
end

local function is_current(map)
  local count = 0
  for name, value in next, package.loaded do
    if not rawequal(map.modules[name], value) then return false end
    count = count + 1
  end
  return count == map.modules_count
end

--- The map from objects to names, for a baseline and the modules loaded now.
function named.map(baseline)
  if not baseline.map or not is_current(baseline.map) then baseline.map = build(baseline) end
  return baseline.map
end

--- Looks an object up.
-- @treturn[1] string the name of the module it is in
-- @treturn[1] table the path there, its last step first: keys, false for a metatable
-- @treturn[1] boolean whether the module is part of the standard library
-- @treturn[2] nil when the object has no name
function named.find(map, object)
  if not known(map, object) then return nil end
  local path = {}
  while map.root[object] == nil do
    path[#path + 1] = map.key[object] or false
    object = map.holder[object]
  end
  local name = map.root[object]
  return name, path, map.standard[name] == true
end

return named
