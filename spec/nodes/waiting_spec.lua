local lp = require "lp"
local support = require "spec.nodes.support"
local contains, serve = support.contains, support.serve

--- A friend to call, and a node that calls it from odd places.
local Friend = {}
Friend.__index = Friend
function Friend.new() return setmetatable({}, Friend) end
function Friend:double(n) lp.sleep(0.001) return 2 * n end
function Friend:fail(text) lp.sleep(0.001) error(text, 0) end

local Caller = {}
Caller.__index = Caller
function Caller.new(friend) return setmetatable({friend = friend}, Caller) end

function Caller:in_pcall()
  local results = {pcall(self.friend.double, self.friend, 1)}
  local ok, err = pcall(self.friend.fail, self.friend, "no")
  return results, ok, tostring(err), select(2, xpcall(function() return self.friend:double(2) end, print))
end

function Caller:in_metamethods()
  local friend = self.friend
  local object = setmetatable({}, {
    __index = function(_, n) return friend:double(n) end,
    __newindex = function(t, k, v) rawset(t, k, friend:double(v)) end,
    __add = function(_, n) return friend:double(n) end,
    __lt = function() return friend:double(1) == 2 end,
    __eq = function() return friend:double(1) == 2 end,
    __concat = function(_, text) return friend:double(4) .. text end,
    __len = function() return friend:double(5) end,
    __unm = function() return friend:double(6) end,
    __call = function(_, n) return friend:double(n) end,
  })
  local other = setmetatable({}, getmetatable(object))
  object.new = 10
  return {object[1], object + 2, object < other, object == other, object .. "!", #object, -object,
          object(7), rawget(object, "new")}
end

function Caller:in_iterators()
  local friend, sum = self.friend, 0
  local object = setmetatable({}, {__pairs = function()
    local first = friend:double(0)
    return function(_, n) if n < 3 then return n + 1, friend:double(n) end end, nil, first
  end})
  for _, value in pairs(object) do sum = sum + value end
  local function count(_, n) n = friend:double(n) if n < 20 then return n end end
  for n in count, nil, 1 do sum = sum + n end
  return sum
end

function Caller:in_close()
  local seen = {}
  do
    local _ <close> = setmetatable({}, {__close = function() seen[1] = self.friend:double(1) end})
  end
  pcall(function()
    local _ <close> = setmetatable({}, {__close = function(_, err)
      seen[2] = self.friend:double(2) .. tostring(err)
    end})
    error("closing", 0)
  end)
  local closing = setmetatable({}, {__close = function() seen[3] = self.friend:double(3) end})
  for n in function(_, last) return (last or 0) + 1 end, nil, nil, closing do
    if n == 2 then break end
  end
  return seen
end

