--- The commands that look at a run and steer it, each once: at the prompt of `lp repl` they are
-- `.name words`, on the command line `lp name RUN words`. Names, words, options and help texts are
-- here; what they do is in lp.console.commands, loaded when one is used.
-- @module lp.console.catalog

local options = require "lp.options"

local catalog = {}

local function seconds(text)
  local value = tonumber(text)
  if not value or value ~= value or value < 0 then
    return nil, ("expected a number of seconds, 0 or more, got '%s'"):format(text)
  end
  return value
end

local json = {name = "--json", target = "json", sets = true,
              help = "Answer as JSON on one line, with the fields of the table."}
local timeout = {name = "--timeout", target = "timeout", value = "SECONDS", convert = seconds,
                 help = "Give up after so long (default 10; 0: never)."}

local function whole(text)
  local value, expected = options.integer("a whole number, 1 or more", 1)(tonumber(text))
  if value == nil then return nil, ("expected %s, got '%s'"):format(expected, text) end
  return value
end

local function level(text)
  local value, expected = options.one_of("debug", "info", "warning", "error")(text)
  if value == nil then return nil, ("expected %s, got '%s'"):format(expected, text) end
  return value
end

--- In the order of the help. `least` and `most` words; `needs`: "run" (the default), or nothing
-- ("none"), or also a program that is not launched ("graph").
catalog.commands = {
  {name = "ps", words = "", least = 0, most = 0, needs = "none",
   help = "Programs that run on this machine."},
  {name = "nodes", words = "", least = 0, most = 0, needs = "graph",
   help = "All nodes: state, placement, process, loop, uptime, restarts, last error."},
  {name = "node", words = "NODE", least = 1, most = 1, needs = "graph",
   help = "One node: arguments or state, options, who calls it, its methods."},
  {name = "graph", words = "", least = 0, most = 0, needs = "graph",
   options = {{name = "--format", target = "format", value = "FORMAT",
               convert = function(text)
                 local value, expected = options.one_of("text", "dot", "json", "svg")(text)
                 if value == nil then return nil, ("expected %s, got '%s'"):format(expected, text) end
                 return value
               end, help = "text (the default), dot (for Graphviz), json, or svg (drawn by Graphviz)."}},
   help = "Who calls whom."},
  {name = "call", words = "NODE METHOD [JSON-ARGS...]", least = 2, most = math.maxinteger,
   options = {timeout}, raw = true,
   help = "Call a method; prints its first result as JSON."},
  {name = "eval", words = "NODE 'LUA'", least = 2, most = math.maxinteger, options = {timeout}, raw = true,
   help = "Evaluate in a node's interpreter; self is its instance."},
  {name = "top", words = "", least = 0, most = 0,
   options = {{name = "--interval", target = "interval", value = "SECONDS", convert = seconds,
               help = "Time between two looks (3; 1 with --count or off a terminal)."},
              {name = "--count", target = "count", value = "N", convert = whole,
               help = "Look so often; on a terminal until Ctrl-C, else once."}},
   help = "What nodes use: processor, calls a second in and out, pending calls, memory."},
  {name = "stats", words = "[NODE]", least = 0, most = 1,
   options = {{name = "--prometheus", target = "prometheus", sets = true,
               help = "All counts and times as Prometheus reads them."}},
   help = "Counts and times of all nodes, or of one; with --json everything lp.stats() has."},
  {name = "calls", words = "[NODE]", least = 0, most = 1,
   help = "Calls under way, the oldest first: who, whom, method, age, deadline."},
  {name = "lat", words = "[NODE[.METHOD]]", least = 0, most = 1,
   help = "How long calls took, by method, as the called (served) and the caller (made) see it."},
  {name = "slow", words = "", least = 0, most = 0, help = "The twenty slowest methods."},
  {name = "stack", words = "NODE", least = 1, most = 1, help = "Lua stacks of all tasks of a node."},
  {name = "stacks", words = "", least = 0, most = 0,
   help = "Lua stacks of all nodes; equal ones of a node are shown once, with their number."},
  {name = "why", words = "[NODE]", least = 0, most = 1,
   help = "Who waits for whom, from a node on, or of all nodes; names circles."},
  {name = "net", words = "[NODE]", least = 0, most = 1,
   help = "Links: peer, calls, bytes, queued, credit, silence."},
  {name = "mem", words = "[NODE]", least = 0, most = 1, help = "Memory of interpreters and processes."},
  {name = "gc", words = "NODE", least = 1, most = 1, options = {timeout},
   help = "Collect a node's garbage; memory before and after."},
  {name = "logs", words = "[NODE]", least = 0, most = 1,
   options = {{name = "--follow", short = "-f", target = "follow", sets = true,
               help = "Go on with what is printed from now on, until the run ends."},
              {name = "--lines", target = "lines", value = "N", convert = whole,
               help = "How many lines of the past (default 1000)."},
              {name = "--level", target = "level", value = "LEVEL", convert = level,
               help = "Only what was logged, of this level or above: debug, info, warning, error."}},
   help = "What the nodes, or one, have printed and logged lately."},
  {name = "reload", words = "[NODE] [FILE]", least = 0, most = 2,
   help = "Run the script again, or FILE, and give all nodes, or one, its new code; their state stays."},
  {name = "pause", words = "NODE", least = 1, most = 1, help = "Resume none of a node's tasks; calls to it wait."},
  {name = "resume", words = "NODE", least = 1, most = 1, help = "Let a paused node go on."},
  {name = "interrupt", words = "NODE", least = 1, most = 1,
   help = "End what a node computes, with an error, also in a loop that catches errors."},
  {name = "kill", words = "NODE", least = 1, most = 1,
   help = "Kill a node, as a crash would; its on_failure says what comes of that."},
  {name = "restart", words = "NODE", least = 1, most = 1,
   help = "Stop a node and start it again; its clients find it."},
  {name = "stop", words = "", least = 0, most = 0,
   options = {{name = "--notice", target = "notice", value = "SECONDS", convert = seconds,
               help = "Time between asking nodes to stop and killing them, instead of the run's own."}},
   help = "Ask the program to stop, and wait for its end."},
}

catalog.whole = whole

--- By name.
catalog.named = {}
for _, command in ipairs(catalog.commands) do
  catalog.named[command.name] = command
  command.options = command.options or {}
  table.insert(command.options, json)
end

--- How it is called on the command line; `short`: without options.
function catalog.usage(command, short)
  local list = {"lp", command.name}
  if command.needs ~= "none" then list[#list + 1] = "RUN" end
  if command.words ~= "" then list[#list + 1] = command.words end
  for _, option in ipairs(short and {} or command.options) do
    list[#list + 1] = option.value and ("[%s %s]"):format(option.name, option.value) or
                      ("[%s]"):format(option.name)
  end
  return table.concat(list, " ")
end

--- How it is called at the prompt.
function catalog.prompt_usage(command)
  return "." .. command.name .. (command.words ~= "" and " " .. command.words or "")
end

return catalog
