--- lp.launch: from a graph to a running program.
-- Packs every node (lp.ship), hands the packages to the engine's service thread, and
-- returns a Run. Whatever cannot be carried is refused here, before anything starts.
-- @module lp.launch

local core = require "lp.core"
local deferred = require "lp.deferred"
local address = require "lp.address"
local handle = require "lp.handle"
local nodes = require "lp.node"
local options = require "lp.options"
local programs = require "lp.program"
local resources = require "lp.resources"
local ship = require "lp.ship"
local terminals = require "lp.terminals"

local launch = {
  --- Set by the command: options of the command line that apply where lp.launch is
  -- not told otherwise.
  defaults = {},
  --- Runs launched here, in order.
  runs = {},
  --- Set by commands that want the program instead of a run (`lp graph`): called with it.
  intercept = nil,
  --- Set by the command: the script's path, for those who look at the run.
  script = nil,
}

local function service()
  return core.client("service", "service")
end

-- ---------------------------------------------------------------- options

local schema = {
  launch_type = function(value)
    local known = require("lp.cli").launch_types
    for _, name in ipairs(known) do
      if value == name then return value end
    end
    return nil, "one of " .. table.concat(known, ", ")
  end,
  notice = options.seconds,
  name = options.text,
  threads = options.integer("a whole number, 1 or more", 1),
  spin = options.integer("a whole number of microseconds, 0 or more", 0),
  metrics = options.one_of("on", "off"),
  seed = options.integer("a whole number", math.mininteger),
  log_level = options.one_of("debug", "info", "warning", "error"),
  resources = options.of_type("table", "a table of labels"),
  terminal = terminals.rule,
  log_dir = options.text,
  log_size = resources.rules.memory_limit,
  tmux_open_window = options.text,
  tmux_session_name = options.text,
}

-- ---------------------------------------------------------------- packing

--- What must not be sent, in words.
local function refuse(value)
  if programs.is(value) then return "cannot send a program" end
  if nodes.is(value) then return "cannot send a node; pass its handle" end
  if core.is_future(value) then return "cannot send a future" end
  local name = type(value) == "table" and type(debug.getmetatable(value)) == "table"
               and rawget(debug.getmetatable(value), "__name")
  if name == "lp.Event" or name == "lp.Queue" or name == "lp.Semaphore" or name == "lp.Run" then
    return ("cannot send an %s: it belongs to this process"):format(name)
  end
end

--- A handle in a global is not carried: which node it leads to could not be seen.
local function global_refusal(value)
  if handle.is(value) then
    return "a handle in a global does not become a client; pass it as an argument of the node"
  end
end

local function place_of(value)
  local place, mistake = value:find()
  return place or error(mistake, 0)
end

--- What stands in the place of values that cannot be copied; lp.runtime restores them.
local function replacer(run_id)
  return function(value)
    if handle.is(value) then
      local name = handle.node(value).name
      return {kind = "client", data = {key = run_id .. "/" .. name, name = name,
                                       options = handle.options(value)}}
    elseif core.is_client(value) then
      local key, name = core.target(value)
      return key and {kind = "client", data = {key = key, name = name}}
    elseif deferred.is(value) then
      return {kind = "deferred", data = {ctor = value.ctor, args = value.args, where = value.where}}
    elseif address.is(value) then
      return {kind = "address", data = {name = value.name, place = place_of(value)}}
    elseif type(value) == "userdata" and core.class_of(value) then
      return {kind = "packed", data = {bytes = core.pack(value), class = core.class_of(value)}}
    elseif package.loaded["lp.flags"] and package.loaded["lp.flags"].is(value) then
      return {kind = "flags", data = package.loaded["lp.flags"].record(value)}
    end
  end
end

