--- What a node is asked by the service: the reserved methods of its control link. Loaded into
-- the node by the first question; a program that nobody looks at never has it.
-- @module lp.inside

local core = require "lp.core"

local inside = {}

--- What `print` writes goes to whoever asked.
local function printer()
  local lines = {}
  local function write(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    lines[#lines + 1] = table.concat(list, "\t")
  end
  return write, lines
end

--- The globals of what runs in this node: in a sandbox these are not those of the engine's modules.
local function globals_here()
  local kept = package.loaded["lp.kept"] -- by lp.restore
  return kept and kept.sandbox and kept.sandbox.globals or _G
end

--- The globals of a text that is evaluated: the node's own, `self`, `lp` as the node has it, and
-- that `print`.
local function environment(write)
  local globals = globals_here()
  local lp = rawget(globals, "lp") or (rawget(globals, "require") or require) "lp"
  return setmetatable({self = core.instance(), lp = lp, print = write},
                      {__index = globals, __newindex = globals})
end

--- The values as the asker's engine can read them; nil for one that cannot travel.
local function packed(values)
  local list = {n = values.n}
  for i = 1, values.n do
    local ok, bytes = pcall(core.pack, values[i])
    if ok then list[i] = bytes end
  end
  return list
end


local function failed(err, lines)
  local record = type(err) == "table" and err or {}
  return {ok = false, printed = lines, error = tostring(err),
          traceback = rawget(record, "traceback")}
end

--- Evaluates a text in this node, as a task beside the others.
-- @string text an expression or statements
-- @treturn table {ok=, printed = lines, values = text, count=, packed = array} or {error=, traceback=}
inside["lp.eval"] = function(text, statement)
  core.statement(statement)
  local write, lines = printer()
  local chunk, mistake = require("lp.show").compile(text, "=eval", environment(write))
  if not chunk then return {ok = false, printed = lines, error = mistake, syntax = true} end
  local results = table.pack(xpcall(chunk, core.handler))
  core.statement(0)
  if not results[1] then return failed(results[2], lines) end
  local values = table.move(results, 2, results.n, 1, {})
  values.n = results.n - 1
  return {ok = true, printed = lines, text = require("lp.show").values(values), count = values.n,
          packed = packed(values)}
end

--- What can be called here, with parameters and where it is defined.
inside["lp.describe"] = function()
  return require("lp.methods").of_instance(core.instance(), core.methods())
end

--- New code, as the launcher packs it; see lp.renew. Answers how many functions were replaced.
inside["lp.reload"] = function(bundle, modules)
  return require("lp.renew").take(function()
    return require("lp.restore").load(bundle)[1]
  end, modules)
end

--- Memory of this interpreter in bytes before and after a full collection.
inside["lp.gc"] = function()
  local before = collectgarbage "count"
  collectgarbage()
  return {before = math.floor(before * 1024), after = math.floor(collectgarbage "count" * 1024)}
end

--- Of a main chunk: gives nodes it has launched new code, see lp.reload.
inside["lp.reload_script"] = function(statement, run_id, name, path, text)
  core.statement(statement)
  local launch = package.loaded["lp.launch"]
  for _, run in ipairs(launch and launch.runs or {}) do
    if run.id == run_id then
      path = path or launch.script
      if not text then
        local mistake
        text, mistake = require("lp.files").read(path or "")
        if not text then error("the script: " .. mistake, 0) end
      end
      return require("lp.reload").script(run, "@" .. path, text, {table.unpack(arg or {})}, name)
    end
  end
  error("this run was not launched by a script of its command, which alone can run it again", 0)
end

--- Names that continue `path` ("self.na" -> {"name", …}); nothing of the user's runs.
inside["lp.complete"] = function(path)
  return require("lp.console.names").complete(path, environment(print))
end

return inside
