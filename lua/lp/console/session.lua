--- What a prompt is about: a script's program that is not launched, a run launched here, or a
-- run somebody else launched; and the node in which statements are evaluated.
-- @module lp.console.session

local core = require "lp.core"
local catalog = require "lp.console.catalog"
local runs = require "lp.console.runs"
local shell = require "lp.console.shell"

local Session = {}
Session.__index = Session

local session = {}

function session.new(options)
  return setmetatable({options = options or {}, words = {}}, Session)
end

-- ---------------------------------------------------------------- programs

--- Runs the script again, with other words if there are any.
function Session:rebuild(words)
  self.program = nil
  if words then self.words = words end
  self.program = require("lp.console.script").load(self.script, self.words)
  return self.program
end

--- A slip in flags or in a file's name: the program that was looked at stays.
local function stay(self, change)
  local was = {script = self.script, words = self.words, link = self.link, using = self.using,
               program = self.program}
  local ok, err = pcall(change)
  if ok then return self.program end
  if was.program or was.link then
    for _, name in ipairs {"script", "words", "link", "using", "program"} do self[name] = was[name] end
  end
  error(err, 0)
end

--- Runs the script again with other flags.
function Session:set_flags(words)
  return stay(self, function() self:rebuild(words) end)
end

function Session:load(path, words)
  if self.run then error("a program launched here runs; .stop ends it", 0) end
  return stay(self, function()
    self.script, self.words, self.link, self.using = path, words or {}, nil, nil
    self:rebuild()
  end)
end

function Session:attach(word)
  if self.run then error("a program launched here runs; .stop ends it", 0) end
  local found, mistake = runs.find(word)
  if not found then error(mistake, 0) end
  self.link, self.program, self.script, self.using = runs.connect(found), nil, nil, nil
end

--- Launches the program that is loaded.
function Session:launch(launch_type)
  if self.link then error(("run %s is alive; .stop ends it"):format(self.link.id), 0) end
  if not self.script then error("no program is loaded; .load PROGRAM.lua loads one", 0) end
  if not self.program or self.program.launched then self:rebuild() end
  local launch = require "lp.launch"
  self.run = launch.launch(self.program, {launch_type = launch_type})
  self.link = runs.own(self.run)
  return self.run
end

--- The run has ended, by whomever: what was launched here can be launched again.
function Session:ended()
  self.run, self.link, self.using = nil, nil, nil
end

--- Has the run we are about ended? Says how, once.
function Session:check_end()
  local run = self.run
  if not run then return nil end
  local outcome = core.client("service", "service"):wait_run(run.id, {timeout = 0})
  if outcome.timed_out then return nil end
  run.outcome = outcome
  self:ended()
  local how = outcome.failure and ("node %s failed: %s"):format(outcome.failure.node, outcome.failure.message)
  return ("run %s has ended%s"):format(run.id, how and "; " .. how or "")
end

-- ---------------------------------------------------------------- nodes

--- A client of a node.
function Session:node(name)
  if type(name) ~= "string" then error("node: expected a name, node \"worker/0\"", 0) end
  if self.run then return self.run:client(name) end
  if self.link then return self.link:node(name) end
  error("nothing runs: .launch launches the program, .attach RUN looks at one that runs", 0)
end

--- Names of the nodes, for completion: quickly, or none.
function Session:node_names()
  local names = {}
  if self.link then
    if not self.names_at or core.now() - self.names_at > 2 then
      local ok, nodes = pcall(self.link.ask_within, self.link, 0.25, "nodes")
      self.names_at, self.nodes_known = core.now(), ok and nodes or {}
    end
    for i, node in ipairs(self.nodes_known) do names[i] = node.name end
  elseif self.program then
    for i, node in ipairs(self.program:all_nodes()) do names[i] = node.name end
  end
  return names
end

--- Statements are evaluated in that node from now on; nil: here.
function Session:use(name)
  if name == nil then
    self.using = nil
    return
  end
  if not self.link then error("nothing runs: .launch launches the program", 0) end
  self.link:ask_within(5, "node", name, 0.3)
  self.using = name
end

function Session:prompt()
  local name = self.link and self.link.name or self.program and self.program.name or "lp"
  return name .. (self.using and " " .. self.using or "") .. "> "
end

-- ---------------------------------------------------------------- commands

