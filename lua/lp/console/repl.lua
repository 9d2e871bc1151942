--- `lp repl`: a prompt for Lua and for commands, on a terminal or a pipe.
-- @module lp.console.repl

local core = require "lp.core"
local json = require "lp.json"
local sessions = require "lp.console.session"
local shell = require "lp.console.shell"
local show = require "lp.show"

local terminal = core.command.terminal -- nil where there is none
local repl = {}

-- ---------------------------------------------------------------- output

local function out(text)
  if text == "" then return end
  if terminal then terminal.write(text) else io.stdout:write(text) end
end

local function complain(text)
  text = "error: " .. text .. "\n"
  if terminal then terminal.write(text) else io.stderr:write(text) end
end

local function print_out(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  out(table.concat(list, "\t") .. "\n")
end

--- What scripts and statements print here comes in order with what the prompt says.
local function take_output()
  if not terminal then return end
  print = print_out -- luacheck: ignore
  function io.write(...) -- luacheck: ignore
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    out(table.concat(list))
    return io.stdout
  end
end

-- ---------------------------------------------------------------- words

--- The words of a command, quotes and backslashes as in a shell. `raw`: from that word on, the
-- rest of the line is one.
local function split(text, raw)
  local words, at = {}, 1
  while true do
    at = text:match("^%s*()", at)
    if at > #text then return words end
    if raw and #words + 1 >= raw then
      words[#words + 1] = text:sub(at):gsub("%s+$", "")
      return words
    end
    local parts, started = {}, at
    while at <= #text and not text:find("^%s", at) do
      local quote = text:match("^[\"']", at)
      local stop = quote and text:find(quote, at + 1, true)
      if stop then
        parts[#parts + 1], at = text:sub(at + 1, stop - 1), stop + 1
      else
        if text:sub(at, at) == "\\" and at < #text then at = at + 1 end
        parts[#parts + 1], at = text:sub(at, at), at + 1
      end
    end
    words[#words + 1] = table.concat(parts)
    if at == started then return words end
  end
end

--- JSON keeps its quotes: `.call worker/0 add 1 "two" {"three": 3}`.
local function split_json(text)
  local words, at = split(text:match "^%s*%S*%s*%S*" or ""), 1
  local rest = text:match "^%s*%S+%s+%S+%s*(.*)$" or ""
  while true do
    at = rest:match("^%s*()", at)
    if at > #rest then return words end
    local depth, quoted, from = 0, false, at
    while at <= #rest do
      local char = rest:sub(at, at)
      if quoted then
        if char == "\\" then at = at + 1 elseif char == '"' then quoted = false end
      elseif char == '"' then quoted = true
      elseif char:find "[%[{]" then depth = depth + 1
      elseif char:find "[%]}]" then depth = depth - 1
      elseif char:find "%s" and depth == 0 then break end
      at = at + 1
    end
    words[#words + 1] = rest:sub(from, at - 1):gsub("^'(.*)'$", "%1")
  end
end

local function words_of(spec, text)
  if spec.name == "eval" then return split(text, 2) end
  if spec.name == "call" then return split_json(text) end
  return split(text)
end

--- Divides words into options and the rest; raises a text about those that are wrong.
local function divide(spec, words)
  local by_name, options, rest, at = {}, {}, {}, 1
  for _, option in ipairs(spec.options) do
    by_name[option.name] = option
    if option.short then by_name[option.short] = option end
  end
  while words[at] do
    local name, value = words[at]:match "^(%-%-[%w-]+)=(.*)$"
    local option = by_name[name or words[at]]
    if not option then
      if words[at]:find "^%-%a" or words[at]:find "^%-%-%a" and not spec.raw then
        error(("unknown option %s of .%s"):format(words[at], spec.name), 0)
      end
      rest[#rest + 1] = words[at]
    elseif not option.value then
      options[option.target] = option.sets
    else
      if not value then
        at = at + 1
        value = words[at] or error(("option %s needs a value"):format(option.name), 0)
      end
      local final, mistake = option.convert(value)
      if final == nil then error(("option %s: %s"):format(option.name, mistake), 0) end
      options[option.target] = final
    end
    at = at + 1
  end
  return rest, options
end

-- ---------------------------------------------------------------- statements

--- What `lp repl` adds to the globals.
local function environment(session)
  local special = {
    lp = function() return require "lp" end,
    program = function() return session.program end,
    run = function() return session.run end,
    node = function() return function(name) return session:node(name) end end,
  }
  return setmetatable({}, {__newindex = _G, __index = function(_, name)
    local value = _G[name]
    if value == nil and special[name] then value = special[name]() end
    return value
  end})
end

--- The same as tables only, for completion, which runs nothing.
local function known_names(session)
  return setmetatable({lp = require "lp", program = session.program, run = session.run, node = true},
                      {__index = _G})
end

--- Ends the statement with its error's text, and the traceback as far as it is the user's.
local function error_text(err)
  local trace = type(err) == "table" and rawget(err, "traceback")
  local text = tostring(err):gsub("^lp/console/%w+%.lua:%d+: ", "") -- no line of the user's
  if text:find "^[^\n]*: interrupted$" then return "interrupted" end -- by Ctrl-C, wherever it was
  if not trace then return text end
  local lines, theirs = {}, false
  for line in trace:gmatch "[^\n]+" do
    if line:find "lp/console/repl" or line:find "%[C%]: in function 'xpcall'" then break end
    lines[#lines + 1] = line
    theirs = theirs or line:find "^%s+[^%s[(]" and not line:find "^%s+lp/[%w/]+%.lua:"
  end
  return theirs and #lines > 2 and text .. "\n" .. table.concat(lines, "\n") or text
end

local Repl = {}
Repl.__index = Repl

function Repl:failed(text)
  self.status = 1
  complain(text)
end

function Repl:evaluate_here(chunk)
  local results = table.pack(xpcall(chunk, core.handler))
  if not results[1] then return self:failed(error_text(results[2])) end
  local values = table.move(results, 2, results.n, 1, {})
  values.n = results.n - 1
  if self.options.json then
    local list = {}
    for i = 1, values.n do
      local ok = pcall(json.encode, values[i])
      list[i] = values[i] == nil and json.null or ok and values[i] or show.value(values[i])
    end
    return out(json.encode {values = list} .. "\n")
  end
  if values.n > 0 then out(show.values(values) .. "\n") end
end

--- The same in the node that was chosen by `use`; as long as it takes.
function Repl:evaluate_there(text)
  local ok, answer = pcall(self.session.link.ask_within, self.session.link, 0, "eval", self.session.using, text, 0)
  if not ok then return self:failed(rawget(answer, "message") or tostring(answer)) end
  for _, line in ipairs(answer.printed) do out(line .. "\n") end
  if not answer.ok then return self:failed(answer.error) end
  if self.options.json then return out(json.encode {values = {answer.text}} .. "\n") end
  if answer.count > 0 then out(answer.text .. "\n") end
end

function Repl:command(name, rest)
  local spec = sessions.find(name)
  if not spec then
    return self:failed(("there is no command .%s; .help lists them"):format(name))
  end
  local ok, answer, as_json = pcall(function()
    local words, options = divide(spec, words_of(spec, rest))
    if #words < spec.least then error("how it is used: " .. require("lp.console.catalog").prompt_usage(spec), 0) end
    if #words > spec.most then error(("unexpected word '%s'"):format(words[spec.most + 1]), 0) end
    if self.options.json then options.json = true end
    return self.session:perform(spec, words, options, out), options.json
  end)
  if not ok then return self:failed(error_text(answer)) end
  out(shell.text_of(answer, as_json))
  if answer.error then self:failed(answer.error) elseif answer.failed then self.status = 1 end
end

--- Runs one complete input.
function Repl:perform(text)
  local name, rest = text:match "^%s*%.(%a[%w-]*)%s*(.-)%s*$"
  if name then return self:command(name, rest) end
  local using = text:match "^%s*use%s*$" and "" or text:match "^%s*use%s+([%w_.-]+/[%d/]+)%s*$"
  if using then return self:command("use", using) end
  if self.session.using then return self:evaluate_there(text) end
  local chunk, mistake = show.compile(text, "=prompt", self.env)
  if not chunk then return self:failed(mistake) end
  self:evaluate_here(chunk)
end

--- The same as a task that Ctrl-C ends, and waits for it.
function Repl:run(text)
  local future = core.spawn(function()
    core.statement(require("lp.evaluation").PROMPT)
    -- Ctrl-C may have come between the line's end and this.
    if terminal and core.client("service", "service"):prompt_asked() > 0 then return self:failed "interrupted" end
    local ok, err = xpcall(self.perform, core.handler, self, text)
    if not ok then self:failed(error_text(err)) end
  end)
  local ok, err = pcall(future.result, future)
  -- One that catches its cancellation is closed: it cannot say so itself.
  if not ok then self:failed(rawget(err, "code") == "cancelled" and "interrupted" or error_text(err)) end
end

--- Does a text lack its end?
function repl.is_incomplete(text)
  if text:find "^%s*%." or text:find "^%s*use%s" then return false end
  if show.compile(text) then return false end
  local _, mistake = load(text, "=prompt", "t")
  return mistake ~= nil and mistake:find "<eof>$" ~= nil
end

-- ---------------------------------------------------------------- input

local Keyboard = {}
Keyboard.__index = Keyboard

local function history_file()
  local path = os.getenv "LP_HISTORY"
  if path then return path ~= "" and path or nil end
  local home = os.getenv "HOME"
  return home and home .. "/.lp_history"
end

local function keyboard(self)
  local input = setmetatable({}, Keyboard)
  local complete = require "lp.console.complete"
  terminal.start(history_file(), function(kind, text)
    if kind == "complete" then
      local ok, insert, list = pcall(complete, self.session, text, known_names(self.session),
                                     terminal.columns())
      return terminal.complete(ok and insert or "", ok and list or "")
    end
    input.kind, input.text = kind, text
    if input.token then core.wake(input.token) end
  end)
  return input
end

--- A line; or nil and "eof" or "interrupt".
function Keyboard:read(prompt)
  core.client("service", "service").notify:prompt_ready()
  self.kind = nil
  self.token = core.token()
  terminal.read(prompt)
  core.park()
  self.token = nil
  if self.kind == "line" then return self.text end
  return nil, self.kind
end

local Pipe = {}
Pipe.__index = Pipe

function Pipe.read()
  local line = io.read "l"
  if line then return line end
  return nil, "eof"
end

-- ---------------------------------------------------------------- the loop

--- Reads one complete input. nil: the end.
function Repl:read()
  local text
  while true do
    local prompt = text and ("."):rep(#self.session:prompt() - 2) .. "> " or self.session:prompt()
    local line, why = self.input:read(prompt)
    if not line and why == "interrupt" then
      text = nil
    elseif not line then
      return text
    else
      text = text and text .. "\n" .. line or line
      if text:find "^%s*$" then text = nil elseif not repl.is_incomplete(text) then return text end
    end
  end
end

function Repl:loop()
  while not self.session.leaving do
    local ended = self.session:check_end()
    if ended and terminal then out(ended .. "\n") end
    local text = self:read()
    if not text then break end
    self:run(text)
  end
  if terminal then out "\n" end
end

--- Opens what was named on the command line.
function Repl:open(target, words, is_run)
  if not target then return true end
  local ok, err = pcall(function()
    if is_run then return self.session:attach(target) end
    self.session:load(target, words)
  end)
  if ok then return true end
  self:failed(error_text(err))
  return terminal ~= nil and not is_run -- a script can be mended, and loaded again
end

--- Runs the prompt.
-- @tparam table parsed `script` (or run), `script_args`, `options`
-- @treturn int the command's status
function repl.run(parsed, is_run)
  local self = setmetatable({options = {json = parsed.options.json}, status = 0}, Repl)
  self.session = sessions.new(parsed.options)
  self.env = environment(self.session)
  take_output()
  require("lp.reload").prepare()
  -- Behind that: what nodes are sent names `print`, it does not carry this one.
  require("lp.launch").baseline = require("lp.ship").snapshot()
  if not self:open(parsed.script, parsed.script_args, is_run) then return 1 end
  self.input = terminal and keyboard(self) or Pipe
  if terminal then
    local session = self.session
    local about = session.link and "run " .. session.link.id or session.program and "program " .. session.program.name
    out((about and about .. "; " or "") .. ".help lists the commands, Ctrl-D leaves\n")
  end
  self:loop()
  return terminal and 0 or self.status
end

return repl
