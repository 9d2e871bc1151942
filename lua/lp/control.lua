--- What a run answers about itself: the reserved methods of its control socket. Served by the
-- service, which is beside all nodes and waits for none of them longer than it was told: where a
-- node does not answer, what is known without it is the answer, marked `partial`.
--
-- Each method's first argument is the run's id; nil means the only one there is.
-- @module lp.control

local core = require "lp.core"
local inspect = require "lp.service.inspect"
local service = require "lp.service"
local state = require "lp.service.state"

local control = {}

local BUDGET = 1 -- seconds that a question to a node may take, unless the asker says otherwise

-- ---------------------------------------------------------------- runs and nodes

local function run_of(id)
  if id ~= nil then
    local run = state.runs[id]
    if not run or run.state == "new" then error(("there is no run %s here"):format(id), 0) end
    return run
  end
  local found, names = nil, {}
  for name, run in pairs(state.runs) do
    if run.state ~= "new" and run.state ~= "ended" then
      found, names[#names + 1] = run, name
    end
  end
  if #names == 1 then return found end
  table.sort(names)
  error(names[1] and "say which run is meant: " .. table.concat(names, ", ") or "no run is alive here", 0)
end

local function node_of(run, name)
  local node = run.by_name[name]
  if node then return node end
  local names = {}
  for i, one in ipairs(run.nodes) do names[i] = one.name end
  if #names > 20 then names = {table.unpack(names, 1, 20)}; names[21] = "…" end
  error(("run %s has no node %s (it has: %s)"):format(run.id, tostring(name), table.concat(names, ", ")), 0)
end

--- Calls `fn(node, budget)` for all nodes at once; the results in order. What raised or came
-- too late is nil.
local function ask_all(nodes, budget, fn)
  local futures, results = {}, {}
  local due = core.now() + budget
  for i, node in ipairs(nodes) do futures[i] = core.spawn(fn, node, budget) end
  for i, future in ipairs(futures) do
    local ok, value = pcall(future.result, future, math.max(due + 0.1 - core.now(), 0.001))
    if ok then results[i] = value else future:cancel() end
  end
  return results
end

-- ---------------------------------------------------------------- describing

local function pid_of(node)
  return node.placement.pid(node)
end

local function is_process(node)
  return node.process ~= nil
end

--- Is the process of a node stopped (SIGSTOP, a debugger)?
local function is_halted(node)
  local file = is_process(node) and io.open(("/proc/%d/stat"):format(pid_of(node)))
  if not file then return false end
  local state_letter = (file:read "a" or ""):match "^.*%) (%a)"
  file:close()
  return state_letter == "T" or state_letter == "t"
end

--- What the service itself knows; nobody is asked.
local function describe(node)
  local record = node:describe()
  if record.state == "ended" then
    record.state = node.status ~= 0 and "failed" or "ended"
  elseif is_halted(node) then
    record.state = "halted"
  elseif node.paused and record.state == "running" then
    record.state = "paused"
  end
  record.placement = node.placement.name
  record.uptime, record.seconds = record.seconds, nil
  record.loop = node.id and core.host.loop_name(node.id) or nil
  if record.loop == "" then record.loop = nil end
  return record
end

local function info_of(run)
  return {
    id = run.id, name = run.name, state = run.state, pid = core.host.pid(),
    launch_type = run.settings.launch_type, script = run.settings.script,
    started = run.started, uptime = core.now() - run.started_at,
    nodes = #run.nodes, alive = run.alive, folder = run.folder,
    failure = run.failure and {node = run.failure.node, message = run.failure.message} or nil,
  }
end

--- The manifest that other commands find the run by.
function control.manifest(run)
  return require("lp.json").encode {
    name = run.name, id = run.id, pid = core.host.pid(), launch_type = run.settings.launch_type,
    script = run.settings.script, started = run.started,
  } .. "\n"
end

-- ---------------------------------------------------------------- asking a node

--- Why a node cannot be asked, or nil.
local function why_not(node)
  if node.state == "ended" then return "it has ended: " .. (node.how or "it finished") end
  if node.state ~= "running" then return "it is " .. node.state end
  if is_process(node) and not node.process.worker then return "its process is not connected" end
end

local function unavailable(node, why)
  local err = setmetatable({code = "unavailable", message = ("node %s cannot answer: %s")
                            :format(node.name, why), node = node.name}, core.error_metatable())
  error(err, 0)
end

--- What keeps a node from answering, in words.
local function excuse(node, method)
  if is_halted(node) then
    return ("its process %d is stopped by a signal (kill -CONT %d lets it go on)"):format(pid_of(node), pid_of(node))
  end
  local why = why_not(node)
  if why then return why end
  local known = inspect.ask(node, "state", 0.3)
  if known.partial then return known.partial_reason end
  if known.paused then return "it is paused" end
  for _, task in ipairs(inspect.ask(node, "tasks", 0.3).tasks or {}) do
    if task.state == "running" then
      local what = task.method and ("handles %s for %s"):format(task.method, task.caller) or "runs"
      return ("it computes: it %s, at %s"):format(what, task.stack[1] or "an unknown place")
    end
  end
  return method == "lp.eval" and "the evaluation had not ended, and was interrupted" or
         "it had not done it in time"
end

--- Calls a reserved method of a node, within `budget` seconds (0: however long it takes). One that
-- starts is waited for.
local function ask(node, budget, method, ...)
  if node.state == "starting" then node.ready:wait(budget > 0 and budget or nil) end
  local why = why_not(node)
  if why then unavailable(node, why) end
  local ok, answer
  if is_process(node) then
    ok, answer = pcall(core.call, core.with(node.process.worker, {timeout = budget}), "ask_node", node.key,
                       method, ...)
  else
    local client = core.with(core.client(node.key, node.name), {timeout = budget})
    if method == "lp.eval" then
      ok, answer = pcall(require("lp.evaluation").ask, node.id, client, ...)
    else
      ok, answer = pcall(core.ask, client, method, ...)
    end
  end
  if ok then return answer end
  if type(answer) == "table" and rawget(answer, "code") == "deadline_exceeded" then
    unavailable(node, ("%s (asked for %g s)"):format(excuse(node, method), budget))
  end
  error(answer, 0)
end

-- ---------------------------------------------------------------- the reserved methods

--- About the run.
control["lp.info"] = function(id) return info_of(run_of(id)) end

--- All runs of this launcher.
control["lp.runs"] = function()
  local list = {}
  for _, run in pairs(state.runs) do
    if run.state ~= "new" then list[#list + 1] = info_of(run) end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

--- Every node, described.
control["lp.nodes"] = function(id)
  local list = {}
  for i, node in ipairs(run_of(id).nodes) do list[i] = describe(node) end
  return list
end

--- One node: what is known, and what it can be asked (`partial` when it does not answer).
control["lp.node"] = function(id, name, budget)
  local run = run_of(id)
  local node = node_of(run, name)
  local record = describe(node)
  record.options, record.calls, record.called_by = node.record.options, {}, {}
  for _, edge in ipairs(run.settings.edges or {}) do
    if edge.from == name then table.insert(record.calls, edge.to) end
    if edge.to == name then table.insert(record.called_by, edge.from) end
  end
  local ok, methods = pcall(ask, node, budget or BUDGET, "lp.describe")
  if ok then
    record.methods = methods
  else
    record.partial, record.partial_reason = true, rawget(methods, "message") or tostring(methods)
  end
  return record
end

--- Who calls whom.
control["lp.graph"] = function(id)
  local run = run_of(id)
  return {name = run.name, edges = run.settings.edges or {}, nodes = control["lp.nodes"](id)}
end

--- Where another process can call a node.
control["lp.address"] = function(id, name, budget)
  local run = run_of(id)
  local node = node_of(run, name)
  if node.state == "ended" then unavailable(node, why_not(node)) end
  budget = budget or BUDGET
  local found = core.spawn(service.resolve, service, node.key, -1)
  local ok, address = pcall(found.result, found, budget > 0 and budget or nil)
  if ok then return address end
  if found:cancel() then unavailable(node, ("%s (asked for %g s)"):format(excuse(node), budget)) end
  error(address, 0)
end

--- Evaluates a text in a node, see lp.inside.
control["lp.eval"] = function(id, name, text, budget)
  return ask(node_of(run_of(id), name), budget or BUDGET, "lp.eval", text)
end

control["lp.complete"] = function(id, name, path)
  return ask(node_of(run_of(id), name), 0.3, "lp.complete", path)
end

--- Ends what a node computes, with an error that it cannot go on catching.
control["lp.interrupt"] = function(id, name)
  local node = node_of(run_of(id), name)
  local why = why_not(node)
  if why then unavailable(node, why) end
  if not is_process(node) then return core.host.interrupt(node.id) end
  core.call(core.with(node.process.worker, {timeout = BUDGET}), "interrupt_node", node.key)
end

control["lp.gc"] = function(id, name, budget)
  return ask(node_of(run_of(id), name), budget or BUDGET, "lp.gc")
end

--- Kills a node, as a crash would: its policy says what comes of that.
control["lp.kill"] = function(id, name)
  local run = run_of(id)
  node_of(run, name)
  service:kill_node(run.id, name, "a command")
end

--- Stops a node, starts it again, and answers when it runs.
control["lp.restart"] = function(id, name)
  local run = run_of(id)
  node_of(run, name)
  service:restart_node(run.id, name, "a command")
end

local levels = {["debug"] = 1, ["warning"] = 3, ["error"] = 4}

--- Lines of lp.log begin with their level, but for "info"; what was printed has none.
local function level_of(line)
  local word = line.stream == 2 and line.text:match "^(%a+): "
  return levels[word] and word or nil
end

--- Lines printed lately: from number `since` on, of node `name` (nil: all), not more than the
-- last `most`, of a level not below `level` (nil: all). Answers lines and the next number.
control["lp.logs"] = function(id, since, name, most, level)
  local run = run_of(id)
  if name ~= nil then node_of(run, name) end
  local lines, following = core.host.journal(since or 0, name, most or 1000)
  local kept = {}
  for _, line in ipairs(lines) do
    line.level = level_of(line)
    local rank = line.level and levels[line.level] or 2
    if not level or line.stream == 2 and rank >= (levels[level] or 2) then kept[#kept + 1] = line end
  end
  return {lines = kept, next = following}
end

--- What the loops of nodes tell about them, whatever the nodes are doing (lp.service.inspect): of one
-- node, or of all an array. What is short is asked of each loop once, for all its nodes.
local short = {state = true, totals = true}
for _, what in ipairs {"state", "tasks", "calls", "stats", "totals"} do
  control["lp." .. what] = function(id, name, budget)
    local run = run_of(id)
    if name ~= nil then return inspect.ask(node_of(run, name), what, budget or BUDGET) end
    if short[what] then return inspect.ask_many(run.nodes, what, budget or BUDGET) end
    local answers = ask_all(run.nodes, budget or BUDGET, function(node, seconds)
      return inspect.ask(node, what, seconds)
    end)
    for i, node in ipairs(run.nodes) do
      answers[i] = answers[i] or {node = node.name, partial = true, partial_reason = "it does not answer"}
    end
    return answers
  end
end

--- New code for running nodes (lp.reload): the main chunk that launched them runs its script again. `text`
-- (of the file `path`) is taken instead of the script; only node `name` is changed, unless nil.
control["lp.reload"] = function(id, name, path, text)
  local run = run_of(id)
  if name ~= nil then node_of(run, name) end
  local main = core.with(core.client("main", "main"), {timeout = 30, wait_for_ready = false})
  return require("lp.evaluation").reload(service.main, main, run.id, name, path, text)
end

--- While a node is paused none of its tasks runs.
control["lp.pause"] = function(id, name) inspect.pause(node_of(run_of(id), name), true) end
control["lp.resume"] = function(id, name) inspect.pause(node_of(run_of(id), name), false) end

--- Seconds of processor time of a node: of its process, or of its loop's thread.
local function cpu_of(node)
  if not is_process(node) then return node.id and core.host.cpu(node.id) end
  local file = io.open(("/proc/%d/stat"):format(pid_of(node)))
  if not file then return nil end
  local user, system = (file:read "a" or ""):match "%) %a %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) (%d+)"
  file:close()
  return user and (tonumber(user) + tonumber(system)) / 100
end

--- What `lp top` takes the difference of.
control["lp.top"] = function(id, budget)
  local run = run_of(id)
  local list = control["lp.totals"](id, nil, budget or 0.5)
  for i, answer in ipairs(list) do
    local node = run.nodes[i]
    local memory = answer.memory
    list[i] = {
      node = node.name, state = describe(node).state, cpu = node.state ~= "ended" and cpu_of(node) or nil,
      ["in"] = answer["in"], out = answer.out,
      pending = answer.pending, waiting = answer.waiting, uptime = answer.uptime,
      bytes = type(memory) == "table" and memory.bytes or memory,
      partial = answer.partial, partial_reason = answer.partial_reason,
    }
  end
  return list
end

--- Resident bytes of the processes of nodes, by node.
control["lp.resident"] = function(id)
  local sizes = {}
  for _, node in ipairs(run_of(id).nodes) do
    local file = node.state ~= "ended" and io.open(("/proc/%d/statm"):format(pid_of(node) or 0))
    if file then
      local pages = (file:read "a" or ""):match "^%d+ (%d+)"
      sizes[node.name] = pages and tonumber(pages) * 4096
      file:close()
    end
  end
  return core.map(sizes)
end

--- Asks the program to stop; `notice` (seconds) instead of the run's own.
control["lp.stop"] = function(id, notice, reason)
  local run = run_of(id)
  if notice then run.notice = notice end
  if reason == nil then reason = "lp stop" end -- false: nothing is to be said
  service:stop_run(run.id, "a command", reason or nil)
end

--- Waits until the run has ended, `seconds` at most; returns whether it has.
control["lp.wait"] = function(id, seconds)
  local run = state.runs[id]
  if not run then return true end
  return not service:wait_run(id, {timeout = seconds}).timed_out
end

control.ask, control.ask_all, control.describe = ask, ask_all, describe
control.run_of, control.node_of = run_of, node_of

return control
