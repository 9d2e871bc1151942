--- Rebuilds in a node what `lp.ship` packed: the receiving half, loaded into
-- every node and therefore small.
--
-- A bundle is a list of instructions that fill an array of objects: create a
-- table, load a function, set a field, join two upvalues, require a module. They
-- come in an order in which every instruction finds what it needs; see `lp.ship`
-- for that order. Bundles contain bytecode, which a damaged bundle could turn
-- into a crash, so a sum over all bytes is checked first. Against forgery it is
-- no protection: bundles are accepted from the launcher only.
-- @module lp.unship

local unship = {}

local byte, rep, sub, unpack = string.byte, string.rep, string.sub, string.unpack
local rawset, unpack_table = rawset, table.unpack
local setmetatable, getmetatable = debug.setmetatable, debug.getmetatable
local setupvalue, upvaluejoin = debug.setupvalue, debug.upvaluejoin

--- The first bytes of a bundle; they are followed by the sum, eight bytes.
unship.SIGNATURE = "LPS1"

local BODY = #unship.SIGNATURE + 8 + 1

-- How a value is written: a byte that names its kind, then this.
local FORMATS = { [byte "b"] = "<b", [byte "i"] = "<i8", [byte "d"] = "<d", [byte "s"] = "<s1" }
local CONSTANTS = { [byte "t"] = true, [byte "f"] = false }
local REFERENCE, NIL = byte "r", byte "n"

