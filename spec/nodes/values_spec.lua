local lp = require "lp"
local support = require "spec.nodes.support"
local raised, contains, serve = support.raised, support.contains, support.serve

local Server = {}
Server.__index = Server

function Server.new() return setmetatable({}, Server) end
function Server:echo(...) return ... end

--- What arrived, in words that no encoding could have changed.
function Server:describe(...)
  local words = {}
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    local kind = math.type(value) or type(value)
    if kind == "float" or kind == "integer" then value = ("%q"):format(value) end
    words[i] = kind .. " " .. tostring(value)
  end
  return words
end

function Server:sum(bytes)
  local sum = 0
  for i = 1, #bytes do sum = (sum * 31 + bytes:byte(i)) & 0xffffffff end
  return #bytes, sum
end

function Server:make(what)
  if what == "function" then return {1, {x = print}} end
  if what == "cycle" then
    local t = {}
    t.t = t
    return 1, t
  end
  if what == "coroutine" then return coroutine.create(print) end
  if what == "large" then return ("x"):rep(65 << 20) end
end

local function echo(place, ...)
  local values = table.pack(...)
  serve(place, Server, function(server)
    local back = table.pack(server:echo(table.unpack(values, 1, values.n)))
    assert.equal(values.n, back.n)
    for i = 1, values.n do
      assert.equal(math.type(values[i]), math.type(back[i]))
      if values[i] == values[i] then
        assert.equal(("%q"):format(values[i]), ("%q"):format(back[i]))
      end
    end
  end)
end

