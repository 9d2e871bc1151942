--- `lp graph`: the graph of a program, as text, as JSON, and drawn by Graphviz.
-- Nothing is launched: names, kinds and edges are known once the graph is built.
-- @module lp.graph

local json = require "lp.json"

local graph = {}

--- The graph as plain data.
-- @treturn table {name=, groups={{label=, nodes={names}}}, nodes=, edges=}; nodes and edges as
--   program:nodes() and program:edges() give them
function graph.record(program)
  local groups, by_label, nodes = {}, {}, program:nodes()
  for i, group in ipairs(program.groups) do
    groups[i] = {label = group.label, nodes = {}}
    by_label[group.label] = groups[i].nodes
  end
  for _, node in ipairs(nodes) do table.insert(by_label[node.label], node.name) end
  return {name = program.name, groups = groups, nodes = nodes, edges = program:edges()}
end

--- Calls `fn(group, nodes)` for every group, with the records of its nodes.
local function each_group(record, fn)
  local by_name = {}
  for _, node in ipairs(record.nodes) do by_name[node.name] = node end
  for i, group in ipairs(record.groups) do
    local nodes = {}
    for k, name in ipairs(group.nodes) do nodes[k] = by_name[name] end
    fn(group, nodes, i)
  end
end

local function kind_of(node)
  return node.kind .. (node.run and "" or ", run disabled") .. (node.note and ", " .. node.note or "")
end

-- ---------------------------------------------------------------- formats

local formats = {}

local function count(list, noun)
  return ("%d %s%s"):format(#list, noun, #list == 1 and "" or "s")
end

function formats.text(record)
  local width = 0
  for _, node in ipairs(record.nodes) do width = math.max(width, #node.name) end
  local lines = {("program %s: %s, %s"):format(record.name, count(record.nodes, "node"),
                                               count(record.edges, "edge")), "", "nodes"}
  each_group(record, function(group, nodes)
    lines[#lines + 1] = "  " .. group.label
    for _, node in ipairs(nodes) do
      lines[#lines + 1] = ("    %s%s  %s"):format(node.name, (" "):rep(width - #node.name), kind_of(node))
    end
  end)
  if record.edges[1] then lines[#lines + 1] = "\nedges (caller -> called)" end
  for _, edge in ipairs(record.edges) do
    lines[#lines + 1] = ("  %s -> %s%s"):format(edge.from, edge.to, edge.note and "  " .. edge.note or "")
  end
  return table.concat(lines, "\n") .. "\n"
end

function formats.json(record)
  return json.encode(record) .. "\n"
end

--- A quoted string of the language of dot, in which backslashes begin escapes.
local function quoted(text)
  return '"' .. json.valid_utf8(text):gsub('[\\"]', "\\%0") .. '"'
end

local shapes = {LuaNode = "ellipse", LuaClassNode = "box", CourierNode = "component", CacherNode = "cylinder",
                MultiThreadingColocation = "folder", MultiProcessingColocation = "folder"}

local function dot_node(node)
  local label = quoted(node.name):sub(1, -2) .. "\\n" .. kind_of(node) .. '"'
  return ("    %s [label=%s, shape=%s];"):format(quoted(node.name), label, shapes[node.kind])
end

function formats.dot(record)
  local lines = {("digraph %s {"):format(quoted(record.name)), "  rankdir=LR;"}
  each_group(record, function(group, nodes, i)
    lines[#lines + 1] = ("  subgraph cluster_%d {\n    label=%s;"):format(i, quoted(group.label))
    for _, node in ipairs(nodes) do lines[#lines + 1] = dot_node(node) end
    lines[#lines + 1] = "  }"
  end)
  for _, edge in ipairs(record.edges) do
    local label = edge.note and (" [label=%s]"):format(quoted(edge.note)) or ""
    lines[#lines + 1] = ("  %s -> %s%s;"):format(quoted(edge.from), quoted(edge.to), label)
  end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n") .. "\n"
end

--- The same from a record.
function graph.text_of(record, format)
  return formats[format](record)
end

--- The graph of a program in a format that needs nobody's help: "text", "dot" or "json".
-- @treturn string
function graph.text(program, format)
  return graph.text_of(graph.record(program), format)
end

-- ---------------------------------------------------------------- the command

--- Why a format cannot be had here, or nil. Asked before the script runs.
function graph.unavailable(format)
  if format ~= "svg" or os.execute("command -v dot >/dev/null 2>&1") then return nil end
  return "--format svg needs Graphviz, whose command dot was not found; " ..
         "on Debian and Ubuntu: apt-get install graphviz"
end

--- Has dot draw a text. From a file: a pipe to a dot that has failed would end us with SIGPIPE.
-- @tparam function use is given the command of a shell that draws, and returns what it came to
local function with_dot(text, use)
  local path = os.tmpname()
  local _ <close> = setmetatable({}, {__close = function() os.remove(path) end})
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
  return use(("dot -Tsvg '%s'"):format(path))
end

--- A picture of a record, drawn by dot.
function graph.svg(record)
  return with_dot(formats.dot(record), function(command)
    local dot = assert(io.popen(command, "r"))
    local picture = dot:read "a"
    if not dot:close() then error("dot could not draw the graph", 0) end
    return picture
  end)
end

--- Writes the graph to stdout; dot does it itself.
-- @param stdout a file
-- @treturn boolean true, or nil and what went wrong
function graph.show(program, format, stdout)
  if format ~= "svg" then
    stdout:write(graph.text(program, format))
    return true
  end
  stdout:flush()
  if with_dot(graph.text(program, "dot"), os.execute) then return true end
  return nil, "dot could not draw the graph"
end

return graph