function Caller:in_coroutines()
  local friend = self.friend
  local function each(n)
    return coroutine.wrap(function()
      for i = 1, n do coroutine.yield(friend:double(i), i) end
      return "end"
    end)
  end
  local list, outer = {}, each(3)
  for _ = 1, 4 do list[#list + 1] = outer() end
  local nested = coroutine.wrap(function()
    local inner = coroutine.wrap(function(...)
      coroutine.yield(friend:double(10), ...)
      return friend:double(20)
    end)
    coroutine.yield(inner("arg"))
    coroutine.yield(inner())
    lp.sleep(0.001)
    return "after"
  end)
  list[#list + 1] = select("#", nested())
  list[#list + 1] = nested()
  list[#list + 1] = nested()
  return list
end

function Caller:in_load_and_dofile()
  local name = os.tmpname()
  local file <close> = assert(io.open(name, "w"))
  file:write("local friend = ... or FRIEND return friend:double(21)")
  file:flush()
  FRIEND = self.friend -- luacheck: ignore
  local value, other = dofile(name), load("return FRIEND:double(4)")()
  FRIEND = nil -- luacheck: ignore
  os.remove(name)
  return value, other
end

function Caller:in_require()
  local friend, runs = self.friend, 0
  package.preload["spec.waiting.module"] = function(...)
    runs = runs + 1
    return {value = friend:double(8), arguments = {...}}
  end
  local others = {}
  for i = 1, 3 do
    others[i] = lp.spawn(function() return require("spec.waiting.module").value end)
  end
  local values = lp.gather(others)
  package.preload["spec.waiting.broken"] = function() friend:fail("broken module") end
  local first, text = pcall(require, "spec.waiting.broken")
  local again = pcall(require, "spec.waiting.broken")
  return runs, values, first, tostring(text), again
end

function Caller:in_a_circle_of_modules()
  package.preload["spec.circle.a"] = function()
    return coroutine.wrap(function() return require "spec.circle.b" end)()
  end
  package.preload["spec.circle.b"] = function() return {a = require "spec.circle.a"} end
  return type(require("spec.circle.a").a)
end

local function place_of(fn, ...)
  local ok, err = pcall(fn, ...)
  return ok, tostring(err)
end

function Caller:where_lua_cannot(place)
  local friend = self.friend
  local function ask() return friend:double(1) end
  local places = {
    sort = function() table.sort({3, 1, 2}, function(a, b) return ask() and a < b end) end,
    gsub = function() return (("x"):gsub("x", ask)) end,
    tostring = function() return tostring(setmetatable({}, {__tostring = ask})) end,
    concat = function()
      return table.concat(setmetatable({}, {__index = ask, __len = function() return 2 end}))
    end,
    load = function()
      local result, message = load(function() return ask() end)
      error(result or message, 0)
    end,
    future = function()
      local future = friend.futures:double(1)
      table.sort({2, 1}, function() return future:result() end)
    end,
    sleep = function() return (("x"):gsub("x", function() lp.sleep(0.01) end)) end,
    sort_in_coroutine = function()
      coroutine.wrap(function() table.sort({2, 1}, ask) end)()
    end,
    coroutine_in_sort = function()
      table.sort({2, 1}, function() return coroutine.wrap(ask)() end)
    end,
    close_of_coroutine = function()
      local co = coroutine.create(function()
        local _ <close> = setmetatable({}, {__close = ask})
        coroutine.yield()
      end)
      coroutine.resume(co)
      local ok, err = coroutine.close(co)
      if not ok then error(err, 0) end
    end,
  }
  return place_of(places[place])
end

function Caller:in_gc()
  local seen
  setmetatable({}, {__gc = function()
    seen = tostring(select(2, pcall(self.friend.double, self.friend, 1)))
  end})
  collectgarbage()
  collectgarbage()
  return seen
end

function Caller:in_message_handler()
  local ok, value = xpcall(error, function()
    return tostring(select(2, pcall(self.friend.double, self.friend, 1)))
  end, "x")
  return ok, value
end

function Caller:still_there() return self.friend:double(50) end

support.each(describe, "waiting", function(place)
  local function caller(use)
    place(function(program)
      local friend = program:add_node(lp.CourierNode(Friend), "friend")
      return program:add_node(lp.CourierNode(Caller, friend), "caller")
    end, use)
  end

  it("works inside pcall and xpcall", function()
    caller(function(node)
      local results, ok, text, value = node:in_pcall()
      assert.same({true, 2}, results)
      assert.same({false, "no", 4}, {ok, text, value})
    end)
  end)

  it("works inside metamethods", function()
    caller(function(node)
      assert.same({2, 4, true, true, "8!", 10, 12, 14, 20}, (node:in_metamethods()))
    end)
  end)

  it("works inside iterators and __pairs", function()
    caller(function(node) assert.equal(0 + 2 + 4 + 2 + 4 + 8 + 16, node:in_iterators()) end)
  end)

  it("works inside __close, after an error too", function()
    caller(function(node) assert.same({2, "4closing", 6}, (node:in_close())) end)
  end)

  it("works inside coroutines, whose own yields stay theirs", function()
    caller(function(node)
      assert.same({2, 4, 6, "end", 2, 40, "after"}, (node:in_coroutines()))
    end)
  end)

  it("works inside dofile and loaded chunks", function()
    caller(function(node) assert.same({42, 8}, {node:in_load_and_dofile()}) end)
  end)

  it("works inside the body of a module, which runs once however many require it", function()
    caller(function(node)
      local runs, values, first, text, again = node:in_require()
      assert.equal(1, runs)
      assert.same({16, 16, 16, n = 3}, values)
      assert.is_false(first)
      contains("broken module", text)
      assert.is_false(again)
    end)
  end)

  it("for a module that requires itself in a circle, within a coroutine, does not happen", function()
    caller(function(node) assert.equal("boolean", node:in_a_circle_of_modules()) end)
  end)

  for name, words in pairs {
    sort = "'sort'", gsub = "'gsub'", tostring = "'tostring'", concat = "'concat'",
    load = "'load'", future = "'sort'", sleep = "'gsub'", sort_in_coroutine = "'sort'",
    coroutine_in_sort = "'sort'", close_of_coroutine = "'close'",
  } do
    it("where Lua cannot is refused, naming the place and the remedy: " .. name, function()
      caller(function(node)
        local ok, text = node:where_lua_cannot(name)
        assert.is_false(ok)
        contains("cannot wait inside " .. words, text)
        contains("lp.spawn", text)
        assert.equal(100, node:still_there())
      end)
    end)
  end

  it("in a finalizer is refused", function()
    caller(function(node)
      contains("cannot wait", node:in_gc())
      assert.equal(100, node:still_there())
    end)
  end)

  it("in a message handler is refused", function()
    caller(function(node)
      local ok, text = node:in_message_handler()
      assert.is_false(ok)
      contains("cannot wait", text)
      assert.equal(100, node:still_there())
    end)
  end)
end)

-- ---------------------------------------------------------------- coroutines of a node

local Coroutines = {}
Coroutines.__index = Coroutines
function Coroutines.new() return setmetatable({}, Coroutines) end

function Coroutines:status()
  local seen, outer = {}, nil
  local function note(...) for i = 1, select("#", ...) do seen[#seen + 1] = (select(i, ...)) end end
  outer = coroutine.create(function()
    note(coroutine.status(outer), coroutine.isyieldable())
    local inner = coroutine.create(function() note(coroutine.status(outer)) end)
    coroutine.resume(inner)
    note(coroutine.status(inner))
    coroutine.yield()
  end)
  note(coroutine.status(outer), coroutine.isyieldable())
  coroutine.resume(outer)
  note(coroutine.status(outer))
  note(coroutine.close(outer), coroutine.status(outer))
  local _, is_main = coroutine.running()
  note(is_main, coroutine.isyieldable(outer))
  coroutine.wrap(function() note((select(2, coroutine.running()))) end)()
  return seen
end

function Coroutines:misuse()
  local texts = {}
  local function note(fn, ...) texts[#texts + 1] = tostring(select(2, pcall(fn, ...))) end
  local dead = coroutine.create(function() end)
  coroutine.resume(dead)
  texts[1] = select(2, coroutine.resume(dead))
  texts[2] = select(2, coroutine.resume(coroutine.running()))
  note(coroutine.yield)
  note(coroutine.close, coroutine.running())
  local wrapped = coroutine.wrap(function() end)
  wrapped()
  note(wrapped)
  note(coroutine.create, 1)
  note(coroutine.resume, 1)
  return texts
end

function Coroutines:waiting()
  local seen = {}
  local co = coroutine.create(function() lp.sleep(0.02) return "value" end)
  local task = lp.spawn(function() return coroutine.resume(co) end)
  lp.yield()
  seen[1] = coroutine.status(co)
  seen[2], seen[3] = coroutine.resume(co)
  seen[4] = tostring(select(2, pcall(coroutine.close, co)))
  local _, value = task:result()
  seen[5], seen[6] = value, coroutine.status(co)
  return seen
end

function Coroutines:values(...)
  local co = coroutine.create(function(...)
    local got = table.pack(coroutine.yield(...))
    lp.sleep(0.001)
    return table.unpack(got, 1, got.n)
  end)
  local first = table.pack(coroutine.resume(co, ...))
  local second = table.pack(coroutine.resume(co, nil, 2, nil))
  return first.n, second.n, second[3]
end

function Coroutines:closing()
  local closed = {}
  local function scoped(name, body)
    return coroutine.create(function()
      local _ <close> = setmetatable({}, {__close = function(_, err) closed[name] = tostring(err) end})
      body()
    end)
  end
  local waiting = scoped("suspended", coroutine.yield)
  coroutine.resume(waiting)
  coroutine.close(waiting)
  local failing = scoped("failing", function() lp.sleep(0.001) error("oh", 0) end)
  local ok, err = coroutine.resume(failing)
  local closed_ok = coroutine.close(failing)
  pcall(coroutine.wrap(function()
    local _ <close> = setmetatable({}, {__close = function(_, e) closed.wrapped = tostring(e) end})
    error("wrap", 0)
  end))
  return closed, ok, err, closed_ok
end

support.each(describe, "coroutines of a node", function(place)
  it("have the states of stock Lua", function()
    serve(place, Coroutines, function(node)
      assert.same({"suspended", false, "running", true, "normal", "dead", "suspended", true, "dead",
                   true, true, false}, (node:status()))
    end)
  end)

  it("refuse misuse with the words of stock Lua", function()
    serve(place, Coroutines, function(node)
      local texts = node:misuse()
      assert.equal("cannot resume dead coroutine", texts[1])
      assert.equal("cannot resume non-suspended coroutine", texts[2])
      contains("attempt to yield from outside a coroutine", texts[3])
      contains("cannot close a running coroutine", texts[4])
      contains("cannot resume dead coroutine", texts[5])
      contains("function expected", texts[6])
      contains("coroutine expected", texts[7])
    end)
  end)

  it("that wait in the engine cannot be resumed or closed by others", function()
    serve(place, Coroutines, function(node)
      local seen = node:waiting()
      assert.equal("normal", seen[1])
      assert.is_false(seen[2])
      contains("waits in the engine", seen[3])
      contains("cannot close a normal coroutine", seen[4])
      assert.same({"value", "dead"}, {seen[5], seen[6]})
    end)
  end)

  it("pass all values, nils too", function()
    serve(place, Coroutines, function(node)
      assert.same({4, 4, 2}, {node:values(1, nil, nil)})
    end)
  end)

  it("close their variables", function()
    serve(place, Coroutines, function(node)
      local closed, ok, err, closed_ok = node:closing()
      assert.same({suspended = "nil", failing = "oh", wrapped = "wrap"}, closed)
      assert.same({false, "oh"}, {ok, err})
      assert.is_false(closed_ok)
    end)
  end)
end)

describe("calls of finalizers", function()
  it("are forgotten with the node that ends, whose loop goes on", function()
    support.place "test_mt"(function(program)
      local friend = program:add_node(lp.CourierNode(Friend):options{loop = "one"}, "friend")
      program:add_node(lp.LuaNode(function(client)
        local timed = lp.with(client, {timeout = 0.05})
        for i = 1, 20 do -- called by the end of the interpreter
          _G["kept_" .. i] = setmetatable({}, {__gc = function() timed.futures:double(i) end})
        end
      end, friend):options{loop = "one"}, "leaver")
      return friend
    end, function(friend, run)
      run:wait{labels = {"leaver"}}
      lp.sleep(0.2)
      assert.equal(14, friend:double(7))
    end)
  end)
end)
