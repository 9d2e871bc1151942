--- What a node started ends with it, also when the launcher is killed and the node, told to
-- stop, ends by itself before it would have been ended.

local core = require "lp.core"

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
