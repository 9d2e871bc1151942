--- Errors that keep their meaning between interpreters.
-- An lp.Error is a table with the fields `code`, `message`, `traceback`, `node`, `method`,
-- `data` and `chain`. It behaves like its text where a program expects a string: it
-- concatenates, prints, and has the string methods. The metatable is the engine's (it
-- builds errors from the wire); this module gives it its behaviour.
-- @module lp.error

local core = require "lp.core"

local Error = core.error_metatable()
local errors = {metatable = Error}

--- The text of any value, also of one whose `__tostring` fails.
local function text_of(value)
  local ok, text = pcall(tostring, value)
  return ok and text .. "" or ("(a " .. type(value) .. " whose __tostring failed)")
end

Error.__name = "lp.Error"

--- The message; preceded by the code unless that is `unknown`, so that a plain
-- `error("boom")` reads as it was written wherever it arrives.
function Error.__tostring(err)
  local message, code = text_of(rawget(err, "message")), rawget(err, "code")
  if code == nil or code == "unknown" then return message end
  return text_of(code) .. ": " .. message
end

function Error.__concat(left, right)
  return text_of(left) .. text_of(right)
end

-- err:find("x"), err:match("(%d+)"), …: the string method on the error's text.
local methods = {}
for name, method in pairs(string) do
  methods[name] = function(err, ...) return method(text_of(err), ...) end
end
Error.__index = methods

--- Is `value` an lp.Error?
function errors.is(value)
  return type(value) == "table" and getmetatable(value) == Error
end

--- Makes an error without raising it.
-- @string code one of gRPC's sixteen names in lower case, or any other string
-- @string message
-- @param[opt] data any value that can be sent
function errors.new(code, message, data)
  return setmetatable({code = code, message = message, data = data}, Error)
end

--- The fields of a table as they are, without its metatable.
local function raw_copy(value)
  local copy = {}
  for key, field in next, value do copy[key] = field end
  return copy
end

--- What was raised, as an lp.Error: one stays itself, a table becomes `data` (its raw
-- fields) with its text as message, anything else is the message.
function errors.from(value)
  if errors.is(value) then return value end
  local data = type(value) == "table" and raw_copy(value) or nil
  return errors.new("unknown", text_of(value), data)
end

--- A message handler for xpcall: converts and adds the traceback of where it was raised.
function errors.traced(value)
  local err = errors.from(value)
  if not rawget(err, "traceback") then
    err.traceback = debug.traceback(nil, 2)
  end
  return err
end

--- Raises an lp.Error. Given one (`lp.error(err)`), raises that one again.
-- @string code e.g. `"not_found"`; any string is allowed
-- @string message
-- @param[opt] data any value that can be sent
function errors.error(code, message, data)
  if errors.is(code) then error(code, 0) end
  if type(code) ~= "string" then
    error("lp.error: code must be a string such as \"not_found\", got " .. type(code), 2)
  end
  if message ~= nil and type(message) ~= "string" then message = text_of(message) end
  error(errors.new(code, message or code, data), 0)
end

return errors
