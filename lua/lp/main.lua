--- The command `lp`: the main task of the main thread.
-- @module lp.main

local core = require "lp.core"
require "lp.error"

local command = core.command
local main = {}

local function complain(text)
  io.stderr:write("lp: ", text, "\n")
end

local leaving = false

--- Leaves at once with a status, from wherever it is called.
local function leave(status)
  leaving = true
  command.status(status)
  core.exit(true, "the command has ended")
end

local function service()
  return core.client("service", "service")
end

--- Ends what still runs; nodes that cannot be stopped make the status 124.
local function finish(status)
  local stuck = service():close_all()
  if status == 0 and stuck[1] then status = 124 end
  core.flush()
  leave(status)
end

-- ---------------------------------------------------------------- scripts

--- The text of a file, or of standard input; or leaves with status 2.
local function read_script(path)
  local files = require "lp.files"
  local text, why
  if path == "-" then text, why = files.rest(io.stdin, "standard input") else text, why = files.read(path) end
  if text then return text end
  complain(why)
  leave(2)
end

--- The script as a function, or its error. A first line for the shell is a comment.
local function load_script(path)
  local text = read_script(path)
  if text:sub(1, 1) == "#" then text = "--" .. text end
  return load(text, path == "-" and "=stdin" or "@" .. path)
end

local function print_error(err)
  local text, trace = tostring(err), nil
  if type(err) == "table" then trace = rawget(err, "traceback") end
  complain(text .. (trace and "\n" .. trace or ""))
end

--- Runs the chunk; what it returns, or leaves with status 1.
local function run_script(parsed)
  local chunk, message = load_script(parsed.script)
  if not chunk then
    complain(message)
    leave(1)
  end
  arg = {[0] = parsed.script, table.unpack(parsed.script_args)} -- luacheck: ignore
  local results = table.pack(xpcall(chunk, core.handler, table.unpack(parsed.script_args)))
  if not results[1] then
    print_error(results[2])
    leave(1)
  end
  return table.unpack(results, 2, results.n)
end

--- Launches the program the script returned, unless it was launched already.
local function launch_returned(returned)
  local launch, programs = require "lp.launch", require "lp.program"
  local list = type(returned) == "table" and not programs.is(returned)
  local first = list and returned[1] or returned
  if programs.is(first) then
    if not first.launched then launch.launch(returned) end
  elseif #launch.runs == 0 or returned ~= nil and not launch.is_run(returned) then
    complain(("the script returned %s; it must return a program made by lp.Program, or launch " ..
              "one itself"):format(require("lp.options").describe(returned)))
    leave(1)
  end
end

--- The status by the rules of the manual: a failure, then a kill, then a signal.
local function status_of(outcomes)
  local killed, signal
  for _, outcome in ipairs(outcomes) do
    if outcome.failure then return 1 end
    killed = killed or outcome.killed[1] and 124
    signal = signal or outcome.signal and 128 + outcome.signal
  end
  return killed or signal or 0
end

local function wait_for_all(runs)
  local outcomes = {}
  for i, run in ipairs(runs) do
    if not (run.outcome and run.outcome.ended) then run:wait{raise_error = false} end
    outcomes[i] = run.outcome
  end
  return outcomes
end

--- Resources of the command line: those of --set over those of --resources.
local function given_resources(parsed)
  local resources = require "lp.resources"
  local set, from_file, mistake
  if parsed.options.resources then
    from_file, mistake = resources.from_file(parsed.options.resources)
  end
  if not mistake then set, mistake = resources.from_settings(parsed.options.set) end
  if mistake then
    complain(mistake)
    leave(2)
  end
  return resources.merge(from_file, set)
end

local function take_flags()
  local flags, streams = require "lp.flags", {stdout = io.stdout, stderr = io.stderr}
  function flags.exit(status, text, stream)
    streams[stream]:write(text)
    core.flush()
    leave(status)
  end
end

--- Runs the script and launches the program it returns.
local function start_program(parsed)
  local returned = run_script(parsed)
  if package.loaded["lp.flags"] then package.loaded["lp.flags"].finish() end
  local ok, err = xpcall(launch_returned, core.handler, returned)
  if not ok then
    complain((tostring(err):gsub("^lp/main%.lua:%d+: ", ""))) -- no line of the user's
    leave(1)
  end
end

-- ---------------------------------------------------------------- lp run

local commands = {}

