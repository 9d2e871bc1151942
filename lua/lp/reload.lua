--- Hot reload, in the interpreter that launched a program: the script is run again, and each node
-- that is still in the graph gets the code it would have got at launch. Nothing is replaced when
-- the new script does not compile, or raises.
-- @module lp.reload

local core = require "lp.core"

local reload = {}

--- Modules that were there before the script ran are the engine's.
local own = {}

--- To be called before the first script runs.
function reload.prepare()
  for name in pairs(package.loaded) do own[name] = true end
end

local function is_own(name)
  return own[name] or type(name) ~= "string" or name == "lp" or name:find "^lp%." ~= nil
end

--- The modules of the script that are Lua in files: name -> path.
local function script_modules()
  local found = {}
  for name in pairs(package.loaded) do
    if not is_own(name) then found[name] = package.searchpath(name, package.path) end
  end
  return found
end
reload.modules = script_modules

--- name -> stamp of its file, as last seen
local stamps = {}

local function note_stamps()
  for name, path in pairs(script_modules()) do stamps[name] = core.file_stamp(path) end
end
reload.note_stamps = note_stamps

--- Modules whose files are not as they were.
local function changed_modules()
  local list = {}
  for name, path in pairs(script_modules()) do
    local stamp = core.file_stamp(path)
    if stamps[name] and stamp ~= stamps[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- Calls the chunk as `xpcall` does; `intercept` gets what it launches. What would end the command,
-- and with it the run, is an error here: os.exit, or a flag that the new script does not know.
local function call_script(chunk, arguments, intercept)
  local launch, flags = require "lp.launch", require "lp.flags"
  local exit, decide, before = os.exit, flags.exit, launch.intercept
  local function restore() os.exit, flags.exit, launch.intercept = exit, decide, before end -- luacheck: ignore
  local _ <close> = setmetatable({}, {__close = restore}) -- the task may be closed in the chunk, too
  function os.exit() -- luacheck: ignore
    error("os.exit: the script is run again for its new code, and cannot end the run", 2)
  end
  function flags.exit(_, text) error((text:gsub("%s+$", "")), 0) end
  launch.intercept = intercept
  return table.pack(xpcall(chunk, core.handler, table.unpack(arguments)))
end

--- Runs the script anew up to the program it returns or launches. Modules that changed are loaded
-- again; when it raises they are as before.
local function run_script(name, text, arguments, changed)
  local programs = require "lp.program"
  local chunk, message = load(text:gsub("^#", "--#", 1), name, "t")
  if not chunk then error(message, 0) end
  local before, captured, token = {}, nil, {}
  for _, module in ipairs(changed) do before[module], package.loaded[module] = package.loaded[module], nil end
  if package.loaded["lp.flags"] then package.loaded["lp.flags"].reset() end
  local results = call_script(chunk, arguments, function(program)
    captured = program
    error(token, 0)
  end)
  if results[1] and not captured then captured = results[2] end
  if type(captured) == "table" and not programs.is(captured) then captured = captured[1] end
  local why
  if not results[1] and not captured then
    why = tostring(results[2])
  elseif not programs.is(captured) then
    why = "the script returned no program"
  end
  if why then
    for module, value in pairs(before) do package.loaded[module] = value end
    error(why, 0)
  end
  return captured
end

local function program_has(program, name)
  for _, node in ipairs(program:all_nodes()) do
    if node.name == name then return true end
  end
  return false
end

--- Runs the script again and gives its nodes their new code.
-- @tparam table run a Run of lp.launch
-- @string chunk its name, as for load
-- @string text
-- @tparam table arguments
-- @tparam ?string only the name of the one node that gets new code; nil: all
-- @treturn table {nodes = how many have new code, notes = array of texts about the others}
-- @raise a text: what is wrong with the new script; all nodes keep their code
function reload.script(run, chunk, text, arguments, only)
  local launch = require "lp.launch"
  local changed = changed_modules()
  local program = run_script(chunk, text, arguments, changed)
  note_stamps()
  local ok, mistake = program:check()
  if not ok and mistake then error(mistake, 0) end
  local code, records, why = launch.describe_again(program, run.id)
  local result, futures, bundles = {nodes = 0, notes = {}}, {}, {}
  local function note(format, ...) result.notes[#result.notes + 1] = format:format(...) end
  if why then note("nodes that are started again will have their old arguments: %s", why) end
  for _, record in ipairs(records or {}) do bundles[record.name] = record.bundle end
  local service = core.client("service", "service")
  if only and not code[only] then note("node %s is not in the new program", only) end
  for name, package in pairs(code) do
    if only and name ~= only then -- it keeps what it has
      bundles[name] = nil
    elseif run.names[name] then
      futures[name] = service.futures:reload_node(run.id, name, package, changed, bundles[name])
    else
      note("node %s is new: launch the program again to have it", name)
    end
  end
  for name, future in pairs(futures) do
    local done, err = pcall(future.result, future)
    if done then
      result.nodes = result.nodes + 1
    else
      note("node %s keeps its code: %s", name, rawget(err, "message") or tostring(err))
    end
  end
  for name, is_node in pairs(run.names) do
    if is_node and not program_has(program, name) then
      note("node %s is not in the program any more; it goes on", name)
    end
  end
  table.sort(result.notes)
  return result
end

-- ---------------------------------------------------------------- watching

--- The script and its modules with their stamps: what was tried is not tried again.
local function stamps_of_all(path)
  local files = {[path] = core.file_stamp(path)}
  for _, file in pairs(script_modules()) do files[file] = core.file_stamp(file) end
  return files
end

local function are_equal(files, others)
  for file, stamp in pairs(files) do
    if others[file] ~= stamp then return false end
  end
  for file in pairs(others) do
    if files[file] == nil then return false end
  end
  return true
end

--- In a task of its own, which the service interrupts when a file has changed since `seen`: the
-- script may compute for ever, and then nothing else runs here.
local function try(run, path, arguments, report, seen)
  local text = require("lp.files").read(path)
  if not text then return end -- whoever writes it has it out of the way
  local service = core.client("service", "service")
  local statement = service:script_begins(seen)
  local future = core.spawn(function()
    core.statement(statement)
    return reload.script(run, "@" .. path, text, arguments)
  end)
  local ok, result = pcall(future.result, future)
  service.notify:script_ended(statement)
  if not ok then return report(("%s is not reloaded: %s"):format(path, tostring(result))) end
  report(("reloaded %s: %s"):format(path, require("lp.report").renewed(result.nodes)))
  for _, note in ipairs(result.notes) do report(note) end
end

--- Reloads whenever the script or one of its modules has changed, until the run ends.
-- @tparam function report called with a text
function reload.watch(run, path, arguments, report)
  local every = 0.2
  note_stamps()
  local seen = stamps_of_all(path)
  while not (run.outcome and run.outcome.ended) do
    core.sleep(every)
    if not are_equal(stamps_of_all(path), seen) then
      core.sleep(every / 4) -- whoever writes it may not have finished
      seen = stamps_of_all(path) -- before it is read: what changes meanwhile is for the next time
      try(run, path, arguments, report, seen)
    end
  end
end

return reload
