--- Completion: what could continue the text before the cursor. Looks at tables raw, so that nothing of
-- the user's runs, and asks a run only for a moment.
-- @module lp.console.names

local names = {}

local function starts(name, part)
  return name:sub(1, #part) == part
end

--- Adds the text keys of a value and of what its `__index` tables lead to.
local function collect(value, part, found)
  for _ = 1, 20 do
    if type(value) == "table" then
      for key in next, value do
        if type(key) == "string" and key:find "^[%a_][%w_]*$" and starts(key, part) then found[key] = true end
      end
    end
    local meta = debug.getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
    if type(value) ~= "table" then return end
  end
end

--- The field `key`, found raw along `__index` tables.
local function field(value, key)
  for _ = 1, 20 do
    if type(value) == "table" and rawget(value, key) ~= nil then return rawget(value, key) end
    local meta = debug.getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
    if type(value) ~= "table" then return nil end
  end
end

local words = {"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
               "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while"}

--- Names that may stand at the end of a path: "self.na" -> {"name"}.
-- @tparam string path names with dots and colons
-- @tparam table env where it begins
-- @treturn table array, sorted
function names.complete(path, env)
  local found, value, rest = {}, env, path
  local first = true
  while true do
    local name, after = rest:match "^([%a_][%w_]*)[.:](.*)$"
    if not name then break end
    value, rest, first = field(value, name), after, false
  end
  collect(value, rest, found)
  if first then
    for _, word in ipairs(words) do
      if starts(word, rest) then found[word] = true end
    end
  end
  local list = {}
  for name in pairs(found) do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- What all candidates have in common.
function names.common(list)
  local common = list[1] or ""
  for _, name in ipairs(list) do
    while not starts(name, common) do common = common:sub(1, -2) end
  end
  return common
end

--- Candidates side by side, as wide as the terminal.
function names.columns(list, width)
  local wide = 0
  for _, name in ipairs(list) do wide = math.max(wide, #name + 2) end
  local across, lines = math.max(width // wide, 1), {}
  for i = 1, math.min(#list, across * 15), across do
    local line = {}
    for k = i, math.min(i + across - 1, #list) do line[#line + 1] = list[k] .. (" "):rep(wide - #list[k]) end
    lines[#lines + 1] = table.concat(line):gsub(" +$", "")
  end
  if #list > across * 15 then lines[#lines + 1] = ("… %d more"):format(#list - across * 15) end
  return table.concat(lines, "\n")
end

return names
