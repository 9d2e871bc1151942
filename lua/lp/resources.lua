--- Resources of nodes: what a node may be given beside its arguments. They are options of the node,
-- or given by label or name at the launch, in the script, on the command line or in a file.
-- @module lp.resources

local options = require "lp.options"

local resources = {}

-- ---------------------------------------------------------------- what they may be

local units = {[""] = 1, K = 1 << 10, M = 1 << 20, G = 1 << 30, T = 1 << 40}

--- Bytes: a whole number, or a text with a unit of 1024: "256M", "1.5G".
local function bytes(value)
  local expected = 'a number of bytes or a text such as "256M"'
  if type(value) == "string" then
    local number, unit = value:match("^%s*(%d+%.?%d*)%s*([KMGT]?)i?B?%s*$")
    value = number and tonumber(number) * units[unit]
    value = value and math.floor(value)
  end
  local whole = math.type(value) and math.tointeger(value)
  if whole and whole > 0 then return whole end
  return nil, expected
end

--- Variables of the environment; numbers and booleans are written as text.
local function environment(value)
  local expected = "a table of names and texts"
  if type(value) ~= "table" then return nil, expected end
  local copy = {}
  for name, text in next, value do
    local kind = type(text)
    if type(name) ~= "string" or not name:find("^[^=%z]+$") or
       kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      return nil, expected
    end
    copy[name] = tostring(text)
    if copy[name]:find("%z") then return nil, expected end
  end
  return copy
end

--- Values of flags, laid over those of the program.
local function arguments(value)
  local expected = "a table of flags and their values"
  if type(value) ~= "table" then return nil, expected end
  for name in next, value do
    if type(name) ~= "string" then return nil, expected end
  end
  return value
end

local MOST_CORES = 1024

--- The numbers of a text such as "0-3,8", in a set; nil when it is none.
local function cores_of_text(text)
  local set = {}
  for part in (text .. ","):gmatch "([^,]*)," do
    local first, last = part:match "^%s*(%d+)%s*%-%s*(%d+)%s*$"
    first = first or part:match "^%s*(%d+)%s*$"
    first, last = math.tointeger(first), math.tointeger(last or first)
    if not first or first > last or last >= MOST_CORES then return nil end
    for core = first, last do set[core] = true end
  end
  return set
end

local function cores_of_array(list)
  local set = {}
  for key, core in next, list do
    core = math.type(core) and math.tointeger(core)
    if not math.tointeger(key) or not core or core < 0 or core >= MOST_CORES then return nil end
    set[core] = true
  end
  return set
end

