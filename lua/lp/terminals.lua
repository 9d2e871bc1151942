--- Where the output of nodes goes: this terminal, files, or windows of tmux. What may be chosen and
-- who chooses; lp.service.terminal does it.
-- @module lp.terminals

local options = require "lp.options"

local terminals = {}

terminals.known = {"current_terminal", "output_to_files", "tmux_session"}

local DEFAULT_FOLDER = "/tmp/launchpad_out"

--- As lp.options wants it.
function terminals.rule(value)
  for _, name in ipairs(terminals.known) do
    if value == name then return value end
  end
  return nil, "one of " .. table.concat(terminals.known, ", ")
end

local function is_command(name)
  for folder in (os.getenv "PATH" or "/usr/bin:/bin"):gmatch "[^:]+" do
    local file = io.open(folder .. "/" .. name)
    if file then
      file:close()
      return true
    end
  end
  return false
end

--- Fills in what the settings of a launch do not say. Raises what is wrong.
function terminals.choose(settings, level)
  local from_environment = os.getenv "LAUNCHPAD_LAUNCH_LOCAL_TERMINAL"
  if from_environment == "" then from_environment = nil end
  local chosen = settings.terminal or settings.log_dir and "output_to_files" or from_environment
  settings.terminal = chosen or "current_terminal"
  if not terminals.rule(settings.terminal) then
    error(("lp.launch: LAUNCHPAD_LAUNCH_LOCAL_TERMINAL: unknown terminal %s (known: %s)")
          :format(options.describe(settings.terminal), table.concat(terminals.known, ", ")), level + 1)
  end
  if settings.terminal == "tmux_session" and not is_command "tmux" then
    error("lp.launch: terminal tmux_session needs tmux, which was not found; " ..
          "on Debian and Ubuntu: apt-get install tmux", level + 1)
  end
  local folder = os.getenv "LAUNCHPAD_LOGGING_DIR"
  if folder == "" then folder = nil end
  settings.log_dir = settings.log_dir or folder or DEFAULT_FOLDER
end

return terminals
