--- lp.flags: a program's own flags, from `arg`.
-- `lp.flags{num_producers = {2, "The number of concurrent producers."}}` returns a table of
-- values. Types follow from the defaults; `-` equals `_` in names. The call decides at once
-- about unknown flags and `--help`, except while a module is being loaded: what modules
-- define is added to what the script defines, so modules are required before the script's
-- own call. In a node nothing is decided; there the values of the group are laid over.
-- @module lp.flags

local core = require "lp.core"
local options = require "lp.options"

local flags = {
  args = nil, -- in a node: the args of its group, laid over what lp.flags returns there
}

--- name -> definition, from all calls; and what the calls did not take.
local definitions = {}
local called, decided = false, false

--- The tables made here, weakly: table -> {name -> definition}. A carried table is
-- recognised by this.
local tables = setmetatable({}, {__mode = "k"})

-- ---------------------------------------------------------------- types

local type_names = {
  bool = "boolean", boolean = "boolean", int = "integer", integer = "integer",
  float = "number", number = "number", string = "string", list = "list",
}

--- text -> value, or nil and what was expected.
local converters = {
  boolean = function(text)
    if text == "true" or text == "1" then return true end
    if text == "false" or text == "0" then return false end
    return nil, "true or false"
  end,
  integer = function(text)
    local value = tonumber(text)
    if math.type(value) == "integer" then return value end
    return nil, "an integer"
  end,
  number = function(text)
    local value = tonumber(text)
    if value then return value + 0.0 end
    return nil, "a number"
  end,
  string = function(text) return text end,
}

local function type_of_default(value)
  if math.type(value) == "integer" then return "integer" end
  local kind = type(value)
  if kind == "table" then return "list" end
  return kind == "nil" and "string" or kind
end

