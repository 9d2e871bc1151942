local lp = require "lp"

--- Says which thread runs it.
local Here = {}
Here.__index = Here
function Here.new() return setmetatable({}, Here) end
function Here.thread() return io.open("/proc/thread-self/stat"):read("n") end

--- The threads of nodes with these loops, under a limit of one thread for the others.
local function threads_of(loops)
  local program = lp.Program "placement"
  local handles = {}
  for i, loop in ipairs(loops) do
    local node = lp.CourierNode(Here.new)
    if loop ~= "" then node:options{loop = loop} end
    handles[i] = program:add_node(node, "node")
  end
  local run <close> = lp.launch(program, {launch_type = "test_mt", threads = 1})
  local threads = {}
  for i, handle in ipairs(handles) do threads[i] = run:client(handle):thread() end
  return threads
end

describe("nodes in threads", function()
  it("of one loop's name share a thread, and no other does", function()
    local t = threads_of {"a", "b", "a", ""}
    assert.equal(t[1], t[3])
    assert.not_equal(t[1], t[2])
    assert.not_equal(t[1], t[4])
    assert.not_equal(t[2], t[4])
  end)

  it("share when there are more of them than threads", function()
    local t = threads_of {"", "", ""}
    assert.equal(t[1], t[2])
    assert.equal(t[1], t[3])
  end)

  it("that want a loop of their own do not share it", function()
    local t = threads_of {"", "own", "own", ""}
    assert.equal(t[1], t[4])
    assert.not_equal(t[2], t[3])
    assert.not_equal(t[2], t[1])
    assert.not_equal(t[3], t[1])
  end)
end)
