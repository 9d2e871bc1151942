--- Takes the output of a run's nodes to files or to windows of tmux. The windows show files in the
-- run folder: so processes stay children of the launcher, whose ends it sees, and what is
-- printed is the same everywhere.
-- @module lp.service.terminal

local core = require "lp.core"
local command = require "lp.service.command"
local report = require "lp.report"

local host = core.host
local terminal = {}

local LOG_BYTES = 64 << 20  -- of a file before it is begun anew
local WINDOW_BYTES = 1 << 20 -- the same for a window's, in the run folder

--- The nodes and processes of a run that print: {key=, name=}.
local function sources(run)
  local list, seen = {}, {}
  for _, node in ipairs(run.nodes) do
    local place = node.home or node
    if not seen[place] then
      seen[place] = true
      list[#list + 1] = {key = run.id .. "/" .. place.name, name = place.name}
    end
  end
  return list
end

--- "label/index/k" -> "label/index.k": "label/index" may be a file, too.
local function file_name(name)
  local label, rest = name:match "^([^/]+)/(.*)$"
  return label .. "/" .. rest:gsub("/", ".")
end

local function to_files(run, folder, limit)
  local list = sources(run)
  for _, source in ipairs(list) do
    source.path = host.route(source.key, folder .. "/" .. file_name(source.name), limit)
  end
  return list
end

local openers = {}

function openers.current_terminal() end

function openers.output_to_files(run)
  local settings = run.settings
  report.info("the output of the nodes goes to files in " .. settings.log_dir)
  for _, source in ipairs(to_files(run, settings.log_dir, settings.log_size or LOG_BYTES)) do
    report.info(("%s: %s"):format(source.name, source.path))
  end
end

-- ---------------------------------------------------------------- tmux

local function tmux(...) return command.run("tmux", ...) end

--- What a window runs: it shows its file, also once that was begun anew, as long as we live.
local function follow(path)
  return ("exec tail -n +1 -F --pid=%d '%s' 2>/dev/null"):format(host.pid(), (path:gsub("'", [['\'']])))
end

--- A name that no session has: the one given, or with _0, _1, … behind it.
local function free_name(wanted)
  local name, number = wanted, 0
  while tmux("has-session", "-t", "=" .. name) do
    name, number = ("%s_%d"):format(wanted, number), number + 1
  end
  return name
end

--- Names with "." or ":" would be read as parts of a target.
local function session_name(text)
  return (text:gsub("[.:%c]", "_"))
end

local function open_window(session, window)
  local target = ("=%s:=%s"):format(session, window)
  if tmux("select-window", "-t", target) then
    if (os.getenv "TMUX" or "") ~= "" then tmux("switch-client", "-t", target) end
  else
    report.warning(("--tmux_open_window: session %s has no window %s"):format(session, window))
  end
end

function openers.tmux_session(run)
  local settings = run.settings
  local list = to_files(run, run.folder .. "/out", WINDOW_BYTES)
  local session = free_name(session_name(settings.tmux_session_name or "launchpad"))
  for i, source in ipairs(list) do
    local ok
    if i == 1 then
      ok = tmux("new-session", "-d", "-s", session, "-n", source.name, follow(source.path))
    else
      ok = tmux("new-window", "-d", "-t", "=" .. session .. ":", "-n", source.name, follow(source.path))
    end
    if not ok then error(("tmux could not open a window for %s in session %s"):format(source.name, session), 0) end
    run.tmux_session = session
  end
  report.info(("tmux session %s; to see it: tmux attach -t %s"):format(session, session))
  if settings.tmux_open_window then open_window(session, settings.tmux_open_window) end
end

-- ---------------------------------------------------------------- for runs

function terminal.open(run)
  openers[run.settings.terminal or "current_terminal"](run)
end

--- Does closing it take time?
function terminal.lingers(run)
  return run.tmux_session ~= nil
end

--- When nothing of the run prints any more.
function terminal.close(run)
  if run.tmux_session then tmux("kill-session", "-t", "=" .. run.tmux_session) end
  host.unroute(run.id)
end

return terminal
