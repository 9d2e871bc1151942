--- Lua values as JSON text, for what the command prints.
-- Keys are sorted, so that the same value always gives the same text. JSON must be valid
-- UTF-8 and knows neither NaN nor infinities: other bytes become U+FFFD, such numbers the texts
-- "nan", "inf" and "-inf", which nobody takes for a missing value.
-- @module lp.json

local core = require "lp.core"

local json = {}

local map_mark = getmetatable(core.map {})

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
                 ["\r"] = "\\r", ["\t"] = "\\t"}

--- The text with U+FFFD for every byte that is not part of valid UTF-8.
function json.valid_utf8(text)
  local parts, from = {}, 1
  while true do
    local length, bad = utf8.len(text, from)
    if length then break end
    parts[#parts + 1] = text:sub(from, bad - 1) .. "\u{FFFD}"
    from = bad + 1
  end
  return table.concat(parts) .. text:sub(from)
end

local function string_text(text)
  return '"' .. json.valid_utf8(text):gsub('[%c"\\]', function(char)
    return escapes[char] or ("\\u%04x"):format(char:byte())
  end) .. '"'
end

--- As few digits as give the same float again.
local function float_text(value)
  if value ~= value then return '"nan"' end
  if value == math.huge or value == -math.huge then return value > 0 and '"inf"' or '"-inf"' end
  local text = ("%.15g"):format(value)
  if tonumber(text) ~= value then text = ("%.17g"):format(value) end
  return text:find("[.e]") and text or text .. ".0"
end

local function number_text(value)
  return math.type(value) == "integer" and ("%d"):format(value) or float_text(value)
end

local function is_array(value)
  if next(value) == nil then return getmetatable(value) ~= map_mark end
  local count = 0
  for _ in next, value do count = count + 1 end
  for i = 1, count do
    if rawget(value, i) == nil then return false end
  end
  return true
end

--- Stands for null where nil would leave a gap.
json.null = setmetatable({}, {__name = "lp.json.null", __tostring = function() return "null" end})

local encode

local function array_text(value)
  local list = {}
  for i = 1, #value do list[i] = encode(value[i]) end
  return "[" .. table.concat(list, ",") .. "]"
end

local function object_text(value)
  local keys, texts = {}, {}
  for key, item in next, value do
    local name = string_text(tostring(key))
    keys[#keys + 1], texts[name] = name, encode(item)
  end
  table.sort(keys)
  for i, name in ipairs(keys) do keys[i] = name .. ":" .. texts[name] end
  return "{" .. table.concat(keys, ",") .. "}"
end

local writers = {
  ["nil"] = function() return "null" end,
  boolean = tostring,
  number = number_text,
  string = string_text,
  table = function(value)
    if value == json.null then return "null" end
    return is_array(value) and array_text(value) or object_text(value)
  end,
}

function encode(value)
  local write = writers[type(value)]
  if not write then error("lp.json: a " .. type(value) .. " has no JSON form", 0) end
  return write(value)
end

--- A value as JSON on one line. Keys exactly 1..n make an array, everything else an object; an
-- empty table is an array unless marked by lp.map. Tables must not contain themselves.
-- @treturn string
json.encode = encode

return json
