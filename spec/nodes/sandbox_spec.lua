local lp = require "lp"
local core = require "lp.core"
local support = require "spec.nodes.support"

local function contains(err, words) support.contains(words, err) end

--- A node that runs a text it is given, as a program with mods does.
local function mod(text)
  return assert(load(text, "=mod", "t"))()
end

local Runner = {}
Runner.__index = Runner
function Runner.new() return setmetatable({}, Runner) end
function Runner:run_text(text) return assert(load(text, "=text"))() end
function Runner:ping() return "pong" end

--- Starts a sandboxed Runner that may fail and uses its client and the run.
local function in_sandbox(place, use, bounds, more)
  place(function(program)
    local options = {sandbox = bounds or true, on_failure = "ignore"}
    for name, value in pairs(more or {}) do options[name] = value end
    return program:add_node(lp.CourierNode(Runner):options(options), "runner"),
           program:add_node(lp.CourierNode(Runner), "other")
  end, use)
end

support.each(describe, "a sandboxed node", function(place)
  it("has no files, processes, native modules or debug library", function()
    in_sandbox(place, function(runner)
      for _, name in ipairs {"io.open", "io.popen", "io.lines", "io.read", "os.execute", "os.remove", "os.getenv",
                             "debug", "package", "dofile", "loadfile", "string.dump", "collectgarbage('collect') > 0",
                             "getmetatable('').__index", "require 'lp'.connect", "require 'lp'.launch",
                             "require 'lp'.stop", "require 'lp'.core"} do
        assert.same({name, false}, {name, runner:run_text(("local ok, value = pcall(function() return %s end) " ..
                                                           "return ok and value or false"):format(name))})
      end
      for _, name in ipairs {"lp.core", "lp.host", "debug", "cjson", "package"} do
        local ok, err = pcall(runner.run_text, runner, ("return require %q ~= nil"):format(name))
        assert.is_false(ok)
        contains(err, "not available in a sandboxed node")
      end
    end)
  end)

  it("has what scripts need", function()
    in_sandbox(place, function(runner)
      assert.equal("5 HELLO 3", runner:run_text [[
        local lp = require "lp"
        local event = lp.Event()
        lp.spawn(function() lp.sleep(0.001) event:set() end)
        event:wait()
        local list = {3, 1, 2}
        table.sort(list)
        local size = ("hello"):len()
        return ("%d %s %d"):format(size, ("hello"):upper(), list[3])]])
      assert.equal(7, runner:run_text "local co = coroutine.wrap(function() coroutine.yield(7) end) return co()")
      assert.same({"a", "b"}, {runner:run_text "return ('a=b'):match '(%w)=(%w)'"})
    end)
  end)

  it("refuses bytecode", function()
    in_sandbox(place, function(runner)
      local bytecode = string.dump(function() return 1 end)
      assert.has_error(function() runner:run_text(bytecode) end)
      local ok, message = runner:run_text "return load(function() end) and true, 'x'"
      assert.same({true, "x"}, {ok, message})
    end)
  end)

  it("ends alone when it computes for ever", function()
    in_sandbox(place, function(runner, other, run)
      local ok, err = pcall(runner.run_text, runner, "while true do pcall(function() while true do end end) end")
      assert.is_false(ok)
      contains(err, "more than 1000000 instructions without waiting")
      assert.equal("pong", other:ping())
      local last
      repeat
        lp.sleep(0.01)
        for _, node in ipairs(run:nodes()) do
          if node.name == "runner/0" then last = node.last_error end
        end
      until last
      contains(last, "instructions")
    end, {instructions = 1000000})
  end)

  it("cannot go on where nothing interrupts it", function()
    in_sandbox(place, function(runner, other)
      local ok, err = pcall(runner.run_text, runner, "setmetatable({}, {__gc = function() while true do end end})")
      assert.is_false(ok)
      contains(err, "no __gc in a sandboxed node")
      assert.same({nil, "the chunk is longer than 1048576 bytes (a bound of this sandboxed node)"},
                  {runner:run_text "return load(('x'):rep(1 << 21))"})
      local began = lp.now()
      ok = pcall(runner.run_text, runner, [[
        local at_end <close> = setmetatable({}, {__close = function() while true do end end})
        while true do end]])
      assert.is_false(ok)
      assert.equal("pong", other:ping())
      assert.is_true(lp.now() - began < 20)
    end, {instructions = 1000000})
  end)

  it("may wait as often as it likes", function()
    in_sandbox(place, function(runner)
      assert.equal(600, runner:run_text [[
        local lp, n = require "lp", 0
        for _ = 1, 600 do
          for _ = 1, 1000 do n = n + 1 end
          lp.yield()
        end
        return n // 1000]])
    end, {instructions = 100000})
  end)

  it("gives up a pattern that takes for ever", function()
    in_sandbox(place, function(runner)
      local evil = "(('a'):rep(40)), ('a*'):rep(20) .. 'b'"
      for _, call in ipairs {"find", "match", "gsub"} do
        local ok, err = pcall(runner.run_text, runner, ("return string.%s(%s%s)"):format(call, evil,
                              call == "gsub" and ", ''" or ""))
        assert.is_false(ok)
        contains(err, "pattern too complex: gave up after 1000000 steps")
      end
      local ok, err = pcall(runner.run_text, runner, ("for _ in string.gmatch(%s) do end"):format(evil))
      assert.is_false(ok)
      contains(err, "pattern too complex")
      assert.equal("pong", runner:ping()) -- it is an error like any other
    end)
  end)

  it("does not make strings and tables without bounds", function()
    in_sandbox(place, function(runner)
      local ok, err = pcall(runner.run_text, runner, "return ('x'):rep(1 << 40)")
      assert.is_false(ok)
      contains(err, "rep: the result is larger than 1024 bytes")
      ok, err = pcall(runner.run_text, runner, "return (('x'):rep(500):gsub('x', ('y'):rep(100)))")
      assert.is_false(ok)
      contains(err, "gsub: the result is larger")
      for _, call in ipairs {"table.insert(huge, 1, 1)", "table.remove(huge, 1)", "table.concat(huge)",
                             "table.sort(huge)", "table.unpack(huge)", "table.move({}, 1, 1 << 40, 2)",
                             "table.concat({}, '', 1, 1 << 40)"} do
        ok, err = pcall(runner.run_text, runner, "local function length() return 1 << 40 end " ..
                        "local huge = setmetatable({}, {__len = length}) " .. call)
        assert.is_false(ok)
        contains(err, "bound of this sandboxed node")
      end
    end, {string_bytes = 1024})
  end)

  it("meets its memory limit alone", function()
    in_sandbox(place, function(runner, other)
      local eat = "local list = {} while true do list[#list + 1] = ('x'):rep(1000) .. #list end"
      local ok, err = pcall(runner.run_text, runner, eat)
      assert.is_false(ok)
      contains(err, "memory")
      assert.equal("pong", other:ping())
    end, {instructions = 0}, {memory_limit = "4M"})
  end)

  it("runs a constructor from text", function()
    place(function(program)
      return program:add_node(lp.CourierNode(mod, [[
        local Npc = {}
        Npc.__index = Npc
        function Npc:greet(name) return "Hello " .. name end
        return setmetatable({}, Npc)]]):options{sandbox = {libraries = {"string"}}}, "npc")
    end, function(npc)
      assert.equal("Hello you", npc:greet "you")
    end)
  end)
end)

describe("the option sandbox", function()
  local function refused(value, words)
    local ok, err = pcall(function() lp.CourierNode(Runner):options{sandbox = value} end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find(words, 1, true), err)
  end

  it("refuses what it does not know", function()
    refused(5, "true or a table of bounds, got 5")
    refused({libraries = {"debug"}}, "an array of coroutine, io, math")
    refused({patience = 1}, "unknown option \"patience\"")
    refused({instructions = -1}, "0 (no bound) or more")
  end)
end)

describe("bounded patterns", function()
  local bounded = core.bounded(10000000, 1 << 20)

  local function outcome(fn, ...)
    local results = table.pack(pcall(fn, ...))
    if not results[1] then results[2] = tostring(results[2]):gsub("^.-: ", ""):gsub(" to '%w+'", "") end
    return results
  end

  local function same(name, ...)
    local expected, got = outcome(string[name], ...), outcome(bounded[name], ...)
    if not expected[1] then expected, got = {false}, {got[1]} end -- words may differ
    assert.same({name, table.pack(...), expected}, {name, table.pack(...), got})
  end

  local subjects = {"", "a", "aaa", "hello world", "key = value", "THE (quick) fox", "a.b.c", "f(a(b)c)d", "x\0y\0",
                    "  trim  ", "[[x]]", "123 456.789", "\n\t ", "aXbXc", "%d+", "äöü"}
  local patterns = {"", "a", "a*", "a+", "a-", "a?", ".", ".*", ".-", "^a", "a$", "^$", "%a+", "%A+", "(%w+)",
                    "(%w+) = (%w+)", "()", "()a()", "%b()", "%f[%a]%a+", "%f[%A]", "[abc]", "[^abc]+", "[a-z]*",
                    "[]]", "[^]]", "[%a_][%w_]*", "(.)%1", "(a*(.)%w(%s*))", "%d+%.?%d*", "^%s*(.-)%s*$", "x\0y",
                    "[a%-z]", "%%", "((a)(b?))", "[%d%s]+", "a-b", "[a-]", "[-a]", "%", "[a", "(a", "a)", "%1", "%b",
                    "%f", "[^", "^^", "$$", "a$b", "%w%w%w", "(%a)(%a)(%a)", "[\0-\31]", ".-X", "(.-)X(.-)"}

  it("find what the stock ones find", function()
    for _, subject in ipairs(subjects) do
      lp.yield()
      for _, pattern in ipairs(patterns) do
        same("find", subject, pattern)
        same("match", subject, pattern)
        for _, init in ipairs {2, -2, 0, 100, -100} do
          same("find", subject, pattern, init)
          same("match", subject, pattern, init)
        end
        same("find", subject, pattern, 1, true)
      end
    end
  end)

  it("replace and iterate as the stock ones do", function()
    local function all(gmatch, subject, pattern)
      local list = {}
      for a, b in gmatch(subject, pattern) do list[#list + 1] = tostring(a) .. tostring(b) end
      return list
    end
    for _, subject in ipairs(subjects) do
      lp.yield()
      for _, pattern in ipairs(patterns) do
        same("gsub", subject, pattern, "<%0>")
        same("gsub", subject, pattern, "%1", 2)
        same("gsub", subject, pattern, "%%%9")
        same("gsub", subject, pattern, function(x) return x ~= "a" and "z" end)
        same("gsub", subject, pattern, {a = 1, b = true, hello = "bye"})
        assert.same(outcome(all, string.gmatch, subject, pattern)[1] and
                    outcome(all, string.gmatch, subject, pattern),
                    outcome(all, bounded.gmatch, subject, pattern)[1] and
                    outcome(all, bounded.gmatch, subject, pattern))
      end
    end
    same("gsub", "abc", "%w", "%2")
    same("gsub", "abc", "%w", "%")
    same("gsub", "abc", "%w", 5)
    same("gsub", "abc", "%w", true)
    same("rep", "ab", 3, ",")
    same("rep", "ab", 0)
    same("rep", "ab", -1)
    assert.equal("", bounded.rep("", 1 << 62)) -- the stock one would count
    assert.same({"b", "c"}, {bounded.gmatch("abc", "%w", 2)(), bounded.gmatch("abc", "%w", -1)()})
  end)

  it("agree with the stock ones on random input", function()
    math.randomseed(7)
    local pieces = {"a", "b", "%a", "%d", ".", "[ab]", "[^a]", "(", ")", "*", "+", "-", "?",
                    "%1", "%b()", "%f[a]", "$", "^"}
    for i = 1, 3000 do
      if i % 100 == 0 then lp.yield() end
      local pattern, subject = "", ""
      for _ = 1, math.random(6) do pattern = pattern .. pieces[math.random(#pieces)] end
      for _ = 1, math.random(0, 10) do subject = subject .. ("ab1()"):sub(math.random(5)):sub(1, 1) end
      same("find", subject, pattern)
      same("gsub", subject, pattern, "%0.")
    end
  end)
end)
