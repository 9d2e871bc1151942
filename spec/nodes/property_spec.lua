--- Values made at random come back bit by bit, over every kind of link. The seed of a failure is in
-- its message; PROPERTY_SEED and PROPERTY_ROUNDS look at others.

local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains = support.raised, support.contains

local seed = tonumber(os.getenv "PROPERTY_SEED") or 1
local rounds = tonumber(os.getenv "PROPERTY_ROUNDS") or 300

-- ---------------------------------------------------------------- values

--- `random(n)`: from 1 to n; `random()`: 64 bits.
local function generator(start)
  local state = start
  return function(n)
    state = state + 0x9e3779b97f4a7c15
    local x = state
    x = (x ~ x >> 30) * 0xbf58476d1ce4e5b9
    x = (x ~ x >> 27) * 0x94d049bb133111eb
    x = x ~ x >> 31
    return n and (x >> 1) % n + 1 or x
  end
end

local edges = {0, 1, 31, 32, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1 << 31, 1 << 32, 1 << 53,
               math.maxinteger}
local lengths = {0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536}
local floats = {0.0, -0.0, 1.0, -1.0, 0.1, 2.0 ^ 24, 2.0 ^ 53, -2.0 ^ 63, 2.0 ^ 64, 5e-324,
                2.2250738585072014e-308, 1.7976931348623157e308, 1 / 0, -1 / 0, 0 / 0, -(0 / 0)}

local make = {}