support.each(describe, "values", function(place)
  it("that are integers stay themselves at every boundary of a format", function()
    local list = {}
    for _, n in ipairs {0, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2^31 // 1 | 0, 2^32 // 1 | 0,
                        1 << 53, math.maxinteger} do
      for d = -1, 1 do
        list[#list + 1] = n + d
        list[#list + 1] = -n + d
        list[#list + 1] = -33 + d
      end
    end
    echo(place, table.unpack(list))
  end)

  it("that are floats stay floats, the odd ones too", function()
    local function bits(x) return ("<d"):pack(x) end
    serve(place, Server, function(server)
      for _, x in ipairs {0.0, -0.0, 1.0, -1.0, 2.0 ^ 53, 0.1, 5e-324, 1.7976931348623157e308, 1 / 0,
                          -1 / 0, 1e15} do
        local back = server:echo(x)
        assert.equal("float", math.type(back))
        assert.equal(bits(x), bits(back))
      end
      local nan = server:echo(0 / 0)
      assert.is_true(nan ~= nan)
      assert.same({"float 0x1p+0", "integer 1", "float -0x0p+0", "nil nil", "boolean true"},
                  server:describe(1.0, 1, -0.0, nil, true))
    end)
  end)

  it("that are strings are bytes, from none to a mebibyte", function()
    local every = {}
    for i = 0, 255 do every[i + 1] = string.char(i) end
    every = table.concat(every)
    serve(place, Server, function(server)
      for _, length in ipairs {0, 1, 31, 32, 255, 256, 65535, 65536, 1 << 20} do
        local text = every:rep(length // 256 + 1):sub(1, length)
        assert.equal(text, (server:echo(text)))
        assert.equal(length, (server:sum(text)))
      end
      assert.equal("\xff\0\xc3", (server:echo "\xff\0\xc3"))
      assert.same({[""] = 1, ["\0"] = 2, ["\xff"] = 3}, server:echo {[""] = 1, ["\0"] = 2, ["\xff"] = 3})
    end)
  end)

  it("that are tables keep their keys", function()
    serve(place, Server, function(server)
      for _, t in ipairs {{}, {1, 2, 3}, {a = 1}, {["1"] = 1}, {[1] = 1, ["2"] = 2}, {[0] = 1}, {[2] = 1},
                          {[-1] = 1, [1.5] = 2, [true] = 3, [false] = 4}, {{{}}, {a = {}}},
                          {[math.maxinteger] = 1, [math.mininteger] = 2}} do
        assert.same(t, (server:echo(t)))
      end
      local long = {}
      for i = 1, 70000 do long[i] = i end
      assert.same(long, (server:echo(long)))
    end)
  end)

  it("that are tables are taken raw, without metatable", function()
    serve(place, Server, function(server)
      local odd = setmetatable({1, a = 2}, {__index = {b = 3}, __len = function() return 9 end,
                                            __pairs = error})
      local back = server:echo(odd)
      assert.same({1, a = 2}, back)
      assert.is_nil(getmetatable(back))
    end)
  end)

  it("that are empty tables are arrays unless marked, and maps keep the mark", function()
    serve(place, Server, function(server)
      local map = getmetatable(lp.map {})
      assert.equal(map, getmetatable(server:echo(lp.map {})))
      assert.is_nil(getmetatable(server:echo {}))
      assert.equal(map, getmetatable(server:echo({inner = lp.map {}}).inner))
    end)
  end)

  it("nest to two hundred levels", function()
    local function nested(levels)
      local t = {}
      for _ = 2, levels do t = {t} end
      return t
    end
    serve(place, Server, function(server)
      assert.same(nested(200), (server:echo(nested(200))))
      contains("argument 1", raised(server.echo, server, nested(201)))
    end)
  end)

  it("met twice are sent twice", function()
    serve(place, Server, function(server)
      local part = {1}
      local back, other = server:echo({a = part, b = part}, part)
      assert.same({a = {1}, b = {1}}, back)
      assert.same({1}, other)
      assert.is_false(rawequal(back.a, back.b))
    end)
  end)

  it("that cannot be sent are refused at the caller, with the path", function()
    serve(place, Server, function(server)
      local cycle = {}
      cycle.deep = {cycle}
      local cases = {
        {"argument 1: cannot send a function", print},
        {"argument 3: .env.socket: cannot send a userdata (FILE*)", 1, 2,
         {env = {socket = io.tmpfile()}}},
        {"argument 1: cannot send a coroutine", coroutine.create(print)},
        {"argument 1: .deep[1]", cycle},
        {"argument 2: cannot send a userdata (lp.Future)", 1, lp.spawn(print)},
      }
      for _, case in ipairs(cases) do
        local err = raised(server.echo, server, table.unpack(case, 2))
        assert.equal("invalid_argument", err.code)
        contains(case[1], err)
      end
      assert.equal(1, server:echo(1))
    end)
  end)

  it("that cannot be results fail the call, naming the result", function()
    serve(place, Server, function(server)
      contains("result 1: [2].x: cannot send a function", raised(server.make, server, "function"))
      contains("result 2: .t", raised(server.make, server, "cycle"))
      contains("result 1", raised(server.make, server, "coroutine"))
      contains("server/0", raised(server.make, server, "coroutine").node)
      assert.equal(1, server:echo(1))
    end)
  end)

  it("too large to send fail their call, in both directions, and later calls work", function()
    serve(place, Server, function(server)
      local large = ("x"):rep(65 << 20)
      for _, way in ipairs {server, server.futures, server.notify} do
        local err = raised(way.echo, way, large)
        assert.equal("resource_exhausted", err.code)
        contains("message too large", err)
      end
      large = nil -- luacheck: ignore
      local err = raised(server.make, server, "large")
      assert.equal("resource_exhausted", err.code)
      contains("message too large", err)
      assert.equal(1, server:echo(1))
    end)
  end)

  it("more than ten thousand of them in one call are refused", function()
    serve(place, Server, function(server)
      local list = {}
      for i = 1, 10001 do list[i] = i end
      contains("10001", raised(server.echo, server, table.unpack(list)))
      assert.equal(10000, select("#", server:echo(table.unpack(list, 1, 10000))))
    end)
  end)
end)

-- ---------------------------------------------------------------- clients and handles

local Friend = {}
Friend.__index = Friend
function Friend.new(name) return setmetatable({name = name}, Friend) end
function Friend:who() return self.name end
function Friend:ask(other) return other:who() end
function Friend:ask_later(other)
  self.other = other
  return true
end
function Friend:remembered() return self.other:who() end
function Friend:keep(...) self.kept = {...} end
function Friend:give() return self.kept[1], {deep = self.kept[1]} end

support.each(describe, "clients and handles", function(place)
  local function friends(use)
    place(function(program)
      local a = program:add_node(lp.CourierNode(Friend, "a"), "a")
      local b = program:add_node(lp.CourierNode(Friend, "b"), "b")
      local c = program:add_node(lp.CourierNode(Friend, "c"), "c")
      return a, b, c
    end, use)
  end

  it("are arguments that work in the receiver", function()
    friends(function(a, b, c)
      assert.equal("b", a:ask(b))
      assert.equal("a", a:ask(a))
      assert.is_true(b:ask_later(c))
      assert.equal("c", b:remembered())
      assert.equal("c", a:ask(b.futures:who() and c))
    end)
  end)

  it("are results, also within tables", function()
    friends(function(a, b)
      a:keep(b)
      local direct, within = a:give()
      assert.equal("b", direct:who())
      assert.equal("b", within.deep:who())
    end)
  end)

  it("travel as handles from where the graph was built", function()
    local handle
    place(function(program)
      handle = program:add_node(lp.CourierNode(Friend, "b"), "b")
      return program:add_node(lp.CourierNode(Friend, "a"), "a")
    end, function(a)
      assert.equal("b", a:ask(handle))
      a:keep(lp.with(handle, {timeout = 10}))
      assert.equal("b", (a:give()):who())
    end)
  end)

  it("can be made while the last one of the same node is being collected", function()
    local Maker = {}
    Maker.__index = Maker
    function Maker.new(friend) return setmetatable({friend = friend}, Maker) end
    function Maker:churn(n)
      self.friend = nil
      local setting = {collectgarbage("setpause", 1), collectgarbage("setstepmul", 1000)}
      for _ = 1, n do self:pass(require("lp.core").client("no/node", "x")) end
      collectgarbage("setpause", setting[1])
      collectgarbage("setstepmul", setting[2])
      return true
    end
    function Maker:pass() self.passed = (self.passed or 0) + 1 end
    place(function(program)
      local friend = program:add_node(lp.CourierNode(Friend, "b"), "b")
      return program:add_node(lp.CourierNode(Maker, friend), "maker")
    end, function(maker) assert.is_true(maker:churn(20000)) end)
  end)

  it("of nodes that were never launched are refused", function()
    local stray = lp.Program("stray"):add_node(lp.CourierNode(Friend, "x"), "x")
    friends(function(a)
      contains("not been launched", raised(a.ask, a, stray))
    end)
  end)
end)

-- ---------------------------------------------------------------- classes

support.each(describe, "instances of registered classes", function(place)
  it("arrive as instances when the class is carried to the node", function()
    local Point = {}
    Point.__index = Point
    function Point:length() return (self.x ^ 2 + self.y ^ 2) ^ 0.5 end
    lp.register("nodes.Point." .. place.launch_type, Point)
    local name = "nodes.Point." .. place.launch_type
    serve(place, function()
      lp.register(name, Point)
      return {
        length = function(_, point) return point:length() end,
        scale = function(_, point, by)
          return setmetatable({x = point.x * by, y = point.y * by}, Point)
        end,
      }
    end, function(server)
      local point = setmetatable({x = 3, y = 4}, Point)
      assert.equal(5.0, server:length(point))
      assert.equal(10.0, server:scale(point, 2):length())
    end)
  end)

  it("go through pack and unpack, whose failure fails the call only", function()
    local Money = {}
    Money.__index = Money
    local name = "nodes.Money." .. place.launch_type
    local rule = {
      pack = function(money)
        if money.cents < 0 then error("no debts", 0) end
        return money.cents, money.currency
      end,
      unpack = function(cents, currency)
        if cents == 13 then error("unlucky", 0) end
        return setmetatable({cents = cents, currency = currency}, Money)
      end,
    }
    lp.register(name, Money, rule)
    serve(place, function()
      lp.register(name, Money, rule)
      return {double = function(_, money)
        return setmetatable({cents = money.cents * 2, currency = money.currency}, Money)
      end}
    end, function(server)
      local function euro(cents) return setmetatable({cents = cents, currency = "EUR"}, Money) end
      local back = server:double(euro(50))
      assert.equal(Money, getmetatable(back))
      assert.same({cents = 100, currency = "EUR"}, {cents = back.cents, currency = back.currency})
      contains("no debts", raised(server.double, server, euro(-1)))
      contains("unlucky", raised(server.double, server, euro(13)))
      assert.equal(4, server:double(euro(2)).cents)
    end)
  end)

  it("are carried with their class, which is registered where they arrive", function()
    local Unit = {}
    Unit.__index = Unit
    function Unit:name() return self.label end
    lp.register("nodes.Unit." .. place.launch_type, Unit)
    local constant = setmetatable({label = "metre"}, Unit)
    serve(place, function()
      return {name = function(_, unit) return (unit or constant):name() end}
    end, function(server)
      assert.equal("metre", server:name())
      assert.equal("foot", server:name(setmetatable({label = "foot"}, Unit)))
    end)
  end)
end)
