--- Where the output of nodes goes.
local support = require "spec.e2e.support"
local lp = require "lp"

local TALK = [[
  local lp = require "lp"
  local program = lp.Program "talk"
  local function talk()
    print("hello from " .. lp.context().node)
    io.stderr:write("an error line\n")
    lp.log.info "a line of the log"
  end
  for _ = 1, 2 do program:add_node(lp.LuaNode(talk), "w") end
  program:add_node(lp.MultiThreadingColocation{lp.LuaNode(talk)}, "pair")
  return program]]

local FAIL = [[
  local lp = require "lp"
  local program = lp.Program "fail"
  program:add_node(lp.LuaNode(function() print "last words" error "broken" end), "bad")
  program:add_node(lp.LuaNode(function() lp.wait_for_stop() end), "other")
  return program]]

local WAIT = [[
  local lp = require "lp"
  local program = lp.Program "wait"
  program:add_node(lp.LuaNode(function() print "waiting" lp.wait_for_stop() print "stopped" end), "w")
  program:add_node(lp.LuaNode(function() lp.wait_for_stop() end), "x")
  print "launched"
  return program]]

local function lines_of(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

local said = {"a line of the log", "an error line"}

support.placements(describe, "output_to_files", function(launch_type)
  teardown(support.clean)

  it("writes a file for each node, and says where", function()
    local ended = support.run(TALK, {"--launch", launch_type, "--terminal", "output_to_files", "--log-dir", "logs"})
    ended:expect(0, "output of the nodes goes to files in logs", "w/1: logs/w/1")
    assert.equal("", ended.out)
    assert.same({said[1], said[2], "hello from w/0"}, lines_of(ended:read "logs/w/0"))
    assert.same({said[1], said[2], "hello from w/1"}, lines_of(ended:read "logs/w/1"))
    local inner = launch_type == "local_mt" and "logs/pair/0.0" or "logs/pair/0"
    assert.same({said[1], said[2], "hello from pair/0/0"}, lines_of(ended:read(inner)))
  end)

  it("takes the folder from LAUNCHPAD_LOGGING_DIR and the choice from LAUNCHPAD_LAUNCH_LOCAL_TERMINAL", function()
    local ended = support.run(TALK, {"--launch", launch_type},
      {env = {"LAUNCHPAD_LOGGING_DIR=other", "LAUNCHPAD_LAUNCH_LOCAL_TERMINAL=output_to_files"}}):expect(0)
    assert.same({said[1], said[2], "hello from w/0"}, lines_of(ended:read "other/w/0"))
  end)

  it("says a failure in the terminal and in the file, with the status", function()
    local ended = support.run(FAIL, {"--launch", launch_type, "--log-dir", "logs"})
    ended:expect(1, "node bad/0 failed", "broken")
    local text = ended:read "logs/bad/0"
    assert.truthy(text:find("last words", 1, true), text)
    assert.truthy(text:find("node bad/0 failed", 1, true), text)
    assert.equal("", ended.out)
  end)

  it("begins a file anew when it is too large, and keeps the old ones", function()
    local ended = support.run([[
      local lp = require "lp"
      local program = lp.Program "long"
      program:add_node(lp.LuaNode(function()
        for i = 1, 40 do
          print(("line %d "):format(i) .. ("x"):rep(1000))
          lp.sleep(0.001)
        end
      end), "w")
      return program]], {"--launch", launch_type, "--log-dir", "logs", "--log-size", "15K"}):expect(0)
    local text = ended:read "logs/w/0.3" .. ended:read "logs/w/0.2" .. ended:read "logs/w/0.1" .. ended:read "logs/w/0"
    local last
    for number in text:gmatch "line (%d+)" do
      assert.truthy(not last or tonumber(number) == last + 1, "a line is missing")
      last = tonumber(number)
    end
    assert.equal(40, last)
    assert.truthy(#ended:read "logs/w/0" < 40000)
    assert.not_equal("", ended:read "logs/w/0.1")
  end)

  it("loses only lines on a full disk, and says so once", function()
    local ended = support.run([[
      local lp = require "lp"
      local program = lp.Program "full"
      for _ = 1, 2 do
        program:add_node(lp.LuaNode(function()
          for _ = 1, 100 do print(("x"):rep(1000)) end
          if lp.context().index == 0 then lp.log.info "done" end
        end), "w")
      end
      return program]], {"--launch", launch_type, "--log-dir", "logs"},
      {before = "trap '' XFSZ; ulimit -f 64;"}):expect(0, "output is lost", "File too large")
    assert.equal(1, select(2, ended.err:gsub("output is lost", "")))
  end)

  it("adds _1 to a file that another program writes to", function()
    local first = support.run(WAIT, {"--launch", launch_type, "--log-dir", "logs"}, {background = true})
    support.until_true("the first's file", function() return first:read "logs/w/0" == "waiting\n" end)
    local second = support.run(TALK, {"--launch", launch_type, "--log-dir", first.folder .. "/logs"})
    second:expect(0, first.folder .. "/logs/w/0_1")
    assert.same({said[1], said[2], "hello from w/0"}, lines_of(first:read "logs/w/0_1"))
    first:signal "TERM":finish():expect(143)
    assert.equal("waiting\nstopped\n", first:read "logs/w/0")
  end)

  it("is refused with the path when the file cannot be made", function()
    support.run(TALK, {"--launch", launch_type, "--log-dir", "file"}, {before = "echo >file;"})
      :expect(1, "cannot write log file file/w/0: Not a directory")
  end)
end)

local has_tmux = os.execute "command -v tmux >/dev/null"
local it_with_tmux = has_tmux and it or pending

support.placements(describe, "tmux_session", function(launch_type)
  teardown(support.clean)
  local function tmux(command, words)
    return support.shell("TMUX_TMPDIR=%s tmux %s 2>&1", command.folder, words)
  end

  local function start(words)
    local list = {"--launch", launch_type, "--terminal", "tmux_session"}
    table.move(words or {}, 1, #(words or {}), #list + 1, list)
    return support.run(WAIT, list, {background = true, env = {"TMUX=", "TMUX_TMPDIR=$PWD"}})
  end

  it_with_tmux("has a window for each node, which shows its output; Ctrl-C ends all", function()
    local command = start():wait_for("tmux session launchpad;", "err")
    assert.equal("w/0\nx/0", tmux(command, "list-windows -t =launchpad -F '#W'"))
    support.until_true("the output in the window", function()
      return tmux(command, "capture-pane -p -t =launchpad:=w/0"):find("waiting", 1, true)
    end)
    command:signal "INT":finish():expect(130)
    assert.truthy(tmux(command, "list-sessions"):find "no server running")
  end)

  it_with_tmux("takes a name that is free, and shows the window asked for", function()
    local first = start {"--tmux_session_name", "mine", "--tmux_open_window", "x/0"}
    first:wait_for("tmux session mine;", "err")
    support.until_true("the window", function()
      return tmux(first, "display-message -p -t =mine: '#W'") == "x/0"
    end)
    local second = support.run(FAIL, {"--launch", launch_type, "--terminal", "tmux_session",
                                      "--tmux_session_name", "mine"},
      {env = {"TMUX=", "TMUX_TMPDIR=" .. first.folder}})
    second:expect(1, "tmux session mine_0;", "node bad/0 failed")
    assert.truthy(tmux(first, "list-sessions"):find "^mine:")
    first:signal "TERM":finish():expect(143)
  end)

  it_with_tmux("leaves no window when the launcher is killed", function()
    local command = start():wait_for("tmux session launchpad;", "err"):signal "KILL"
    support.until_true("the end of the session", function()
      return tmux(command, "list-sessions"):find "no server running"
    end)
    command:wait_gone(10)
  end)
end)

describe("the terminal", function()
  teardown(support.clean)

  it("is refused when unknown, with the list", function()
    support.run(TALK, {"--terminal", "xterm"})
      :expect(2, "--terminal", "current_terminal, output_to_files, tmux_session")
    support.run(TALK, {}, {env = {"LAUNCHPAD_LAUNCH_LOCAL_TERMINAL=xterm"}})
      :expect(1, 'LAUNCHPAD_LAUNCH_LOCAL_TERMINAL: unknown terminal "xterm" (known: current_terminal')
  end)

  it("is an option of lp.launch", function()
    local program = lp.Program "p"
    program:add_node(lp.LuaNode(function() end), "a")
    local ok, err = pcall(lp.launch, program, {terminal = "xterm"})
    assert.is_false(ok)
    assert.truthy(tostring(err):find("one of current_terminal, output_to_files, tmux_session", 1, true), err)
  end)

  it("tmux_session says what to install when there is no tmux", function()
    local words = {"--terminal", "tmux_session"}
    local before = "mkdir bin; ln -s \"$(command -v sh)\" bin/sh;"
    support.run(TALK, words, {before = before, env = {"PATH=$PWD/bin"}}):expect(1, "needs tmux", "apt-get install tmux")
  end)
end)