--- Numbers of processor cores, from 0; in the end a sorted array.
local function affinity(value)
  local expected = 'an array of core numbers, or a text such as "0-3,8"'
  local set = nil
  if math.type(value) == "integer" then value = {value} end
  if type(value) == "string" then set = cores_of_text(value) end
  if type(value) == "table" then set = cores_of_array(value) end
  if not set or next(set) == nil then return nil, expected end
  local list = {}
  for core in pairs(set) do list[#list + 1] = core end
  table.sort(list)
  return list
end

local function nice(value)
  local whole = math.type(value) and math.tointeger(value)
  if whole and whole >= -40 and whole <= 40 then return whole end
  return nil, "a whole number, -40 to 40"
end

--- As lp.options wants them.
resources.rules = {
  args = arguments,
  env = environment,
  memory_limit = bytes,
  nice = nice,
  affinity = affinity,
  folder = options.text,
}

--- Those that belong to a process; threads cannot have them one by one.
resources.of_processes = {"env", "nice", "affinity", "folder"}

-- ---------------------------------------------------------------- by label or name

--- Checks resources by label or name against a program.
-- @treturn table the same in final form
function resources.check(program, given, level)
  local names, checked = {}, {}
  for _, node in ipairs(program:all_nodes()) do names[node.name] = true end
  for key, wanted in pairs(given or {}) do
    if not program.by_label[key] and not names[key] then
      error(("lp.launch: resources: program %q has no label or node %s")
            :format(program.name, options.describe(key)), level + 1)
    end
    checked[key] = options.check(("lp.launch: resources of %q"):format(key), resources.rules, wanted,
                                 level + 1)
  end
  return checked
end

local function lay_over(under, over)
  if type(under) ~= "table" or type(over) ~= "table" then return over end
  local both = {}
  for name, value in pairs(under) do both[name] = value end
  for name, value in pairs(over) do both[name] = value end
  return both
end

--- One table of resources over another: `env` and `args` by their entries, the rest whole.
function resources.merge(under, over)
  if type(under) ~= "table" or type(over) ~= "table" then return over or under end
  local both = {}
  for key, value in pairs(under) do both[key] = value end
  for key, value in pairs(over) do
    if type(value) == "table" and type(both[key]) == "table" then
      local entry = {}
      for name, one in pairs(both[key]) do entry[name] = one end
      for name, one in pairs(value) do
        local parts = name == "env" or name == "args"
        entry[name] = parts and lay_over(entry[name], one) or one
      end
      value = entry
    end
    both[key] = value
  end
  return both
end

-- ---------------------------------------------------------------- who gets what

--- What a node itself was given: by name before by label before its options. A label is that of
-- its outermost nodes.
local function own(node, by_name)
  local given = resources.merge({x = node.settings},
                                {x = not node.colocation and by_name[node.label] or {}}).x
  return resources.merge({x = given}, {x = by_name[node.name] or {}}).x
end

--- Options and resources of a node, with what it has from the colocations it is in.
function resources.of(node, by_name)
  local all = own(node, by_name)
  local outer = node.colocation
  while outer do
    for name, value in pairs(own(outer, by_name)) do
      if all[name] == nil then all[name] = value end
    end
    outer = outer.colocation
  end
  return all
end

--- The node or colocation that has a process to itself in which `node` runs; nil: it is in the
-- launcher's.
local function owner(node, in_processes)
  local outer = node.colocation
  if not outer then return in_processes and node or nil end
  if outer.kind == "MultiProcessingColocation" then return node end
  return owner(outer, in_processes)
end

--- What a node was given that its place cannot give it, in words; nil: nothing.
function resources.misplaced(node, by_name, in_processes)
  if node.kind == "MultiProcessingColocation" then return nil end
  local place = owner(node, in_processes)
  if place == node then return nil end
  local given = own(node, by_name)
  for _, name in ipairs(resources.of_processes) do
    if given[name] ~= nil then
      return place and ("node %s: %s: it shares the process of %s; set it there"):format(node.name, name, place.name)
             or ("node %s: %s: a thread cannot have its own; launch it with local_mp, or put it into " ..
                 "a MultiProcessingColocation"):format(node.name, name)
    end
  end
end

-- ---------------------------------------------------------------- from outside

--- `LABEL.KEY=VALUE` settings of the command line as resources; nil and what is wrong.
-- @tparam table list array of {label=, key=, value=}
function resources.from_settings(list)
  local found = {}
  for _, setting in ipairs(list) do
    local field, rest = setting.key:match "^([^.]+)%.(.+)$"
    local entry = found[setting.label] or {}
    found[setting.label] = entry
    if field == "env" or field == "args" then
      entry[field] = entry[field] or {}
      entry[field][rest] = setting.value
    else
      local rule = setting.key ~= "env" and setting.key ~= "args" and resources.rules[setting.key]
      local what = ("--set %s.%s"):format(setting.label, setting.key)
      if not rule then
        return nil, what .. ": unknown key (known: affinity, args.NAME, env.NAME, folder, memory_limit, nice)"
      end
      local value, expected = rule(setting.key == "nice" and tonumber(setting.value) or setting.value)
      if value == nil then return nil, ("%s: expected %s, got '%s'"):format(what, expected, setting.value) end
      entry[setting.key] = value
    end
  end
  return next(found) and found or nil
end

--- Resources from a file: JSON when its name ends in `.json`, else Lua that returns a table and
-- sees no globals. Nil and what is wrong.
function resources.from_file(path)
  local text, why = require("lp.files").read(path)
  if not text then return nil, "--resources: " .. why end
  local ok, value
  if path:find "%.json$" then
    ok, value = pcall(require "lp.json.decode", text)
  else
    local chunk, message = load(text, "@" .. path, "t", {})
    ok, value = pcall(chunk or error, not chunk and message or nil, 0)
  end
  if not ok then return nil, ("--resources %s: %s"):format(path, tostring(value)) end
  if type(value) ~= "table" then
    return nil, ("--resources %s: expected a table of labels, got %s"):format(path, options.describe(value))
  end
  return value
end

return resources
