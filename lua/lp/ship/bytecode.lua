--- Which global names a function uses, read from its bytecode.
-- A node is sent only the globals its functions name, and Lua has no other way
-- to ask: the compiler turns `x` into an access of the upvalue _ENV with the
-- constant "x". The reader understands what string.dump of Lua 5.4 writes,
-- stripped of debug information; for anything else it answers "all".
-- It relies on opcode numbers, which have not changed within 5.4.
-- @module lp.ship.bytecode

local bytecode = {}

local byte, sub, unpack = string.byte, string.sub, string.unpack

-- Signature, version 5.4, format 0, the conversion check, and the sizes of an
-- instruction, an integer and a float; then an integer, a float and the number
-- of upvalues.
local HEADER = "\27Lua\x54\0\x19\x93\r\n\x1a\n\4\8\8"
local FIRST_FUNCTION = #HEADER + 8 + 8 + 1 + 1

local GETUPVAL, GETTABUP, SETTABUP = 9, 11, 15

-- Constant types: their sizes in the dump, strings apart.
local CONSTANT_BYTES = { [0x00] = 0, [0x01] = 0, [0x11] = 0, [0x03] = 8, [0x13] = 8 }
local SHORT_STRING, LONG_STRING = 0x04, 0x14

-- Standard functions that run code which may read any global of the node.
local LOADERS = { _G = true, load = true, loadfile = true, dofile = true }

-- Numbers are written seven bits at a time, the last byte has the eighth set.
local function read_size(code, position)
  local size = 0
  while true do
    local digit = byte(code, position)
    position = position + 1
    size = size << 7 | digit & 0x7f
    if digit >= 0x80 then return size, position end
  end
end

-- A string's size counts one more than its bytes; zero is no string.
local function read_string(code, position)
  local size
  size, position = read_size(code, position)
  if size == 0 then return nil, position end
  return sub(code, position, position + size - 2), position + size - 1
end

local function read_constants(code, position)
  local constants, count = {}
  count, position = read_size(code, position)
  for i = 0, count - 1 do
    local kind = byte(code, position)
    position = position + 1
    if kind == SHORT_STRING or kind == LONG_STRING then
      constants[i], position = read_string(code, position)
    else
      position = position + CONSTANT_BYTES[kind]
    end
  end
  return constants, position
end

-- Maps a function's upvalues to the use records of the outermost function's;
-- those captured from a local variable of the parent map to nothing, since the
-- parent must have read the environment itself to put it there.
local function read_upvalues(code, position, outer)
  local uses, count = {}
  count, position = read_size(code, position)
  for i = 0, count - 1 do
    local in_stack, index = byte(code, position, position + 1)
    if in_stack == 0 then uses[i] = outer[index] end
    position = position + 3
  end
  return uses, position
end

local function note(use, name)
  if not use then return end
  if name and not LOADERS[name] then
    use.names[#use.names + 1] = name
  else
    use.dynamic = true
  end
end

local function scan(code, position, count, constants, uses)
  for at = position, position + 4 * (count - 1), 4 do
    local word = unpack("=I4", code, at)
    local operation = word & 0x7f
    if operation == GETTABUP then
      note(uses[word >> 16 & 0xff], constants[word >> 24])
    elseif operation == SETTABUP then
      note(uses[word >> 7 & 0xff], constants[word >> 16 & 0xff])
    elseif operation == GETUPVAL then
      note(uses[word >> 16 & 0xff], nil)
    end
  end
end

-- Debug information of a stripped dump is four empty lists.
local function skip_debug(code, position)
  for _ = 1, 4 do
    local count
    count, position = read_size(code, position)
    assert(count == 0, "the dump is not stripped")
  end
  return position
end

-- `own` are the use records of the outermost function, whose upvalues are their
-- own records whatever the dump says about where they were captured.
local function read_function(code, position, outer, own)
  local _, count, nested, constants, uses
  _, position = read_string(code, position) -- source
  _, position = read_size(code, position) -- first line
  _, position = read_size(code, position) -- last line
  count, position = read_size(code, position + 3) -- after parameters, vararg, stack size
  local instructions = position
  constants, position = read_constants(code, position + 4 * count)
  uses, position = read_upvalues(code, position, outer)
  uses = own or uses
  if next(uses) then scan(code, instructions, count, constants, uses) end
  nested, position = read_size(code, position)
  for _ = 1, nested do
    position = read_function(code, position, uses)
  end
  return skip_debug(code, position)
end

-- Indexed from 0, as instructions do.
local function new_uses(count)
  local uses = {}
  for i = 0, count - 1 do
    uses[i] = { names = {}, dynamic = false }
  end
  return uses
end

local function read_uses(code, count)
  local uses = new_uses(count)
  local known = sub(code, 1, #HEADER) == HEADER
  known = known and pcall(read_function, code, FIRST_FUNCTION, {}, uses)
  if not known then
    for i = 0, count - 1 do
      uses[i].dynamic = true
    end
  end
  return uses
end

-- Many nodes share few functions, whose bytecode never changes.
local whole_dumps = setmetatable({}, { __mode = "k" })
local stripped_dumps = setmetatable({}, { __mode = "k" })
local known_uses = setmetatable({}, { __mode = "k" })

--- The bytecode of a Lua function.
-- @tparam function fn
-- @tparam boolean strip leave debug information out
function bytecode.dump(fn, strip)
  local dumps = strip and stripped_dumps or whole_dumps
  local code = dumps[fn]
  if not code then
    code = string.dump(fn, strip)
    dumps[fn] = code
  end
  return code
end

--- Which fields of each of its upvalues a function and those inside it name.
-- @tparam function fn
-- @treturn table one entry an upvalue, from index 0: {names = array of field
--   names, dynamic = true when the upvalue is used in other ways as well}
function bytecode.uses(fn)
  local uses = known_uses[fn]
  if not uses then
    uses = read_uses(bytecode.dump(fn, true), debug.getinfo(fn, "u").nups)
    known_uses[fn] = uses
  end
  return uses
end

return bytecode
