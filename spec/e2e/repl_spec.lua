--- `lp repl`: through a pipe, and at a real terminal.

local cjson = require "cjson"
local support = require "spec.e2e.support"
local terminal = require "spec.e2e.terminal"

local PROGRAM = [[
local lp = require "lp"
local flags = lp.flags{workers = {1, "How many."}}
local Worker = {}
Worker.__index = Worker
function Worker.new(name) return setmetatable({name = name, count = 0}, Worker) end
function Worker:square(x) return x * x end
function Worker:say(text) print(text) end
local program, workers = lp.Program "demo", {}
for i = 1, flags.workers do
  workers[i] = program:add_node(lp.CourierNode(Worker.new, "Ann"):options{max_pending = 50}, "worker")
end
program:add_node(lp.LuaNode(function() lp.wait_for_stop() end, workers), "driver")
return program
]]

describe("lp repl", function()
  teardown(function()
    terminal.clean()
    support.clean()
  end)

  describe("through a pipe", function()
    --- Feeds `text` to `lp repl WORDS SCRIPT` and waits for its end.
    local function feed(text, words, how)
      local list = {"repl"}
      table.move(words or {}, 1, #(words or {}), 2, list)
      list[#list + 1] = "SCRIPT"
      for _, word in ipairs(how and how.words or {}) do list[#list + 1] = word end
      local file = os.tmpname()
      local _ <close> = setmetatable({}, {__close = function() os.remove(file) end})
      local out <close> = assert(io.open(file, "w"))
      out:write(text)
      out:close()
      return support.start(list, {script = how and how.script or PROGRAM, input = "<" .. file}):finish()
    end

    --- The output of lines that must all be well.
    local function says(expected, text, ...)
      local ended = feed(text, ...):expect(0)
      assert.equal("", ended.err)
      assert.equal(expected, ended.out)
    end

    it("echoes all values of expressions, nil included", function()
      says("1\t2\tnil\n", "1, 2, nil")
      says("4\n", "=2 + 2")
      says("nil\n", "nothing")
      says("", "x = 1")
      says("5\nhello\n", "x = 5\nx\nprint 'hello'")
      says("{1, 2, key = \"text\"}\n", "{1, 2, key = 'text'}")
    end)

    it("takes statements of several lines", function()
      says("1\n2\n", "for i = 1, 2 do\n  print(i)\nend")
      says("7\n", "function f(x)\n\n  return x + 4\nend\nf(3)")
      says("a\nb\n", "[[a\nb]]")
    end)

    it("writes tables with limits", function()
      local ended = feed "t = {} for i = 1, 1000 do t[i] = i end\nt\nt.t = t\n{t = {t}}\nstring.rep('x', 10)"
      ended:expect(0, "… (900 more)", "xxxxxxxxxx")
      local deep = feed "t = {}; for _ = 1, 50 do t = {t} end\nt"
      deep:expect(0, "{…}")
      says("{a = <the same table as outside>}\n", "t = {} t.a = t\nt")
    end)

    it("tells mistakes, goes on, and ends with status 1", function()
      local ended = feed "1 +\n+\nerror 'no'\n.frob\n.node\n.nodes x\n'still here'"
      ended:expect(1, "still here", "prompt:1: unexpected symbol", "there is no command .frob",
                   "how it is used: .node NODE", "unexpected word 'x'")
      feed("error 'no'"):expect(1, "error: prompt:1: no")
      feed("for i = 1, 2 do"):expect(1, "'end' expected near <eof>")
    end)

    it("shows a program that is not launched", function()
      feed(".nodes\n.node worker/0\n.graph"):expect(0, "worker/0  CourierNode", "\"Ann\"", "/p.lua:6",
           "options      {max_pending = 50}", "called by    driver/0", "driver/0 -> worker/0")
      local ended = feed(".nodes\n.graph\n.node worker/0", {"--json"}):expect(0)
      local lines = {}
      for line in ended.out:gmatch "[^\n]+" do lines[#lines + 1] = cjson.decode(line) end
      assert.equal("worker/0", lines[1][1].name)
      assert.same({{from = "driver/0", to = "worker/0"}}, lines[2].edges)
      assert.equal("say", lines[3].methods[1].name)
      feed(".call worker/0 square 2"):expect(1, "no program runs: .launch launches the one that is loaded")
    end)

    it("builds it again with other flags", function()
      says("program demo: 4 nodes; .launch launches it\n3\n", ".flags --workers=3\n#program.groups[1].nodes")
      feed(".flags --nope"):expect(1, "unknown flag --nope")
      feed(".flags --workers=3\n.flags --nope\n.load nowhere.lua\n#program.groups[1].nodes\n.flags\n" ..
           ".launch\n.stop"):expect(1, "3\n--workers=3\n", "cannot open nowhere.lua", "has ended")
      feed("#program:nodes()", nil, {words = {"--workers=2"}}):expect(0, "3\n")
      feed("program", nil, {script = "local lp = require 'lp' local p = lp.Program 'x' " ..
           "p:add_node(lp.LuaNode(print), 'n') lp.launch(p) error 'not reached'"}):expect(0, "program \"x\"")
    end)

    for _, launch_type in ipairs {"local_mt", "local_mp"} do
      it("launches it, looks inside, stops it, and launches again: " .. launch_type, function()
        local ended = feed((([[
          .launch TYPE
          node "worker/0":square(12)
          .call worker/0 square 11
          use worker/0
          self.name, self.count
          count = 8
          print("there", count)
          use
          count
          .eval worker/0 self.name .. '!'
          .stop
          node "worker/0"
          .launch TYPE
          node "worker/0":square(5)]]):gsub("TYPE", launch_type)))
        ended:expect(1, "144\n121\nAnn\t0\nthere\t8\nnil\nAnn!\n", "\n25\n",
                     "nothing runs: .launch launches the program")
      end)
    end

    it("shows no traceback of the engine's own functions for a command that is refused", function()
      local ended = feed ".launch\nuse nobody/0\n.pause nobody/0":expect(1, "has no node nobody/0")
      assert.falsy(ended.err:find("traceback", 1, true), ended.err)
      feed "lp.sleep 'x'":expect(1, "prompt:1: in main chunk")
    end)

    for _, launch_type in ipairs {"local_mt", "local_mp"} do
      it("evaluates with the globals of a sandbox where the node is in one: " .. launch_type, function()
        local script = [[
          local lp = require "lp"
          local program = lp.Program "boxed"
          local function Boxed() seen = 1; return {look = function() return seen end} end
          program:add_node(lp.CourierNode(Boxed):options{sandbox = {libraries = {"math"}}}, "node")
          return program]]
        local ended = feed(table.concat({".launch " .. launch_type, "node 'node/0':look()", "use node/0",
          "io, lp.Program, math.pi > 3, lp.context().node", "seen", "seen = 2", "self.look()"}, "\n"),
          nil, {script = script})
        ended:expect(0, "nil\tnil\ttrue\tnode/0\n1\n2\n")
      end)
    end

    it("does not take its own answers for what nodes have printed", function()
      local ended = feed "'the answer'\n.launch\nnode 'worker/0':say 'hello'\n.logs\n.logs"
      ended:expect(0)
      assert.equal(1, select(2, ended.out:gsub("the answer\n", "")), ended.out)
    end)

    it("looks at a run, and leaves it alone when it ends", function()
      local run = support.run(PROGRAM, {}, {background = true, words = {"--workers=2"}})
      local function beside(text, ...)
        local words = table.concat({...}, " ")
        local command = ("cd %s && printf '%%s\\n' '%s' | XDG_RUNTIME_DIR=$PWD/run %s repl demo %s >answer 2>complaint")
                        :format(run.folder, text, support.lp(), words)
        local _, _, status = os.execute(command)
        return status, run:read "answer", run:read "complaint"
      end
      support.until_true("the run", function() return beside(".nodes") == 0 end)
      local status, out = beside(".nodes", "--json")
      assert.equal(0, status)
      assert.equal(3, #cjson.decode(out))
      assert.equal(1, (beside(".node nobody/7")))
      assert.equal("9\n", select(2, beside 'node "worker/1":square(3)'))
      assert.equal(nil, run:ended())
      beside ".stop"
      run:finish():expect(0)
      local gone, _, err = beside ".nodes"
      assert.equal(1, gone)
      assert.truthy(err:find("there is no run demo", 1, true))
    end)
  end)

  describe("at a terminal", function()
    local it = support.it_interrupts(it, pending)

    local function start(...)
      return terminal.start({"repl", "p.lua", ...}, {files = {["p.lua"] = PROGRAM}}):wait_prompt "demo>"
    end

    it("completes commands, nodes, methods and Lua names", function()
      local at = start()
      at:type(".no"):complete "demo> .node":press "Tab":wait "nodes":press "C-c":wait_prompt "demo>"
      at:type(".node wo"):complete "demo> .node worker/0":press "Enter":wait "square(x)"
      at:wait_prompt "demo>":type "string.for":complete "demo> string.format":press "C-c"
      at:wait_prompt "demo>":type "whi":complete "demo> while":press "C-c"
      at:wait_prompt "demo>":line(".launch", "local_mt"):wait_prompt "demo>"
      at:type 'node "worker/0":sq':complete 'demo> node "worker/0":square'
      at:type "(6)":press "Enter":wait "36"
      at:wait_prompt "demo>":type "use wor":complete "demo> use worker/0":press "Enter"
      at:wait_prompt "demo worker/0>":type "self.na":complete "demo worker/0> self.name"
      at:press "Enter":wait "Ann"
    end)

    it("takes several lines, remembers them, and forgets a half-typed one at Ctrl-C", function()
      local at = start()
      at:line "for i = 41, 42 do":wait_prompt "....>":line "print(i * 10)":wait_prompt "....>":line("end", "\n420")
      at:wait_prompt "demo>":line "broken = {":wait_prompt "....>":press "C-c":wait_prompt "demo>"
      at:line("'next' .. 'one'", "nextone"):wait_prompt "demo>"
      at:press "Up":wait_prompt "demo> 'next' .. 'one'":press("Up", "Up"):wait_prompt "demo> end":press "C-c"
      at:wait_prompt "demo>":press "C-d":wait "ended with status 0"
    end)

    it("keeps its history in a file", function()
      local at = start()
      at:line("1000 + 234", "1234"):wait_prompt "demo>":press "C-d":wait "ended with status 0"
      at = terminal.start({"repl", "p.lua"}, {beside = at.folder}):wait_prompt "demo>"
      at:press "Up":wait_prompt "demo> 1000 + 234"
    end)

    it("ends the statement that runs at Ctrl-C, and nothing else", function()
      local at = start()
      at:line(".launch", "local_mt"):wait_prompt "demo>"
      at:line "while true do end":interrupt():wait_prompt "demo>":clear():wait_prompt "demo>"
      at:line "while true do pcall(lp.sleep, 1000) end":interrupt():wait_prompt "demo>"
      at:clear():wait_prompt "demo>":line "use worker/0":wait_prompt "demo worker/0>"
      at:line "while true do end":interrupt():wait_prompt "demo worker/0>"
      at:line("'the node lives ' .. self.name", "the node lives Ann"):wait_prompt "demo worker/0>"
      at:line "use":wait_prompt "demo>":line("node 'worker/0':square(20)", "400")
    end)

    it("shows what nodes print above the line that is typed", function()
      local at = start()
      at:line(".launch", "local_mt"):wait_prompt "demo>"
      at:line "f = lp.spawn(function() lp.sleep(0.3) node 'worker/0':say 'from below' end)":wait_prompt "demo>"
      at:type "half typ":wait "[worker/0] from below":wait_prompt "demo> half typ"
    end)

    it("leaves a node that hangs, and the run goes on", function()
      local run = support.run(PROGRAM, {}, {background = true})
      support.until_true("the run", function()
        return support.shell("ls %s/run/lp 2>/dev/null", run.folder) ~= ""
      end)
      local at = terminal.start({"repl", "demo"}, {beside = run.folder}):wait_prompt "demo>"
      at:line "use worker/0":wait_prompt "demo worker/0>"
      local began = run.folder .. "/began"
      at:line(("os.execute 'touch %s; sleep 1000'"):format(began))
      support.until_true("the node hangs", function() return io.open(began) ~= nil end)
      at:interrupt():wait_prompt "demo worker/0>"
      at:clear():wait_prompt "demo worker/0>":line "self.name":interrupt():wait_prompt "demo worker/0>"
      at:line "use":wait_prompt "demo>"
      at:line(".nodes", "running"):wait_prompt "demo>":press "C-d":wait "ended with status 0"
      assert.equal(nil, run:ended())
      run:signal "QUIT"
      run:finish()
    end)
  end)
end)
