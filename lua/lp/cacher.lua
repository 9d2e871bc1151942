--- What runs in an lp.CacherNode: it takes the place of another node and remembers that one's answers.
-- A call of the same method with equal arguments is answered from memory for `ttl` seconds; while
-- the first of them is under way the others wait for its answer, so that the node behind is
-- asked once. Errors reach all who waited and are not remembered.
-- @module lp.cacher

local core = require "lp.core"

local Cacher = {}
Cacher.__index = Cacher

local function order(a, b)
  local first, second = math.type(a) or type(a), math.type(b) or type(b)
  if first ~= second then return first < second end
  if type(a) == "number" or type(a) == "string" then return a < b end
  return tostring(a) < tostring(b)
end

--- Appends a value as bytes to `out`; equal tables give equal bytes, whatever order they were
-- filled in.
local function spell(value, out)
  if type(value) ~= "table" then
    out[#out + 1] = core.pack(value)
    return
  end
  local keys = {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, order)
  out[#out + 1] = "{" .. #keys
  for _, key in ipairs(keys) do
    spell(key, out)
    spell(value[key], out)
  end
end

local function key_of(method, args)
  local out = {core.pack(method), args.n}
  for i = 1, args.n do spell(args[i], out) end
  return table.concat(out, " ")
end

--- @param target client of the node behind
-- @tparam table given `ttl` (seconds), `max_entries`
function Cacher.new(target, given)
  return setmetatable({
    target = target, ttl = given.ttl, most = given.max_entries,
    entries = {},           -- key -> entry, kept or under way
    kept = {}, first = 1, last = 0, -- kept entries in the order in which they expire
  }, Cacher)
end

local function forget_first(self)
  local entry = self.kept[self.first]
  self.kept[self.first] = nil
  self.first = self.first + 1
  if self.entries[entry.key] == entry then self.entries[entry.key] = nil end
end

--- Drops what has expired, and the oldest when there are too many.
local function tidy(self)
  local now = core.now()
  while self.first <= self.last and (self.kept[self.first].expires <= now or
                                     self.last - self.first >= self.most) do
    forget_first(self)
  end
end

local function keep(self, entry)
  entry.expires = core.now() + self.ttl
  self.last = self.last + 1
  self.kept[self.last] = entry
  tidy(self)
end

--- Asks the node behind, in a task of its own: who asked first may give up before the others do.
local function begin(self, key, method, args)
  local entry = {key = key, done = require("lp.sync").Event()}
  self.entries[key] = entry
  core.start(function()
    entry.answer = table.pack(pcall(core.call, self.target, method, table.unpack(args, 1, args.n)))
    if entry.answer[1] and self.ttl > 0 then keep(self, entry) else self.entries[key] = nil end
    entry.done:set()
  end)
  return entry
end

--- Not a method: those of the cacher are those of the node behind.
local function answer(self, method, ...)
  tidy(self)
  local args = table.pack(...)
  local key = key_of(method, args)
  local entry = self.entries[key] or begin(self, key, method, args)
  entry.done:wait()
  local found = entry.answer
  if not found[1] then error(found[2], 0) end
  return table.unpack(found, 2, found.n)
end

--- All methods are answered; those that the node behind lists are listed here, too.
function Cacher:set_courier_server(server)
  server:bind("*", function(method, ...) return answer(self, method, ...) end)
  server:start()
  core.start(function()
    local ok, names = pcall(core.list_methods, self.target)
    if not ok then return end -- a node that does not come: calls say so
    for _, name in ipairs(names) do
      server:bind(name, function(...) return answer(self, name, ...) end)
    end
  end)
end

return Cacher
