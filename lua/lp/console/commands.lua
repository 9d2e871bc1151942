--- What the commands of lp.console.catalog do. Each is called with a session, its words and
-- options, and returns an answer: {value=, text=} or {rows=, columns=} (JSON of the rows), or raises.
-- A session has `link` (lp.console.runs) when it is about a run, and `program` for a graph
-- that is not launched.
-- @module lp.console.commands

local core = require "lp.core"
local render = require "lp.console.render"
local runs = require "lp.console.runs"

local commands = {}

local function clock(value)
  return value and os.date("%Y-%m-%d %H:%M:%S", value)
end

-- ---------------------------------------------------------------- which programs

local ps_columns = {
  {field = "name", title = "NAME"}, {field = "id", title = "RUN"},
  {field = "pid", title = "PID", right = true}, {field = "launch_type", title = "LAUNCH"},
  {field = "started", title = "STARTED", show = clock}, {field = "script", title = "SCRIPT"},
}

function commands.ps()
  local rows = runs.list()
  for _, row in ipairs(rows) do row.folder = nil end
  return {rows = rows, columns = ps_columns, none = "no program runs here\n"}
end

-- ---------------------------------------------------------------- nodes

local node_columns = {
  {field = "name", title = "NODE"}, {field = "kind", title = "KIND"}, {field = "state", title = "STATE"},
  {field = "placement", title = "PLACE"}, {field = "pid", title = "PID", right = true},
  {field = "loop", title = "LOOP", show = function(name) return name ~= "" and name or nil end},
  {field = "uptime", title = "UPTIME", right = true, show = render.seconds},
  {field = "restarts", title = "RESTARTS", right = true}, {field = "last_error", title = "LAST ERROR"},
}

function commands.nodes(session)
  if session.link then return {rows = session.link:ask "nodes", columns = node_columns} end
  return require("lp.console.drawing").nodes(session.program)
end

local function joined(list)
  return list and list[1] and table.concat(list, ", ") or nil
end

local function methods_text(list)
  if not list then return nil end
  local lines = {}
  for i, method in ipairs(list) do lines[i] = require("lp.methods").text(method) end
  return lines[1] and table.concat(lines, "\n") or "none"
end

local function options_text(options)
  return options and next(options) and require("lp.show").value(options) or nil
end

function commands.node(session, words)
  if not session.link then return require("lp.console.drawing").node(session.program, words[1]) end
  local record = session.link:ask("node", words[1])
  return {value = record, text = render.fields {
    {"node", record.name}, {"kind", record.kind}, {"state", record.state},
    {"placement", record.placement .. (record.pid and (" (process %d)"):format(record.pid) or "")},
    {"uptime", render.seconds(record.uptime)}, {"restarts", record.restarts},
    {"last error", record.last_error}, {"ended", record.ended}, {"options", options_text(record.options)},
    {"calls", joined(record.calls)}, {"called by", joined(record.called_by)},
    {"methods", methods_text(record.methods)},
    {"partial", record.partial and record.partial_reason or nil},
  }}
end

function commands.graph(session, _, options)
  local drawing = require "lp.console.drawing"
  if not session.link then return drawing.graph(session.program, options.format) end
  local record = session.link:ask "graph"
  require("lp.console.edges").measure(session.link, record)
  return drawing.live(record, options.format)
end

-- ---------------------------------------------------------------- calls

local function arguments(words, first)
  local decode, list = require "lp.json.decode", {n = 0}
  for i = first, #words do
    local ok, value = pcall(decode, words[i])
    if not ok then
      error(("argument %d is not JSON: %s: %s; a text is written in quotes, '\"text\"'")
            :format(i - first + 1, words[i], value), 0)
    end
    list.n = list.n + 1
    list[list.n] = value
  end
  return list
end

--- A value's JSON, or its text if it has none (lp.Error, clients, …).
local function json_of(value)
  local ok, text = pcall(require("lp.json").encode, value)
  return ok and text or require("lp.json").encode(tostring(value))
end

local function within(options)
  return options.timeout == nil and 10 or options.timeout
end

function commands.call(session, words, options)
  local list = arguments(words, 3)
  local client = session.link:node(words[1], within(options))
  local result = core.call(client, words[2], table.unpack(list, 1, list.n))
  return {value = result, text = json_of(result) .. "\n"}
end

--- The values an evaluation gave, for JSON: those that travel as they are, others as text.
local function evaluated(answer)
  local list = {}
  for i = 1, answer.count or 0 do
    local bytes = answer.packed[i]
    local value
    if bytes then value = core.unpack(bytes) end
    list[i] = value == nil and require("lp.json").null or value
  end
  return list
end

function commands.eval(session, words, options)
  local text = table.concat(words, " ", 2)
  local budget = within(options)
  local answer = session.link:ask_within(budget > 0 and budget + 5 or 0, "eval", words[1], text, budget)
  local lines = {}
  for _, line in ipairs(answer.printed) do lines[#lines + 1] = line .. "\n" end
  local printed = table.concat(lines)
  if not answer.ok then
    return {failed = true, text = printed, error = answer.error,
            value = {printed = answer.printed, error = answer.error, traceback = answer.traceback}}
  end
  local values = answer.count > 0 and answer.text .. "\n" or ""
  return {text = printed .. values, value = {printed = answer.printed, values = evaluated(answer)}}
end

function commands.gc(session, words, options)
  local budget = within(options)
  local record = session.link:ask_within(budget > 0 and budget + 5 or 0, "gc", words[1], budget)
  return {value = record, text = ("%s: %s before, %s after\n"):format(words[1],
          render.bytes(record.before), render.bytes(record.after))}
end

-- ---------------------------------------------------------------- logs

local function line_text(line)
  return (line.node ~= "" and "[" .. line.node .. "] " or "") .. line.text .. "\n"
end

--- Writes lines as they come, until the run has ended or somebody interrupts.
local function follow(session, node, options, answer, write)
  while true do
    for _, line in ipairs(answer.lines) do
      write(options.json and require("lp.json").encode(line) .. "\n" or line_text(line))
    end
    core.flush()
    core.sleep(0.1)
    local ok, more = pcall(session.link.ask, session.link, "logs", answer.next, node, 100000, options.level)
    if not ok then return end
    answer = more
  end
end

function commands.logs(session, words, options, write)
  local answer = session.link:ask("logs", 0, words[1], options.lines or 1000, options.level)
  if options.follow then
    follow(session, words[1], options, answer, write)
    return {text = "", quiet = true}
  end
  local lines = {}
  for i, line in ipairs(answer.lines) do lines[i] = line_text(line) end
  return {value = answer.lines, text = table.concat(lines)}
end

for name, fn in pairs(require "lp.console.inspection") do commands[name] = fn end
for name, fn in pairs(require "lp.console.steering") do commands[name] = fn end

return commands
