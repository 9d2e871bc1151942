--- How programs end, and that nothing is left of them however they do.
local support = require "spec.e2e.support"
local interrupts = support.it_interrupts(it, pending)

--- A script with one node of each given constructor text; `more` goes into the chunk.
local function script(nodes, more)
  local text = {'local lp = require "lp"', 'local program = lp.Program "ending"'}
  for _, node in ipairs(nodes) do
    text[#text + 1] = ("do\n  local node = %s\n  program:add_node(node, %q)\nend"):format(node[2], node[1])
  end
  text[#text + 1] = more or ""
  text[#text + 1] = "return program"
  return table.concat(text, "\n")
end

local SERVER = {"server", "lp.CourierNode(function() print 'serving' return {ping = function() return 1 end} end)"}
local COMPUTING = {"computing", "lp.LuaNode(function() print 'computing' while true do end end)"}
local STUBBORN = {"stubborn", [[lp.LuaNode(function()
    local mark <close> = setmetatable({}, {__close = function() print "closed" end})
    print "stubborn"
    while true do pcall(function() while true do end end) end
  end)]]}
local SHELL = {"shell", [[lp.LuaNode(function()
    print "shell"
    os.execute("sleep 1000 & wait")
  end)]]}
local POPEN = {"popen", [[lp.LuaNode(function()
    local pipe = io.popen("sleep 1000 & echo started; wait")
    print("popen", pipe:read "l")
    pipe:read "a"
  end)]]}

describe("a script", function()
  teardown(support.clean)

  it("that fails in a task it spawned ends with that error and no guess about memory", function()
    local ended = support.run([[
      local lp = require "lp"
      lp.spawn(function() error "boom in a task" end)
      lp.sleep(10)]])
    ended:expect(1, "boom in a task")
    assert.is_nil(ended:read "err":find("is memory out", 1, true))
  end)
end)

support.placements(describe, "a program", function(launch_type)
  local function run(text, words, how)
    words = words or {}
    table.insert(words, 1, launch_type)
    table.insert(words, 1, "--launch")
    return support.run(text, words, how)
  end

  local function start(nodes, words)
    return run(script(nodes), words, {background = true})
  end

  teardown(support.clean)

  it("ends when its nodes have ended", function()
    run(script {{"a", "lp.LuaNode(function() print 'one' end)"},
                {"b", "lp.LuaNode(function() lp.sleep(0.01) print 'two' end)"}}):expect(0, "[a/0] one", "[b/0] two")
  end)

  it("ends with status 0 when a node stops it", function()
    run(script {SERVER, {"stopper", "lp.LuaNode(function() lp.stop 'enough' end)"}}):expect(0, "enough")
  end)

  it("gives stop handlers and wait_for_stop their time", function()
    run(script {
      {"waits", "lp.LuaNode(function() lp.wait_for_stop() lp.sleep(0.05) print 'cleaned' end)"},
      {"handles", "lp.LuaNode(function() lp.register_stop_handler(function() print 'handled' end) " ..
                  "lp.wait_for_stop() lp.sleep(0.05) end)"},
      {"stopper", "lp.LuaNode(function() lp.sleep(0.05) lp.stop() end)"}}):expect(0, "cleaned", "handled")
  end)

  it("logs no failure of loops that a stop ends, but of what goes wrong then", function()
    local ended = run([[
      local lp = require "lp"
      local program = lp.Program "loops"
      local server = program:add_node(lp.CourierNode(function()
        return {ping = function() return 1 end, hang = function() lp.sleep(1000) end}
      end), "server")
      local function add(name, fn) program:add_node(lp.LuaNode(fn, server), name) end
      add("calls", function(server) while true do server:ping() lp.sleep(0.001) end end)
      add("sleeps", function() while true do lp.sleep(0.01) end end)
      add("waits", function(server)
        server.notify:hang()
        server.futures:hang():result()
      end)
      add("fails", function() lp.wait_for_stop() error "broken at the end" end)
      add("wraps", function() error("its own: " .. select(2, pcall(lp.sleep, 1000))) end)
      add("stopper", function(server) server:ping() lp.stop() end)
      return program]], {"--notice", "0.2"})
    ended:expect(0, "node fails/0 failed while the program was stopping:", "broken at the end",
                 "node wraps/0 failed while the program was stopping:", "its own: cancelled")
    local _, count = ended.err:gsub("failed while", "")
    assert(count == 2 and not ended.err:find "error in", ended.err)
  end)

  local failures = {
    ["function"] = "lp.LuaNode(function() error 'broken' end)",
    constructor = "lp.CourierNode(function() error 'broken' end)",
    ["constructor's second result"] = "lp.CourierNode(function() return nil, 'broken' end)",
    run = "lp.CourierNode(function() return {run = function() error 'broken' end} end)",
    ["spawned task"] = "lp.LuaNode(function() lp.spawn(function() error 'broken' end) lp.sleep(60) end)",
    timer = "lp.LuaNode(function() lp.every(0.01, function() error 'broken' end) lp.sleep(60) end)",
  }
  for where, node in pairs(failures) do
    it("ends with status 1, name, message and traceback when its " .. where .. " fails", function()
      local ended = run(script {SERVER, {"bad", node}}):expect(1)
      local message = "[bad/0] node bad/0 failed: "
      assert.truthy(ended.err:find(message, 1, true), ended.err)
      assert.truthy(ended.err:find("broken", 1, true), ended.err)
      assert.truthy(where:find "second" or ended.err:find("p.lua:%d+: in"), ended.err)
    end)
  end

  it("fails with a node's os.exit that is not 0, goes on after one that is", function()
    run(script {SERVER, {"bad", "lp.LuaNode(function() os.exit(3) end)"}}):expect(1, "bad/0", "os.exit(3)")
    run(script {{"good", "lp.LuaNode(function() os.exit(0) print 'never' end)"},
                {"other", "lp.LuaNode(function() lp.sleep(0.05) print 'later' end)"}}):expect(0, "later")
  end)

  it("logs a failure after the stop, and does not count it", function()
    run(script {{"late", "lp.LuaNode(function() lp.wait_for_stop() error 'too late' end)"},
                {"stopper", "lp.LuaNode(function() lp.sleep(0.05) lp.stop() end)"}})
      :expect(0, "too late", "late/0")
  end)

  for _, case in ipairs {{"INT", 130}, {"TERM", 143}, {"HUP", 129}} do
    it(("ends with status %d on SIG%s"):format(case[2], case[1]), function()
      local command = start {SERVER}
      command:wait_for("serving"):signal(case[1])
      command:finish():expect(case[2])
    end)
  end

  it("is killed at once by a second Ctrl-C", function()
    local command = start({COMPUTING, SERVER}, {"--notice", "1000"})
    command:wait_for("computing"):wait_for("serving"):signal "INT"
    command:wait_for("press Ctrl-C again", "err"):signal "INT"
    command:finish()
    assert.truthy(command.status == 130 or command.status == 124, command.status)
  end)

  interrupts("names a node that does not stop, ends with 124 and runs its close handlers", function()
    local command = start({STUBBORN, SERVER}, {"--notice", "0.1"})
    command:wait_for("stubborn"):wait_for("serving"):signal "INT"
    command:finish():expect(124, "stubborn/0", "closed")
  end)

  it("ends with 124 when a node swallows its cancellation, each time", function()
    local commands = {}
    for i = 1, 8 do
      commands[i] = start({{"deaf", "lp.LuaNode(function() while true do pcall(lp.sleep, 60) end end)"},
                           {"stopper", "lp.LuaNode(function() lp.stop() end)"}}, {"--notice", "0.05"})
    end
    for _, command in ipairs(commands) do command:finish():expect(124, "deaf/0") end
  end)

  interrupts("stops by itself with a stubborn node beside others that go on", function()
    run(script {STUBBORN, {"other", "lp.LuaNode(function() lp.sleep(0.1) print 'went on' lp.stop() end)"}},
        {"--notice", "0.1"}):expect(124, "went on", "stubborn/0", "closed")
  end)

  interrupts("kills at once with notice 0", function()
    local ended = run(script {COMPUTING, {"waits", "lp.LuaNode(function() lp.wait_for_stop() print 'asked' end)"},
                {"stopper", "lp.LuaNode(function() lp.sleep(0.05) lp.stop() end)"}}, {"--notice", "0"})
    ended:expect(0)
    assert.is_nil(ended.out:find "asked")
  end)

  it("never kills with a negative notice", function()
    run(script {{"slow", "lp.LuaNode(function() lp.wait_for_stop() lp.sleep(1.5) print 'in the end' end)"},
                {"stopper", "lp.LuaNode(function() lp.stop() end)"}}, {"--notice", "-1"}):expect(0, "in the end")
  end)

  it("fails calls to a node that has ended at once, saying how it ended", function()
    local ended = run([[
      local lp = require "lp"
      local program = lp.Program "calls"
      local gone = program:add_node(lp.CourierNode(function()
        return {ping = function() end, run = function() end}
      end), "gone")
      program:add_node(lp.LuaNode(function(gone)
        local ok, err
        repeat ok, err = pcall(gone.ping, gone) until not ok
        assert(err.code == "unavailable", err)
        ok, err = pcall(gone.ping, gone)
        print(err.code, err.message)
      end, gone), "caller")
      return program]])
    ended:expect(0, "unavailable\t", "gone/0", "has finished")
  end)

  it("ends with children of its nodes", function()
    local command = start({SHELL, POPEN, SERVER}, {"--notice", "0.1"})
    command:wait_for("shell"):wait_for("started"):signal "INT"
    command:finish():expect(124, "shell/0")
  end)

  it("leaves alone what has left its process group", function()
    local command = run(script {{"leaver", [[lp.LuaNode(function()
      os.execute "setsid sh -c 'echo $$ >leaver; exec sleep 1000' & while ! test -s leaver; do sleep 0.01; done"
      print "left"
    end)]]}}, nil, {background = true})
    command:wait_for "left"
    support.until_true("the end of the command", function() return command:ended() end)
    local leaver = next(command:processes())
    command:kill()
    assert.equal(tonumber((command:read "leaver")), leaver)
  end)

  it("is gone within two seconds of its launcher's kill -9", function()
    local command = start {COMPUTING, SHELL, POPEN, SERVER}
    command:wait_for "computing"
    command:wait_for "serving"
    command:wait_for("shell"):wait_for "started"
    command:signal "KILL"
    command:wait_gone(2)
    if launch_type == "local_mt" then
      -- A process that is being killed has no words any more, but still its files and locks.
      support.until_true("the run folder's end", function()
        support.shell("echo 'os.exit()' | XDG_RUNTIME_DIR=%s/run %s run -", command.folder, support.lp())
        return command:leftovers() == ""
      end)
    end
    assert.equal("", command:leftovers())
  end)
end)

describe("a node's process", function()
  teardown(support.clean)

  it("that is killed fails the program with the signal's name", function()
    local command = support.run(script {SERVER, COMPUTING}, {"--launch", "local_mp"}, {background = true})
    command:wait_for("serving"):wait_for("computing")
    local victim
    for pid in pairs(command:processes()) do
      if pid ~= command:pid() then victim = pid end
    end
    support.shell("kill -9 %d", victim)
    command:finish():expect(1, "SIGKILL")
  end)

  it("is one of each node", function()
    local command = support.run(script {SERVER, COMPUTING}, {"--launch", "local_mp"}, {background = true})
    command:wait_for("serving"):wait_for("computing")
    local count = 0
    for _ in pairs(command:processes()) do count = count + 1 end
    assert.equal(3, count)
    command:signal("INT"):signal "INT"
    command:finish()
  end)
end)

describe("a script that launches nothing", function()
  teardown(support.clean)

  interrupts("ends with Ctrl-C while it computes", function()
    local command = support.run("print 'busy' while true do end", nil, {background = true})
    command:wait_for("busy"):signal "INT"
    command:finish():expect(130)
  end)
end)

describe("nodes in threads", function()
  teardown(support.clean)

  it("can use io.popen and os.execute while another one waits for a pipe", function()
    support.run([[
      local lp = require "lp"
      local program = lp.Program "pipes"
      program:add_node(lp.LuaNode(function()
        local pipe = io.popen "echo waits; sleep 1000"
        print(pipe:read "l")
        pipe:read "l"
      end), "waits")
      program:add_node(lp.LuaNode(function()
        lp.sleep(0.2) -- the other is likely to be reading: what was wrong needed that
        print(io.popen("echo popen"):read "l", os.execute "exit 3")
        print(io.popen("exit 4"):close())
        print(pcall(io.popen, "true", "x"))
        lp.stop()
      end), "starts")
      return program]], {"--notice", "0.1"}):expect(124, "popen\tnil\texit\t3", "nil\texit\t4", "invalid mode")
  end)
end)
