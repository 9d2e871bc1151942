--- Tables of named options: unknown names and wrong types are refused at the caller.
-- A schema maps each name to a rule: a function that is given the value and returns it in
-- its final form, or nil and what it should have been.
-- @module lp.options

local options = {}

--- A value in words, for "expected …, got …".
function options.describe(value)
  local kind = type(value)
  if kind == "string" then
    if #value > 40 then value = value:sub(1, 37) .. "..." end
    return string.format("%q", value):gsub("\\\n", "\\n")
  end
  if kind == "number" or kind == "boolean" then return tostring(value) end
  if value == nil then return "nil" end
  local meta = debug.getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  if type(name) == "string" and name:find("^lp%.") then return "an " .. name end
  return "a " .. kind
end

--- Refuses an argument: its place, what it should have been, what it is.
-- @int level as in `error`: 1 is the caller of this function
function options.refuse(what, position, expected, value, level)
  error(("%s: argument %d must be %s, got %s"):format(what, position, expected,
        options.describe(value)), level + 1)
end

--- The names of a schema, sorted, as one text.
local function known(schema)
  local names = {}
  for name in pairs(schema) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

--- Checks `given` against `schema`.
-- @string what the call in words, e.g. `"lp.wait"`
-- @tparam table schema name -> rule
-- @param given the table of options, or nil for none
-- @int level as in `error`: 1 is the caller of this function, 0 nobody
-- @treturn table a new table with the values in their final form
function options.check(what, schema, given, level)
  if level > 0 then level = level + 1 end
  if given == nil then return {} end
  if type(given) ~= "table" then
    error(what .. ": options must be a table, got " .. options.describe(given), level)
  end
  local checked = {}
  for name, value in next, given do
    local rule = schema[name]
    if not rule then
      error(("%s: unknown option %s (known: %s)"):format(what, options.describe(name),
            known(schema)), level)
    end
    local final, expected = rule(value)
    if final == nil then
      error(("%s: option %s must be %s, got %s"):format(what, name, expected,
            options.describe(value)), level)
    end
    checked[name] = final
  end
  return checked
end

--- A rule for numbers of at least (or, if `above`, more than) `least`; NaN never passes.
function options.number(expected, least, above)
  return function(value)
    if type(value) == "number" and value >= least and not (above and value == least) then
      return value
    end
    return nil, expected
  end
end

--- A rule for whole numbers of at least `least`.
function options.integer(expected, least)
  return function(value)
    local whole = type(value) == "number" and math.tointeger(value)
    if whole and whole >= least then return whole end
    return nil, expected
  end
end

--- A rule for values of one Lua type.
function options.of_type(kind, expected)
  return function(value)
    if type(value) == kind then return value end
    return nil, expected
  end
end

--- A rule for one of the given words.
function options.one_of(...)
  local words, expected = {}, {}
  for i = 1, select("#", ...) do
    local word = select(i, ...)
    words[word], expected[i] = true, '"' .. word .. '"'
  end
  return function(value)
    if words[value] then return value end
    return nil, "one of " .. table.concat(expected, ", ")
  end
end

--- A rule for texts that are not empty.
function options.text(value)
  if type(value) == "string" and value ~= "" then return value end
  return nil, "a text that is not empty"
end

--- Time-outs of waits: seconds, 0 polls, leaving it out waits for ever.
options.timeout = options.number("a number of seconds, 0 or more", 0)

--- Times with which less than 0 has a meaning, too.
options.seconds = options.number("a number of seconds", -math.huge)

--- For how long a function waits, its argument; nil passes. Less than 0 polls as 0 does, so that
-- what is left of a time may be given.
-- @string what the call in words
-- @int level as in `options.check`
function options.check_timeout(what, timeout, level)
  local _, expected = options.seconds(timeout == nil and 0 or timeout)
  if not expected then return end
  error(("%s: timeout must be %s, got %s"):format(what, expected, options.describe(timeout)), level + 1)
end

options.boolean = options.of_type("boolean", "true or false")

--- Options of calls: lp.with and handles. Here a time-out of 0 is none.
options.call = {
  timeout = options.timeout,
  wait_for_ready = options.boolean,
}

return options
