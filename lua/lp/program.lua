--- lp.Program: a graph of nodes.
-- Nodes carry labels; the nodes of one label are a group, and each is named `label/index`
-- in the order added. Edges are not drawn by anybody: they follow from which handle stands
-- in whose arguments. Mistakes are raised at the line that made them.
-- @module lp.program

local handle = require "lp.handle"
local nodes = require "lp.node"
local options = require "lp.options"

local programs = {}

local Program = {__name = "lp.Program"}
Program.__index = Program
programs.metatable = Program

--- Is `value` a program?
function programs.is(value)
  return type(value) == "table" and debug.getmetatable(value) == Program
end

--- A new, empty program.
-- @string name
function programs.Program(name)
  if not options.text(name) or name:find("[%c/]") then
    error("lp.Program: expected a name, a text without \"/\", got " .. options.describe(name), 2)
  end
  return setmetatable({name = name, groups = {}, by_label = {}, launched = false}, Program)
end

function Program:__tostring()
  return ("program %q"):format(self.name)
end

--- Refuses calls with a dot.
local function check_self(self, call, level)
  if not programs.is(self) then error("call it with a colon: " .. call, level or 3) end
end

--- Refuses them, and changes after the launch.
local function check_open(self, call)
  check_self(self, call, 4)
  if self.launched then
    error(("program %q has been launched already"):format(self.name), 3)
  end
end

--- Labels name files and take part in "label/index", hence no slash, no lone dots.
local function check_label(what, label, level)
  if label == nil or label == "" then
    error(what .. ": a label is needed, a text that is not empty", level + 1)
  end
  if type(label) ~= "string" then
    error(what .. ": the label must be a text, got " .. options.describe(label), level + 1)
  end
  if label:find("[%c/]") or label == "." or label == ".." then
    error(("%s: label %s: no \"/\", no control characters, and not \".\" or \"..\"")
          :format(what, options.describe(label)), level + 1)
  end
end

--- The label a node gets: its own, or that of the group around.
local function label_for(program, label, level)
  local current = program.current
  if not current then
    check_label("program:add_node", label, level + 1)
    return label
  end
  if label ~= nil and label ~= current then
    error(("program:add_node: label %s differs from the group's, %q")
          :format(options.describe(label), current), level + 1)
  end
  return current
end

local function check_node(node, level)
  if handle.is(node) then
    error(("program:add_node: expected a node, got the %s"):format(tostring(node)), level + 1)
  end
  if not nodes.is(node) then
    error("program:add_node: expected a node (lp.LuaNode, lp.CourierNode, …), got " ..
          options.describe(node), level + 1)
  end
  if node.colocation then
    error("program:add_node: this node is in a colocation; add that", level + 1)
  end
  if node.program then
    error(("program:add_node: this node is %s of program %q already; make a node for each " ..
           "place"):format(node.name, node.program.name), level + 1)
  end
end

--- The group of a label, made when it is the first node's.
local function group_of(program, label)
  local group = program.by_label[label]
  if not group then
    group = {label = label, nodes = {}}
    program.by_label[label] = group
    table.insert(program.groups, group)
  end
  return group
end

--- Gives a node its place, and those inside of it.
local function take_place(program, node, label, index, name)
  node.program, node.label, node.index, node.name = program, label, index, name
  for k, inner in ipairs(node.inner or {}) do
    take_place(program, inner, label, index, ("%s/%d"):format(name, k - 1))
  end
end

