--- What a node started ends with it, also when the launcher is killed and the node, told to
-- stop, ends by itself before it would have been ended.

local core = require "lp.core"
local support = require "spec.e2e.support"

local lp = os.getenv "LP_COMMAND" or "build/release/lp"

local script = [[
local lp = require "lp"
local program = lp.Program "orphans"
program:add_node(lp.LuaNode(function()
  os.execute "sleep 600 &"
  print "ready"
  lp.wait_for_stop()
end), "parent")
return program
]]

--- The processes with our mark in their environment.
local function left(mark)
  local pipe <close> = io.popen(("grep -lzs '^ORPHANS_MARK=%s$' /proc/[0-9]*/environ"):format(mark))
  return pipe:read "a"
end

describe("the children of a node", function()
  it("are gone within two seconds of the launcher's kill -9, when the node stops at once", function()
    local path = os.tmpname()
    do
      local file <close> = assert(io.open(path, "w"))
      file:write(script)
    end
    local pipe <close> = io.popen(("ORPHANS_MARK=%s exec %s run --launch local_mp %s & " ..
                                   "echo $!; wait"):format(path, lp, path))
    local pid = pipe:read "l"
    assert.equal("[parent/0] ready", pipe:read "l")
    os.execute("kill -9 " .. pid)
    local deadline = core.now() + 10 -- two, and what a busy machine adds
    while left(path) ~= "" and core.now() < deadline do core.sleep(0.05) end
    os.remove(path)
    assert.equal("", left(path))
  end)
end)

-- A program that leaves something running at each line it reads, and one whose child ended long ago.
local leaves = [[
local lp = require "lp"
local program = lp.Program "leaves"
program:add_node(lp.LuaNode(function(folder)
  local ended <close> = io.popen("echo $$ >" .. folder .. "/held; exit 7")
  ended:read "a"
  for round = 1, 2 do
    for i = 1, 5 do
      os.execute(("(echo $(exec sh -c 'echo $PPID') >%s/%d.%d) &"):format(folder, round, i))
    end
    while not io.open(("%s/round%d"):format(folder, round)) do lp.sleep(0.01) end
  end
  print(ended:close())
  lp.stop()
end, (...)), "parent")
return program
]]

support.placements(describe, "what a node leaves running", function(launch_type)
  teardown(support.clean)

  it("is reaped when it has ended, while the program runs; what is waited for is not", function()
    local folder = os.tmpname()
    os.remove(folder)
    support.shell("mkdir %s", folder)
    local command = support.start({"run", "--launch", launch_type, "SCRIPT", folder}, {script = leaves})
    for round = 1, 2 do
      support.until_true("five children", function()
        return support.shell("cat %s/%d.? 2>/dev/null | wc -l", folder, round) == "5"
      end)
      for i = 1, 5 do
        local pid = tonumber(support.shell("cat %s/%d.%d", folder, round, i))
        support.until_true("the end of " .. pid, function()
          return support.shell("test -e /proc/%d || echo gone", pid) == "gone"
        end)
      end
      support.shell("touch %s/round%d", folder, round)
    end
    command:finish():expect(0, "[parent/0] nil\texit\t7")
    support.shell("rm -r %s", folder)
  end)
end)
