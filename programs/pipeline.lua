-- A pipeline: stages that hand items on, each working while the others do.
-- The last stage is slow. Were the items to pile up before it, memory would grow with their
-- number. They do not: each stage has a queue of a few places, and who gives it an item is not
-- answered before there is a place. So the slow stage slows the one before it, that one the one
-- before, and so on to the source (backpressure).
-- Run it with `lp run programs/pipeline.lua`, add `--items=5000`, `--places=2`, `--pause=0.01`.

local lp = require "lp"

local flags = lp.flags {
  items = {400, "How many items there are."},
  size = {65536, "How many bytes an item has."},
  places = {4, "How many items wait before a stage at most."},
  pause = {0.001, "How many seconds the last stage rests after each item."},
}

-- A stage. Others call `put` and `finish`; its own `run` works the queue off. While `run` waits
-- for an item, or `put` for a place, the node does the other.
local function Stage(work, follower)
  local stage, queue, most, count = {}, lp.Queue(flags.places), 0, 0

  function stage:put(item)
    queue:put(item)
    most = math.max(most, #queue)
  end

  -- No more will come. What is in the queue is worked off first.
  function stage:finish() queue:close() end

  function stage:run()
    while true do
      local more, item = queue:get()
      if not more then break end
      item, count = work(item), count + 1
      if follower then follower:put(item) end -- returns when the follower has taken it
    end
    if follower then follower:finish() end
    print(("%d items, at most %d waiting"):format(count, most))
  end
  return stage
end

-- When the program is stopped the source ends early; what is on its way is worked off.
local function source(first)
  local stop = lp.stop_event()
  for i = 1, flags.items do
    if stop:is_set() then break end
    first:put(("%08d"):format(i) .. ("x"):rep(flags.size - 8))
  end
  first:finish()
end

-- What the stages do. The last is the slow one; it also checks that nothing was lost on the way,
-- and that the items come in the order of the source.
local expected = 0

local function check(item)
  expected = expected + 1
  assert(#item == flags.size and item:find("^" .. ("%08d"):format(expected)), "an item is missing")
  lp.sleep(flags.pause)
end

local work = {string.upper, string.reverse, string.reverse, check}

if flags.places < 1 or flags.size < 8 then
  io.stderr:write("pipeline: it takes a place at least, and 8 bytes an item\n")
  os.exit(2)
end

-- A stage is given the handle of the one behind it, so the last is added first. None may use
-- more memory than a few items need: if items piled up, a stage would fail.
local limit = (4 << 20) + 8 * (flags.places + 4) * flags.size
local program = lp.Program "pipeline"
local follower
for i = #work, 1, -1 do
  local stage = lp.CourierNode(Stage, work[i], follower):options{memory_limit = limit}
  follower = program:add_node(stage, "stage" .. i)
end
program:add_node(lp.LuaNode(source, follower):options{memory_limit = limit}, "source")

return program