function make.integer(random)
  if random(2) == 1 then
    local near = edges[random(#edges)] + random(5) - 3
    return random(2) == 1 and near or -near
  end
  return random() >> random(64) - 1 -- as many of each width
end

function make.float(random)
  if random(2) == 1 then return floats[random(#floats)] end
  return (("<d"):unpack(("<i8"):pack(random()))) -- NaNs with payload, too
end

function make.string(random)
  local length = random(12) == 1 and lengths[random(#lengths)] + random(3) - 2 or random(40) - 1
  local piece = ("<i8i8"):pack(random(), random())
  return piece:rep(math.max(0, length) // 16 + 1):sub(1, math.max(0, length))
end

function make.boolean(random) return random(2) == 1 end

make["nil"] = function() end

local leaves = {"integer", "float", "string", "boolean"}

local function leaf(random)
  return make[leaves[random(#leaves)]](random)
end

local function key(random)
  local value = leaf(random)
  if value ~= value then return "nan" end
  return value
end

local value

function make.array(random, depth)
  local t = {}
  local n = random(30) == 1 and 14 + random(4) or random(6) - 1
  for i = 1, n do t[i] = value(random, depth - 1) end
  return t
end

function make.map(random, depth)
  local t = lp.map {}
  for _ = 1, random(6) - 1 do t[key(random)] = value(random, depth - 1) end
  return t
end

--- Some of both, and holes.
function make.mixed(random, depth)
  local t = make.array(random, depth)
  for _ = 1, random(3) do t[key(random)] = value(random, depth - 1) end
  if #t > 1 then t[random(#t)] = nil end
  return t
end

local branches = {"array", "map", "mixed"}

function value(random, depth)
  if depth > 0 and random(3) == 1 then return make[branches[random(3)]](random, depth) end
  return leaf(random)
end

--- Arguments of a call, nils among them and behind them.
local function arguments(random)
  local list = {n = random(6) - 1}
  for i = 1, list.n do
    if random(5) > 1 then list[i] = value(random, 5) end
  end
  return list
end

-- ---------------------------------------------------------------- comparing

local function count(t)
  local n = 0
  for _ in next, t do n = n + 1 end
  return n
end

local function show(x)
  if type(x) == "string" then return ("%q"):format(x:sub(1, 40)) end
  if math.type(x) == "float" then return ("%a (%s)"):format(x, ("<d"):pack(x):gsub(".", function(c)
    return ("%02x"):format(c:byte())
  end)) end
  return tostring(x)
end

--- Where and how `b` differs from `a`, in words; nil: not at all.
local function difference(a, b, path)
  if type(a) ~= type(b) or math.type(a) ~= math.type(b) then
    return ("%s: %s %s became %s %s"):format(path, math.type(a) or type(a), show(a),
                                             math.type(b) or type(b), show(b))
  end
  if type(a) == "table" then
    if count(a) ~= count(b) then return ("%s: %d fields became %d"):format(path, count(a), count(b)) end
    local marked = count(a) == 0 and getmetatable(a) or nil
    if getmetatable(b) ~= marked then return path .. ": the mark of a map differs" end
    for k, v in next, a do
      local found = difference(v, rawget(b, k), ("%s[%s]"):format(path, show(k)))
      if found then return found end
    end
  elseif math.type(a) == "float" then
    if ("<d"):pack(a) ~= ("<d"):pack(b) then return ("%s: %s became %s"):format(path, show(a), show(b)) end
  elseif a ~= b then
    return ("%s: %s became %s"):format(path, show(a), show(b))
  end
end

-- ---------------------------------------------------------------- nodes

local piece = ("x"):rep(1 << 16)

--- Many bytes, in few steps.
local function long(n)
  return piece:rep(n >> 16) .. piece:sub(1, n & 0xffff)
end

local Echo = {}
Echo.__index = Echo
function Echo.new() return setmetatable({}, Echo) end
function Echo:echo(...) return ... end
function Echo:size(text) return #text, text:sub(1, 1), text:sub(-1) end
function Echo:text(n) return long(n) end

--- Sends from where it is, which may be the other's own loop.
local Sender = {}
Sender.__index = Sender
function Sender.new(echo) return setmetatable({echo = echo}, Sender) end

function Sender:compare(list, path)
  local back = table.pack(self.echo:echo(table.unpack(list, 1, list.n)))
  if back.n ~= list.n then return ("%s: %d values became %d"):format(path, list.n, back.n) end
  for i = 1, list.n do
    local found = difference(list[i], back[i], path .. " value " .. i)
    if found then return found end
  end
end

function Sender:at_random(start, times)
  for round = 1, times do
    local found = self:compare(arguments(generator(start * 100000 + round)), "round " .. round)
    if found then return found end
  end
end

--- Every integer from `low` to `high`, in arrays.
function Sender:integers(low, high)
  for from = low, high, 5000 do
    local t = {}
    for i = from, math.min(high, from + 4999) do t[#t + 1] = i end
    local found = self:compare({t, n = 1}, "from " .. from)
    if found then return found end
  end
end

--- The powers of two and what is around them, as integers and as floats.
function Sender:powers()
  for power = 0, 63 do
    local t = {}
    for d = -40, 40 do
      for _, i in ipairs {(1 << power) + d, -(1 << power) + d} do
        t[#t + 1] = i
        t[#t + 1] = i + 0.0
        t[#t + 1] = (i + 0.0) * 2.0 ^ -power
      end
    end
    local found = self:compare({t, n = 1}, "power " .. power)
    if found then return found end
  end
end

--- Strings, arrays and maps of every length around those where their form changes.
function Sender:sizes()
  local list = {}
  for i = 0, 40 do list[#list + 1] = i end
  for _, size in ipairs {254, 255, 256, 257, 65535, 65536} do list[#list + 1] = size end
  for _, size in ipairs(list) do
    local array, map = {}, lp.map {}
    for i = 1, size do array[i] = i end
    if size ~= 65535 then -- slow, and the other side of the edge is enough
      for i = 1, size do map[i + 0.5] = i end
    end
    local found = self:compare({long(size), array, map, n = 3}, "size " .. size)
    if found then return found end
  end
end

--- The first error of sending what `what` says, as code and message.
function Sender:refused(what, n)
  local cases = {
    large = function() return long(n) end,
    inner = function() return {env = {deep = {long(n)}}} end,
    nested = function()
      local t = {}
      for _ = 2, n do t = {t} end
      return t
    end,
    looped = function()
      local t = {inner = {}}
      t.inner.outer = t
      return t
    end,
  }
  local ok, err = pcall(self.echo.echo, self.echo, 1, cases[what]())
  if ok then return "sent" end
  return err.code, err.message
end

function Sender:large(bytes) return self.echo:size(long(bytes)) end
function Sender:large_answer(bytes) return #self.echo:text(bytes) end

--- The rule of each refusal, as the first link told it.
local told = {}

local function check(title, place, options)
  describe(title, function()
    local function with_sender(use)
      place(function(program)
        local function placed(node) return options and node:options(options) or node end
        local echo = program:add_node(placed(lp.CourierNode(Echo)), "echo")
        return (program:add_node(placed(lp.CourierNode(Sender, echo)), "sender"))
      end, use)
    end

    it("made at random come back bit by bit (seed " .. seed .. ")", function()
      with_sender(function(sender)
        local found = sender:at_random(seed, rounds)
        assert(not found, ("seed %d: %s"):format(seed, found))
      end)
    end)

    it("at the edges of every form come back as they were", function()
      with_sender(function(sender)
        for _, range in ipairs {{-33000, -32500}, {-300, 700}, {32500, 33000}, {65000, 66000}} do
          assert.is_nil(sender:integers(range[1], range[2]))
        end
        assert.is_nil(sender:powers())
        assert.is_nil(sender:sizes())
      end)
    end)

    it("are refused for size and depth by the same rule on every link", function()
      with_sender(function(sender)
        for _, case in ipairs {{"large", 100 << 20}, {"inner", 65 << 20}, {"nested", 201},
                               {"looped", 0}} do
          local what, n = table.unpack(case)
          local code, message = sender:refused(what, n)
          local rule = code .. ": " .. message
          told[what] = told[what] or rule
          assert.equal(told[what], rule)
        end
        contains("resource_exhausted", told.large)
        contains("> limit 67108864", told.large)
        contains("> limit 67108864", told.inner)
        contains("nested deeper than 200", told.nested)
        contains("argument 2", told.nested)
        contains(".inner.outer", told.looped)
        assert.equal("sent", (sender:refused("nested", 200)))
      end)
    end)

    it("of sixty megabytes pass, both ways", function()
      with_sender(function(sender)
        assert.same({60000000, "x", "x"}, {sender:large(60000000)})
        assert.equal(60000000, sender:large_answer(60000000))
        contains("message too large", raised(sender.large_answer, sender, 100 << 20))
      end)
    end)
  end)
end

check("values between threads", support.place "test_mt")
check("values between processes", support.place "test_mp")
check("values on one loop", support.place "test_mt", {loop = "shared"})
