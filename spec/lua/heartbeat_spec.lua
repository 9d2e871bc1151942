--- When no answer becomes a silence: counting alone.
require "spec.lua.helper"
local heartbeat = require "lp.service.heartbeat"

describe("the patience with a process", function()
  it("is over after three seconds without an answer, once", function()
    local pulse = heartbeat.pulse()
    assert.same({false, false, true, false},
                {pulse:waits(1), pulse:waits(1), pulse:waits(1), pulse:waits(1)})
    assert.is_true(pulse:answers())
    assert.is_false(pulse:answers())
  end)

  it("begins anew with each answer", function()
    local pulse = heartbeat.pulse()
    for _ = 1, 10 do
      assert.is_false(pulse:waits(1))
      assert.is_false(pulse:waits(1))
      assert.is_false(pulse:answers())
    end
  end)

  it("does not count the time that the launcher itself was away", function()
    local pulse = heartbeat.pulse()
    assert.is_false(pulse:waits(3600))
    assert.is_false(pulse:waits(3600))
    assert.is_true(pulse:waits(3600))
  end)
end)
