--- Constructors: what may be one, and how an instance is made.
-- A constructor is anything callable, else a table with a function `new`, called as
-- `T:new(...)` when its first parameter is named `self` and as `T.new(...)` otherwise.
-- @module lp.construct

local construct = {}

--- Can `value` be called?
local function callable(value)
  if type(value) == "function" then return true end
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and type(value) ~= "string" and rawget(meta, "__call") ~= nil
end
construct.callable = callable

--- The function `new` of a class, and whether it takes the class as `self`.
local function new_of(class)
  if type(class) ~= "table" then return nil end
  local new = class.new
  if type(new) ~= "function" then return nil end
  return new, debug.getlocal(new, 1) == "self"
end

--- Refuses what cannot be a constructor, at the caller's line.
-- @int level as in `error`
function construct.check(what, ctor, level)
  local is_handle = rawequal(debug.getmetatable(ctor), require("lp.handle").metatable)
  if not is_handle and (callable(ctor) or new_of(ctor)) then return end
  error(("%s: the constructor must be a function, a class table with __call, or a table " ..
         "with a function new; got %s"):format(what,
         is_handle and tostring(ctor) or require("lp.options").describe(ctor)), level + 1)
end

--- Calls the constructor and returns all its results.
-- @param ctor
-- @tparam table args as made by table.pack
function construct.call(ctor, args)
  if callable(ctor) then return ctor(table.unpack(args, 1, args.n)) end
  local new, takes_self = new_of(ctor)
  if takes_self then return new(ctor, table.unpack(args, 1, args.n)) end
  return new(table.unpack(args, 1, args.n))
end

--- Makes the instance of a node. Nil or false and a message is a failure with that
-- message; anything but a table, a function or a userdata is an error.
function construct.instance(ctor, args)
  local instance, message = construct.call(ctor, args)
  local kind = type(instance)
  if kind == "table" or kind == "function" or kind == "userdata" then return instance end
  if not instance and message ~= nil then error(message, 0) end
  error("the constructor returned " .. require("lp.options").describe(instance) ..
        "; expected a table, a function or a userdata", 0)
end

return construct
