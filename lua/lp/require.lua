--- require of a node. The same search as Lua's, but written in Lua, so that the body of a
-- module may wait: for a call, a future, anything. A second task that requires a module
-- whose body is waiting waits for it, too.
-- @module lp.require

local core = require "lp.core"

--- name -> tokens of the tasks that wait for a module being loaded
local loading = {}

--- Which task runs, whatever coroutine of it: a token is its place and a count.
local function this_task()
  return core.token() >> 32
end

local function find(name)
  local tried = {}
  for _, searcher in ipairs(package.searchers) do
    local loader, data = searcher(name)
    if type(loader) == "function" then return loader, data end
    if type(loader) == "string" then tried[#tried + 1] = loader end
  end
  error(("module '%s' not found:\n\t%s"):format(name, table.concat(tried, "\n\t")), 3)
end

local function run(name, loader, data)
  local value = loader(name, data)
  if value ~= nil then package.loaded[name] = value end
  if package.loaded[name] == nil then package.loaded[name] = true end
end

--- However the loading ends, those who wait for it go on.
local function finish(name)
  local waiting = loading[name]
  loading[name] = nil
  for _, token in ipairs(waiting) do core.wake(token) end
end

function require(name) -- luacheck: ignore
  if type(name) ~= "string" and type(name) ~= "number" then
    error("bad argument #1 to 'require' (string expected, got " .. type(name) .. ")", 2)
  end
  name = tostring(name)
  while true do
    local value = package.loaded[name]
    local others = loading[name]
    if value ~= nil and not others then return value end
    if not others then break end
    if others.task == this_task() then return value or true end -- a circle
    others[#others + 1] = core.token()
    core.park()
  end
  local loader, data = find(name)
  loading[name] = {task = this_task()}
  local _ <close> = setmetatable({}, {__close = function() finish(name) end})
  run(name, loader, data)
  return package.loaded[name], data
end

return true
