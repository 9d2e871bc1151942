--- A real terminal for specs: a command in a window of tmux, typed at and looked at.

local support = require "spec.e2e.support"

local Terminal = {}
Terminal.__index = Terminal

local terminal = {}
local open, serial = {}, 0

local function quoted(word)
  return "'" .. word:gsub("'", [['\'']]) .. "'"
end

function Terminal:tmux(text, ...)
  return support.shell("cd %s && tmux -S %s -f /dev/null " .. text, self.folder, self.socket, ...)
end

--- Starts `lp WORDS` in a folder of its own, or that of `how.beside`; `how.files`: name -> text.
function terminal.start(words, how)
  how = how or {}
  local self = setmetatable({folder = how.beside or support.shell "mktemp -d /tmp/lpt.XXXXXX"}, Terminal)
  serial = serial + 1
  self.owns, self.socket = not how.beside, "tmux" .. serial
  open[#open + 1] = self
  support.shell("mkdir -p -m 700 %s/run", self.folder)
  for name, text in pairs(how.files or {}) do
    local file <close> = assert(io.open(self.folder .. "/" .. name, "w"))
    file:write(text)
  end
  local list = {}
  for i, word in ipairs(words) do list[i] = quoted(word) end
  local script <close> = assert(io.open(self.folder .. "/terminal.sh", "w"))
  script:write(([[
    cd %s; export XDG_RUNTIME_DIR=$PWD/run HOME=$PWD LC_ALL=C.UTF-8; unset LP_HISTORY
    trap : INT # Ctrl-C is for lp alone
    %s %s
    echo ended with status $?; sleep 1000]]):format(self.folder, support.lp(), table.concat(list, " ")))
  script:close()
  self:tmux("new-session -d -x 100 -y 50 'sh terminal.sh' 2>&1")
  return self
end

--- What is on the screen, without blanks at the ends of lines.
function Terminal:screen()
  return (self:tmux("capture-pane -p -J 2>/dev/null"):gsub(" +\n", "\n"):gsub("%s+$", ""))
end

--- Waits until a plain text is on the screen.
function Terminal:wait(text)
  local ok, err = pcall(support.until_true, ("%q"):format(text), function()
    return self:screen():find(text, 1, true)
  end)
  if not ok then error(("%s; the screen shows:\n%s"):format(err, self:screen()), 2) end
  return self
end

--- Waits until the last line begins with the text: it is the prompt's turn.
function Terminal:wait_prompt(text)
  local ok, err = pcall(support.until_true, ("the prompt %q"):format(text), function()
    return self:screen():match "[^\n]*$" == text
  end)
  if not ok then error(("%s; the screen shows:\n%s"):format(err, self:screen()), 2) end
  return self
end

--- Types a text as it is.
function Terminal:type(text)
  self:tmux("send-keys -l -- %s", quoted(text))
  return self
end

--- Presses keys by tmux's names: "Enter", "Tab", "Up", "C-c".
function Terminal:press(...)
  self:tmux("send-keys %s", table.concat({...}, " "))
  return self
end

--- Presses Tab until the last line is as expected: a completion that takes too long is given up.
function Terminal:complete(expected)
  local pressed = 0
  local ok, err = pcall(support.until_true, ("the completion %q"):format(expected), function()
    if self:screen():match "[^\n]*$" == expected then return true end
    if os.time() > pressed then self:press "Tab" end
    pressed = os.time()
  end)
  if not ok then error(("%s; the screen shows:\n%s"):format(err, self:screen()), 2) end
  return self
end

--- Presses Ctrl-C until the statement that runs says so: pressed before the terminal is out of line
-- editing it would be a character of the next line.
function Terminal:interrupt()
  local pressed = 0
  local ok, err = pcall(support.until_true, "the interruption", function()
    if self:screen():find("error: interrupted", 1, true) then return true end
    if os.time() > pressed then self:press "C-c" end
    pressed = os.time()
  end)
  if not ok then error(("%s; the screen shows:\n%s"):format(err, self:screen()), 2) end
  return self
end

--- Types a line, and waits for what should come of it.
function Terminal:line(text, expected)
  self:type(text):wait(text):press "Enter"
  return expected and self:wait(expected) or self
end

function Terminal:clear()
  self:press "C-l"
  self:tmux "clear-history"
  return self
end

--- Ends all windows; for teardown.
function terminal.clean()
  for _, one in ipairs(open) do one:tmux "kill-server 2>/dev/null" end
  for _, one in ipairs(open) do
    if one.owns then support.shell("rm -rf %s", one.folder) end
  end
  open = {}
end

return terminal
