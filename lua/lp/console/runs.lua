--- Finding runs on this machine, and reaching one.
-- @module lp.console.runs

local core = require "lp.core"
local decode = require "lp.json.decode"

local runs = {}

local function manifest_of(folder)
  local file = io.open(folder .. "/manifest")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  local ok, manifest = pcall(decode, text)
  return ok and type(manifest) == "table" and manifest or nil
end

--- The runs that live, as their manifests say, by name and age.
-- @treturn table array of {name=, id=, pid=, launch_type=, script=, started=, folder=}
function runs.list()
  local list = {}
  for _, folder in pairs(core.client("service", "service"):runs_here()) do
    local manifest = manifest_of(folder)
    if manifest then
      manifest.folder = folder
      list[#list + 1] = manifest
    end
  end
  table.sort(list, function(a, b)
    if a.name ~= b.name then return a.name < b.name end
    return a.id < b.id
  end)
  return list
end

local function ids(list)
  local names = {}
  for i, run in ipairs(list) do names[i] = run.id end
  return table.concat(names, ", ")
end

--- The run of this id, or the one of this name.
-- @treturn table as runs.list gives it; or nil and what is wrong
function runs.find(word)
  local all, named = runs.list(), {}
  for _, run in ipairs(all) do
    if run.id == word then return run end
    if run.name == word then named[#named + 1] = run end
  end
  if #named == 1 then return named[1] end
  if #named > 1 then
    return nil, ("several runs of the name %s are alive; say which by its id: %s"):format(word, ids(named))
  end
  if not all[1] then return nil, ("there is no run %s: no program runs here"):format(word) end
  return nil, ("there is no run %s (lp ps lists those that are alive: %s)"):format(word, ids(all))
end

--- A link to a run: `link:ask(method, ...)` calls a reserved method of its control socket.
local Link = {}
Link.__index = Link

--- Those who ask at a prompt want to hear at once that a run, or a node, is not there any more.
local AT_ONCE = {wait_for_ready = false}

--- Connects to a run of runs.list.
function runs.connect(run)
  local client = core.client("unix:" .. run.folder .. "/control", "run " .. run.id)
  return setmetatable({run = run, id = run.id, name = run.name,
                       client = core.with(client, AT_ONCE)}, Link)
end

--- The same for a run launched here (lp.launch).
function runs.own(run)
  return setmetatable({run = run, id = run.id, name = run.name, own = true,
                       client = core.client("service", "service")}, Link)
end

--- Asks, and waits `timeout` seconds at most (nil: 10, 0: for ever).
function Link:ask_within(timeout, method, ...)
  local client = core.with(self.client, {timeout = timeout == nil and 10 or timeout})
  return core.ask(client, "lp." .. method, self.id, ...)
end

function Link:ask(method, ...)
  return self:ask_within(nil, method, ...)
end

--- A client of one of the run's nodes, which need not be of this process.
function Link:node(name, timeout)
  local patience = timeout or 10
  local address = self:ask_within(patience > 0 and patience + 5 or 0, "address", name, patience)
  local client = core.with(core.client(address, name), AT_ONCE)
  return timeout and core.with(client, {timeout = timeout}) or client
end

return runs