--- A sum of all bytes that differs whenever a single word of them does.
-- @tparam string bundle
-- @tparam integer from the first byte counted
function unship.sum(bundle, from)
  local sum, prime, last = #bundle, 0x100000001b3, #bundle - 31
  while from <= last do
    local a, b, c, d
    a, b, c, d, from = unpack("<i8i8i8i8", bundle, from)
    sum = ((((sum ~ a) * prime ~ b) * prime ~ c) * prime ~ d) * prime
    sum = sum ~ sum >> 29
  end
  local tail = sub(bundle, from)
  local a, b, c, d = unpack("<i8i8i8i8", tail .. rep("\0", 32 - #tail))
  return ((((sum ~ a) * prime ~ b) * prime ~ c) * prime ~ d) * prime
end

local function damaged(what)
  error("the bundle is damaged: " .. what, 0)
end

local function take(reader, format)
  local value
  value, reader.position = unpack(format, reader.bundle, reader.position)
  return value
end

local function object(reader)
  local index = take(reader, "<I4")
  if index >= reader.count then damaged "it refers to what it does not contain" end
  return reader.objects[index]
end

local function read(reader)
  local kind = byte(reader.bundle, reader.position)
  reader.position = reader.position + 1
  local format = FORMATS[kind]
  if format then
    local value
    value, reader.position = unpack(format, reader.bundle, reader.position)
    return value
  end
  if kind == REFERENCE then return object(reader) end
  if kind ~= NIL and CONSTANTS[kind] == nil then damaged "it has a value of an unknown kind" end
  return CONSTANTS[kind]
end

local function add(reader, value)
  reader.objects[reader.count] = value
  reader.count = reader.count + 1
end

-- Follows the keys of a path; nil stands for the metatable. Not raw: a module may
-- load its fields when they are asked for.
local function follow(reader, value, module)
  local place = module
  for _ = 1, take(reader, "<I4") do
    local key = read(reader)
    place = place .. "." .. tostring(key or "(metatable)")
    if key == nil then
      value = getmetatable(value)
    else
      value = type(value) == "table" and value[key] or nil
    end
    if value == nil and reader.missing then return reader.missing(place) end
    if value == nil then error("there is no '" .. place .. "' in this node", 0) end
  end
  return value
end

local function require_module(reader, name)
  local ok, module = pcall(reader.options.require or require, name)
  if not ok and reader.missing then return reader.missing(name) end
  if not ok then
    error(("cannot load module '%s', which this node uses: %s"):format(name, tostring(module)), 0)
  end
  return module
end

-- Reading one of these globals raises; assigning it makes it an ordinary one.
local function refuse_global(reader, name, text)
  if not reader.refused then
    local globals, refused = reader.globals, {}
    local metatable = getmetatable(globals) or {}
    local inherited = rawget(metatable, "__index")
    rawset(metatable, "__index", function(_, key)
      if refused[key] then error(refused[key], 2) end
      if type(inherited) == "function" then return inherited(globals, key) end
      return inherited and inherited[key]
    end)
    setmetatable(globals, metatable)
    reader.refused = refused
  end
  reader.refused[name] = text
end

local INSTRUCTIONS = {
  -- tables: how many
  [byte "T"] = function(reader)
    local count = take(reader, "<I4")
    if count > #reader.bundle then damaged "it has more tables than bytes" end
    for _ = 1, count do
      add(reader, {})
    end
  end,
  -- string
  [byte "S"] = function(reader) add(reader, take(reader, "<s4")) end,
  -- function: its bytecode. The explicit nil keeps load from setting an upvalue
  [byte "F"] = function(reader) add(reader, assert(load(object(reader), "=bundle", "b", nil))) end,
  -- standard: library, path
  [byte "N"] = function(reader)
    local name = take(reader, "<s1")
    local library = reader.loaded and {} or getmetatable("")
    if name == "_G" then
      library = reader.globals
    elseif name ~= "" then
      library = (reader.loaded or package.loaded)[name] or reader.loaded and {}
    end
    add(reader, follow(reader, library, name))
  end,
  -- module: name, path
  [byte "M"] = function(reader)
    local name = take(reader, "<s4")
    add(reader, follow(reader, require_module(reader, name), name))
  end,
  -- restored: kind, data
  [byte "R"] = function(reader)
    local kind, options = take(reader, "<s1"), reader.options
    local data = object(reader)
    if kind == "object" then return add(reader, options.unpack_object(unpack_table(data, 1, data.n))) end
    add(reader, options.restore(kind, data))
  end,
  -- fields: table, how many, keys and values
  [byte "f"] = function(reader)
    local target = object(reader)
    for _ = 1, take(reader, "<I4") do
      local key = read(reader)
      local value = read(reader)
      if not reader.is_missing or not reader.is_missing(value) then rawset(target, key, value) end
    end
  end,
  -- items from index 1: table, how many, values
  [byte "a"] = function(reader)
    local target = object(reader)
    for i = 1, take(reader, "<I4") do
      rawset(target, i, read(reader))
    end
  end,
  -- upvalue: function, index, value
  [byte "u"] = function(reader)
    local target = object(reader)
    setupvalue(target, take(reader, "B"), read(reader))
  end,
  -- shared upvalue: function, index, function it comes from, index there
  [byte "j"] = function(reader)
    local target, index, source = object(reader), take(reader, "B"), object(reader)
    upvaluejoin(target, index, source, take(reader, "B"))
  end,
  -- metatable: table, metatable
  [byte "m"] = function(reader)
    local target = object(reader)
    setmetatable(target, object(reader))
  end,
  -- global that was not carried: name, text
  [byte "g"] = function(reader)
    local name = take(reader, "<s4")
    refuse_global(reader, name, take(reader, "<s4"))
  end,
}

local END = byte "E"

local function run(reader)
  while true do
    local code = byte(reader.bundle, reader.position)
    reader.position = reader.position + 1
    if code == END then return end
    local instruction = INSTRUCTIONS[code]
    if not instruction then damaged "it has an unknown instruction" end
    instruction(reader)
  end
end

local function check(bundle)
  if sub(bundle, 1, #unship.SIGNATURE) ~= unship.SIGNATURE then
    error("this is not a bundle, or one of another version", 0)
  end
  if #bundle < BODY or unpack("<i8", bundle, BODY - 8) ~= unship.sum(bundle, BODY) then
    damaged "its check sum is wrong"
  end
end

--- Rebuilds the values of a bundle in this interpreter.
-- @tparam string bundle what `ship.pack` returned
-- @tparam[opt] table options `restore(kind, data)` for values that were replaced
--   when packed, `unpack_object(name, ...)` for registered objects, `globals`
--   (default _G), `require` (default the global one), `loaded` (the standard libraries by name,
--   default package.loaded), `missing(name)` gives what stands for a
--   value that is not there, `is_missing(value)` knows it: it replaces nothing. May wait where these do.
-- @return the values, in the order packed, nils included
-- @raise a string: which module is missing, or that the bundle is damaged
function unship.load(bundle, options)
  check(bundle)
  local reader = {
    bundle = bundle, position = BODY, objects = {}, count = 0,
    options = options or {}, globals = options and options.globals or _G,
    loaded = options and options.loaded, missing = options and options.missing,
    is_missing = options and options.is_missing,
  }
  run(reader)
  local values, count = {}, take(reader, "<I4")
  for i = 1, count do
    values[i] = read(reader)
  end
  return unpack_table(values, 1, count)
end

return unship
