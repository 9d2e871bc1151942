--- lp.deferred: a value that is built where it is used.
-- The record travels in place of what cannot (an open file, a socket). On the node it is
-- built once, however many places refer to it.
-- @module lp.deferred

local construct = require "lp.construct"

local deferred = {}

local Deferred = {__name = "lp.Deferred"}
deferred.metatable = Deferred

function Deferred.__tostring(record)
  return "lp.deferred defined at " .. record.where
end

--- Is `value` a record of lp.deferred?
function deferred.is(value)
  return type(value) == "table" and getmetatable(value) == Deferred
end

--- "program.lua:12" of the function at `level`.
local function place(level)
  local info = debug.getinfo(level + 1, "Sl")
  if not info then return "an unknown place" end
  return info.short_src .. ":" .. info.currentline
end

--- Wraps a constructor and its arguments for building on the node.
-- @param ctor a constructor, by the rules of lp.construct
-- @param ... its arguments; handles in them become clients
function deferred.deferred(ctor, ...)
  construct.check("lp.deferred", ctor, 2)
  return setmetatable({ctor = ctor, args = table.pack(...), where = place(2)}, Deferred)
end

local function run(record)
  if record.building then error("it needs itself to be built", 0) end
  record.building = true
  local args = record.args
  for i = 1, args.n do
    if deferred.is(args[i]) then args[i] = deferred.build(args[i]) end
  end
  local value, message = construct.call(record.ctor, args)
  if value == nil or value == false and message ~= nil then
    error(message ~= nil and message or "the constructor returned nil", 0)
  end
  record.value, record.built = value, true
end

--- The value of a record, built at the first call. The constructor may wait.
-- An error names where the record was defined and is the same at every later call.
function deferred.build(record)
  if record.built then return record.value end
  if record.failure then error(record.failure, 0) end
  local errors = require "lp.error"
  local ok, err = xpcall(run, errors.traced, record)
  record.building = nil
  if ok then return record.value end
  err.message = ("lp.deferred defined at %s: cannot be built: %s"):format(record.where, err.message)
  record.failure = err
  error(err, 0)
end

return deferred
