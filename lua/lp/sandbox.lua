--- The sandbox of a node: a world of globals that holds what a script may have that is not
-- trusted, and no way out of it. The engine's own modules keep the real globals.
-- @module lp.sandbox

local core = require "lp.core"
local stdio = require "lp.stdio" -- luacheck: ignore (it has replaced io and print)

local sandbox = {}

--- What a sandboxed node may have of the module lp.
local allowed = {}
for name in ([[now sleep yield spawn shield context map array call defer_reply list_methods with
    error log Event Queue Semaphore every gather wait as_completed wait_for_stop stop_event
    register_stop_handler unregister_stop_handler batched_handler]]):gmatch "%S+" do
  allowed[name] = true
end

local LONGEST_CHUNK = 1 << 20 -- bytes that load compiles, in C
local LONGEST_TABLE = 10000000 -- what table functions may be told to walk over in C

-- ---------------------------------------------------------------- libraries

local function copy(from, names)
  local to = {}
  for name in names:gmatch "%S+" do to[name] = from[name] end
  return to
end

--- `#t` of a table whose length metamethod lies would keep C busy for ever.
local function check_length(list)
  if #list > LONGEST_TABLE then
    error(("the table's length is more than %d (a bound of this sandboxed node)"):format(LONGEST_TABLE), 3)
  end
end

local function bounded_table()
  local bounded = copy(table, "pack")
  for name in ("concat insert remove sort unpack"):gmatch "%S+" do
    local original = table[name]
    bounded[name] = function(list, ...)
      if type(list) == "table" then check_length(list) end
      return original(list, ...)
    end
  end
  function bounded.concat(list, separator, first, last)
    if type(list) == "table" then check_length(list) end
    local count = (math.tointeger(last) or 0) - (math.tointeger(first) or 0)
    if count > LONGEST_TABLE then check_length(setmetatable({}, {__len = function() return count end})) end
    return table.concat(list, separator, first, last)
  end
  function bounded.move(from, first, last, at, to)
    local count = (math.tointeger(last) or 0) - (math.tointeger(first) or 0)
    if count > LONGEST_TABLE then check_length(setmetatable({}, {__len = function() return count end})) end
    return table.move(from, first, last, at, to)
  end
  return bounded
end

local function bounded_string(options)
  local bounded = copy(string, "byte char format len lower pack packsize reverse sub unpack upper")
  for name, fn in pairs(core.bounded(options.pattern_steps, options.string_bytes)) do
    bounded[name] = fn
  end
  return bounded
end

--- What each library is here.
local libraries = {
  string = function(options) return bounded_string(options) end,
  table = bounded_table,
  math = function()
    return copy(math, [[abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger min mininteger
                        modf pi rad random randomseed sin sqrt tan tointeger type ult pow cosh sinh tanh]])
  end,
  utf8 = function() return copy(utf8, "char charpattern codepoint codes len offset") end,
  coroutine = function() return copy(coroutine, "close create isyieldable resume running status wrap yield") end,
  os = function() return copy(os, "clock date difftime time exit") end,
  io = function() return copy(io, "write stdout stderr type") end,
}

-- ---------------------------------------------------------------- modules

--- The module lp, as far as it is allowed.
local function facade()
  local lp = require "lp"
  return setmetatable({}, {
    __index = function(self, name)
      if not allowed[name] then return nil end
      local value = lp[name]
      rawset(self, name, value)
      return value
    end,
    __metatable = false,
  })
end

local function filtered(module)
  local names = {}
  for name in pairs(allowed) do names[name] = type(module) == "table" and module[name] or nil end
  return names
end