--- Has a Lua value (a default, or one of a group's args) the type of the flag?
local function fits(kind, value)
  if kind == "integer" then return math.type(value) == "integer" end
  if kind == "list" then return type(value) == "table" end
  return type(value) == kind
end

local function choices_text(definition)
  local shown = {}
  for i, choice in ipairs(definition.choices) do shown[i] = tostring(choice) end
  return "one of " .. table.concat(shown, ", ")
end

local function check_choice(definition, value)
  if not definition.choices then return value end
  for _, choice in ipairs(definition.choices) do
    if choice == value then return value end
  end
  return nil, choices_text(definition)
end

--- The value of one word for a flag, or nil and what was expected.
local function convert(definition, text)
  local kind = definition.type == "list" and "string" or definition.type
  local value, expected = converters[kind](text)
  if value == nil then return nil, expected end
  return check_choice(definition, value)
end

-- ---------------------------------------------------------------- definitions

local function normal(name)
  return (name:gsub("-", "_"))
end

local entry_fields = {[1] = true, [2] = true, type = true, choices = true}

local function check_entry(name, entry, level)
  for field in pairs(entry) do
    if not entry_fields[field] then
      error(("lp.flags: %s: unknown field %s (known: {default, \"help\", type =, choices =})")
            :format(name, options.describe(field)), level + 1)
    end
  end
  if entry[2] ~= nil and type(entry[2]) ~= "string" then
    error(("lp.flags: %s: the help must be a text"):format(name), level + 1)
  end
end

local function check_name(name, level)
  if type(name) ~= "string" or not name:find("^[%a_][%w_%-]*$") then
    error("lp.flags: names must be letters, digits and _, got " .. options.describe(name),
          level + 1)
  end
  if name == "help" or normal(name):find("^lp_") then
    error(("lp.flags: %s is Launchpad's own"):format(name), level + 1)
  end
end

local function define(name, entry, level)
  level = level + 1
  check_name(name, level)
  if type(entry) ~= "table" then entry = {entry} end
  check_entry(name, entry, level)
  local kind = entry.type == nil and type_of_default(entry[1]) or type_names[entry.type]
  if not kind or kind ~= "list" and not converters[kind] then
    error(("lp.flags: %s: unknown type %s (known: bool, int, float, string, list)")
          :format(name, options.describe(entry.type or type(entry[1]))), level)
  end
  local default = entry[1]
  if kind == "number" and math.type(default) == "integer" then default = default + 0.0 end
  if default ~= nil and not fits(kind, default) then
    error(("lp.flags: %s: the default %s is not of type %s")
          :format(name, options.describe(default), kind), level)
  end
  return {name = normal(name), type = kind, default = default, help = entry[2] or "",
          choices = entry.choices}
end

--- Adds a call's definitions to those of earlier calls; two may agree on a flag.
local function add_definitions(spec, level)
  local own = {}
  for name, entry in pairs(spec) do
    local definition = define(name, entry, level + 1)
    local earlier = definitions[definition.name]
    if own[definition.name] or earlier and earlier.type ~= definition.type then
      error(("lp.flags: %s is defined twice"):format(definition.name), level + 1)
    end
    own[definition.name] = definition
  end
  for name, definition in pairs(own) do definitions[name] = definition end
  return own
end

-- ---------------------------------------------------------------- parsing

--- Looks a flag word up: `--name`, `--name=value`, `--noname`.
-- @treturn table the definition, or nil
-- @treturn ?string the value written after `=`
-- @treturn boolean whether it was `--noname`
local function lookup(word)
  local name, value = word:match("^%-%-([^=]+)=(.*)$")
  name = normal(name or word:sub(3))
  local definition = definitions[name]
  if definition then return definition, value, false end
  local positive = definitions[name:match("^no_?(.+)$") or ""]
  if positive and positive.type == "boolean" and not value then return positive, nil, true end
  return nil, value, false
end

local function is_flag(word)
  return word ~= "--" and word:find("^%-%-") ~= nil
end

--- The state of one parse of the words.
local Parse = {}
Parse.__index = Parse

function Parse:fail(format, ...)
  self.mistakes[#self.mistakes + 1] = format:format(...)
end

function Parse:set(definition, text)
  local value, expected = convert(definition, text)
  if value == nil then
    return self:fail("flag --%s: expected %s, got %q", definition.name, expected, text)
  end
  if definition.type ~= "list" then
    self.values[definition.name] = value
    return
  end
  local list = self.values[definition.name] or {}
  list[#list + 1] = value
  self.values[definition.name] = list
end

--- A flag without `=`: takes the following word, a list all words up to the next flag.
function Parse:take_words(definition)
  local taken = 0
  while self.words[self.at] and not is_flag(self.words[self.at]) and self.words[self.at] ~= "--"
        and (taken == 0 or definition.type == "list") do
    self:set(definition, self.words[self.at])
    self.at, taken = self.at + 1, taken + 1
  end
  if taken == 0 then self:fail("flag --%s needs a value", definition.name) end
end

function Parse:flag(word)
  local definition, value, negated = lookup(word)
  if not definition then
    self.unknown[#self.unknown + 1] = word
  elseif negated then
    self.values[definition.name] = false
  elseif value then
    self:set(definition, value)
  elseif definition.type == "boolean" then
    self.values[definition.name] = true
  else
    self:take_words(definition)
  end
end

--- A word that is no flag's value: the script's own, unless it looks like a short flag.
function Parse:plain(word)
  if word == "-h" then
    self.help = true
  elseif word:find("^%-%a") then
    self.unknown[#self.unknown + 1] = word
  end
end

--- Parses all words with all definitions there are. Words after `--` are the script's.
local function parse(words)
  local self = setmetatable({words = words, at = 1, values = {}, mistakes = {}, unknown = {}},
                            Parse)
  while words[self.at] and words[self.at] ~= "--" do
    local word = words[self.at]
    self.at = self.at + 1
    if word == "--help" then
      self.help = true
    elseif is_flag(word) then
      self:flag(word)
    else
      self:plain(word)
    end
  end
  return self
end

local function words_of_script()
  local words = rawget(_G, "arg")
  return type(words) == "table" and words or {}
end

-- ---------------------------------------------------------------- deciding

local function shown_default(definition)
  local value = definition.default
  if value == nil then return "none" end
  if value == "" then return '""' end
  if definition.type ~= "list" then return tostring(value) end
  return #value == 0 and "none" or table.concat(value, " ")
end

local placeholders = {integer = " N", number = " X", string = " TEXT", list = " TEXT..."}

local function help_line(definition)
  local name = definition.type == "boolean" and "--[no]" .. definition.name
               or "--" .. definition.name .. placeholders[definition.type]
  local note = "default: " .. shown_default(definition)
  if definition.choices then note = choices_text(definition) .. "; " .. note end
  local help = definition.help ~= "" and definition.help .. " " or ""
  return ("  %-30s %s(%s)"):format(name, help, note)
end

local function script_name()
  return tostring(words_of_script()[0] or "the program")
end

--- The help text: every flag known so far, sorted by name.
function flags.help()
  local names = {}
  for name in pairs(definitions) do names[#names + 1] = name end
  table.sort(names)
  local lines = {("Usage: %s [flags]"):format(script_name()), "", "Flags:"}
  for _, name in ipairs(names) do lines[#lines + 1] = help_line(definitions[name]) end
  lines[#lines + 1] = ("  %-30s %s"):format("--help", "Show this text.")
  return table.concat(lines, "\n") .. "\n"
end

--- How a decision ends the program; the command sets its own.
-- @int status 0 after help, 2 after a mistake
-- @string text for the stream
-- @string stream `"stdout"` or `"stderr"`
function flags.exit(status, text, stream)
  io[stream]:write(text)
  os.exit(status, true)
end

local function usage_error(message)
  flags.exit(2, ("%s: %s\nTry --help for the flags of this program.\n")
             :format(script_name(), message), "stderr")
end

local function decide(result)
  decided = true
  if result.help then return flags.exit(0, flags.help(), "stdout") end
  if result.mistakes[1] then return usage_error(result.mistakes[1]) end
  if result.unknown[1] then return usage_error("unknown flag " .. result.unknown[1]) end
end

--- Another script begins, or the same again: nothing is defined yet.
function flags.reset()
  definitions, called, decided = {}, false, false
end

--- The flag words no call knows, in their order.
function flags.leftover()
  return parse(words_of_script()).unknown
end

--- For the end of the script: decides if only modules have called lp.flags. Scripts that
-- never call it keep all their words to themselves.
function flags.finish()
  if called and not decided then decide(parse(words_of_script())) end
end

--- Is a module being loaded? Looks for `require` among the callers.
local function inside_require()
  local level = 3
  while true do
    local info = debug.getinfo(level, "f")
    if not info then return false end
    if info.func == require then return true end
    level = level + 1
  end
end

-- ---------------------------------------------------------------- tables of values

local function copy_default(definition)
  if definition.type ~= "list" or definition.default == nil then return definition.default end
  return table.move(definition.default, 1, #definition.default, 1, {})
end

--- One of a group's args as a flag's value: texts are converted as words are.
local function value_of(definition, name, given)
  local value, expected = given, "a value of type " .. definition.type
  if definition.type == "number" and type(given) == "number" then value = given + 0.0 end
  if definition.type == "list" and type(given) == "string" then
    value = {given}
  elseif definition.type ~= "string" and type(given) == "string" then
    value, expected = convert(definition, given)
  end
  if value == nil or not fits(definition.type, value) then
    error(("args: %s: expected %s, got %s"):format(name, expected, options.describe(given)), 0)
  end
  return value
end

--- Lays a group's args over a table of flags, in the node. Names that are no flags of the
-- table are left alone: they may be another's.
-- @tparam table values as made by lp.flags or flags.restore
-- @tparam ?table args name -> value
function flags.overlay(values, args)
  local own = tables[values]
  for name, given in pairs(args or {}) do
    local definition = own and own[normal(name)]
    if definition then values[definition.name] = value_of(definition, name, given) end
  end
  return values
end

--- Was `value` made by lp.flags?
function flags.is(value)
  return type(value) == "table" and tables[value] ~= nil
end

--- A table of flags as plain data, to be carried to a node.
function flags.record(values)
  local plain = {}
  for name, value in next, values do plain[name] = value end
  return {values = plain, definitions = tables[values]}
end

--- The table of a record, in the node.
-- @tparam table record as made by flags.record
-- @tparam ?table args of the node's group
function flags.restore(record, args)
  tables[record.values] = record.definitions
  return flags.overlay(record.values, args)
end

--- Defines flags and returns their values, parsed from the global `arg`.
-- @tparam table spec name -> {default, "help", type =, choices =}; the type is that of the
--   default, or `type`: `"bool"`, `"int"`, `"float"`, `"string"`, `"list"`
-- @treturn table name (with `_`) -> value
function flags.flags(spec)
  if type(spec) ~= "table" then
    error("lp.flags: expected a table, lp.flags{name = {default, \"help\"}}, got " ..
          options.describe(spec), 2)
  end
  local own = add_definitions(spec, 2)
  called = true
  local result = parse(words_of_script())
  if not core.context().node and not inside_require() then decide(result) end
  local values = {}
  for name, definition in pairs(own) do
    values[name] = result.values[name]
    if values[name] == nil then values[name] = copy_default(definition) end
  end
  tables[values] = own
  return flags.overlay(values, flags.args)
end

return flags
