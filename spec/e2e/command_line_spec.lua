local support = require "spec.e2e.support"

local HELLO = [[
  local lp = require "lp"
  local program = lp.Program "hello"
  program:add_node(lp.LuaNode(function() print "hello" end), "node")
  return program]]

describe("the command", function()
  teardown(support.clean)

  local function lp(words, how)
    return support.start(words, how):finish()
  end

  it("shows its help and its version on stdout", function()
    for _, words in ipairs {{"help"}, {"--help"}, {"-h"}} do
      local shown = lp(words):expect(0, "lp run [options] PROGRAM.lua")
      assert.equal("", shown.err)
    end
    lp {"help", "run"}:expect(0, "--launch", "--notice")
    lp {"run", "--help"}:expect(0, "--launch", "--notice")
    lp {"test", "--help"}:expect(0, "lp test")
    assert.truthy(lp {"version"}.out:find "^lp %d+%.%d+")
    assert.truthy(lp {"--version"}.out:find "^lp %d+%.%d+")
  end)

  it("answers usage errors on stderr with status 2", function()
    for _, case in ipairs {
      {{}, "Usage"},
      {{"fly"}, "unknown command 'fly'"},
      {{"p.lua"}, "lp run p.lua"},
      {{"help", "fly"}, "unknown command 'fly'"},
      {{"run"}, "the program is missing"},
      {{"run", "--bogus", "p.lua"}, "--bogus"},
      {{"run", "--launch", "local_xx", "p.lua"}, "unknown launch type 'local_xx'"},
      {{"run", "p.lua", "--lp_launch_type=cluster"}, "unknown launch type 'cluster'"},
      {{"run", "--notice", "soon", "p.lua"}, "--notice"},
      {{"run", "--set", "nonsense", "p.lua"}, "LABEL.KEY=VALUE"},
      {{"run", "/does/not/exist.lua"}, "/does/not/exist.lua"},
      {{"run", "/tmp"}, "/tmp"},
      {{"version", "now"}, "unexpected word 'now'"},
      {{"--node"}, "lp"},
      {{"test", "/does/not/exist_spec.lua"}, "/does/not/exist_spec.lua"},
      {{"test", "--bogus"}, "--bogus"},
    } do
      local ended = lp(case[1]):expect(2, case[2])
      assert.equal("", ended.out)
    end
  end)

  it("reads what has no end up to a bound, and says so", function()
    local said = "/dev/zero: there are more than 64 MiB of it"
    lp {"run", "/dev/zero"}:expect(2, said)
    lp {"graph", "/dev/zero"}:expect(2, said)
    lp({"run", "-"}, {input = "</dev/zero"}):expect(2, "standard input: there are more than 64 MiB of it")
    lp {"repl", "/dev/zero"}:expect(1, said)
    support.run(HELLO, {"--resources", "/dev/zero"}):expect(2, said)
  end)

  it("reads programs from pipes", function()
    lp({"run", "/dev/stdin"}, {script = HELLO, input = "<p.lua"}):expect(0, "hello")
    lp({"run", "/dev/stdin"}, {script = HELLO, before = "cat p.lua |"}):expect(0, "hello")
    lp({"run", "pipe"}, {script = HELLO, before = "mkfifo pipe; cat p.lua >pipe &"}):expect(0, "hello")
  end)

  it("names file and line of a syntax error", function()
    support.run("local x = 1\nlocal = 2\n"):expect(1, "p.lua:2:")
  end)

  it("names file and line of an error in the script, with a traceback", function()
    local ended = support.run("local function f() error 'no good' end\nf()\n")
    ended:expect(1, "p.lua:1: no good", "stack traceback", "p.lua:2: in main chunk")
  end)

  it("says what the script returned instead of a program", function()
    for _, case in ipairs {{"return 42", "42"}, {"return {}", "table"}, {"return 'x'", "x"}, {"", "nil"},
                           {"return require('lp').Program 'empty'", "has no nodes"}} do
      support.run(case[1]):expect(1, case[2])
    end
  end)

  it("takes the port of an address from the environment, and nothing else for one", function()
    local script = [[
      local lp = require "lp"
      local program, address = lp.Program "p", lp.Address "web"
      local node = lp.LuaNode(function(address) print(address:resolve()) end, address)
      program:add_node(os.getenv "NOBODY" and node or node:allocate(address), "n")
      return program]]
    local function run(variable)
      return support.start({"run", "SCRIPT"}, {script = script, env = {variable}}):finish()
    end
    run("LP_PORT_web=8080"):expect(0, "[n/0] localhost:8080\n")
    for _, port in ipairs {"http", "0", "65536", "8080x", "-1"} do
      local words = ('the variable LP_PORT_web: expected a port, 1 to 65535, got "%s"'):format(port)
      run("LP_PORT_web=" .. port):expect(1, "lp.launch: " .. words)
    end
    run("NOBODY=1"):expect(1, "lp.launch: node n/0: lp.Address(\"web\") belongs to no node")
  end)

  it("runs a program from standard input", function()
    local ended = support.start({"run", "-"}, {script = HELLO, input = "<p.lua"}):finish()
    ended:expect(0, "[node/0] hello")
  end)

  it("skips a first line for the shell", function()
    local script = "#!/usr/bin/env -S lp run\n" .. HELLO
    support.run(script):expect(0, "hello")
    support.start({"run", "-"}, {script = script, input = "<p.lua"}):finish():expect(0, "hello")
  end)

  it("gives the script its words and takes Launchpad's out", function()
    local ended = support.run([[
      print(arg[0]:match "p.lua$", #arg, table.concat(arg, " "), ...)
      os.exit(0)]], {"--lp_launch_type", "local_mp"},
      {words = {"--num", "3", "--lp_termination_notice_secs=2", "x", "--lp_launch_type=local_mt"}})
    ended:expect(0)
    assert.equal("p.lua\t3\t--num 3 x\t--num\t3\tx\n", ended.out)
  end)

  it("takes Launchpad's spellings before and after the script", function()
    local script = [[
      local lp = require "lp"
      local program = lp.Program "where"
      program:add_node(lp.LuaNode(function() print(lp.context().launch_type) end), "node")
      return program]]
    support.run(script, {"--lp_launch_type=local_mp"}):expect(0, "[node/0] local_mp")
    support.run(script, nil, {words = {"--lp_launch_type", "local_mp"}}):expect(0, "[node/0] local_mp")
    support.run(script, {"--launch", "local_mp"}):expect(0, "[node/0] local_mp")
    support.run(script, nil, {words = {"--launch", "local_mp"}}):expect(0, "[node/0] local_mt")
  end)

  it("refuses flags the script does not know, and shows its help", function()
    local script = [[
      local lp = require "lp"
      local flags = lp.flags{num = {2, "How many."}}
      print(flags.num)
      os.exit(0)]]
    support.run(script, nil, {words = {"--num", "7"}}):expect(0, "7")
    support.run(script, nil, {words = {"--bogus"}}):expect(2, "bogus")
    local help = support.run(script, nil, {words = {"--help"}}):expect(0, "How many.")
    assert.equal("", help.err)
  end)

  it("exits with the status of os.exit in the main chunk", function()
    support.run("os.exit(7)"):expect(7)
    support.run("os.exit(true)"):expect(0)
    support.run("os.exit(false)"):expect(1)
  end)
end)