--- `--watch`: a task for each run.
local function watch_script(parsed, runs)
  local function report(text)
    complain(text)
    core.flush()
  end
  for _, run in ipairs(runs) do
    core.start(require("lp.reload").watch, run, parsed.script, parsed.script_args, report)
  end
end

--- What lp.launch does where it is not told otherwise.
local function set_defaults(parsed)
  local options, defaults = parsed.options, require("lp.launch").defaults
  for _, name in ipairs {"launch_type", "notice", "name", "threads", "spin", "metrics", "seed", "log_level", "terminal",
                         "log_dir", "log_size", "tmux_open_window", "tmux_session_name"} do
    defaults[name] = options[name]
  end
  defaults.resources = given_resources(parsed)
end

function commands.run(parsed)
  local launch = require "lp.launch"
  set_defaults(parsed)
  launch.baseline, launch.script = require("lp.ship").snapshot(), parsed.script
  require("lp.reload").prepare()
  take_flags()
  start_program(parsed)
  if parsed.options.watch then watch_script(parsed, launch.runs) end
  return status_of(wait_for_all(launch.runs))
end

-- ---------------------------------------------------------------- lp graph

--- What the script prints goes to stderr: stdout is for the graph.
local function divert_output()
  io.stdout = io.stderr
  io.output(io.stderr)
  function print(...) -- luacheck: ignore
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    io.stderr:write(table.concat(list, "\t"), "\n")
  end
end

--- Shows the program that was to be launched, and ends.
local function show_graph(program, format, stdout)
  local _, mistake = program:check()
  if mistake then complain("warning: this program cannot be launched: " .. mistake) end
  local ok, message = require("lp.graph").show(program, format, stdout)
  if not ok then complain(message) end
  finish(ok and 0 or 1)
end

--- Is the word a run's rather than a script's?
local function is_run(word)
  local file = io.open(word)
  if file then file:close() end
  return not file and word ~= "-" and not word:find "%.lua$"
end

--- `--json` may stand behind the run or the script as well; what is behind `--` is the script's.
local function take_json(parsed)
  for i, word in ipairs(parsed.script_args) do
    if word == "--" then return end
    if word == "--json" then
      parsed.options.json = true
      table.remove(parsed.script_args, i)
      return
    end
  end
end

function commands.repl(parsed)
  take_json(parsed)
  set_defaults(parsed)
  return require("lp.console.repl").run(parsed, parsed.script and is_run(parsed.script))
end

function commands.console(parsed)
  return require("lp.console.shell").run(parsed)
end

function commands.graph(parsed)
  if is_run(parsed.script) then
    take_json(parsed)
    if parsed.options.json then parsed.options.format = "json" end
    return commands.console{spec = require("lp.console.catalog").named.graph, run = parsed.script,
                            words = {}, options = {format = parsed.options.format,
                                                   json = parsed.options.format == "json"}}
  end
  local format, stdout = parsed.options.format or "text", io.stdout
  local mistake = require("lp.graph").unavailable(format)
  if mistake then
    complain(mistake)
    leave(1)
  end
  require("lp.launch").intercept = function(program) show_graph(program, format, stdout) end
  take_flags()
  divert_output()
  start_program(parsed) -- a program ends the command there, by the intercept
  return 1
end

-- ---------------------------------------------------------------- the others

function commands.test(parsed)
  return require("lp.testing").run(parsed.words)
end

function commands.version()
  io.stdout:write(("lp %s (%s)\n"):format(command.version, _VERSION))
  return 0
end

-- ---------------------------------------------------------------- start

local function run_command()
  require "lp.require"
  require "lp.stdio"
  core.connector(require "lp.connector")
  service().notify:adopt_main(command.id)
  --- In the main chunk os.exit ends the command, with everything it started.
  function os.exit(code)
    if code == nil or code == true then code = 0 elseif code == false then code = 1 end
    finish(math.tointeger(code) or 1)
  end
  local argv = table.move(command.argv, 1, #command.argv, 1, {})
  local parsed, stop = require("lp.cli").parse(argv)
  if not parsed then
    io[stop.stream]:write(stop.text)
    core.flush()
    return leave(stop.status)
  end
  finish(commands[parsed.command](parsed))
end

--- An error of ours (no file descriptor for a module, no memory) is told from here: the
-- service may not be there yet.
function main.boot()
  local ok, err = xpcall(run_command, core.handler)
  if ok or leaving then return end
  print_error(err)
  core.flush()
  leave(1)
end

return main
