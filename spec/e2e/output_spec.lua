--- What a program prints, as its user sees it.
local support = require "spec.e2e.support"

local ONE = [[
  local lp = require "lp"
  local program = lp.Program "output"
  program:add_node(lp.LuaNode(function()
    %s
  end), "node")
  return program]]

local function lines(text)
  local list = {}
  for line in text:gmatch "[^\n]*\n?" do
    if line ~= "" then list[#list + 1] = line end
  end
  return list
end

support.placements(describe, "output", function(launch_type)
  teardown(support.clean)

  local function run(body, how)
    return support.run(ONE:format(body), {"--launch", launch_type}, how)
  end

  it("has the node's name before each line, stdout and stderr apart", function()
    local ended = run [[
      print("one", 2, nil)
      io.write("a\nb\n", 3, "\n")
      io.stderr:write("bad\nworse\n")
      io.stdout:write("\n")]]
    ended:expect(0)
    assert.equal("[node/0] one\t2\tnil\n[node/0] a\n[node/0] b\n[node/0] 3\n[node/0] \n", ended.out)
    assert.equal("[node/0] bad\n[node/0] worse\n", ended.err)
  end)

  it("goes nowhere when the standard streams are closed", function()
    for _, closed in ipairs {"<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"} do
      run([[print "said" io.stderr:write "complained" lp.sleep(0.02)]], {input = "", output = closed}):expect(0)
    end
  end)

  it("keeps the order of both streams in one file", function()
    local ended = run([[
      for i = 1, 100 do print(i) io.stderr:write("-", i, "\n") end]], {output = ">out 2>&1"})
    local expected = {}
    for i = 1, 100 do expected[i] = ("[node/0] %d\n[node/0] -%d\n"):format(i, i) end
    assert.equal(table.concat(expected), ended.out)
  end)

  it("shows a partial line after a moment, and ends it at the node's end", function()
    local command = run([[
      io.write "waiting"
      lp.wait_for_stop()
      io.write "bye"]], {background = true})
    command:wait_for("[node/0] waiting"):signal "INT"
    command:finish()
    assert.truthy(command.out:find "%[node/0%] .-bye\n$", command.out)
  end)

  it("passes long lines whole, and any byte", function()
    local ended = run [[
      print(("x"):rep(200000))
      io.write("\0\1\255\r\n")]]
    local expected = "[node/0] " .. ("x"):rep(200000) .. "\n[node/0] \0\1\255\r\n"
    assert.is_true(expected == ended.out, #expected .. " bytes expected, got " .. #ended.out)
  end)

  it("of a log that is written faster than printed is shown or counted, every line", function()
    local ended = support.run([[
      local lp = require "lp"
      local program = lp.Program "flood"
      program:add_node(lp.LuaNode(function()
        for _ = 1, 200000 do lp.log.warning "x" end
      end), "node")
      return program]], {"--launch", launch_type}):expect(0)
    local _, shown = ended.err:gsub("%[node/0%] warning: x\n", "")
    local dropped = 0
    for count in ended.err:gmatch "(%d+) lines of the log were dropped" do dropped = dropped + count end
    assert.equal(200000, shown + dropped)
  end)

  it("never mixes lines of many nodes and loses none", function()
    local ended = support.run([[
      local lp = require "lp"
      local program = lp.Program "chatty"
      program:group("node", function()
        for _ = 1, 20 do
          program:add_node(lp.LuaNode(function()
            local me = lp.context().index
            for i = 1, 100 do
              io.write(me, ":") io.write(i, ":", ("x"):rep(i * 7 % 90), "\n")
              if i % 10 == 0 then lp.sleep(0) end
            end
          end))
        end
      end)
      return program]], {"--launch", launch_type}):expect(0)
    local nexts, count = {}, 0
    for _, line in ipairs(lines(ended.out)) do
      local node, me, i, rest = line:match "^%[node/(%d+)%] (%d+):(%d+):(x*)\n$"
      assert(node and node == me, "mixed: " .. line)
      local want = (nexts[me] or 0) + 1
      assert(tonumber(i) == want and #rest == want * 7 % 90, "out of order: " .. line)
      nexts[me], count = want, count + 1
    end
    assert.equal(2000, count)
  end)

  it("has no colours in a file, and colours on a terminal unless refused", function()
    assert.is_nil(run "print 'x'".out:find "\27")
    local function typescript(options, env)
      local command = support.start({"-qec", '"$LP_COMMAND" run ' .. options .. " --launch " .. launch_type ..
        " p.lua", "/dev/null"}, {script = ONE:format "print 'shown'", env = env, program = "script"})
      return command:finish():expect(0, "shown").out
    end
    assert.truthy(typescript("", {"TERM=xterm"}):find "\27%[")
    assert.is_nil(typescript("--no-color", {"TERM=xterm"}):find "\27")
    assert.is_nil(typescript("", {"TERM=xterm", "NO_COLOR=1"}):find "\27")
    assert.is_nil(typescript("", {"TERM=dumb"}):find "\27")
  end)

  it("of a node that refuses what is too much is one line", function()
    local ended = support.run([[
      local lp = require "lp"
      local program = lp.Program "output"
      local full = lp.CourierNode(function()
        return {wait = function() lp.wait_for_stop() end, refused = function() return lp.stats().refused end}
      end):options{max_concurrency = 1, max_pending = 1, priority_methods = {"refused"}}
      program:add_node(lp.LuaNode(function(full)
        full:refused() -- it is there, and its limits are known
        for _ = 1, 20 do full.notify:wait() end
        repeat lp.sleep(0.01) until full:refused() == 18
        lp.stop()
      end, program:add_node(full, "full")), "node")
      return program]], {"--launch", launch_type})
    ended:expect(0, "its max_pending")
    assert.equal(1, #lines(ended.err))
  end)

  it("to a reader that has gone is dropped, and the program ends well", function()
    local ended = run([[for i = 1, 20000 do print(i) end]], {output = "2>err | head -n 1 >out"})
    assert.equal("[node/0] 1\n", ended.out)
    assert.equal("", ended.err)
  end)

  it("of what nodes start has the node's name under processes only", function()
    local ended = run [[os.execute "echo shell"]]
    assert.equal(launch_type == "local_mp" and "[node/0] shell\n" or "shell\n", ended.out)
  end)
end)

describe("the main chunk's output", function()
  teardown(support.clean)

  it("has no prefix and its lines are not torn", function()
    local ended = support.run("io.write('one ', 'line\\n') print('two') io.stderr:write('three\\n') os.exit()")
    assert.equal("one line\ntwo\n", ended.out)
    assert.equal("three\n", ended.err)
  end)
end)
