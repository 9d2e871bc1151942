--- Graphs as answers: of a program that is not launched, and of one that runs.
-- @module lp.console.drawing

local graph = require "lp.graph"
local methods = require "lp.methods"
local render = require "lp.console.render"
local show = require "lp.show"

local drawing = {}

local columns = {
  {field = "name", title = "NODE"}, {field = "kind", title = "KIND"},
  {field = "constructor", title = "CONSTRUCTOR"}, {field = "arguments", title = "ARGUMENTS"},
}

--- Where a constructor was defined: its function, or the first method of its class.
local function place_of(ctor)
  if ctor == nil then return nil end -- a colocation, a node of the embedding program
  if type(ctor) == "function" then
    local info = debug.getinfo(ctor, "S")
    return ("%s:%d"):format(info.short_src, info.linedefined)
  end
  local list = methods.of_class(ctor)
  local made = type(ctor) == "table" and rawget(ctor, "new")
  if type(made) == "function" then return place_of(made) end
  return list[1] and ("%s:%d"):format(list[1].source, list[1].line) or tostring(ctor)
end

local function arguments_of(node)
  local list = {}
  for i = 1, node.args.n do
    local value = node.args[i]
    list[i] = type(value) == "string" and show.quoted(value) or show.value(value)
  end
  return table.concat(list, ", ")
end

local function record_of(node)
  return {name = node.name, label = node.label, index = node.index, kind = node.kind,
          state = "not launched", constructor = place_of(node.ctor), arguments = arguments_of(node),
          run = node.run_enabled}
end

--- The nodes of a program that is not launched.
function drawing.nodes(program)
  local rows = {}
  for i, node in ipairs(program:all_nodes()) do rows[i] = record_of(node) end
  return {rows = rows, columns = columns}
end

local function find(program, name)
  local names = {}
  for i, node in ipairs(program:all_nodes()) do
    if node.name == name then return node end
    names[i] = node.name
  end
  error(("program %s has no node %s (it has: %s)"):format(program.name, name, table.concat(names, ", ")), 0)
end

--- Methods a node will show, where its class says; of a function only the engine can know, later.
local function methods_of(node)
  if not node.serves then return nil, "none: a " .. node.kind .. " serves no calls" end
  local list = methods.of_class(node.ctor)
  if not list[1] then return list, "known when it has been constructed" end
  local lines = {}
  for i, method in ipairs(list) do lines[i] = methods.text(method) end
  return list, table.concat(lines, "\n")
end

function drawing.node(program, name)
  local node = find(program, name)
  local record = record_of(node)
  local list, lines = methods_of(node)
  record.methods, record.options = list, node.settings
  record.calls, record.called_by = {}, {}
  for _, edge in ipairs(program:edges()) do
    if edge.from == name then table.insert(record.calls, edge.to) end
    if edge.to == name then table.insert(record.called_by, edge.from) end
  end
  local function joined(items) return items[1] and table.concat(items, ", ") or nil end
  return {value = record, text = render.fields {
    {"node", record.name}, {"kind", record.kind .. (record.run and "" or ", run disabled")},
    {"constructor", record.constructor}, {"arguments", record.arguments ~= "" and record.arguments or nil},
    {"options", next(node.settings) and show.value(node.settings) or nil},
    {"calls", joined(record.calls)}, {"called by", joined(record.called_by)}, {"methods", lines},
  }}
end

--- Draws a record in `format`; svg is drawn by Graphviz.
local function draw(record, format)
  if format ~= "svg" then return {value = record, text = graph.text_of(record, format or "text")} end
  local mistake = graph.unavailable "svg"
  if mistake then error(mistake, 0) end
  return {value = record, text = graph.svg(record)}
end

function drawing.graph(program, format)
  return draw(graph.record(program), format)
end

--- A record for lp.graph from what a run answers.
local function live_record(answer)
  local groups, by_label = {}, {}
  for _, node in ipairs(answer.nodes) do
    local group = by_label[node.label]
    if not group then
      group = {label = node.label, nodes = {}}
      by_label[node.label] = group
      groups[#groups + 1] = group
    end
    table.insert(group.nodes, node.name)
    node.run = true
  end
  return {name = answer.name, groups = groups, nodes = answer.nodes, edges = answer.edges}
end

--- The graph of a run, with the states of its nodes.
function drawing.live(answer, format)
  local record = live_record(answer)
  for _, node in ipairs(record.nodes) do node.note = node.state end
  return draw(record, format)
end

return drawing
