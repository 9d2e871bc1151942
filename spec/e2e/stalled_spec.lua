--- A caller that asks for much, does not read it, and is gone.
local support = require "spec.e2e.support"

--- Serves big answers, tells where, and what waits for callers that do not read.
local SERVER = [[
  local lp = require "lp"
  local program = lp.Program "stalled"
  local Source = {}
  Source.__index = Source
  function Source.new() return setmetatable({}, Source) end
  function Source:give(bytes) return ("x"):rep(bytes) end
  function Source:queued()
    local bytes, links = 0, 0
    for _, link in ipairs(lp.stats().links) do
      bytes, links = bytes + link.queued_bytes, links + 1
    end
    return bytes, links
  end
  function Source:resident()
    local file <close> = io.open "/proc/self/statm"
    return tonumber(file:read("a"):match "^%d+ (%d+)") * 4096
  end
  local handle = program:add_node(lp.CourierNode(Source.new), "source")
  program:add_node(lp.LuaNode(function(source)
    local before = select(2, source:queued())
    print(lp.address(source))
    repeat lp.sleep(0.02) until source:queued() > 60 << 20
    local full = source:resident()
    print "it is full"
    repeat
      lp.sleep(0.02)
      local bytes, links = source:queued()
    until bytes < 1 << 20 and links <= before
    repeat lp.sleep(0.02) until source:resident() < full - (40 << 20)
    print "freed"
    lp.stop()
  end, handle), "watch")
  return program]]

local READER = [[
  local lp = require "lp"
  local client = lp.connect(...)
  local futures = {}
  client:give(1)
  for i = 1, 24 do futures[i] = client.futures:give(4 << 20) end
  lp.yield() -- they are sent
  os.execute "kill -STOP $PPID"
  lp.gather(futures)]]

describe("a caller that does not read its answers", function()
  teardown(support.clean)

  it("leaves nothing queued when it has gone", function()
    local server = support.start({"run", "--launch", "local_mp", "SCRIPT"}, {script = SERVER})
    local address
    support.until_true("the address", function()
      address = (server:read("out") or ""):match "unix:%S+"
      return address
    end)
    local reader = support.start({"run", "SCRIPT", address}, {script = READER})
    server:wait_for("it is full", "out")
    reader:signal "KILL"
    server:wait_for("freed", "out")
    reader:wait_gone()
    server:finish():expect(0, "freed")
  end)
end)
