-- Each case runs a script in one interpreter, packs what it returns, and runs a
-- second script in a fresh interpreter that loads the bundle. Both are texts: a
-- spec's own functions live in an environment of the spec runner.

local PREAMBLE = 'package.path = "./lua/?.lua;" .. package.path\n'

-- Packs `root1, root2, …` of SCRIPT with `options`, a global the script may set.
-- A script that needs the library to be there first requires it.
local LAUNCHER = PREAMBLE .. [[
local function script(...) %s
end
local values = table.pack(script())
local ship = require "lp.ship"
local roots = { n = values.n }
for i = 1, values.n do roots[i] = { "argument " .. i, values[i] } end
local ok, bundle = pcall(ship.pack, roots, options)
local out = assert(io.open(arg[1], "wb"))
assert(out:write(ok and bundle or ""))
out:close()
io.write(ok and "" or bundle)
]]

local NODE = PREAMBLE .. [[
local unship = require "lp.unship"
local file = assert(io.open(arg[1], "rb"))
local bundle = file:read "a"
file:close()
local options = {}
%s
local function node(...) %s
end
local results = table.pack(pcall(function() return node(unship.load(bundle, options)) end))
for i = 1, results.n do results[i] = tostring(results[i]) end
io.write(table.concat(results, " ", results[1] == "true" and 2 or 1))
]]

local function write_file(text)
  local name = os.tmpname()
  local file = assert(io.open(name, "wb"))
  assert(file:write(text))
  file:close()
  return name
end

local function interpret(text, argument)
  local script = write_file(text)
  local pipe = assert(io.popen(("lua5.4 %s %s 2>&1"):format(script, argument)))
  local output = pipe:read "a"
  pipe:close()
  os.remove(script)
  return output
end

local function fill(template, ...)
  local texts, at = { ... }, 0
  return (template:gsub("%%s", function()
    at = at + 1
    return texts[at]
  end))
end

--- What the node's text returned, as one string; `before` runs ahead of loading.
local function ship_and_run(script, node, before)
  local bundle = os.tmpname()
  local refused = interpret(fill(LAUNCHER, script), bundle)
  local result = refused == "" and interpret(fill(NODE, before or "", node), bundle)
  os.remove(bundle)
  return result or "not packed: " .. refused
end

--- The message with which packing is refused.
local function refusal(script)
  local bundle = os.tmpname()
  local refused = interpret(fill(LAUNCHER, script), bundle)
  os.remove(bundle)
  return refused
end

-- A node's text that lets go of what it was given in a table and tells what its
-- finaliser noted.
local COLLECT = [[
  local box, seen = ..., "nothing"
  note = function(text) seen = text end
  box[1] = nil
  collectgarbage()
  collectgarbage()
  return seen]]

