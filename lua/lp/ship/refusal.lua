--- Refusals: what cannot travel to a node, said with the path to it.
-- @module lp.ship.refusal

local refusal = {}

local getmetatable = debug.getmetatable

-- In the text of a path, steps shown of each end when it is long.
local PATH_ENDS = 10

local function key_text(key)
  if math.type(key) == "integer" then return ("[%d]"):format(key) end
  if type(key) ~= "string" then return ("[%s]"):format(tostring(key)) end
  if key:find("^[%a_][%w_]*$") then return "." .. key end
  if #key > 40 then key = key:sub(1, 37) .. "..." end
  return (("[%q]"):format(key):gsub("\\\n", "\\n"))
end

-- Keys are written one after the other, everything else after a colon.
local STEP_TEXT = {
  field = key_text,
  upvalue = function(name) return (": upvalue '%s'"):format(name) end,
  metatable = function() return ": metatable" end,
  key = function() return ": a key" end,
  data = function(kind) return ": " .. kind end,
}

-- A record knows the step from its parent; the root's step is its name.
local function steps_of(record, step, key)
  local steps = {}
  while record do
    local text = STEP_TEXT[step](key)
    if step == "field" and record.step ~= "field" then text = ": " .. text end
    table.insert(steps, text)
    record, step, key = record.parent, record.step, record.key
  end
  return steps, key
end

--- The path to a value as text: "argument 1: .handler: upvalue 'sock'".
-- @param record the record it hangs in; nil for a root
-- @tparam string step the kind of step from there
-- @param key what the step is called
function refusal.path(record, step, key)
  local steps, root = steps_of(record, step, key)
  local texts = { root }
  for i = #steps, 1, -1 do
    if i > PATH_ENDS and i <= #steps - PATH_ENDS then
      if i == #steps - PATH_ENDS then texts[#texts + 1] = " … " end
    else
      texts[#texts + 1] = steps[i]
    end
  end
  return table.concat(texts)
end

-- Raised as a table, so that a refusal is told from a mistake in this file.
local Refusal = {}

--- Raises the refusal of a value met at a step from a record.
function refusal.raise(record, step, key, what)
  error(setmetatable({ path = refusal.path(record, step, key), what = what }, Refusal), 0)
end

--- Whether a caught error is a refusal; a table with `path` and `what`.
function refusal.is(value)
  return getmetatable(value) == Refusal
end

local function is_light(value)
  -- No userdata has that many user values: the call changes nothing, but checks.
  return not pcall(debug.setuservalue, value, nil, 0xffff)
end

local function describe_userdata(value)
  if is_light(value) then return "a light userdata" end
  local metatable = getmetatable(value)
  local name = type(metatable) == "table" and rawget(metatable, "__name")
  local kind = type(name) == "string" and (" (%s)"):format(name) or ""
  return ("a userdata%s; wrap it in lp.deferred"):format(kind)
end

--- Why a value without any rule cannot be sent.
function refusal.describe(value)
  local kind = type(value)
  if kind == "thread" then return "cannot send a coroutine" end
  if kind == "userdata" then return "cannot send " .. describe_userdata(value) end
  return "cannot send a C function that no module holds; wrap it in lp.deferred"
end

return refusal
