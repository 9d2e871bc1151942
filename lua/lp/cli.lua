--- The words of the command line `lp …`.
-- One table describes commands and options; the parser, the help texts and the splitting
-- of words between `lp` and the script are all made from it. Nothing here prints or exits:
-- the command does, with what `cli.parse` returns.
-- @module lp.cli

local catalog = require "lp.console.catalog"
local options = require "lp.options"
local resources = require "lp.resources"
local terminals = require "lp.terminals"

local cli = {}

--- Launch types, in the order messages list them.
cli.launch_types = {"local_mt", "local_mp", "test_mt", "test_mp"}

-- ---------------------------------------------------------------- values

--- A converter for the parser from a rule of lp.options.
local function by_rule(rule, prepare)
  return function(text)
    local value, expected = rule(prepare and prepare(text) or text)
    if value == nil then return nil, ("expected %s, got '%s'"):format(expected, text) end
    return value
  end
end

local function notice(value)
  if options.seconds(value) then return value end
  return nil, "a number of seconds (0 kills at once, a negative number never kills)"
end

--- LABEL.KEY=VALUE; the key may have dots of its own (`worker.env.HOME=/tmp`).
local function setting(text)
  local label, key, value = text:match("^([^.=]+)%.([^=]+)=(.*)$")
  if not label then return nil, ("expected LABEL.KEY=VALUE, got '%s'"):format(text) end
  return {label = label, key = key, value = value}
end

local function words(list)
  local quoted = {}
  for i, word in ipairs(list) do quoted[i] = "'" .. word .. "'" end
  return table.concat(quoted, ", ")
end

local function launch_type(text)
  for _, known in ipairs(cli.launch_types) do
    if text == known then return text end
  end
  return nil, ("unknown launch type '%s' (known: %s)"):format(text, words(cli.launch_types))
end

-- ---------------------------------------------------------------- the table

--- Options of `lp run`. `target` is the field in the result; without `value` an option is
-- a switch that sets the field to `sets`. `alias` is Launchpad's spelling, which is also
-- taken out of the words after the script.
local run_options = {
  {name = "--launch", alias = "--lp_launch_type", target = "launch_type", value = "TYPE",
   convert = launch_type,
   help = "Where nodes run: local_mt (threads, the default), local_mp (processes), test_mt, test_mp."},
  {name = "--notice", alias = "--lp_termination_notice_secs", target = "notice",
   value = "SECONDS", convert = by_rule(notice, tonumber),
   help = "Time between asking nodes to stop and killing them (default 10; 0: at once; negative: never kill)."},
  {name = "--name", target = "name", value = "NAME", convert = by_rule(options.text),
   help = "Name of the run instead of the program's."},
  {name = "--set", target = "set", value = "LABEL.KEY=VALUE", convert = setting, many = true,
   help = "Set a resource of a label's nodes or of one node: env.NAME, args.NAME, nice, affinity, folder, " ..
          "memory_limit; may be repeated."},
  {name = "--resources", target = "resources", value = "FILE", convert = by_rule(options.text),
   help = "Resources by label, a file in JSON (its name ends in .json) or in Lua that returns a table."},
  {name = "--threads", target = "threads", value = "N",
   convert = by_rule(options.integer("a whole number, 1 or more", 1), tonumber),
   help = "Threads for nodes in one process (default 64); beyond that nodes share."},
  {name = "--spin", target = "spin", value = "MICROSECONDS",
   convert = by_rule(options.integer("a whole number, 0 or more", 0), tonumber),
   help = "How long a thread with nodes looks for work before it sleeps, while that pays (default 20; 0: never)."},
  {name = "--metrics", target = "metrics", value = "on|off", convert = by_rule(options.one_of("on", "off")),
   help = "Whether calls are timed (default on); they are counted in any case."},
  {name = "--seed", target = "seed", value = "N",
   convert = by_rule(options.integer("a whole number, 0 or more", 0), tonumber),
   help = "Seed of math.random in the nodes, for runs that repeat."},
  {name = "--terminal", target = "terminal", value = "TERMINAL", convert = by_rule(terminals.rule),
   help = "Where the output of nodes goes: current_terminal (the default), output_to_files, tmux_session."},
  {name = "--log-dir", target = "log_dir", value = "DIR", convert = by_rule(options.text),
   help = "Output to files in this folder, DIR/LABEL/INDEX (default of output_to_files: /tmp/launchpad_out)."},
  {name = "--log-size", target = "log_size", value = "BYTES", convert = by_rule(resources.rules.memory_limit),
   help = "Size at which such a file is begun anew, with the old one as FILE.1 (default 64M)."},
  {name = "--tmux_open_window", target = "tmux_open_window", value = "WINDOW", convert = by_rule(options.text),
   help = "Window of the tmux session that is shown first, a node's name."},
  {name = "--tmux_session_name", target = "tmux_session_name", value = "NAME", convert = by_rule(options.text),
   help = "Name of the tmux session (default launchpad; _0, _1, ... is added when it is taken)."},
  {name = "--log-level", target = "log_level", value = "LEVEL",
   convert = by_rule(options.one_of("debug", "info", "warning", "error")),
   help = "Lowest level of lp.log that is shown: debug, info (the default), warning, error."},
  {name = "--watch", target = "watch", sets = true,
   help = "Give nodes new code when the script or one of its modules changes; their state is kept."},
  {name = "--no-color", target = "color", sets = false,
   help = "No colours, also on a terminal."},
}

