--- Values without identity, as bytes: a letter for the kind, then the value.
-- `lp.unship` reads them.
-- @module lp.ship.scalar

local scalar = {}

local pack = string.pack

scalar.NIL = "n"

-- A longer string is written once and then referred to.
local LONGEST_STRING = 255

local function write_number(value)
  if math.type(value) == "float" then return pack("<c1d", "d", value) end
  if value >= -128 and value < 128 then return pack("<c1b", "b", value) end
  return pack("<c1i8", "i", value)
end

local WRITE = {
  ["nil"] = function() return scalar.NIL end,
  boolean = function(value) return value and "t" or "f" end,
  string = function(value)
    if #value <= LONGEST_STRING then return pack("<c1s1", "s", value) end
  end,
  number = write_number,
}

--- The bytes of a value, or nil when it is an object or a long string.
function scalar.write(value)
  local write = WRITE[type(value)]
  return write and write(value)
end

return scalar
