--- The policy alone: numbers in, a verdict out.
require "spec.lua.helper"
local policy = require "lp.service.policy"

describe("the policy for failures", function()
  it("stops unless told otherwise", function()
    assert.equal("stop", (policy.decide(policy.of {}, {}, 0)))
    assert.equal("ignore", (policy.decide(policy.of {on_failure = "ignore"}, {}, 0)))
  end)

  it("restarts with doubling pauses, up to the longest", function()
    local rule = policy.of {on_failure = "restart", restart = {max = 20, within = 1e6, backoff = 1}}
    local history, pauses = {}, {}
    for i = 1, 8 do
      local verdict, pause = policy.decide(rule, history, i)
      assert.equal("restart", verdict)
      pauses[i] = pause
    end
    assert.same({1, 2, 4, 8, 16, 30, 30, 30}, pauses)
  end)

  it("never waits less than backoff", function()
    local rule = policy.of {on_failure = "restart", restart = {backoff = 100}}
    local history = {}
    assert.equal(100, select(2, policy.decide(rule, history, 0)))
    assert.equal(100, select(2, policy.decide(rule, history, 1)))
  end)

  it("stops after max restarts within the time, and forgets older ones", function()
    local rule = policy.of {on_failure = "restart", restart = {max = 2, within = 10, backoff = 0}}
    local history = {}
    assert.equal("restart", (policy.decide(rule, history, 0)))
    assert.equal("restart", (policy.decide(rule, history, 9)))
    local verdict, why = policy.decide(rule, history, 9.5)
    assert.equal("stop", verdict)
    assert.truthy(why:find("restarted 2 times within 10 s", 1, true), why)
    assert.equal("restart", (policy.decide(rule, history, 10)))
    assert.equal("stop", (policy.decide(rule, history, 18)))
    assert.equal("restart", (policy.decide(rule, history, 19)))
  end)

  it("allows no restart with max = 0", function()
    local rule = policy.of {on_failure = "restart", restart = {max = 0}}
    assert.equal("stop", (policy.decide(rule, {}, 0)))
  end)
end)
