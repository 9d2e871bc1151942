--- Several programs: of one script, and at once on one machine.
local support = require "spec.e2e.support"

support.placements(describe, "several programs", function(launch_type)
  teardown(support.clean)

  local function run(text, how) return support.run(text, {"--launch", launch_type}, how) end

  local MAKE = [[
    local lp = require "lp"
    local function make(name, fn)
      local program = lp.Program(name)
      program:add_node(lp.LuaNode(fn), "node")
      return program
    end
  ]]

  it("run one after another", function()
    local ended = run(MAKE .. [[
      for i = 1, 3 do
        local run = lp.launch(make("round" .. i, function() print("in", lp.context().program) end))
        assert(run:wait())
        print("after " .. i)
      end]]):expect(0)
    local expected = {}
    for i = 1, 3 do expected[i] = ("[node/0] in\tround%d\nafter %d\n"):format(i, i) end
    assert.equal(table.concat(expected), ended.out)
  end)

  it("run at the same time; the command waits for all, and fails when one does", function()
    run(MAKE .. [[
      local first = lp.launch(make("first", function() error "broken" end))
      lp.launch(make("second", function() lp.sleep(0.2) print "second is done" end))
      assert(not pcall(first.wait, first))]]):expect(1, "node node/0 failed", "second is done")
  end)

  it("talk to each other by address", function()
    run(MAKE .. [[
      local server = lp.Program "server"
      server:add_node(lp.CourierNode(function() return {ping = function() return "pong" end} end), "node")
      local first = lp.launch(server)
      local client = first:client "node/0"
      local user = lp.Program "user"
      user:add_node(lp.LuaNode(function(other) print(other:ping()) end, client), "user")
      lp.launch(user):wait()
      first:stop()]]):expect(0, "[user/0] pong")
  end)

  it("of one name run beside each other, and end on their own", function()
    local wait = MAKE .. [[return make("twin", function() print "up" lp.wait_for_stop() end)]]
    local one = run(wait, {background = true}):wait_for "up"
    local two = run(wait, {background = true}):wait_for "up"
    one:signal "TERM":finish():expect(143)
    assert.is_nil(two:ended())
    two:signal "INT":finish():expect(130)
  end)

  it("are all stopped by one Ctrl-C", function()
    local command = run(MAKE .. [[
      for i = 1, 2 do
        lp.launch(make("p" .. i, function() print("up", lp.context().program) lp.wait_for_stop() print "down" end))
      end]], {background = true}):wait_for "up\tp1":wait_for "up\tp2"
    command:signal "INT":finish():expect(130)
    assert.equal(2, select(2, command.out:gsub("down", "")))
  end)

  it("given in a list: the first is launched, with a notice", function()
    run(MAKE .. [[return {make("one", function() print "one" end), make("two", function() print "two" end)}]])
      :expect(0, "several programs given", "one")
  end)
end)

describe("private temporary folders", function()
  teardown(support.clean)

  it("are removed when the launcher is killed", function()
    local command = support.run([[
      local lp = require "lp"
      local program = lp.Program "tmp"
      program:add_node(lp.MultiProcessingColocation {lp.LuaNode(function()
        io.open(os.getenv "TMPDIR" .. "/file", "w"):close()
        print "up"
        lp.wait_for_stop()
      end)}, "node")
      return program]], {}, {background = true, env = {"TMPDIR=$PWD/t"}, before = "mkdir t;"}):wait_for "up"
    local function left() return support.shell("find %s/t -mindepth 1", command.folder) end
    assert.truthy(left():find("/file", 1, true))
    command:signal "KILL":wait_gone(10)
    assert.equal("", left())
  end)

  it("are removed by the next command when everybody was killed", function()
    local folder = support.shell "mktemp -d /tmp/lpe.XXXXXX"
    -- A number that no process has.
    support.shell("mkdir -p %s/lp-tmp.4194305.abcdef/x %s/lp-tmp.$PPID.abcdef %s/lp-tmp.other", folder, folder, folder)
    support.shell("TMPDIR=%s XDG_RUNTIME_DIR=%s %s ps", folder, folder, support.lp())
    local left = support.shell("ls %s", folder)
    support.shell("rm -rf %s", folder)
    assert.is_nil(left:find "4194305")
    assert.truthy(left:find "lp%-tmp%.%d+%.abcdef" and left:find "lp%-tmp%.other")
  end)
end)