--- What only a prompt has. In the order of the help.
session.commands = {
  {name = "load", words = "PROGRAM.lua [FLAGS...]", least = 1, most = math.maxinteger, raw = true,
   help = "Load a script's program, without launching it."},
  {name = "flags", words = "[FLAGS...]", least = 0, most = math.maxinteger, raw = true,
   help = "Run the script again with these flags; without any, show them."},
  {name = "rebuild", words = "", least = 0, most = 0, help = "Run the script again: it was edited."},
  {name = "launch", words = "[TYPE]", least = 0, most = 1,
   help = "Launch the program: local_mt (threads, the default) or local_mp (processes)."},
  {name = "attach", words = "RUN", least = 1, most = 1, help = "Look at a run of this machine instead."},
  {name = "use", words = "[NODE]", least = 0, most = 1,
   help = "Evaluate what is typed in that node (self: its instance); without NODE, here again."},
  {name = "help", words = "[COMMAND]", least = 0, most = 1, help = "Show this text, or that of a command."},
  {name = "quit", words = "", least = 0, most = 0,
   help = "Leave. A program launched here is stopped, any other goes on. Also Ctrl-D."},
}

session.named = {}
for _, command in ipairs(session.commands) do
  command.options = {}
  session.named[command.name] = command
end

local own = {}

local function loaded(self)
  local program = self.program
  local _, mistake = program:check()
  local count = #program:all_nodes()
  return {value = {program = program.name, nodes = count},
          text = ("program %s: %d node%s%s\n"):format(program.name, count, count == 1 and "" or "s",
                 mistake and "; it cannot be launched: " .. mistake or "; .launch launches it")}
end

function own.load(self, words)
  self:load(words[1], table.move(words, 2, #words, 1, {}))
  return loaded(self)
end

function own.flags(self, words)
  if not self.script then error("no program is loaded; .load PROGRAM.lua loads one", 0) end
  if words[1] then
    if self.link then error("the program runs; .stop ends it, then flags can be changed", 0) end
    self:set_flags(words)
    return loaded(self)
  end
  return {value = self.words, text = (self.words[1] and table.concat(self.words, " ") or "no flags were given") ..
          "\n" .. require("lp.flags").help()}
end

function own.rebuild(self)
  if not self.script then error("no program is loaded; .load PROGRAM.lua loads one", 0) end
  if self.link then error("the program runs; .stop ends it, then it can be built again", 0) end
  self:rebuild()
  return loaded(self)
end

function own.launch(self, words)
  local run = self:launch(words[1])
  return {value = {run = run.id}, text = ("run %s: %s\n"):format(run.id, words[1] or "local_mt")}
end

function own.attach(self, words)
  self:attach(words[1])
  return {value = {run = self.link.id}, text = ("run %s\n"):format(self.link.id)}
end

function own.use(self, words)
  self:use(words[1])
  return {value = {using = self.using}, text = ""}
end

function own.help(_, words)
  local list = {}
  local function add(command)
    local usage = catalog.prompt_usage(command)
    if words[1] then
      for _, option in ipairs(command.options) do
        local name = option.name .. (option.value and " " .. option.value or "")
        list[#list + 1] = ("  %-24s %s"):format(name, option.help)
      end
      table.insert(list, 1, usage .. "\n  " .. command.help)
    else
      list[#list + 1] = ("  %-34s %s"):format(usage, command.help)
    end
  end
  if words[1] then
    local name = words[1]:gsub("^%.", "")
    add(catalog.named[name] or session.named[name] or error("there is no command ." .. name, 0))
  else
    list[1] = "Lua is evaluated; node \"worker/0\" is a client of a node. Commands:"
    for _, command in ipairs(catalog.commands) do add(command) end
    for _, command in ipairs(session.commands) do add(command) end
  end
  return {value = list, text = table.concat(list, "\n") .. "\n"}
end

function own.quit(self)
  self.leaving = true
  return {quiet = true, text = ""}
end

--- Does a command of the catalog fit what we are about?
local function check_needs(self, spec)
  if spec.needs == "none" or self.link or spec.needs == "graph" and self.program then return end
  error(spec.needs == "graph" and "no program is loaded, and none runs: .load PROGRAM.lua or .attach RUN" or
        "no program runs: .launch launches the one that is loaded, .attach RUN looks at another", 0)
end

--- Runs a command that was typed.
-- @treturn table an answer; raises a text
function Session:perform(spec, words, options, write)
  if own[spec.name] and session.named[spec.name] == spec then return own[spec.name](self, words, options) end
  check_needs(self, spec)
  local answer, mistake = shell.perform(spec, self, words, options, write)
  if not answer then error(mistake, 0) end
  if spec.name == "stop" then self:check_end(); self:ended() end
  return answer
end

--- The command of this name, or nil.
function session.find(name)
  return session.named[name] or catalog.named[name]
end

return session
