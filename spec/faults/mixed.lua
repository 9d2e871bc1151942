--- Calls of every kind between callers and servers, each with a token of its own, so that it is
-- seen whose answer came. For programs in which things go wrong meanwhile.

local lp = require "lp"

-- ---------------------------------------------------------------- servers

local Server = {}
Server.__index = Server

function Server.new() return setmetatable({kept = {}}, Server) end

--- The token comes back with what proves that the rest arrived whole.
function Server.work(_, token, payload)
  return token, #payload, payload:byte(1, 1), nil
end

function Server.nap(_, token, seconds)
  lp.sleep(seconds)
  return token
end

function Server.large(_, token, size) return token, ("r"):rep(size) end

function Server.raise(_, token) lp.error("own", "of " .. token, {token = token}) end

--- Answers later, from another task.
function Server.later(_, token)
  local reply = lp.defer_reply()
  lp.spawn(function()
    lp.sleep(0.001)
    reply:ok(token)
  end)
end

--- Calls back while its caller waits.
function Server.back(_, token, caller)
  return token, lp.with(caller, {timeout = 0.4}):own(token)
end

function Server.hint() end

-- ---------------------------------------------------------------- callers

local Caller = {}
Caller.__index = Caller

function Caller.new(servers)
  return setmetatable({servers = servers, ended = {}, wrong = {}, open = {}, go_on = lp.Event()},
                      Caller)
end

function Caller.own(_, token) return "own " .. token end

--- The errors that a link which goes wrong may end a call with.
local expected = {unavailable = true, deadline_exceeded = true, cancelled = true,
                  resource_exhausted = true}

function Caller:complain(token, what, ...)
  table.insert(self.wrong, ("call %s: " .. what):format(token, ...))
end

--- The results of a call, which must be those of its token.
function Caller:judge(token, wanted, ok, ...)
  local got = table.pack(...)
  if not ok then
    local err = ...
    local code = type(err) == "table" and err.code or "no lp.Error"
    local own = code == "own" and err.data and err.data.token == token and wanted.own
    self.ended[code] = (self.ended[code] or 0) + 1
    if not own and not expected[code] then self:complain(token, "failed: %s", err) end
    return
  end
  self.ended.answered = (self.ended.answered or 0) + 1
  if wanted.own then self:complain(token, "was answered, but had to raise") end
  if got[1] ~= token then self:complain(token, "got the answer of %s", got[1]) end
  if got.n ~= #wanted + 1 + (wanted.nils or 0) then self:complain(token, "got %d values", got.n) end
  for i, value in ipairs(wanted) do
    if got[i + 1] ~= value then self:complain(token, "got another value %d", i + 1) end
  end
end

--- Kinds of calls: function(caller, client, token, random) -> what is to come back, then pcall's.
local kinds = {}

function kinds.plain(_, client, token, random)
  local payload = string.char(random(97, 122)):rep(random(0, 300) + 1)
  return {#payload, payload:byte(), nils = 1}, pcall(client.work, client, token, payload)
end

function kinds.large(_, client, token, random)
  local payload = string.char(random(97, 122)):rep(random(1, 200000))
  return {#payload, payload:byte(), nils = 1}, pcall(client.work, client, token, payload)
end

function kinds.large_answer(_, client, token, random)
  local size = random(1, 100000)
  return {("r"):rep(size)}, pcall(client.large, client, token, size)
end

function kinds.future(_, client, token)
  return {1, ("f"):byte(), nils = 1}, pcall(function()
    return client.futures:work(token, "f"):result()
  end)
end

function kinds.cancelled(_, client, token, random)
  return {}, pcall(function()
    local future = client.futures:nap(token, random() * 0.01)
    lp.sleep(random() * 0.01)
    future:cancel()
    return future:result()
  end)
end

function kinds.late(_, client, token)
  local hasty = lp.with(client, {timeout = 0.005})
  return {}, pcall(hasty.nap, hasty, token, 0.004)
end

function kinds.raises(_, client, token)
  return {own = true}, pcall(client.raise, client, token)
end

function kinds.deferred(_, client, token) return {}, pcall(client.later, client, token) end

function kinds.back(self, client, token)
  return {"own " .. token}, pcall(client.back, client, token, self.me)
end

function kinds.hint(_, client, token)
  local ok, err = pcall(client.notify.hint, client.notify, token)
  if ok then return {}, true, token end
  return {}, ok, err
end

local names = {}
for name in pairs(kinds) do table.insert(names, name) end
table.sort(names)

--- A generator of its own for each task, so that one does not depend on another's turn.
local function generator(seed)
  local state = seed
  return function(low, high)
    state = (state * 6364136223846793005 + 1442695040888963407) & ~0
    local drawn = state >> 33
    if not low then return drawn / (1 << 31) end
    return low + drawn % (high - low + 1)
  end
end

function Caller:one(client, token, random)
  local name = random(1, 4) > 1 and "plain" or names[random(1, #names)]
  self.open[token] = name
  self:judge(token, kinds[name](self, client, token, random))
  self.open[token] = nil
end

local TASKS = 12

function Caller:task(number, share, seed)
  local random = generator(seed * 1000 + number)
  for i = 1, share do
    if not self.go_on:is_set() then
      self.running = self.running - 1
      self.go_on:wait()
      self.running = self.running + 1
    end
    local client = lp.with(self.servers[random(1, #self.servers)], {timeout = 0.5})
    self:one(client, ("%s/%d/%d"):format(lp.context().node, number, i), random)
  end
  self.running = self.running - 1
end

--- Begins, if it has not: the calls are made by tasks of its own, which a link that breaks does
-- not cancel.
function Caller:begin(me, calls, seed)
  if self.running then return end
  self.me, self.running = me, TASKS
  self.go_on:set()
  for i = 1, TASKS do lp.spawn(self.task, self, i, calls // TASKS, seed) end
end

--- Has the tasks rest, each after its call, until `resume`.
function Caller:rest() self.go_on:clear() end

function Caller:resume() self.go_on:set() end

--- Tasks that are at work still, what is wrong so far, what has ended how, and what is open.
function Caller:progress() return self.running, self.wrong, self.ended, self.open end

return {Server = Server, Caller = Caller, expected = expected, generator = generator}