--- The classes given to lp.register that can be carried: every node gets them, so that it can
-- read their instances. The others a node has to register for itself, by requiring the
-- module that does.
local function carried_classes(packing)
  local list = {}
  for _, class in ipairs(core.classes()) do
    if not class.name:find "^lp%." and pcall(ship.pack, {{"class", class}}, packing) then
      list[#list + 1] = class
    end
  end
  return list
end

local function pack_node(node, packing, classes)
  local roots = {{"constructor", node.ctor}}
  for i = 1, node.args.n do roots[i + 1] = {"argument " .. i, node.args[i]} end
  roots.n = node.args.n + 2
  roots[roots.n] = {"registered classes", classes}
  local ok, bundle = pcall(ship.pack, roots, packing)
  if ok then return bundle end
  error(("node %s: %s"):format(node.name, bundle), 0)
end

--- Options that have a name and a check but no effect yet: better refused than ignored.
local not_yet = {"listen"}

--- A host node needs a program around the engine that implements it.
local function check_native(node)
  if not node.native then return end
  if not core.native then
    return ("node %s: host node %q: there is no program around the engine that could implement it " ..
            "(see docs/embedding.md); this is a program for one"):format(node.name, node.native)
  elseif not core.native(node.native) then
    return ("node %s: the program around the engine implements no host node %q (lp_host_node)")
           :format(node.name, node.native)
  end
end

local function check_options(program, settings)
  local in_processes = settings.launch_type:find "_mp$" ~= nil
  for _, node in ipairs(program:all_nodes()) do
    local misplaced = resources.misplaced(node, settings.resources, in_processes)
    if misplaced then return misplaced end
    local missing = check_native(node)
    if missing then return missing end
    for _, name in ipairs(not_yet) do
      if node.settings[name] ~= nil then
        return ("node %s: option %s is not available in this version"):format(node.name, name)
      end
    end
    if node.settings.restart and node.settings.on_failure ~= "restart" then
      return ("node %s: option restart has no effect without on_failure = \"restart\""):format(node.name)
    end
  end
end

--- The record of a node that the service and the node itself work from.
local function describe(node, group_size, packing, classes, given)
  local own = resources.of(node, given)
  local record = {
    name = node.name, label = node.label, index = node.index, kind = node.kind, options = own,
    colocation = node.colocation and node.colocation.name, how = node.how, native = node.native,
    args = own.args, env = own.env,
  }
  if node.inner then return record end
  record.group_size, record.serves, record.run_enabled = group_size, node.serves, node.run_enabled
  record.bundle = pack_node(node, packing, classes)
  return record
end

local function packing_for(run_id)
  return {replace = replacer(run_id), refuse = refuse, global_refusal = global_refusal,
          baseline = launch.baseline}
end

local function describe_all(program, run_id, settings)
  local packing = packing_for(run_id)
  local classes = carried_classes(packing)
  local list = {}
  for i, node in ipairs(program:all_nodes()) do
    local size = #program.by_label[node.label].nodes
    list[i] = describe(node, size, packing, classes, settings.resources)
    -- Thousands take a while, in which other tasks have their turn (where one can wait; a
    -- cancellation is raised again by the next wait).
    if i % 100 == 0 then pcall(core.yield) end
  end
  return list
end

--- For lp.reload: what nodes of a program would be sent for the run `run_id`.
-- @treturn table name -> a package of the constructor only
-- @treturn table the records as at launch; or nil and what cannot be sent
function launch.describe_again(program, run_id)
  local packing, code = packing_for(run_id), {}
  for _, node in ipairs(program:all_nodes()) do
    if node.ctor ~= nil then
      local ok, bundle = pcall(ship.pack, {{"constructor", node.ctor}, {"registered classes", {}}}, packing)
      if not ok then error(("node %s: %s"):format(node.name, bundle), 0) end
      code[node.name] = bundle
    end
  end
  local ok, records = pcall(describe_all, program, run_id, {resources = {}})
  return code, ok and records or nil, not ok and records or nil
end


-- ---------------------------------------------------------------- handles in calls

local function client_of(value)
  local node = handle.node(value)
  local run_id = node.program and node.program.run_id
  if not run_id then error(tostring(value) .. ", which has not been launched", 0) end
  return core.client(run_id .. "/" .. node.name, node.name), handle.options(value)
end

-- A handle passed in a call, by the chunk that launched its program, arrives as a client.
if not core.context().node then
  core.register("lp.Handle", handle.metatable, {pack = client_of, unpack = client_of})
end

-- ---------------------------------------------------------------- Run

local Run = {__name = "lp.Run"}
Run.__index = Run

--- Is `value` a Run?
function launch.is_run(value)
  return type(value) == "table" and getmetatable(value) == Run
end

local function check_run(self, what)
  if launch.is_run(self) then return end
  error(("call it with a colon: run:%s"):format(what), 3)
end

local function wait(run, wanted)
  run.waiting = true
  local outcome = service():wait_run(run.id, wanted)
  run.waiting = false
  if not outcome.timed_out then run.outcome = outcome end
  return outcome
end

local function text_of(failure)
  return ("node %s failed: %s"):format(failure.node, failure.message)
end

local function raise(failure)
  error(setmetatable({code = "aborted", node = failure.node, traceback = failure.trace,
                      message = text_of(failure)}, core.error_metatable()), 0)
end

--- An array of texts, not empty.
local function label_list(value)
  local expected = "an array of labels"
  if type(value) ~= "table" or #value == 0 then return nil, expected end
  for key, label in next, value do
    if not math.tointeger(key) or type(label) ~= "string" then return nil, expected end
  end
  return value
end

local wait_schema = {
  labels = label_list,
  return_on_first_completed = options.of_type("boolean", "true or false"),
  raise_error = options.of_type("boolean", "true or false"),
  timeout = options.timeout,
}

local function check_labels(run, labels, level)
  for _, label in ipairs(labels or {}) do
    if not run.labels[label] then
      error(("run:wait: program %q has no label %s"):format(run.name, options.describe(label)), level + 1)
    end
  end
end

--- Waits until the program has ended (or the nodes of some labels have). A node's failure
-- ends the wait, whatever its label; it is raised by one wait and not again.
-- @tparam[opt] table given `labels` (array), `return_on_first_completed`,
--   `raise_error` (default true; false: the failure is left to the next wait), `timeout` (seconds)
-- @treturn boolean true, or false when the time was over
function Run:wait(given)
  check_run(self, "wait{…}")
  local wanted = options.check("run:wait", wait_schema, given or {}, 2)
  check_labels(self, wanted.labels, 2)
  wanted.raised = self.raised
  local outcome = wait(self, wanted)
  if outcome.timed_out then return false end
  self.seen = self.seen or outcome.failure ~= nil
  if not outcome.failure or self.raised or wanted.raise_error == false then return true end
  self.raised = true
  raise(outcome.failure)
end

--- Asks the program to stop and returns at once.
-- @string[opt] reason for the log
function Run:stop(reason)
  check_run(self, "stop()")
  if reason ~= nil and type(reason) ~= "string" then
    options.refuse("run:stop", 1, "a text, the reason", reason, 2)
  end
  service():stop_run(self.id, "the launcher", reason)
end

local function close(run)
  if run.outcome and run.outcome.ended then return end
  run:stop()
  wait(run, {})
end

--- Stops the program and waits for its end. Does not raise a node's error, except in specs
-- (test_mt, test_mp), unless the spec has met it in run:wait or in another wait.
function Run:close()
  check_run(self, "close()")
  close(self)
  local failure = self.outcome.failure
  if not self.is_test or self.seen or not failure then return end
  self.seen = true
  raise(failure)
end

--- As a to-be-closed variable; an error that is under way is not replaced.
function Run:__close(err)
  if err == nil then return self:close() end
  self.seen = true
  close(self)
end

--- The name of a node of this run, from a name or a handle.
local function node_name(run, what, node, level)
  local name = handle.is(node) and handle.node(node).name or node
  if type(name) == "string" and run.names[name] then return name end
  error(("run:%s: program %q has no node %s"):format(what, run.name, options.describe(name)), level + 1)
end

--- A client of one of its nodes.
-- @param node a name, "producer/0", or a handle
function Run:client(node)
  check_run(self, "client(node)")
  local name = node_name(self, "client", node, 2)
  local client = core.client(self.id .. "/" .. name, name)
  local wanted = handle.is(node) and handle.options(node)
  return wanted and core.with(client, wanted) or client
end

--- Kills a node, as a crash would: its `on_failure` says what comes of that.
-- @param node a name, "producer/0", or a handle
function Run:kill(node)
  check_run(self, "kill(node)")
  service():kill_node(self.id, node_name(self, "kill", node, 2), "the launcher")
end

--- Stops a node, starts it again and returns when it runs. Its clients find it.
-- @param node a name, "producer/0", or a handle
function Run:restart(node)
  check_run(self, "restart(node)")
  service():restart_node(self.id, node_name(self, "restart", node, 2), "the launcher")
end

--- What is known of each node.
-- @treturn table array of {name=, label=, index=, kind=, state=, seconds= (in that state), pid=,
--   restarts=, failures=, last_error=, ended= (how)}; `state` is "starting", "running", "ending",
--   "restarting" or "ended"
function Run:nodes()
  check_run(self, "nodes()")
  return service():describe_nodes(self.id)
end

function Run:__tostring()
  return ("run %s of program %q"):format(self.id, self.name)
end

-- ---------------------------------------------------------------- launching

--- The program to launch; a list launches its first.
local function choose(program, level)
  if type(program) == "table" and not programs.is(program) and programs.is(rawget(program, 1)) then
    if program[2] then
      io.stderr:write(("lp: several programs given, launching the first, %q\n")
                      :format(program[1].name))
    end
    program = program[1]
  end
  if not programs.is(program) then
    error("lp.launch: expected a program, got " .. options.describe(program), level + 1)
  end
  if program.launched then
    error(("lp.launch: program %q has been launched already"):format(program.name), level + 1)
  end
  if #program:all_nodes() == 0 then
    error(("lp.launch: program %q has no nodes"):format(program.name), level + 1)
  end
  return program
end

local function merge(given)
  local settings = {}
  for name, value in pairs(launch.defaults) do settings[name] = value end
  for name, value in pairs(given) do settings[name] = value end
  settings.resources = resources.merge(launch.defaults.resources, given.resources)
  return settings
end

--- Gives every address its port; raises a text.
local function bind_addresses(program)
  for _, node in ipairs(program:all_nodes()) do
    for _, place in ipairs(node.addresses) do
      local port = place:given_port()
      place:bind(port and ("localhost:%d"):format(port) or service():free_port())
    end
  end
end

--- A spec that waits for something else meets a node's failure there, at once.
local function watch(run, token)
  local ok, outcome = pcall(core.call, service(), "wait_run", run.id, {failure = true})
  if not ok or not outcome.failure then return end
  while not (run.seen or run.waiting) do
    run.seen = core.interrupt(token, text_of(outcome.failure))
    core.yield()
  end
end

--- Launches a program and returns at once.
-- @param program made by lp.Program (a list: its first)
-- @tparam[opt] table given `launch_type`, `notice` (seconds), `name`, `threads`, `spin` (microseconds),
--   `metrics` ("on" or "off"), `seed`,
--   `log_level`, `resources` (label or name -> see lp.resources), `terminal`, `log_dir`, `log_size`
--   (bytes), `tmux_open_window`, `tmux_session_name`
-- @treturn table a Run
-- @raise a text that names node and path when something cannot be carried
function launch.launch(program, given)
  program = choose(program, 2)
  local settings = merge(options.check("lp.launch", schema, given or {}, 2))
  if launch.intercept then return launch.intercept(program) end
  local _, mistake = program:check()
  settings.launch_type = settings.launch_type or "local_mt"
  settings.resources = resources.check(program, settings.resources, 2)
  terminals.choose(settings, 2)
  mistake = mistake or check_options(program, settings)
  if mistake then error("lp.launch: " .. mistake, 2) end
  settings.name = settings.name or program.name
  local run_id = service():new_run(settings.name)
  local bound, why = pcall(bind_addresses, program)
  if not bound then error("lp.launch: " .. why, 2) end
  local packed, list = pcall(describe_all, program, run_id, settings)
  if not packed then error("lp.launch: " .. list, 2) end
  program.launched, program.run_id = true, run_id
  settings.resources = nil
  settings.edges, settings.script = program:edges(), launch.script
  for _, record in ipairs(list) do service().notify:add_node(run_id, record) end
  service():launch_run(run_id, settings)
  local names, labels = {}, {}
  for _, node in ipairs(list) do
    names[node.name], labels[node.label] = not node.how, true
  end
  local run = setmetatable({id = run_id, name = settings.name, names = names, labels = labels}, Run)
  run.is_test = settings.launch_type:find("^test_") ~= nil
  if run.is_test then core.start(watch, run, core.token()) end
  table.insert(launch.runs, run)
  if package.loaded["lp.reload"] then package.loaded["lp.reload"].note_stamps() end
  return run
end

return launch
