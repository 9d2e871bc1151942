--- The commands of the catalog as sub-commands: `lp nodes RUN --json`.
-- @module lp.console.shell

local catalog = require "lp.console.catalog"
local json = require "lp.json"
local render = require "lp.console.render"

local shell = {}

--- Rows with every column of the table, null where there is nothing.
local function complete(rows, columns)
  for _, row in ipairs(rows) do
    for _, column in ipairs(columns) do
      if row[column.field] == nil then row[column.field] = json.null end
    end
  end
  return rows
end

--- An answer as it is printed.
function shell.text_of(answer, as_json)
  if answer.quiet then return "" end
  if as_json then
    local value = answer.value
    if answer.rows then value = complete(answer.rows, answer.columns) end
    if value == nil then value = json.null end
    return json.encode(value) .. "\n"
  end
  if not answer.rows then return answer.text end
  if not answer.rows[1] and answer.none then return answer.none end
  return render.table(answer.columns, answer.rows) .. (answer.foot or "")
end

--- Runs a command of the catalog: its answer, or nil and what went wrong.
-- @param write called with text as it comes, for answers that go on (`lp logs -f`)
function shell.perform(spec, session, words, options, write)
  local run = require("lp.console.commands")[spec.name:gsub("-", "_")]
  local ok, answer = pcall(run, session, words, options, write)
  if ok then return answer end
  local message = type(answer) == "table" and rawget(answer, "message")
  return nil, message or tostring(answer)
end

local function complain(text)
  io.stderr:write("lp: ", text, "\n")
  return 1
end

--- The session of a run named on the command line.
function shell.session(word)
  local runs = require "lp.console.runs"
  local found, mistake = runs.find(word)
  if not found then return nil, mistake end
  return {link = runs.connect(found)}
end

--- A sub-command, from words to status.
-- @tparam table parsed from lp.cli
function shell.run(parsed)
  local session = {}
  if parsed.run then
    local mistake
    session, mistake = shell.session(parsed.run)
    if not session then return complain(mistake) end
  end
  local function write(text) io.stdout:write(text) end
  local answer, mistake = shell.perform(parsed.spec, session, parsed.words, parsed.options, write)
  if not answer then return complain(mistake) end
  io.stdout:write(shell.text_of(answer, parsed.options.json))
  if answer.error then complain(answer.error) end
  return answer.failed and 1 or 0
end

shell.catalog = catalog

return shell
