--- Starts the command `lp` as a user's shell does, and looks at what it leaves behind.
-- Each command has a folder of its own (script, output, run folders) and a word in its
-- environment, by which everything it started is found however it was started.

local lp = require "lp"
local assert = require "luassert"

local support = {}

local HANG = 30 -- seconds after which a wait is a failure; nothing takes that long
local folders, serial = {}, 0

local function read_file(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

local function write_file(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

--- What a shell command prints.
function support.shell(text, ...)
  local pipe = assert(io.popen(text:format(...), "r"))
  local output = pipe:read "a"
  pipe:close()
  return (output:gsub("\n$", ""))
end

local function quoted(word)
  return "'" .. word:gsub("'", [['\'']]) .. "'"
end

--- The command under test: the one told of, else the one these specs run in.
function support.lp()
  return os.getenv "LP_COMMAND" or support.shell "readlink /proc/$PPID/exe"
end

--- `it`, or `pending` under ThreadSanitizer, which holds signals back as long as code computes.
function support.it_interrupts(it, pending)
  return support.lp():find "/tsan/" and pending or it
end

--- Calls `condition` until it gives something true, which is returned.
function support.until_true(what, condition, seconds)
  local deadline = lp.now() + (seconds or HANG)
  while true do
    local value = condition()
    if value then return value end
    if lp.now() > deadline then error("waited in vain for " .. what, 2) end
    lp.sleep(0.01)
  end
end

-- ---------------------------------------------------------------- a command

local Command = {}
Command.__index = Command

local function make_folder()
  local folder = support.shell "mktemp -d /tmp/lpe.XXXXXX"
  folders[#folders + 1] = folder
  support.shell("mkdir -m 700 %s/run", folder)
  return folder
end

--- Starts a command.
-- @tparam table words its arguments; a word "SCRIPT" is replaced by the script's path
-- @tparam[opt] table how `script` (text), `env` (name=value words), `before` (shell text run
--   first), `input` (shell redirection, default </dev/null), `output` (shell redirection,
--   default to two files), `program` (instead of lp)
function support.start(words, how)
  how = how or {}
  serial = serial + 1
  local self = setmetatable({folder = make_folder()}, Command)
  self.mark = ("LP_E2E=%s.%d"):format(self.folder, serial)
  if how.script then write_file(self.folder .. "/p.lua", how.script) end
  local list = {}
  for i, word in ipairs(words) do
    list[i] = quoted(word == "SCRIPT" and self.folder .. "/p.lua" or word)
  end
  local text = ([[
    cd %s || exit 1
    export LP_COMMAND=%s
    ( %s
      exec env %s XDG_RUNTIME_DIR=$PWD/run %s sh -c 'echo $$ >pid; exec "$@"' sh %s %s
    ) %s %s
    echo $? >status.part; mv status.part status]]):format(self.folder, quoted(support.lp()),
    how.before or "", self.mark, table.concat(how.env or {}, " "), how.program or '"$LP_COMMAND"',
    table.concat(list, " "), how.input or "</dev/null", how.output or ">out 2>err")
  write_file(self.folder .. "/start", text)
  os.execute(("sh %s/start >/dev/null 2>&1 &"):format(self.folder))
  return self
end

--- Runs a script under `lp run` with further words; waits for its end.
function support.run(script, words, how)
  how = how or {}
  how.script = script
  local list = {"run"}
  table.move(words or {}, 1, #(words or {}), 2, list)
  list[#list + 1] = "SCRIPT"
  table.move(how.words or {}, 1, #(how.words or {}), #list + 1, list)
  local command = support.start(list, how)
  if how.background then return command end
  return command:finish()
end

function Command:read(name)
  return read_file(self.folder .. "/" .. name) or ""
end

--- Waits until `text` (plain) is in a stream's file.
function Command:wait_for(text, name)
  support.until_true(("%q"):format(text), function()
    if self:read(name or "out"):find(text, 1, true) then return true end
    local status = self:ended()
    if status and not self:read(name or "out"):find(text, 1, true) then
      error(("ended with status %d before it said %q: %s"):format(status, text, self:read "err"), 0)
    end
  end)
  return self
end

function Command:ended()
  return tonumber((read_file(self.folder .. "/status")))
end

function Command:pid()
  return support.until_true("the command's start", function()
    return tonumber((read_file(self.folder .. "/pid")))
  end)
end

function Command:signal(name)
  support.shell("kill -%s %d", name, self:pid())
  return self
end

--- The processes it started that live, itself included: pid -> its words.
function Command:processes()
  local found = {}
  local list = support.shell("grep -lzsxF %s /proc/[0-9]*/environ", quoted(self.mark))
  for pid in list:gmatch "/proc/(%d+)/" do
    local words = read_file("/proc/" .. pid .. "/cmdline")
    if words and words ~= "" then found[tonumber(pid)] = words:gsub("%z", " ") end
  end
  return found
end

--- Waits until none of its processes lives.
function Command:wait_gone(seconds)
  local last
  local ok = pcall(support.until_true, "the end of all processes", function()
    last = self:processes()
    return next(last) == nil
  end, seconds)
  if ok then return self end
  local list = {}
  for pid, words in pairs(last) do list[#list + 1] = pid .. " " .. words end
  self:kill()
  error("still alive: " .. table.concat(list, "; "), 2)
end

function Command:kill()
  for pid in pairs(self:processes()) do support.shell("kill -9 %d 2>/dev/null", pid) end
end

--- Run folders and sockets that are left.
function Command:leftovers()
  return support.shell("find %s/run -mindepth 1 ! -path '*/run/lp'", self.folder)
end

--- Waits for its end: status, out, err. Nothing may be left.
function Command:finish()
  local ok, err = pcall(support.until_true, "the end of the command", function() return self:ended() end)
  if not ok then
    local output = self:read "out" .. self:read "err"
    self:kill()
    error(err .. ": " .. output, 2)
  end
  self.status, self.out, self.err = self:ended(), self:read "out", self:read "err"
  self:wait_gone(2)
  assert.equal("", self:leftovers())
  return self
end

--- Fails with the whole output unless all of it is as expected.
function Command:expect(status, ...)
  local said = ("status %s\nstdout: %s\nstderr: %s"):format(self.status, self.out, self.err)
  assert(self.status == status, ("expected status %d, got %s"):format(status, said))
  for _, text in ipairs {...} do
    assert((self.out .. self.err):find(text, 1, true), ("expected %q, got %s"):format(text, said))
  end
  return self
end

--- Removes the folders; for teardown.
function support.clean()
  for _, folder in ipairs(folders) do support.shell("rm -rf %s", folder) end
  folders = {}
end

--- A describe for threads and one for processes.
function support.placements(describe, title, body)
  for _, launch_type in ipairs {"local_mt", "local_mp"} do
    describe(("%s under %s"):format(title, launch_type), function() body(launch_type) end)
  end
end

return support