local graph_options = {
  {name = "--format", target = "format", value = "FORMAT", late = true,
   convert = by_rule(options.one_of("text", "dot", "json", "svg")),
   help = "text (the default), dot (for Graphviz), json, or svg (drawn by Graphviz)."},
}

local repl_options = {
  {name = "--json", target = "json", sets = true, help = "Answer as JSON, a line each; for input from a pipe."},
}
for _, option in ipairs(run_options) do repl_options[#repl_options + 1] = option end

--- Launchpad's spellings are words of `lp` in every command that takes a script: a command line
-- stays good when another command is put in front.
for _, option in ipairs(run_options) do
  if option.alias then
    graph_options[#graph_options + 1] = {name = option.alias, target = option.target,
      value = option.value, convert = option.convert, help = option.help, hidden = true}
  end
end

--- Commands in the order of the help. `script`: the first plain word is a script and what
-- follows belongs to it. `words`: everything is passed on untouched.
local commands = {
  {name = "run", usage = "lp run [options] PROGRAM.lua [program flags]", script = true,
   short = "lp run [options] PROGRAM.lua [flags]",
   options = run_options,
   help = "Launch a program and wait for it. PROGRAM.lua may be - for standard input."},
  {name = "graph", usage = "lp graph [options] PROGRAM.lua [program flags]", script = true,
   short = "lp graph [options] PROGRAM.lua [flags]",
   options = graph_options,
   help = "Show a program's nodes and who calls whom, without launching it."},
  {name = "repl", usage = "lp repl [options] [PROGRAM.lua | RUN] [program flags]", script = true, optional = true,
   short = "lp repl [PROGRAM.lua [flags] | RUN]", options = repl_options,
   help = "A prompt: look at a program, launch it, or look at one that runs."},
  {name = "test", usage = "lp test [SPECS and options of busted...]", short = "lp test [SPECS...]",
   words = true,
   help = "Run busted specs inside the engine; they may launch programs."},
  {name = "version", usage = "lp version", help = "Print the version."},
  {name = "help", usage = "lp help [COMMAND]", topic = true,
   help = "Show this text, or that of a command."},
}

--- The commands about a run: `lp NAME RUN words`, see lp.console.catalog. `lp graph` is both: its
-- word is a run unless it is a script.
for _, command in ipairs(catalog.commands) do
  if command.name ~= "graph" then
    table.insert(commands, #commands - 2, {name = command.name, usage = catalog.usage(command),
                 short = catalog.usage(command, true),
                 console = command, options = command.options, help = command.help})
  end
end

local command_named = {}
for _, command in ipairs(commands) do command_named[command.name] = command end

-- ---------------------------------------------------------------- results

--- What ends the command before anything runs, raised through the parser.
local function finish(status, text)
  error({status = status, stream = status == 0 and "stdout" or "stderr", text = text}, 0)