--- `require` for what the launcher's script has referred to: its own modules are loaded as text,
-- into this world. The script's own `require` has only what is there already.
local function requires(world, loaded)
  local loading = 0 -- modules of the bundle's, which may require others
  local function for_bundle(name)
    if loaded[name] then return loaded[name] end
    if name:find "^lp%." or name == "lp" then
      loaded[name] = name == "lp" and facade() or filtered(require(name))
      return loaded[name]
    end
    local preloaded = loaded.package.preload[name]
    if preloaded then
      loaded[name] = preloaded(name, ":preload:") or true
      return loaded[name]
    end
    local path, mistake = package.searchpath(name, loaded.package.path)
    if not path then error(("module '%s' not found:%s"):format(name, mistake), 0) end
    local chunk = assert(load(assert(require("lp.files").read(path)), "@" .. path, "t", world))
    loading = loading + 1
    local ok, value = pcall(chunk, name, path)
    loading = loading - 1
    if not ok then error(value, 0) end
    loaded[name] = value == nil and true or value
    return loaded[name]
  end
  local function for_script(name)
    if name == "lp" or loading > 0 then return for_bundle(name) end
    if loaded[name] and name ~= "package" then return loaded[name] end
    error(("module '%s' is not available in a sandboxed node"):format(tostring(name)), 2)
  end
  return for_bundle, for_script
end

-- ---------------------------------------------------------------- the world

--- load: text only, into this world unless told otherwise.
local function loader(world)
  return function(chunk, name, _, ...)
    if type(chunk) == "function" then
      local parts = {}
      for part in chunk do
        if part == "" then break end
        parts[#parts + 1] = part
      end
      chunk = table.concat(parts)
    end
    if type(chunk) == "string" and #chunk > LONGEST_CHUNK then
      return nil, ("the chunk is longer than %d bytes (a bound of this sandboxed node)"):format(LONGEST_CHUNK)
    end
    if select("#", ...) > 0 then return load(chunk, name, "t", (...)) end
    return load(chunk, name, "t", world)
  end
end

--- Finalisers run where nothing can interrupt them.
local function bounded_setmetatable(target, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("setmetatable: no __gc in a sandboxed node (__close is allowed)", 2)
  end
  return setmetatable(target, metatable)
end

local function collect(option)
  if option == nil or option == "count" then return collectgarbage "count" end
  if option == "collect" or option == "step" then return 0 end
  error("collectgarbage: only \"count\" in a sandboxed node", 2)
end

local function new_world(options)
  local world = copy(_G, [[_VERSION assert error getmetatable ipairs next pairs pcall print rawequal rawget
                           rawlen rawset select setmetatable tonumber tostring type xpcall warn]])
  -- Not to be seen by scripts: what the launcher's bundle says about modules goes here.
  local loaded = {_G = world, package = {path = package.path, cpath = "", preload = {}, loaded = {}, searchers = {}}}
  world._G = world
  world.load = loader(world)
  world.collectgarbage, world.setmetatable = collect, bounded_setmetatable
  for _, name in ipairs(options.libraries) do
    world[name] = libraries[name](options)
    loaded[name] = world[name]
  end
  return world, loaded
end

--- Methods of strings are these from now on, for everybody in this interpreter; scripts cannot
-- reach the table they come from.
local function bound_string_methods(options)
  local metatable = debug.getmetatable ""
  metatable.__index = bounded_string(options)
  metatable.__metatable = false
end

--- Stands for a standard function that the launcher's script refers to and that is not here.
local stubs = setmetatable({}, {__mode = "k"})

local function missing(name)
  local function stub() error(name .. " is not available in a sandboxed node", 2) end
  stubs[stub] = true
  return stub
end

local function is_missing(value)
  return value ~= nil and stubs[value] == true
end

--- Puts this node into a sandbox. What its bundle holds is to be loaded with what is returned.
-- @tparam table options `libraries`, `pattern_steps`, `string_bytes`, `instructions`
-- @treturn table for unship.load: globals, require, loaded
function sandbox.enter(options)
  local world, loaded = new_world(options)
  local for_bundle, for_script = requires(world, loaded)
  world.require = for_script
  bound_string_methods(options)
  if options.instructions > 0 then core.instructions(options.instructions) end
  return {globals = world, require = for_bundle, loaded = loaded, missing = missing,
          is_missing = is_missing}
end

return sandbox
