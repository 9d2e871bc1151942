--- Commands about a run, from other shells: each is started as a user would, in the same run folders.

local cjson = require "cjson"
local support = require "spec.e2e.support"

local PROGRAM = [[
  local lp = require "lp"
  local Worker = {}
  Worker.__index = Worker
  function Worker.new(name) return setmetatable({name = name, count = 0}, Worker) end
  function Worker:square(x)
    self.count = self.count + 1
    return x * x
  end
  function Worker:sleep(seconds) lp.sleep(seconds) end
  function Worker:fail() error "it went wrong" end
  local program = lp.Program "demo"
  local worker = program:add_node(lp.CourierNode(Worker.new, "Ann"), "worker")
  program:add_node(lp.LuaNode(function(worker)
    worker:square(2)
    print "up"
    lp.wait_for_stop()
  end, worker), "driver")
  return program
]]

describe("the commands about a run", function()
  teardown(support.clean)

  --- `lp WORDS` beside `run`: status, stdout, stderr.
  local function lp(run, ...)
    local list = {}
    for i, word in ipairs {...} do list[i] = "'" .. word:gsub("'", [['\'']]) .. "'" end
    local folder = run.folder
    local command = ("cd %s && XDG_RUNTIME_DIR=$PWD/run timeout -s KILL 60 %s %s >answer 2>complaint </dev/null")
                    :format(folder, support.lp(), table.concat(list, " "))
    local _, _, status = os.execute(command)
    return status, run:read "answer", run:read "complaint"
  end

  local function shows(run, ...)
    local status, out, err = lp(run, ...)
    assert.equal("", err)
    assert.equal(0, status)
    return out
  end

  local function shows_json(run, ...)
    local words = {...}
    words[#words + 1] = "--json"
    return cjson.decode(shows(run, table.unpack(words)))
  end

  local function refuses(run, text, ...)
    local status, out, err = lp(run, ...)
    assert.truthy(err:find(text, 1, true), ("expected %q, got %q and %q"):format(text, out, err))
    assert.equal(1, status)
  end

  support.placements(describe, "on a healthy program", function(launch_type)
    local run

    setup(function()
      run = support.run(PROGRAM, {"--launch", launch_type}, {background = true}):wait_for "up"
    end)

    teardown(function()
      if not run:ended() then shows(run, "stop", "demo") end
      run:finish():expect(0)
    end)

    it("list programs", function()
      local found = shows_json(run, "ps")
      assert.equal(1, #found)
      assert.equal("demo", found[1].name)
      assert.equal(launch_type, found[1].launch_type)
      assert.equal(run:pid(), found[1].pid)
      assert.truthy(shows(run, "ps"):find(found[1].id, 1, true))
    end)

    it("take a run by its id as well", function()
      local id = shows_json(run, "ps")[1].id
      assert.equal(2, #shows_json(run, "nodes", id))
      refuses(run, "there is no run other (lp ps lists those that are alive: " .. id .. ")", "nodes", "other")
    end)

    it("list nodes", function()
      local nodes = shows_json(run, "nodes", "demo")
      assert.equal("worker/0", nodes[1].name)
      assert.equal("driver/0", nodes[2].name)
      for _, node in ipairs(nodes) do
        assert.equal("running", node.state)
        assert.equal(launch_type == "local_mp", node.placement == "process")
        assert.equal(launch_type == "local_mp", node.pid ~= run:pid())
        assert.equal(0, node.restarts)
      end
      assert.truthy(shows(run, "nodes", "demo"):find "worker/0 +CourierNode +running")
    end)

    it("describe a node with its methods", function()
      local node = support.until_true("the methods", function()
        local record = shows_json(run, "node", "demo", "worker/0")
        return not record.partial and record -- on a busy machine it may be late
      end)
      assert.same({"driver/0"}, node.called_by)
      assert.same({name = "square", parameters = {"x"}, source = "./p.lua", line = 5},
                  {name = node.methods[3].name, parameters = node.methods[3].parameters,
                   source = "./p.lua", line = node.methods[3].line})
      refuses(run, "has no node worker/9 (it has: worker/0, driver/0)", "node", "demo", "worker/9")
    end)

    it("show who calls whom", function()
      assert.truthy(shows(run, "graph", "demo"):find "driver/0 %-> worker/0  0/s, p50 .*, 0 under way")
      local edge = shows_json(run, "graph", "demo").edges[1]
      assert.equal(1, edge.calls)
      assert.truthy(edge.p50 > 0 and edge.p99 >= edge.p50)
    end)

    it("call a method", function()
      assert.equal("49\n", shows(run, "call", "demo", "worker/0", "square", "7"))
      assert.equal("2.25\n", shows(run, "call", "demo", "worker/0", "square", "-1.5"))
      assert.equal("null\n", shows(run, "call", "demo", "worker/0", "sleep", "0"))
      assert.equal('"inf"\n', shows(run, "call", "demo", "worker/0", "square", "1e200"))
      refuses(run, "a number beyond what a float holds", "call", "demo", "worker/0", "square", "1e999")
      refuses(run, "it went wrong", "call", "demo", "worker/0", "fail")
      refuses(run, "argument 1 is not JSON: seven", "call", "demo", "worker/0", "square", "seven")
      refuses(run, "no method cube", "call", "demo", "worker/0", "cube", "2")
      refuses(run, "deadline exceeded", "call", "--timeout", "0.05", "demo", "worker/0", "sleep", "60")
    end)

    it("evaluate in a node", function()
      assert.equal("Ann\tnil\t3\n", shows(run, "eval", "demo", "worker/0", "self.name, nil, 3"))
      assert.equal("here\t1\n", shows(run, "eval", "demo", "worker/0", "print('here', 1)"))
      assert.equal("{key = {1, 2}}\n", shows(run, "eval", "demo", "worker/0", "return {key = {1, 2}}"))
      assert.same({printed = {"p"}, values = {1, "x"}},
                  shows_json(run, "eval", "demo", "worker/0", "print 'p' return 1, 'x'"))
      shows(run, "eval", "demo", "worker/0", "seen = self.count")
      assert.truthy(tonumber(shows(run, "eval", "demo", "worker/0", "seen")) >= 1)
      refuses(run, "eval:1: no", "eval", "demo", "worker/0", "error 'no'")
      refuses(run, "expected near <eof>", "eval", "demo", "worker/0", "for")
      assert.equal("nil\n", shows(run, "eval", "demo", "driver/0", "self"))
    end)

    it("have the module in what they evaluate, without a require", function()
      assert.equal("worker/0\n", shows(run, "eval", "demo", "worker/0", "lp.context().node"))
      shows(run, "eval", "demo", "worker/0", "lp.sleep(0)")
      assert.equal("nil\n", shows(run, "eval", "demo", "worker/0", "_G.lp")) -- and leave none behind
    end)

    it("never load bytecode", function()
      refuses(run, "attempt to load a binary chunk", "eval", "demo", "worker/0", "\27Lua")
    end)

    it("show what was printed and logged", function()
      shows(run, "eval", "demo", "driver/0", "_G.print 'a line' require('lp').log.warning 'careful'")
      local function lines(...)
        local list = {}
        for i, line in ipairs(shows_json(run, "logs", "demo", ...)) do list[i] = line.text end
        table.sort(list) -- stdout and stderr of a process are two pipes
        return table.concat(list, ";")
      end
      support.until_true("the lines", function() return lines():find "a line.*careful" end)
      assert.equal("a line;up;warning: careful", lines "driver/0")
      assert.equal("warning: careful", lines("driver/0", "--level", "warning"))
      assert.equal(1, #shows_json(run, "logs", "demo", "driver/0", "--lines", "1"))
      assert.equal("", lines "worker/0")
      assert.truthy(shows(run, "logs", "demo"):find("[driver/0] a line\n", 1, true))
    end)

    it("show which nodes are paused, and that a node which nobody calls is not just starting", function()
      shows(run, "pause", "demo", "worker/0")
      local states = {}
      for _, node in ipairs(shows_json(run, "nodes", "demo")) do states[node.name] = node.state end
      shows(run, "resume", "demo", "worker/0")
      assert.same({["worker/0"] = "paused", ["driver/0"] = "running"}, states)
      assert.equal("running", shows_json(run, "nodes", "demo")[1].state)
      for _, stats in ipairs(shows_json(run, "stats", "demo")) do states[stats.node] = stats.state end
      assert.same({["worker/0"] = "serving", ["driver/0"] = "running"}, states)
    end)

    it("collect garbage", function()
      local memory = shows_json(run, "gc", "demo", "worker/0")
      assert.truthy(memory.after > 0 and memory.before > 0)
    end)
  end)

  support.placements(describe, "that end what computes", function(launch_type)
    local it = support.it_interrupts(it, pending)
    local script = PROGRAM:gsub("function Worker:sleep", [[
      function Worker:spin() while true do end end
      function Worker:swallow()
        while true do pcall(pcall, function() for _ = 1, 1e6 do end end) end
      end
      %0]])

    for _, method in ipairs {"spin", "swallow"} do
      it("interrupt a method that does not end: " .. method, function()
        local run = support.run(script, {"--launch", launch_type}, {background = true}):wait_for "up"
        os.execute(("cd %s; XDG_RUNTIME_DIR=$PWD/run timeout -s KILL 60 %s call --timeout 0 demo worker/0 %s 2>spun &")
                   :format(run.folder, support.lp(), method))
        support.until_true("the loop", function()
          local status = lp(run, "eval", "--timeout", "0.1", "demo", "worker/0", "1")
          return status == 1
        end)
        refuses(run, "node worker/0 cannot answer", "eval", "--timeout", "0.1", "demo", "worker/0", "1")
        assert.is_true(shows_json(run, "node", "demo", "worker/0").partial)
        shows(run, "interrupt", "demo", "worker/0")
        run:wait_for("interrupted", "spun")
        assert.equal("4\n", shows(run, "call", "demo", "worker/0", "square", "2"))
        shows(run, "stop", "demo")
        run:finish():expect(0)
      end)
    end

    it("interrupt an evaluation when its time is over", function()
      local run = support.run(script, {"--launch", launch_type}, {background = true}):wait_for "up"
      refuses(run, "cannot answer", "eval", "--timeout", "0.1", "demo", "worker/0", "while true do end")
      assert.equal("4\n", shows(run, "call", "demo", "worker/0", "square", "2"))
      shows(run, "stop", "demo")
      run:finish():expect(0)
    end)
  end)

  support.placements(describe, "that change code", function(launch_type)
    it("reload the script, or another, for one node or all", function()
      local two = PROGRAM:gsub("local program = lp.Program[^\n]*\n",
                                '%0  program:add_node(lp.CourierNode(Worker.new), "other")\n')
      local run = support.run(two, {"--launch", launch_type}, {background = true}):wait_for "up"
      local function squares()
        return shows(run, "call", "demo", "worker/0", "square", "3") ..
               shows(run, "call", "demo", "other/0", "square", "3")
      end
      local function write(name, operation)
        local file <close> = assert(io.open(run.folder .. "/" .. name, "w"))
        file:write((two:gsub("x %* x", operation)))
      end
      assert.equal("9\n9\n", squares())
      write("p.lua", "x + x")
      assert.truthy(shows(run, "reload", "demo", "worker/0"):find "^1 node has new code")
      assert.equal("6\n9\n", squares())
      write("q.lua", "x + 100")
      assert.equal(2, shows_json(run, "reload", "demo", "q.lua").nodes)
      assert.equal("103\n103\n", squares())
      assert.equal("Ann\n", shows(run, "eval", "demo", "worker/0", "self.name"))
      write("q.lua", "x +")
      refuses(run, "q.lua:", "reload", "demo", "q.lua")
      refuses(run, "cannot open", "reload", "demo", "worker/0", "missing.lua")
      refuses(run, "/dev/zero: there are more than 64 MiB of it", "reload", "demo", "/dev/zero")
      assert.equal("103\n103\n", squares())
      shows(run, "stop", "demo")
      run:finish():expect(0)
    end)

    it("interrupt a script that computes for ever when nobody waits for it any more", function()
      local run = support.run(PROGRAM, {"--launch", launch_type}, {background = true}):wait_for "up"
      local file = assert(io.open(run.folder .. "/q.lua", "w"))
      file:write 'print "looping" while true do end'
      file:close()
      os.execute(([[cd %s && XDG_RUNTIME_DIR=$PWD/run %s sh -c 'echo $$ >asker; exec "$@"' sh \
                    %s reload demo q.lua >/dev/null 2>&1 &]]):format(run.folder, run.mark, support.lp()))
      run:wait_for "looping"
      os.execute(("kill -9 $(cat %s/asker)"):format(run.folder))
      shows(run, "stop", "demo")
      run:finish():expect(0)
    end)
  end)

  support.placements(describe, "that end nodes", function(launch_type)
    local script = PROGRAM:gsub('"Ann"%)', '%0:options{on_failure = "ignore"}')

    it("kill one, and restart it", function()
      local run = support.run(script, {"--launch", launch_type}, {background = true}):wait_for "up"
      local function worker() return shows_json(run, "nodes", "demo")[1] end
      shows(run, "kill", "demo", "worker/0")
      support.until_true("its end", function() return worker().state == "failed" end)
      assert.truthy(worker().last_error:find "killed")
      refuses(run, "has ended", "call", "demo", "worker/0", "square", "2")
      refuses(run, "has ended", "eval", "demo", "worker/0", "1")
      assert.is_true(shows_json(run, "node", "demo", "worker/0").partial)
      shows(run, "restart", "demo", "worker/0")
      assert.equal(1, worker().restarts)
      assert.equal("4\n", shows(run, "call", "demo", "worker/0", "square", "2"))
      shows(run, "stop", "demo")
      run:finish():expect(0)
    end)

    it("follow its output to the end", function()
      local run = support.run(script, {"--launch", launch_type}, {background = true}):wait_for "up"
      os.execute(("cd %s && XDG_RUNTIME_DIR=$PWD/run timeout -s KILL 60 %s logs -f demo driver/0 >follow 2>&1 &")
                 :format(run.folder, support.lp()))
      run:wait_for("up", "follow")
      shows(run, "eval", "demo", "driver/0", "_G.print 'more'")
      run:wait_for("more", "follow")
      shows(run, "stop", "demo")
      run:finish():expect(0)
      assert.equal("[driver/0] up\n[driver/0] more\n", run:read "follow")
    end)
  end)

  it("answer reserved names on control links only", function()
    local run = support.run(PROGRAM, {}, {background = true}):wait_for "up"
    local text = [[
      local core = require "lp.core"
      local ok, err = pcall(core.ask, core.client(lp_key, "worker/0"), "lp.eval", "1")
      return ok, err and err.code]]
    local key = shows_json(run, "ps")[1].id .. "/worker/0"
    assert.equal("false\tnot_found\n", shows(run, "eval", "demo", "driver/0",
                 (text:gsub("lp_key", ("%q"):format(key)))))
    shows(run, "stop", "demo")
    run:finish():expect(0)
  end)

  it("know no run where none is", function()
    local run = support.start {"version"}
    run:finish()
    assert.equal("no program runs here\n", shows(run, "ps"))
    assert.same({}, shows_json(run, "ps"))
    refuses(run, "there is no run demo: no program runs here", "nodes", "demo")
  end)

  it("say what is missing", function()
    local run = support.run(PROGRAM, {}, {background = true}):wait_for "up"
    local mistakes = {{"nodes", "the run is missing"}, {"call demo worker/0", "METHOD"}}
    for _, case in ipairs(mistakes) do
      local words = {}
      for word in case[1]:gmatch "%S+" do words[#words + 1] = word end
      local status, _, err = lp(run, table.unpack(words))
      assert.equal(2, status)
      assert.truthy(err:find(case[2], 1, true), err)
    end
    shows(run, "stop", "demo")
    run:finish():expect(0)
  end)
end)
