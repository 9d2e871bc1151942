--- What the Tab key does: candidates for the word before the cursor of a prompt.
-- @module lp.console.complete

local catalog = require "lp.console.catalog"
local names = require "lp.console.names"
local session = require "lp.console.session"

local function matching(list, part)
  local found = {}
  for _, name in ipairs(list) do
    if name:sub(1, #part) == part then found[#found + 1] = name end
  end
  table.sort(found)
  return found
end

local function command_names()
  local list = {}
  for _, command in ipairs(catalog.commands) do list[#list + 1] = command.name end
  for _, command in ipairs(session.commands) do list[#list + 1] = command.name end
  return list
end

local function run_names()
  local list = {}
  for _, run in ipairs(require("lp.console.runs").list()) do
    list[#list + 1] = run.name
    list[#list + 1] = run.id
  end
  return list
end

--- Methods of a node, asked for a moment.
local function method_names(self, name)
  local list = {}
  if not self.link then
    for _, node in ipairs(self.program and self.program:all_nodes() or {}) do
      if node.name == name then
        for i, method in ipairs(require("lp.methods").of_class(node.ctor)) do list[i] = method.name end
      end
    end
    return list
  end
  local ok, record = pcall(self.link.ask_within, self.link, 0.3, "node", name, 0.2)
  for i, method in ipairs(ok and record.methods or {}) do list[i] = method.name end
  return list
end

--- Words of a command: nodes, methods, runs, commands.
local function command_words(self, name, before, part)
  local count = select(2, before:gsub("%S+", "")) -- words between the name and this one
  local spec = session.find(name)
  if not spec then return {} end
  if name == "help" then return matching(command_names(), part) end
  if name == "attach" then return matching(run_names(), part) end
  if name == "launch" then return matching(require("lp.cli").launch_types, part) end
  if name == "call" and count == 1 then return matching(method_names(self, before:match "%S+"), part) end
  if spec.words:find "NODE" and count == 0 then return matching(self:node_names(), part) end
  if part:sub(1, 1) == "-" then
    local list = {}
    for i, option in ipairs(spec.options) do list[i] = option.name end
    return matching(list, part)
  end
  return {}
end

local function lua_names(self, path, env)
  if not self.using then return names.complete(path, env) end
  local ok, list = pcall(self.link.ask, self.link, "complete", self.using, path)
  return ok and list or {}
end

--- Candidates for the end of `text`, and the part of it they continue.
local function candidates(self, text, env)
  local command, before, part = text:match "^%s*%.(%a+)%s+(.-)(%S*)$"
  if command then return command_words(self, command, before, part), part end
  part = text:match "^%s*%.(%a*)$"
  if part then return matching(command_names(), part), part end
  part = text:match "^%s*use%s+(%S*)$" or text:match "node%s*%(?%s*[\"']([^\"']*)$"
  if part then return matching(self:node_names(), part), part end
  local node
  node, part = text:match "node%s*%(?%s*[\"']([^\"']+)[\"']%s*%)?%s*:([%w_]*)$"
  if node then return matching(method_names(self, node), part), part end
  local path = text:match "[%a_][%w_.:]*$" or ""
  return lua_names(self, path, env), path:match "[^.:]*$"
end

--- Completes the text before the cursor.
-- @treturn string what to insert, @treturn string what to show
return function(self, text, env, width)
  local list, part = candidates(self, text, env)
  if not list[1] then return "", "" end
  local insert = names.common(list):sub(#part + 1)
  if #list == 1 or insert ~= "" then
    return insert .. (#list == 1 and text:find "^%s*[.u]" and text:find "^%s*%.?%a+%s*%S*$" and " " or ""), ""
  end
  return "", names.columns(list, width)
end