end

local function usage_error(usage, message)
  finish(2, ("lp: %s\nUsage: %s\n"):format(message, usage))
end

-- ---------------------------------------------------------------- options

--- `--launch_type` -> `--launch-type`: `_` equals `-` in names.
local function normal(word)
  return "--" .. word:gsub("^%-%-?", ""):gsub("_", "-")
end

local function index_options(command)
  local index = {}
  for _, option in ipairs(command.options or {}) do
    index[normal(option.name)] = option
    if option.alias then index[normal(option.alias)] = option end
    if option.short then index[normal(option.short)] = option end
  end
  return index
end

--- Splits `--name=value`. The name comes in its normal form.
local function split(word)
  local name, value = word:match("^(%-%-?[^=]+)=(.*)$")
  return normal(name or word), value
end

--- The option at `list[at]` as one word, `--name` or `--name=value`, in the spelling of the
-- table, so that the parser takes no value for an option ("--notice -1"). An unknown one
-- stays as it is: the parser will say so.
-- @treturn string the word
-- @treturn int how many words it was
local function take(index, list, at)
  local name, value = split(list[at])
  local option = index[name]
  if not option then return list[at], 1 end
  local count = 1
  if option.value and value == nil and list[at + 1] then value, count = list[at + 1], 2 end
  return value and option.name .. "=" .. value or option.name, count
end