describe("ship", function()
  describe("carries by value", function()
    it("scalars of every kind, exactly", function()
      assert.equal("true false 1 integer float -128 128 true inf nan", ship_and_run(
        [[return true, false, 1, 1.0, -128, 128, math.mininteger, math.huge, 0/0]],
        [[local a, b, c, d, e, f, g, h, i = ...
          return a, b, c, math.type(c), math.type(d), e, f, g == math.mininteger, h,
            i ~= i and "nan"]]))
    end)

    it("negative zero", function()
      assert.equal("-inf", ship_and_run([[return -0.0]], [[return 1 / ...]]))
    end)

    it("nils among the values, trailing ones included", function()
      assert.equal("4 nil 2 nil", ship_and_run([[return nil, 2, nil, nil]],
        [[local a, b, c = ... return select("#", ...), a, b, c]]))
    end)

    it("strings with any bytes and of any length", function()
      assert.equal("true true true", ship_and_run(
        [[return "a\0b\255", ("x"):rep(255), ("y\0"):rep(100000)]],
        [[local a, b, c = ... return a == "a\0b\255", b == ("x"):rep(255), c == ("y\0"):rep(100000)]]))
    end)

    it("tables, with holes and keys of every kind", function()
      assert.equal("1 nil 3 yes f", ship_and_run([[return { 1, nil, 3, [true] = "yes", [1.5] = "f" }]],
        [[local t = ... return t[1], t[2], t[3], t[true], t[1.5] ]]))
    end)

    it("tables as keys", function()
      assert.equal("v", ship_and_run([[local k = {} return k, { [k] = "v" }]],
        [[local k, t = ... return t[k] ]]))
    end)

    it("functions with their upvalues", function()
      assert.equal("42 nil", ship_and_run([[local n, none = 40, nil
        return function(x) return n + x, none end]], [[local f = ... return f(2)]]))
    end)

    it("functions as constructors with debug information", function()
      assert.matches("bundle_spec:1: boom", ship_and_run(
        [[return load("return function() error('boom') end", "=bundle_spec")()]],
        [[local f = ... return f()]]))
    end)

    it("functions without debug information if asked to strip", function()
      assert.equal("false boom", ship_and_run(
        [[options = { strip = true } return function() error "boom" end]],
        [[local f = ... return f()]]))
    end)

    it("functions that are nobody's, such as one loaded in strict environment", function()
      assert.equal("only", ship_and_run([[return load("return x", "c", "t", { x = "only" })]],
        [[local f = ... return f()]]))
    end)

    it("metatables", function()
      assert.equal("7 hello", ship_and_run(
        [[local C = {} C.__index = C
          function C:get() return self.value end
          C.__call = function() return "hello" end
          return setmetatable({ value = 7 }, C)]],
        [[local o = ... return o:get(), o()]]))
    end)

    it("metatables that are protected", function()
      assert.equal("locked 5", ship_and_run(
        [[return setmetatable({}, { __metatable = "locked", __index = { x = 5 } })]],
        [[local o = ... return getmetatable(o), o.x]]))
    end)

    it("fields without triggering __newindex or __index", function()
      assert.equal("1 nil", ship_and_run(
        [[return setmetatable({ x = 1 }, { __newindex = function() error "triggered" end,
          __index = function() end })]],
        [[local o = ... return o.x, o.y]]))
    end)

    it("finalisers", function()
      assert.equal("finalised", ship_and_run(
        [[return { setmetatable({}, { __gc = function() note "finalised" end }) }]], COLLECT))
    end)

    it("references shared between the values", function()
      assert.equal("true true", ship_and_run(
        [[local t = {} return t, { t, t }, function() return t end]],
        [[local t, list, f = ... return list[1] == t and list[2] == t, f() == t]]))
    end)

    it("cycles", function()
      assert.equal("true true", ship_and_run(
        [[local t = {} t.self = t setmetatable(t, t) t.__index = t return t]],
        [[local t = ... return t.self == t, getmetatable(t) == t]]))
    end)

    it("upvalues shared between closures as shared", function()
      assert.equal("2 2", ship_and_run(
        [[local n = 0
          return { up = function() n = n + 1 end, get = function() return n end }, function() return n end]],
        [[local c, get = ... c.up() c.up() return c.get(), get()]]))
    end)

    it("upvalues that are not shared as not shared", function()
      assert.equal("1 0", ship_and_run(
        [[local function counter() local n = 0
            return { up = function() n = n + 1 end, get = function() return n end } end
          return counter(), counter()]],
        [[local a, b = ... a.up() return a.get(), b.get()]]))
    end)

    it("functions that recur through an upvalue", function()
      assert.equal("120", ship_and_run(
        [[local function fact(n) return n <= 1 and 1 or n * fact(n - 1) end return fact]],
        [[local fact = ... return fact(5)]]))
    end)

    it("functions that recur through each other", function()
      assert.equal("true", ship_and_run(
        [[local odd
          local function even(n) return n == 0 or odd(n - 1) end
          function odd(n) return n ~= 0 and even(n - 1) end
          return even]],
        [[local even = ... return even(10)]]))
    end)

    it("data nested deeper than any C stack", function()
      assert.equal("100000", ship_and_run(
        [[local top = {} local t = top
          for i = 1, 100000 do t.next = setmetatable({}, { i }) t = t.next end return top]],
        [[local t, n = ..., 0 while t.next do t = t.next n = n + 1 end return n]]))
    end)

    it("chains of closures deeper than any C stack", function()
      assert.equal("50000", ship_and_run(
        [[local f = function() return 0 end
          for _ = 1, 50000 do local g = f f = function(n) return g, n + 1 end end return f]],
        [[local f, n = ..., 0 while true do
            local g, m = f(n) if not m then return n end f, n = g, m end]]))
    end)

    it("a prototype once for all its closures", function()
      assert.equal("true", ship_and_run(
        [[local fns = {} for i = 1, 100 do fns[i] = function(a, b, c) return i, a, b, c, "a long constant" end end
          return fns]], [[return #bundle < 100 * 60]]))
    end)
  end)

  describe("carries by name", function()
    it("standard functions and tables", function()
      assert.equal("true true true true", ship_and_run(
        [[return print, string, { string.format }, function() return math end]],
        [[local a, b, c, d = ... return a == print, b == string, c[1] == string.format, d() == math]]))
    end)

    it("_G", function()
      assert.equal("true true", ship_and_run([[local g = _G return g, { g }]],
        [[local a, b = ... return a == _G, b[1] == _G]]))
    end)

    it("the standard files", function()
      assert.equal("true true", ship_and_run([[return io.stdout, { io.stderr }]],
        [[local o, e = ... return o == io.stdout, e[1] == io.stderr]]))
    end)

    it("methods found only in the metatables of standard objects", function()
      assert.equal("true", ship_and_run([[return io.stdout.write]],
        [[local w = ... return w == io.stdout.write]]))
    end)

    it("the metatable of strings", function()
      assert.equal("true true", ship_and_run(
        [[return getmetatable(""), getmetatable("").__add]],
        [[local m, f = ... return m == getmetatable(""), f == getmetatable("").__add]]))
    end)

    it("a standard function that the script has replaced", function()
      assert.equal("true", ship_and_run([[require "lp.ship"
        local old = print print = function() end return old]], [[local p = ... return p == print]]))
    end)

    it("modules, which the node requires", function()
      assert.equal("true true true", ship_and_run(
        [[local ship = require "lp.ship" return ship, { ship.pack }, function() return ship end]],
        [[local s, list, f = ... local own = require "lp.ship"
          return s == own, list[1] == own.pack, f() == own]]))
    end)

    it("functions and values of C modules", function()
      assert.equal("true true", ship_and_run([[local cjson = require "cjson" return cjson.encode, cjson.null]],
        [[local encode, null = ... return encode == require "cjson".encode, null == require "cjson".null]]))
    end)

    it("what lies deep in a module", function()
      assert.equal("deep", ship_and_run(
        [[package.preload.m = function() return { a = { [2] = { ["odd key"] = function() return "deep" end } } } end
          return require "m".a[2]["odd key"] ]],
        [[local f = ... assert(f == require "m".a[2]["odd key"]) return f()]]))
    end)

    it("what a module loads when it is asked for", function()
      assert.equal("late", ship_and_run(
        [[package.preload.m = function()
            local function late() return "late" end
            return setmetatable({}, { __index = function(t, k) t[k] = late return late end })
          end
          return require "m".anything]], [[local f = ... return f()]]))
    end)

    it("the class of an object that is found in a module", function()
      assert.equal("true", ship_and_run(
        [[package.preload.m = function() local C = {} C.__index = C return { C = C } end
          return setmetatable({}, require "m".C)]],
        [[local o = ... return getmetatable(o) == require "m".C]]))
    end)

    it("finalisers that are found in a module", function()
      assert.equal("finalised", ship_and_run(
        [[package.preload.m = function() return { gc = function() note "finalised" end } end
          return { setmetatable({}, { __gc = require "m".gc }) }]], COLLECT))
    end)

    it("fields, items, keys, metatables and upvalues that refer to modules", function()
      assert.equal("true true true true true", ship_and_run(
        [[package.preload.m = function() return {} end local m = require "m"
          return { 1, m, 3, f = m, [m] = "key" }, setmetatable({}, m), function() return m end]],
        [[local t, o, f = ... local m = require "m"
          return t[2] == m and t[3] == 3, t.f == m, t[m] == "key", getmetatable(o) == m, f() == m]]))
    end)

    it("a module as it is in the node, not as it was changed", function()
      assert.equal("original", ship_and_run(
        [[package.preload.m = function() return { state = "original" } end
          local m = require "m" m.state = "changed" return m]], [[local m = ... return m.state]]))
    end)

    it("modules loaded after an earlier bundle was packed", function()
      assert.equal("true", ship_and_run(
        [[local ship = require "lp.ship" ship.pack({}) return (require "cjson")]],
        [[local m = ... return m == require "cjson"]]))
    end)

    it("nothing out of a weak table, whose entries a node would miss", function()
      assert.equal("mine", ship_and_run(
        [[package.preload.m = function() return { classes = setmetatable({}, { __mode = "v" }) } end
          local class = { name = "mine" } require "m".classes.c = class return class]],
        [[local c = ... return c.name]]))
    end)

    it("and names the module that a node cannot load", function()
      local result = ship_and_run(
        [[package.loaded.ghost = { f = function() end } return package.loaded.ghost]], [[return 1]])
      assert.matches("^false cannot load module 'ghost', which this node uses: .*not found", result)
    end)

    it("and names what a node's module lacks", function()
      assert.matches("^false there is no 'm.extra' in this node", ship_and_run(
        [[package.preload.m = function() return {} end
          require "m".extra = function() end return require "m".extra]], [[return 1]]))
    end)
  end)

  describe("sends along", function()
    it("package.path and package.cpath", function()
      assert.equal("./a/?.lua ./b/?.so", ship_and_run(
        [[require "lp.ship" package.path = "./a/?.lua" package.cpath = "./b/?.so"]],
        [[return package.path, package.cpath]]))
    end)

    it("package.preload", function()
      assert.equal("hello", ship_and_run(
        [[local text = "hello" package.preload.greet = function() return { text = text } end]],
        [[return require "greet".text]]))
    end)

    it("no package.preload entry that cannot travel", function()
      assert.equal("nil", ship_and_run([[package.preload.c = string.gmatch("a", "a")]],
        [[return package.preload.c]]))
    end)

    it("functions added to standard tables", function()
      assert.equal("x y", ship_and_run(
        [[function string.trim(s) return (s:gsub("^%s+", "")) end
          table.first = function(t) return t[1] end]],
        [[return ("  x"):trim(), table.first { "y" }]]))
    end)

    it("standard functions replaced in their tables", function()
      assert.equal("mine", ship_and_run([[require "lp.ship" string.upper = function() return "mine" end]],
        [[return ("x"):upper()]]))
    end)

    it("metamethods added to strings", function()
      assert.equal("a-b", ship_and_run(
        [[getmetatable("").__bor = function(a, b) return a .. "-" .. b end]],
        [[return load('return "a" | "b"')()]]))
    end)

    it("no addition that cannot travel", function()
      assert.equal("nil ok", ship_and_run(
        [[string.co = coroutine.create(print) string.iterate = string.gmatch("a", "a")
          string.fine = function() return "ok" end]],
        [[return string.co, string.fine()]]))
    end)

    it("additions before modules that use them while loading", function()
      assert.equal("A!", ship_and_run(
        [[function string.shout(s) return s:upper() .. "!" end
          package.preload.m = function() return { text = ("a"):shout() } end
          return require "m"]], [[local m = ... return m.text]]))
    end)
  end)

  describe("carries globals", function()
    it("that a carried function names", function()
      assert.equal("5 nil", ship_and_run([[limit = 5 other = 6 return function() return limit end]],
        [[local f = ... return f(), rawget(_G, "other")]]))
    end)

    it("named in a nested function only", function()
      assert.equal("5", ship_and_run(
        [[limit = 5 return function() return function() return function() return limit end end end]],
        [[local f = ... return f()()()]]))
    end)

    it("named by functions that share the upvalue _ENV", function()
      assert.equal("1 2", ship_and_run(
        [[one, two = 1, 2 return function() return one end, function() return two end]],
        [[local f, g = ... return f(), g()]]))
    end)

    it("named by carried globals in turn", function()
      assert.equal("deep", ship_and_run(
        [[function first() return second() end function second() return third.text end
          third = { text = "deep" } return function() return first() end]],
        [[local f = ... return f()]]))
    end)

    it("that are assigned in the node, starting with the value carried", function()
      assert.equal("11 11", ship_and_run(
        [[count = 10 return function() count = count + 1 return count end]],
        [[local f = ... return f(), count]]))
    end)

    it("that a function only assigns without a value", function()
      assert.equal("1", ship_and_run([[return function() fresh = 1 return fresh end]],
        [[local f = ... return f()]]))
    end)

    it("that are false", function()
      assert.equal("false", ship_and_run([[flag = false return function() return flag end]],
        [[local f = ... return f()]]))
    end)

    it("with references shared with the arguments", function()
      assert.equal("true", ship_and_run([[config = {} return config, function() return config end]],
        [[local c, f = ... return c == f()]]))
    end)

    it("that replace a standard function", function()
      assert.equal("mine", ship_and_run(
        [[require "lp.ship" rawlen = function() return "mine" end return function() return rawlen {} end]],
        [[local f = ... return f()]]))
    end)

    it("defined before the library was loaded", function()
      assert.equal("5", ship_and_run(
        [[assert(not package.loaded["lp.ship"]) limit = 5 return function() return limit end]],
        [[local f = ... return f()]]))
    end)

    it("holding a module, by name", function()
      assert.equal("true", ship_and_run([[json = require "cjson" return function() return json end]],
        [[local f = ... return f() == require "cjson"]]))
    end)

    it("whose name is too long or too far back for a short instruction", function()
      assert.equal("1 2", ship_and_run(
        [[_ENV[("n"):rep(50)] = 1 far = 2
          local text = {} for i = 1, 300 do text[i] = "'c" .. i .. "'" end
          return load("return function() local t = {" .. table.concat(text, ",") .. "} return "
            .. ("n"):rep(50) .. ", far end")()]],
        [[local f = ... return f()]]))
    end)

    it("all of them when a function uses _ENV as a value", function()
      assert.equal("1 2", ship_and_run(
        [[a, b = 1, 2 return function(k) return _ENV[k] end]],
        [[local f = ... return f "a", f "b"]]))
    end)

    it("all of them when a function names _G", function()
      assert.equal("1", ship_and_run([[a = 1 return function(k) return _G[k] end]],
        [[local f = ... return f "a"]]))
    end)

    it("all of them when _G itself is sent", function()
      assert.equal("1", ship_and_run([[a = 1 return { _G }]], [[local t = ... return t[1].a]]))
    end)

    it("all of them when a function loads text", function()
      assert.equal("1", ship_and_run([[a = 1 return function() return load "return a" () end]],
        [[local f = ... return f()]]))
    end)

    it("by name through another upvalue that holds _G", function()
      assert.equal("1 nil", ship_and_run(
        [[a, b = 1, 2 local G = _G return function() return G.a end]],
        [[local f = ... return f(), rawget(_G, "b")]]))
    end)

    it("but not for a function with an environment of its own, which travels as a table", function()
      assert.equal("own nil true", ship_and_run(
        [[x = "global" return load("return x, y, print", "c", "t", setmetatable({ x = "own" }, { __index = _G }))]],
        [[local f = ... local x, y, p = f() return x, y, p == print]]))
    end)

    it("not when nothing names them, whatever they hold", function()
      assert.equal("nil", ship_and_run([[co = coroutine.create(print) return function() end]],
        [[return co]]))
    end)

    it("except those that cannot travel: they stop nothing", function()
      assert.equal("fine", ship_and_run(
        [[co = coroutine.create(print) return function(touch) if touch then return co end return "fine" end]],
        [[local f = ... return f()]]))
    end)

    it("and reading one that did not travel raises at that line and names it", function()
      assert.equal("false script:1: global 'co' was not carried to this node: cannot send a coroutine",
        ship_and_run([[co = coroutine.create(print) return load("return function() return co end", "=script")()]],
          [[local f = ... return f()]]))
    end)

    it("and says where in a global the obstacle is", function()
      assert.matches("global 'cfg' was not carried to this node: .log.file: cannot send a userdata %(FILE%*%)",
        ship_and_run([[cfg = { log = { file = io.tmpfile() } } return function() return cfg end]],
          [[local f = ... return f()]]))
    end)

    it("and a refused one can be assigned in the node", function()
      assert.equal("1", ship_and_run(
        [[co = coroutine.create(print) return function() co = 1 return co end]],
        [[local f = ... return f()]]))
    end)

    it("and other missing globals stay nil where one was refused", function()
      assert.equal("nil inherited", ship_and_run(
        [[co = coroutine.create(print) return function() return co end]],
        [[return missing, known]], [[setmetatable(_G, { __index = { known = "inherited" } })]]))
    end)

    it("without residue of one that was refused half way", function()
      assert.equal("5 6", ship_and_run(
        [[local shared, n = { 5 }, 6
          bad = { shared, function() return n end, function() return unknown end, coroutine.create(print) }
          good = { shared, function() return n end }
          return function() return bad, good end]],
        [[return good[1][1], good[2]()]]))
    end)

    it("but no handle: touching it raises what the caller says", function()
      local script = [[
        local Handle = {} server = setmetatable({}, Handle) nested = { deep = { server } }
        options = {
          replace = function(v) if getmetatable(v) == Handle then return { kind = "handle", data = {} } end end,
          global_refusal = function(v)
            if getmetatable(v) == Handle then return "a handle; pass it as an argument" end end,
        }
        local mine = server
        function through_upvalue() return mine end
        return function() return server end, function() return nested end, function() return through_upvalue() end]]
      local before = [[options.restore = function(kind) return "client" end]]
      assert.matches("global 'server' was not carried to this node: a handle; pass it as an argument",
        ship_and_run(script, [[local f = ... return f()]], before))
      assert.matches("global 'nested' was not carried to this node: .deep%[1%]: a handle",
        ship_and_run(script, [[local _, f = ... return f()]], before))
      assert.equal("client", ship_and_run(script, [[local _, _, f = ... return f()]], before))
    end)
  end)

  describe("refuses with the path", function()
    local function refuses(message, script)
      assert.equal(message, refusal(script))
    end

    it("coroutines", function()
      refuses("argument 1: cannot send a coroutine", [[return coroutine.create(print)]])
    end)

    it("open files in tables", function()
      refuses("argument 2: .env.socket: cannot send a userdata (FILE*); wrap it in lp.deferred",
        [[return 1, { env = { socket = io.tmpfile() } }]])
    end)

    it("upvalues", function()
      refuses("argument 1: .handler: upvalue 'sock': cannot send a userdata (FILE*); wrap it in lp.deferred",
        [[local sock = io.tmpfile() return { handler = function() return sock end }]])
    end)

    it("what is below an upvalue", function()
      refuses("argument 1: upvalue 'state': .list[2]: cannot send a coroutine",
        [[local state = { list = { 1, coroutine.create(print) } } return function() return state end]])
    end)

    it("metatables", function()
      refuses("argument 1: [12]: metatable: .__index: cannot send a coroutine",
        [[return { [12] = setmetatable({}, { __index = coroutine.create(print) }) }]])
    end)

    it("odd keys", function()
      refuses([[argument 1: ["odd key"][1.5][true]: cannot send a coroutine]],
        [[return { ["odd key"] = { [1.5] = { [true] = coroutine.create(print) } } }]])
    end)

    it("keys", function()
      refuses("argument 1: a key: cannot send a coroutine", [[return { [coroutine.create(print)] = 1 }]])
    end)

    it("C functions that no module holds", function()
      refuses("argument 1: .f: cannot send a C function that no module holds; wrap it in lp.deferred",
        [[return { f = string.gmatch("a", "a") }]])
    end)

    it("light userdata", function()
      refuses("argument 1: cannot send a light userdata",
        [[local function f() return f end return debug.upvalueid(f, 1)]])
    end)

    it("what the caller refuses", function()
      refuses("argument 1: .q: an lp.Queue lives in one node", [[local queue = {}
        options = { refuse = function(v) if v == queue then return "an lp.Queue lives in one node" end end }
        return { q = queue }]])
    end)

    it("with the middle of a long path left out", function()
      local message = refusal([[local top = {} local t = top
        for _ = 1, 100000 do t.n = {} t = t.n end t.x = coroutine.create(print) return top]])
      assert.matches("^argument 1: %.n%.n.* … .*%.n%.x: cannot send a coroutine$", message)
      assert.is_true(#message < 200)
    end)
  end)

  describe("lets the caller replace values", function()
    local HANDLES = [[
      local Handle = {}
      local function handle(name) return setmetatable({ name = name }, Handle) end
      options = { replace = function(v, where)
        if getmetatable(v) == Handle then return { kind = "handle", data = { name = v.name, at = where() } } end
      end }
    ]]
    local CLIENTS = [[
      local made = 0
      options.restore = function(kind, data)
        made = made + 1
        return { text = kind .. " " .. data.name .. " at " .. data.at, made = made }
      end
    ]]

    it("at any depth of the arguments", function()
      assert.equal("handle a at argument 1: .x[1]", ship_and_run(HANDLES .. [[return { x = { handle "a" } }]],
        [[local t = ... return t.x[1].text]], CLIENTS))
    end)

    it("in upvalues", function()
      assert.equal("handle a at argument 1: upvalue 'h'", ship_and_run(
        HANDLES .. [[local h = handle "a" return function() return h.text end]],
        [[local f = ... return f()]], CLIENTS))
    end)

    it("as roots", function()
      assert.equal("handle a at argument 1", ship_and_run(HANDLES .. [[return handle "a"]],
        [[local h = ... return h.text]], CLIENTS))
    end)

    it("once for every reference to them", function()
      assert.equal("true 1", ship_and_run(
        HANDLES .. [[local h = handle "a" return { h, key = h, [h] = 1 }, function() return h end]],
        [[local t, f = ... return t[1] == t.key and f() == t[1] and t[t.key] == 1, t[1].made]], CLIENTS))
    end)

    it("and rebuilds one after those its data refers to", function()
      local script = [[
        local Special = {}
        options = { replace = function(v)
          if getmetatable(v) == Special then return { kind = v.kind, data = { v.content } } end end }
        local function special(kind, content) return setmetatable({ kind = kind, content = content }, Special) end
        local inner = special("inner", "seed")
        local shared = { inner }
        package.preload.m = function() return { name = "module" } end
        local m = require "m"
        local outer = special("outer", function() return shared[1], m.name end)
        return { shared, outer }, { outer, inner }, special("last", { outer })]]
      local before = [[
        options.restore = function(kind, data)
          if kind == "inner" then return "built from " .. data[1] end
          if kind == "outer" then return "outer with " .. table.concat({ data[1]() }, " and ") end
          return kind .. " of " .. data[1][1]
        end]]
      assert.equal("last of outer with built from seed and module", ship_and_run(script,
        [[local a, b, c = ... assert(a[2] == b[1] and a[1][1] == b[2]) return c]], before))
    end)

    it("and names the path into a replaced value's data", function()
      assert.equal("argument 1: .env: deferred: .args[1]: cannot send a coroutine", refusal([[
        local record = {}
        options = { replace = function(v)
          if v == record then return { kind = "deferred", data = { args = { coroutine.create(print) } } } end
        end }
        return { env = record }]]))
    end)

    it("and restoring may wait", function()
      assert.equal("waiting done", ship_and_run(HANDLES .. [[return handle "a"]],
        [[return ...]], [[
          options.restore = function() return coroutine.yield "waiting" end
          local load = unship.load
          unship.load = function(...)
            local co = coroutine.create(load)
            local _, first = coroutine.resume(co, ...)
            local _, result = coroutine.resume(co, "done")
            return first, result
          end]]))
    end)

    it("by registered classes, userdata included", function()
      assert.equal("point 1 nil 3", ship_and_run([[
        local file = io.tmpfile()
        options = { pack_object = function(v) if v == file then return "point", 1, nil, 3 end end }
        return { file }]], [[local t = ... return t[1] ]],
        [[options.unpack_object = function(name, a, b, c)
            return table.concat({ name, tostring(a), tostring(b), tostring(c) }, " ") end]]))
    end)
  end)

  describe("a bundle", function()
    local ship, unship = require "lp.ship", require "lp.unship"

    it("is refused when any byte of it is changed or missing", function()
      local bundle = ship.pack { { "a", { 1, 2, { x = "y" }, function() return 1 end } } }
      assert.is_true(pcall(unship.load, bundle))
      for i = 1, #bundle do
        local byte = bundle:byte(i) ~ 0x41
        local changed = bundle:sub(1, i - 1) .. string.char(byte) .. bundle:sub(i + 1)
        assert.is_false(pcall(unship.load, changed))
        assert.is_false(pcall(unship.load, bundle:sub(1, i - 1)))
      end
    end)

    it("gives errors, not crashes, when it makes no sense but its sum is right", function()
      assert.equal("survived", ship_and_run([[return { 1, 2, { x = "y" }, setmetatable({}, {}) }]], [[
        local pack, pcall, rep, char = string.pack, pcall, string.rep, string.char
        local load, sum = unship.load, unship.sum
        local head = #unship.SIGNATURE + 8
        for i = head + 1, #bundle do
          for _, byte in ipairs { 0, 1, 0x54, 0x66, 0x72, 0xff } do
            local body = bundle:sub(head + 1, i - 1) .. char(byte) .. bundle:sub(i + 1)
            pcall(load, unship.SIGNATURE .. pack("<i8", sum(rep("\0", head) .. body, head + 1)) .. body)
          end
        end
        return "survived"]]))
    end)

    it("carries a spec's own functions, their environment taken for the globals", function()
      local f = unship.load(ship.pack { { "constructor", function(x) return tostring(x) .. #arg end } })
      assert.equal("1" .. #arg, f(1))
    end)

    it("is small for a small node", function()
      local bundle = ship.pack({ { "constructor", function() return {} end } },
                               { baseline = ship.snapshot() })
      assert.is_true(#bundle < 2000)
    end)
  end)
end)
