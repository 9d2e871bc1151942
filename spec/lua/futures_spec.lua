local helper = require "spec.lua.helper"
local core, lp, fails_here = helper.core, helper.lp, helper.fails_here

--- A future that ends after `seconds` with the values, or raises `message`.
local function after(seconds, ...)
  return core.spawn(function(...)
    core.sleep(seconds)
    return ...
  end, ...)
end

local function failing_after(seconds, message)
  return core.spawn(function()
    core.sleep(seconds)
    error(message, 0)
  end)
end

describe("lp.spawn", function()
  it("refuses what cannot be called where it is given, and not when the task begins", function()
    fails_here("lp.spawn: expected a function, got nil", function() lp.spawn(nil) end)
    fails_here("lp.spawn: expected a function, got number", function() lp.spawn(5) end)
    local callable = setmetatable({}, {__call = function(_, x) return x + 1 end})
    assert.equal(3, lp.spawn(callable, 2):result())
  end)
end)

describe("what takes futures", function()
  local program = lp.Program "futures"
  local handle = program:add_node(lp.CourierNode(function() return {} end), "node")
  local others = {["an lp.Handle"] = handle, ["an lp.Client"] = core.client("x", "x"), ["nil"] = false,
                  ["an lp.Future"] = core.future(), ["an lp.Program"] = program, ["5"] = 5}

  for name, take in pairs {gather = lp.gather, wait = lp.wait, as_completed = lp.as_completed} do
    it("refuses anything else where it is given: lp." .. name, function()
      for kind, other in pairs(others) do
        local given = kind ~= "nil" and other or nil
        local function refused(part, value)
          fails_here(("lp.%s: %s"):format(name, part), function() take(value) end)
          fails_here("got " .. kind, function() take(value) end)
        end
        refused(("argument 1 must be an array of futures, lp.%s{future, …} (client.futures"):format(name), given)
        if given and not core.is_future(given) then refused("element 1 of argument 1 must be a future", {given}) end
      end
    end)
  end
end)

describe("lp.shield", function()
  it("refuses what cannot be called where it is given", function()
    fails_here("lp.shield: expected a function, got number", function() lp.shield(1) end)
    fails_here("lp.shield: expected a function, got no value", function() lp.shield() end)
    assert.equal(1, lp.shield(setmetatable({}, {__call = function(_, x) return x end}), 1))
  end)
end)

describe("lp.gather", function()
  it("returns first results in the order of the futures, and their number", function()
    local r = lp.gather {after(0.03, "a", "more"), after(0.01), after(0.02, "c")}
    assert.same({[1] = "a", [3] = "c", n = 3}, r)
    assert.same({n = 0}, lp.gather {})
  end)

  it("takes futures that are done already, the same one twice, and table.pack", function()
    local future = after(0, 1)
    future:result()
    assert.same({1, 1, n = 2}, lp.gather(table.pack(future, future)))
    local running = after(0.01, 2)
    assert.same({2, 2, n = 2}, lp.gather {running, running})
  end)

  it("raises the failure that came first in time, and the others run on", function()
    local slow, late = after(0.05, "slow"), failing_after(0.03, "late")
    local failure = helper.failure(lp.gather, {late, slow, failing_after(0.01, "early")})
    assert.equal("early", failure)
    assert.is_false(slow:done())
    assert.equal("slow", (slow:result()))
    assert.equal("late", tostring(late:exception()))
  end)

  it("refuses what is no array of futures, at the caller's line", function()
    local future = after(0)
    fails_here("lp.gather{future, …}", function() lp.gather(future) end)
    fails_here("argument 1 must be an array of futures", function() lp.gather() end)
    fails_here("element 2 of argument 1 must be a future", function() lp.gather {future, 5} end)
    future:result()
  end)
end)

describe("lp.wait", function()
  it("waits for all and tells done from pending", function()
    local a, b = after(0.02), failing_after(0.01, "no")
    local done, pending = lp.wait {a, b}
    assert.same({{a, b}, {}}, {done, pending})
    b:exception()
  end)

  it("gives up after the time-out and polls with 0", function()
    local quick, slow = after(0.01), after(0.2)
    assert.same({{}, {quick, slow}}, {lp.wait({quick, slow}, {timeout = 0})})
    assert.same({{quick}, {slow}}, {lp.wait({quick, slow}, {timeout = 0.05})})
    slow:result()
  end)

  it("returns at the first that is done", function()
    local quick, slow = after(0.01), after(0.2)
    assert.same({{quick}, {slow}},
                {lp.wait({slow, quick}, {return_when = "first_completed"})})
    slow:result()
  end)

  it("returns at the first failure, not at results before it", function()
    local good, bad, slow = after(0.01), failing_after(0.02, "bad"), after(0.2)
    local done, pending = lp.wait({slow, good, bad}, {return_when = "first_exception"})
    assert.same({{good, bad}, {slow}}, {done, pending})
    slow:result()
  end)

  it("leaves nothing on a future however often it is repeated", function()
    local future = core.future()
    local function wait_often(times)
      for _ = 1, times do lp.wait({future}, {timeout = 0}) end
      collectgarbage()
      return collectgarbage "count"
    end
    local before = wait_often(10)
    assert.is_true(wait_often(1000) - before < 16)
    core.resolve(future, true, 1)
    assert.same({{future}, {}}, {lp.wait {future}})
  end)

  it("keeps no future alive through another one", function()
    local kept, dropped = core.future(), setmetatable({}, {__mode = "v"})
    dropped[1], dropped[2] = core.future(), core.future()
    lp.wait({kept, dropped[1]}, {timeout = 0.001})
    local done = after(0)
    for _ in lp.as_completed {kept, dropped[2], done} do break end -- luacheck: ignore 512
    collectgarbage()
    collectgarbage()
    assert.same({}, dropped)
    assert.is_false(kept:done())
  end)

  it("checks its options", function()
    fails_here("unknown option \"timout\"", function() lp.wait({}, {timout = 1}) end)
    fails_here("return_when must be one of", function() lp.wait({}, {return_when = "all"}) end)
    fails_here("timeout must be", function() lp.wait({}, {timeout = 0 / 0}) end)
  end)
end)

describe("lp.as_completed", function()
  it("gives futures in the order they are done, with their places", function()
    local list = {after(0.03, "c"), after(0.01, "a"), after(0.02, "b")}
    local seen = {}
    for i, future in lp.as_completed(list) do
      seen[#seen + 1] = i .. (future:result())
    end
    assert.same({"2a", "3b", "1c"}, seen)
  end)

  it("can be left early", function()
    local list = {after(0.01), after(0.05)}
    local seen = {}
    for i in lp.as_completed(list) do
      seen[#seen + 1] = i
      if i == 1 then break end
    end
    assert.same({1}, seen)
    list[2]:result()
  end)
end)