--- Divides the words after `run` into options, script and the script's words.
-- Only `--lp_…` words, and options that are `late`, are ours after the script, and none after `--`.
local function divide(index, list)
  local own, script, rest = {}, nil, {}
  local at, pattern = 1, "^%-."
  while list[at] do
    local word, count = list[at], 1
    if script and word == "--" then pattern = "^$" end
    local late = script and pattern ~= "^$" and word:find "^%-%-" and (index[(split(word))] or {}).late
    if late or word:find(pattern) then
      own[#own + 1], count = take(index, list, at)
    elseif script then
      rest[#rest + 1] = word
    else
      script, pattern = word, "^%-%-?lp[_-]"
    end
    at = at + count
  end
  return own, script, rest
end

-- ---------------------------------------------------------------- the parser

--- The converter of an option; what it refuses is told with the option's name.
local function named_converter(option)
  return function(text)
    local value, message = option.convert(text)
    if value == nil then return nil, ("option '%s': %s"):format(option.name, message) end
    return value
  end
end

--- The argparse parser of a command, from the table.
local function parser_of(command)
  local parser = require("argparse")(command.usage:match("^lp %a+"), command.help)
  parser:add_help(false):usage("Usage: " .. command.usage):help_max_width(100)
  for _, option in ipairs(command.options or {}) do
    local element
    if option.value then
      element = parser:option(option.name):argname(option.value):convert(named_converter(option))
      element:count(option.many and "*" or "0-1")
    else
      element = parser:flag(option.name)
      element:action(function(result) result[option.target] = option.sets end)
    end
    element:target(option.target):description(option.help):hidden(option.hidden == true)
  end
  parser:flag("-h --help"):description("Show this text."):action(function()
    finish(0, parser:get_help() .. "\n")
  end)
  parser.error = function(_, message) usage_error(command.usage, message) end
  return parser
end

-- ---------------------------------------------------------------- commands

local function overview()
  local lines, about_runs = {"Usage: lp COMMAND ...", "", "Commands:"}, {}
  for _, command in ipairs(commands) do
    local list = command.console and about_runs or lines
    list[#list + 1] = ("  %-39s %s"):format(command.short or command.usage, command.help)
  end
  lines[#lines + 1] = "\nAbout a program that runs; RUN is its name or its run id, --json answers as JSON:"
  table.move(about_runs, 1, #about_runs, #lines + 1, lines)
  lines[#lines + 1] = ""
  lines[#lines + 1] = "lp help COMMAND shows the options of a command."
  return table.concat(lines, "\n") .. "\n"
end

local function help(name)
  if name == nil then finish(0, overview()) end
  if name == "man-page" then -- these two are for the engine's own installation
    finish(0, require("lp.manual").man(commands, require("lp.core").command.version))
  elseif name == "bash-completion" then
    finish(0, (require("lp.manual").bash(commands)))
  end
  local command = command_named[name]
  if not command then
    usage_error("lp help [COMMAND]", ("unknown command '%s'"):format(name))
  end
  finish(0, parser_of(command):get_help() .. "\n")
end

local function asks_for_help(word)
  return word == "--help" or word == "-h"
end

local function parse_script_command(command, list)
  local own, script, rest = divide(index_options(command), list)
  local parsed = #own > 0 and parser_of(command):parse(own) or {}
  if not script and not command.optional then usage_error(command.usage, "the program is missing") end
  for _, option in ipairs(command.options) do
    if option.many then parsed[option.target] = parsed[option.target] or {} end
  end
  return {command = command.name, script = script, script_args = rest, options = parsed}
end

--- Options may stand anywhere. Among words that are passed on as they are (`raw`: JSON, Lua) only
-- those that are known count, and none behind `--`.
local function divide_console(command, index, list)
  local own, rest, at = {}, {}, 1
  local fixed = command.console.raw and command.console.least + 1
  while list[at] do
    local word, count = list[at], 1
    local ours = word:find "^%-%-." or word:find "^%-%a$"
    if fixed and #rest >= fixed then ours = index[(split(word))] ~= nil end
    if word == "--" then
      table.move(list, at + 1, #list, #rest + 1, rest)
      break
    end
    if ours then own[#own + 1], count = take(index, list, at) else rest[#rest + 1] = word end
    at = at + count
  end
  return own, rest
end

local function parse_console_command(command, list)
  local own, rest = divide_console(command, index_options(command), list)
  local parsed = #own > 0 and parser_of(command):parse(own) or {}
  local spec, run = command.console, nil
  if spec.needs ~= "none" then
    run = table.remove(rest, 1)
    if not run then usage_error(command.usage, "the run is missing; lp ps lists those that are alive") end
  end
  if #rest < spec.least then
    usage_error(command.usage, ("%s is missing"):format(spec.words:match("%S+", #rest > 0 and
                spec.words:find " " or 1) or "a word"))
  end
  if #rest > spec.most then usage_error(command.usage, ("unexpected word '%s'"):format(rest[spec.most + 1])) end
  return {command = "console", spec = spec, run = run, words = rest, options = parsed}
end

local function parse_command(command, list)
  if command.console then return parse_console_command(command, list) end
  if command.script then return parse_script_command(command, list) end
  if asks_for_help(list[1]) then help(command.name) end
  if command.topic then help(list[1]) end
  if not command.words and list[1] then
    usage_error(command.usage, ("unexpected word '%s'"):format(list[1]))
  end
  return {command = command.name, words = list, options = {}}
end

--- A word that is no command: perhaps a script whose `run` was forgotten.
local function unknown_command(word)
  local names = {}
  for i, command in ipairs(commands) do names[i] = command.name end
  local hint = word:find("%.lua$") and ("; to run it: lp run %s"):format(word) or ""
  usage_error("lp COMMAND ...", ("unknown command '%s' (known: %s)%s")
              :format(word, table.concat(names, ", "), hint))
end

local function parse(argv)
  local first = argv[1]
  if first == nil then finish(2, overview()) end
  if asks_for_help(first) then help() end
  if first == "--version" or first == "-v" then first = "version" end
  local command = command_named[first] or unknown_command(first)
  return parse_command(command, table.move(argv, 2, #argv, 1, {}))
end

--- Reads the words after `lp`.
-- @tparam table argv array of words
-- @treturn table {command=, options=, script=, script_args=, words=}: `script` and
--   `script_args` for `run` and `graph`, `words` for `test`; `options` by the targets of the table
--   (`launch_type`, `notice`, …), `options.set` an array of {label=, key=, value=}; or nil and
-- @treturn table {status=, stream="stdout"|"stderr", text=}: print the text and exit
function cli.parse(argv)
  local ok, result = pcall(parse, argv)
  if ok then return result end
  if type(result) == "table" and result.status then return nil, result end
  error(result, 0)
end

return cli
