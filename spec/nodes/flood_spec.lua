--- Two nodes flood each other with calls, through windows that let hardly any pass: answers and
-- credit must find their way whatever the calls do.

local lp = require "lp"
local support = require "spec.nodes.support"

local Peer = {}
Peer.__index = Peer

function Peer.new(other) return setmetatable({other = other, came = 0, hints = 0, sum = 0}, Peer) end

function Peer:add(number, payload)
  self.came = self.came + 1
  self.sum = self.sum + number
  return number + #payload
end

--- Waits before it answers, so that calls pile up.
function Peer:add_slowly(number, payload)
  lp.yield()
  return self:add(number, payload)
end

function Peer:hint() self.hints = self.hints + 1 end

local function task(self, number, calls, payload)
  for i = number, calls, self.tasks do
    local method = i % 3 == 0 and "add_slowly" or "add"
    if i % 4 == 0 then
      local future = lp.call(self.other.futures, method, i, payload)
      self.other.notify:hint(i)
      assert(future:result() == i + #payload)
    else
      assert(lp.call(self.other, method, i, payload) == i + #payload)
    end
  end
end

--- Makes that many calls from as many tasks at once; returns when all are answered.
function Peer:flood(tasks, calls, bytes)
  local futures, payload = {}, ("p"):rep(bytes)
  self.tasks = tasks
  for i = 1, tasks do futures[i] = lp.spawn(task, self, i, calls, payload) end
  for _, future in ipairs(futures) do future:result() end
  return true
end

function Peer:seen() return self.came, self.sum, self.hints end

local function flood(place, options, tasks, calls, bytes)
  place(function(program)
    local a, b = lp.CourierNode(Peer), lp.CourierNode(Peer)
    local to_a, to_b = program:add_node(a:options(options), "a"), program:add_node(b:options(options), "b")
    a:configure(to_b)
    b:configure(to_a)
    return to_a, to_b
  end, function(a, b)
    local done = {a.futures:flood(tasks, calls, bytes), b.futures:flood(tasks, calls, bytes)}
    for _, future in ipairs(done) do assert.is_true(future:result(120)) end
    for _, node in ipairs {a, b} do
      local came, sum, hints
      local give_up = lp.now() + 60
      repeat -- nobody waits for hints
        lp.sleep(0.01)
        came, sum, hints = node:seen()
      until hints == calls // 4 or lp.now() > give_up
      assert.equal(calls, came)
      assert.equal(calls * (calls + 1) // 2, sum)
      assert.equal(calls // 4, hints)
    end
  end)
end

local function check(title, place, loop)
  local function options(more)
    more.loop = loop
    return more
  end

  describe(title, function()
    it("answer all calls through windows of one", function()
      flood(place, options {edge_calls = 1}, 20, 600, 10)
    end)

    it("answer all calls through windows of three, a few of them handled at once", function()
      flood(place, options {edge_calls = 3, max_concurrency = 2}, 30, 600, 100)
    end)

    it("answer all calls through windows of a few bytes", function()
      flood(place, options {edge_bytes = 100}, 20, 400, 3000)
    end)

    it("answer all calls through windows as they are", function()
      flood(place, options {}, 1500, 3000, 10)
    end)
  end)
end

check("two nodes that flood each other (test_mt)", support.place "test_mt")
check("two nodes that flood each other (test_mp)", support.place "test_mp")
check("two nodes that flood each other on one loop", support.place "test_mt", "shared")
