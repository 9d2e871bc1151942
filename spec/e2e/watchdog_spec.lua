--- A node that computes for long while others wait for it is told of in the log.
local support = require "spec.e2e.support"
local interrupts = support.it_interrupts(it, pending)

--- A caller of a node whose method `busy` runs `body`, which ends when `path` is there.
local function script(body)
  return ([[
    local lp = require "lp"
    local path = ...
    local program = lp.Program "watched"
    local Busy = {}
    Busy.__index = Busy
    function Busy.new() return setmetatable({}, Busy) end
    function Busy:ping() return "pong" end
    function Busy:busy()
      %s
    end
    local handle = program:add_node(lp.CourierNode(Busy.new), "busy")
    program:add_node(lp.LuaNode(function(busy)
      busy:ping()
      local first = busy.futures:busy()
      lp.sleep(0.05)
      print(busy:ping()) -- waits behind it
      first:result()
      lp.stop()
    end, handle), "caller")
    return program]]):format(body)
end

local COMPUTES = [[
      local function step() return io.open(path) end
      repeat local file = step() until file and file:close()]]
local IN_C = [[
      os.execute(("while ! test -e '%s'; do sleep 0.05; done"):format(path))]]

support.placements(describe, "the log", function(launch_type)
  local function start(body)
    local path = os.tmpname()
    os.remove(path)
    local command = support.start({"run", "--launch", launch_type, "SCRIPT", path}, {script = script(body)})
    return command, path
  end

  local function let_go(path)
    assert(io.open(path, "w")):close()
  end

  teardown(support.clean)

  interrupts("tells of a handler that computes, once, with its Lua stack", function()
    local command, path = start(COMPUTES)
    command:wait_for("has computed for", "err")
    let_go(path)
    local ended = command:finish()
    os.remove(path)
    local err = ended.err
    assert.equal(0, ended.status)
    assert.truthy(ended.out:find("pong", 1, true))
    assert.truthy(err:find("[busy/0] warning: its handler busy, called by caller/0, has computed for", 1, true), err)
    assert.truthy(err:find("and others wait for it", 1, true), err)
    assert.truthy(err:find("%[busy/0%]   [^\n]+:%d+: in ", 1), err)
    assert.equal(1, select(2, err:gsub("has computed for", "")))
  end)

  if launch_type == "local_mt" then
    interrupts("tells of a C function that does not return", function()
      local command, path = start(IN_C)
      command:wait_for("inside a C function", "err")
      let_go(path)
      local ended = command:finish()
      os.remove(path)
      assert.equal(0, ended.status)
      assert.truthy(ended.err:find("busy/0 busy has been inside a C function for", 1, true), ended.err)
      assert.falsy(ended.err:find("has computed", 1, true), ended.err)
    end)
  end
end)