--- Adds a node.
-- @param node from lp.LuaNode, lp.LuaClassNode, lp.CourierNode or a colocation of these
-- @string label may be left out inside program:group
-- @return its handle, to be passed to other nodes
function Program:add_node(node, label)
  check_open(self, "program:add_node(node, label)")
  check_node(node, 2)
  label = label_for(self, label, 2)
  local group = group_of(self, label)
  take_place(self, node, label, #group.nodes, ("%s/%d"):format(label, #group.nodes))
  table.insert(group.nodes, node)
  return node:create_handle()
end

--- Runs `fn`; nodes it adds get the label. The group ends with `fn`, also by an error.
-- @string label
-- @func fn
-- @return what `fn` returns
function Program:group(label, fn)
  check_open(self, "program:group(label, function() … end)")
  check_label("program:group", label, 2)
  if self.current then
    error(("program:group: group %q inside group %q: groups do not nest")
          :format(label, self.current), 2)
  end
  if not require("lp.construct").callable(fn) then
    error(("program:group: group %q: expected a function, got %s")
          :format(label, options.describe(fn)), 2)
  end
  self.current = label
  local _ <close> = setmetatable({}, {__close = function() self.current = nil end})
  return fn()
end

local function collect(list, found)
  for _, node in ipairs(list) do
    found[#found + 1] = node
    if node.inner then collect(node.inner, found) end
  end
end

--- All node objects, group by group; those inside of a colocation follow it.
function Program:all_nodes()
  check_self(self, "program:all_nodes()")
  local found = {}
  for _, group in ipairs(self.groups) do collect(group.nodes, found) end
  return found
end

--- The nodes as plain records.
-- @treturn table array of {name=, label=, index=, kind=, run=, colocation=}; `run` is false after
--   disable_run, `colocation` the name of the one the node is in
function Program:nodes()
  check_self(self, "program:nodes()")
  local list = {}
  for i, node in ipairs(self:all_nodes()) do
    list[i] = {name = node.name, label = node.label, index = node.index, kind = node.kind,
               run = node.run_enabled, colocation = node.colocation and node.colocation.name}
  end
  return list
end

--- Where handles may stand in a node, with names for messages.
local function roots_of(node)
  if node.inner then return {} end
  local roots = {{node.ctor, "constructor"}}
  for i = 1, node.args.n do
    roots[#roots + 1] = {node.args[i], "argument " .. i}
  end
  return roots
end

--- Calls `found(node, target, path)` for every handle a node of the program was given.
local function each_reference(program, found)
  local scan = require("lp.scan").scanner()
  for _, node in ipairs(program:all_nodes()) do
    scan(roots_of(node), function(reference, path)
      found(node, handle.node(reference), path)
    end)
  end
end

--- The edges, each once: from the node that was given a handle to the node behind it.
-- @treturn table array of {from=, to=}, names, in the order of the nodes
function Program:edges()
  check_self(self, "program:edges()")
  local place = {}
  for i, node in ipairs(self:all_nodes()) do place[node] = i end
  local edges, drawn = {}, {}
  each_reference(self, function(node, target)
    local known = drawn[node] or {}
    drawn[node] = known
    if target.program == self and not known[target] then
      known[target] = true
      edges[#edges + 1] = {node, target}
    end
  end)
  table.sort(edges, function(a, b)
    if a[1] ~= b[1] then return place[a[1]] < place[b[1]] end
    return place[a[2]] < place[b[2]]
  end)
  for i, edge in ipairs(edges) do edges[i] = {from = edge[1].name, to = edge[2].name} end
  return edges
end

--- What is wrong with a reference, or nil.
local function fault_of(program, target)
  if not target.program then
    return ("the handle of %s: add the node to the program first"):format(target:describe())
  end
  if target.program ~= program then
    return ("the handle of %s of another program, %q"):format(target.name, target.program.name)
  end
  if not target.serves then
    return ("the handle of %s, a %s, which has no methods to call"):format(target.name,
                                                                           target.kind)
  end
end

--- Checks what can be checked only when the graph is complete. Used before a launch.
-- @treturn boolean true, or nil and the first mistake in words
function Program:check()
  check_self(self, "program:check()")
  local mistake
  each_reference(self, function(node, target, path)
    local fault = not mistake and fault_of(self, target)
    if fault then mistake = ("node %s: %s is %s"):format(node.name, path, fault) end
  end)
  if mistake then return nil, mistake end
  return true
end

return programs
