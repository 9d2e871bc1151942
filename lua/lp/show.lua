--- Lua values as readable text, for prompts and for what nodes are asked.
-- Tables are written as a person would write them, sorted, with limits on depth, entries and
-- length; a table met twice is named, not repeated. Tables are read raw: looking at a value
-- runs nothing of its owner's, but for `__tostring` and `__name`.
-- @module lp.show

local show = {}

local WIDTH = 78    -- a table that fits is written on one line
local DEPTH = 6     -- of nested tables
local ENTRIES = 100 -- of one table
local TEXT = 1000   -- bytes of a text inside of a table
local TOTAL = 20000 -- characters of one value, about

local escapes = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"'}

--- A text in quotes, on one line.
function show.quoted(text)
  local cut = #text > TEXT
  local body = (cut and text:sub(1, TEXT) or text):gsub('[%c"\\\127]', function(char)
    return escapes[char] or ("\\x%02x"):format(char:byte())
  end)
  return '"' .. body .. '"' .. (cut and (" … (%d bytes)"):format(#text) or "")
end

local words = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
               return then true until while]]):gmatch "%a+" do words[word] = true end

local function key_text(key, value_text)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" and not words[key] then return key end
  return "[" .. value_text(key) .. "]"
end

--- Numbers first, then texts, then the rest, each in order.
local ranks = {number = 1, string = 2, boolean = 3}
local function before(a, b)
  local rank_a, rank_b = ranks[type(a)] or 4, ranks[type(b)] or 4
  if rank_a ~= rank_b then return rank_a < rank_b end
  if rank_a <= 2 then return a < b end
  return tostring(a) < tostring(b)
end

local function described(value)
  local ok, text = pcall(tostring, value)
  return ok and text or ("%s (its __tostring failed)"):format(type(value))
end

--- A table whose class says how it wants to be shown.
local function own_text(value)
  local meta = debug.getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__tostring") ~= nil then return described(value) end
end

local function name_of_class(value)
  local meta = debug.getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name .. " " or ""
end

local function keys_of(value)
  local keys, count = {}, 0
  for key in next, value do
    count = count + 1
    if not (math.type(key) == "integer" and key >= 1 and key <= rawlen(value)) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, before)
  return keys, count
end

local function join(items, indent, head)
  local length = #indent + #head + 4
  for _, item in ipairs(items) do
    length = length + #item + 2
    if item:find "\n" then length = WIDTH + 1 end
  end
  if length <= WIDTH then return head .. "{" .. table.concat(items, ", ") .. "}" end
  local deeper = indent .. "  "
  return head .. "{\n" .. deeper .. table.concat(items, ",\n" .. deeper) .. "\n" .. indent .. "}"
end

local text_of

local function table_text(value, state, indent)
  local own = own_text(value)
  if own then return own end
  if state.path[value] then return "<the same " .. name_of_class(value) .. "table as outside>" end
  if next(value) == nil then return name_of_class(value) .. "{}" end
  if state.depth >= DEPTH then return name_of_class(value) .. "{…}" end
  state.path[value], state.depth = true, state.depth + 1
  local items, deeper = {}, indent .. "  "
  local keys, count = keys_of(value)
  local function add(text)
    items[#items + 1] = text
    state.total = state.total + #text
  end
  local function room() return #items < ENTRIES and state.total < TOTAL end
  for i = 1, rawlen(value) do
    if not room() then break end
    add(text_of(rawget(value, i), state, deeper))
  end
  for _, key in ipairs(keys) do
    if not room() then break end
    local name = key_text(key, function(k) return text_of(k, state, deeper) end)
    add(name .. " = " .. text_of(rawget(value, key), state, deeper))
  end
  if #items < count then items[#items + 1] = ("… (%d more)"):format(count - #items) end
  state.path[value], state.depth = nil, state.depth - 1
  return join(items, indent, name_of_class(value))
end

function text_of(value, state, indent)
  local kind = type(value)
  if kind == "string" then return show.quoted(value) end
  if kind == "table" then return table_text(value, state, indent) end
  if kind == "function" then
    local info = debug.getinfo(value, "S")
    if info.what == "C" then return "function (C)" end
    return ("function %s:%d"):format(info.short_src, info.linedefined)
  end
  return described(value)
end

--- A value as a prompt shows it: texts as they are, tables written out.
-- @treturn string
function show.value(value)
  if type(value) == "string" then return value end
  return text_of(value, {path = {}, depth = 0, total = 0}, "")
end

--- All values, as lua shows them: with tabs between.
-- @tparam table values with field `n`
function show.values(values)
  local list = {}
  for i = 1, values.n do list[i] = show.value(values[i]) end
  return table.concat(list, "\t")
end

--- A text a person typed, as a function: an expression if it is one, else statements. Never bytecode.
-- @treturn function or nil and what is wrong
function show.compile(text, name, env)
  text = text:gsub("^%s*=", "")
  -- The variable keeps the expression from being a tail call, which would hide its place in errors.
  local chunk = load("local _ENV_ <close> = nil; return " .. text, name, "t", env)
  if chunk then return chunk end
  return load(text, name, "t", env)
end

return show
