--- The man page and the completions of shells, from the table of the command line. Made when the
-- engine is built (`lp help man-page`), so that they never say anything else than the help.
-- @module lp.manual

local manual = {}

--- Text as troff takes it.
local function troff(text)
  text = text:gsub("\\", "\\e"):gsub("%-", "\\-")
  if text:find "^[.']" then text = "\\&" .. text end
  return text
end

local function visible(command)
  local list = {}
  for _, option in ipairs(command.options or {}) do
    if not option.hidden then list[#list + 1] = option end
  end
  return list
end

local function usage_of(command)
  return command.usage or "lp " .. command.name
end

--- lp(1).
-- @tparam table commands of lp.cli
-- @string version
function manual.man(commands, version)
  local lines = {
    (".TH LP 1 \"\" \"lp %s\" \"Launchpad for Lua\""):format(version), ".SH NAME",
    "lp \\- launch and inspect distributed programs in Lua", ".SH SYNOPSIS", ".B lp", "COMMAND ...",
    ".SH DESCRIPTION",
    "A script describes a program as a graph of nodes.", ".B lp run",
    "places the nodes in threads or processes, connects them and waits for their end.",
    "The other commands inspect programs that run.", ".SH COMMANDS",
  }
  local function add(text) lines[#lines + 1] = text end
  for _, command in ipairs(commands) do
    add ".TP"
    add(".B " .. troff(usage_of(command)))
    add(troff(command.help))
    for _, option in ipairs(visible(command)) do
      add ".RS"
      add ".TP"
      add(".B " .. troff(option.name .. (option.value and " " .. option.value or "")))
      add(troff(option.help))
      add ".RE"
    end
  end
  for _, text in ipairs {".SH EXIT STATUS", "0 when all went well or the program was stopped; 1 when a node failed;",
                         "2 for mistakes of usage; 124 when a node had to be killed; 128+N on signal N.",
                         ".SH ENVIRONMENT", ".TP", ".B LP_COMMAND", "The program that node processes run.",
                         ".TP", ".B NO_COLOR", "No colours."} do
    add(text)
  end
  return table.concat(lines, "\n") .. "\n"
end

local function names_of(commands)
  local names = {}
  for i, command in ipairs(commands) do names[i] = command.name end
  return table.concat(names, " ")
end

local function option_names(command)
  local names = {}
  for i, option in ipairs(visible(command)) do names[i] = option.name end
  return table.concat(names, " ")
end

--- Completion for bash (and zsh by its bashcompinit): commands, options, files, and names of
-- programs that run.
function manual.bash(commands)
  local cases, about_runs = {}, {}
  for _, command in ipairs(commands) do
    cases[#cases + 1] = ("    %s) options=\"%s\" ;;"):format(command.name, option_names(command))
    if command.console then about_runs[#about_runs + 1] = command.name end
  end
  return ([==[
# Completion of lp for bash.
_lp() {
  local word=${COMP_WORDS[COMP_CWORD]} options= command=${COMP_WORDS[1]}
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@NAMES@" -- "$word"))
    return
  fi
  case $command in
@CASES@
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ " @RUNS@ " == *" $command "* ]]; then
    COMPREPLY=($(compgen -W "$(lp ps 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$word"))
  elif [[ $command == help ]]; then
    COMPREPLY=($(compgen -W "@NAMES@" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _lp lp
]==]):gsub("@(%u+)@", {NAMES = names_of(commands), CASES = table.concat(cases, "\n"),
                      RUNS = table.concat(about_runs, " ")})
end

return manual
