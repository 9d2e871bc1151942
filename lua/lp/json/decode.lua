--- JSON texts as Lua values, for what people type and for manifests of runs.
-- Whole numbers become integers, null becomes nil, an empty object is marked by lp.map. What is not
-- JSON raises a text that says where.
-- @module lp.json.decode

local core = require "lp.core"

local escapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}
local DEPTH = 200

local function mistake(at, what)
  error(("%s at character %d"):format(what, at), 0)
end

local function skip(text, at)
  return text:match("^[ \t\r\n]*()", at)
end

local value_at

local function hex4(text, at)
  local digits = text:match("^%x%x%x%x", at) or mistake(at, "expected four hexadecimal digits")
  return tonumber(digits, 16)
end

--- The character of `\uXXXX` at `at` (the X), with its second half if it is a pair.
local function unicode_at(text, at)
  local code = hex4(text, at)
  if code >= 0xD800 and code < 0xDC00 and text:find("^\\u[dD][c-fC-F]", at + 4) then
    local low = hex4(text, at + 6)
    return utf8.char(0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)), at + 10
  end
  if code >= 0xD800 and code < 0xE000 then code = 0xFFFD end
  return utf8.char(code), at + 4
end

local function string_at(text, from)
  local parts, at = {}, from + 1
  while true do
    local plain, stop = text:match('^([^"\\%c]*)()', at)
    parts[#parts + 1] = plain
    local char = text:sub(stop, stop)
    if char == '"' then return table.concat(parts), stop + 1 end
    if char == "" then mistake(from, "a text that does not end") end
    if char ~= "\\" then mistake(stop, "a control character in a text") end
    local letter = text:sub(stop + 1, stop + 1)
    if letter == "u" then
      parts[#parts + 1], at = unicode_at(text, stop + 2)
    else
      parts[#parts + 1] = escapes[letter] or mistake(stop, "an unknown escape")
      at = stop + 2
    end
  end
end

local function number_at(text, at)
  local digits, stop = text:match("^(%-?%d+%.?%d*[eE]?[+-]?%d*)()", at)
  local value = digits and not digits:find "^%-?0%d" and not digits:find "%.$" and tonumber(digits)
  if not value then mistake(at, "expected a value") end
  if value == math.huge or value == -math.huge then mistake(at, "a number beyond what a float holds") end
  return value, stop
end

local function array_at(text, at, depth)
  local list, n = {}, 0
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return list, at + 1 end
  while true do
    n = n + 1
    list[n], at = value_at(text, at, depth)
    at = skip(text, at)
    local char = text:sub(at, at)
    if char == "]" then return list, at + 1 end
    if char ~= "," then mistake(at, "expected , or ]") end
    at = at + 1
  end
end

local function object_at(text, at, depth)
  local map = {}
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return core.map {}, at + 1 end
  while true do
    at = skip(text, at)
    if text:sub(at, at) ~= '"' then mistake(at, "expected a name in quotes") end
    local key
    key, at = string_at(text, at)
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then mistake(at, "expected :") end
    map[key], at = value_at(text, at + 1, depth)
    at = skip(text, at)
    local char = text:sub(at, at)
    if char == "}" then return map, at + 1 end
    if char ~= "," then mistake(at, "expected , or }") end
    at = at + 1
  end
end

local names = {["true"] = true, ["false"] = false}

function value_at(text, at, depth)
  if depth > DEPTH then mistake(at, "nested too deeply") end
  at = skip(text, at)
  local char = text:sub(at, at)
  if char == '"' then return string_at(text, at) end
  if char == "[" then return array_at(text, at, depth + 1) end
  if char == "{" then return object_at(text, at, depth + 1) end
  local word, stop = text:match("^(%a+)()", at)
  if word == "null" then return nil, stop end
  if word and names[word] ~= nil then return names[word], stop end
  return number_at(text, at)
end

--- The value of a JSON text; raises a text when it is none.
return function(text)
  local value, at = value_at(text, 1, 0)
  at = skip(text, at)
  if at <= #text then mistake(at, "something stands behind the value") end
  return value
end
