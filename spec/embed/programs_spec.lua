--- The programs in bindings/c, each run as its users would.

package.path = "spec/embed/?.lua;" .. package.path
local support = require "support"

local programs = support.build() .. "/bindings/c/"

local function run(words)
  return support.succeed("timeout 60 %s%s", programs, words)
end

describe("minimal", function()
  it("calls a node of its program", function()
    assert.equal("Hello, world!\n", run "minimal")
  end)
end)

describe("game_server", function()
  local game = "game_server bindings/c/game_server.lua "

  it("plays the same game again for the same seed, and another for another", function()
    local first = run(game .. "--ticks=60 --npcs=40 --seed=5")
    assert.truthy(first:find "^sum after 60 ticks of seed 5: %x+\n$")
    assert.equal(first, run(game .. "--ticks=60 --npcs=40 --seed=5"))
    local other = run(game .. "--ticks=60 --npcs=40 --seed=6")
    assert.not_equal(first:match "%x+\n$", other:match "%x+\n$")
  end)

  --- Plays until all bad scripts have ended their nodes, longer each time; on a busy machine they
  -- are slow to do so.
  local function play_bad(bad)
    local out
    for _, seconds in ipairs {1.5, 6, 24} do
      out = run(game .. ("--players=10 --seconds=%g --bad=%s"):format(seconds, table.concat(bad, ",")))
      assert.truthy(out:find(("game: %d ticks in "):format(seconds * 60)), out)
      if select(2, out:gsub("failed: ", "")) == #bad then break end
    end
    return out
  end

  it("keeps its ticks while bad scripts cost their own nodes", function()
    local out = play_bad {"loop", "memory", "pattern", "raise"}
    for mod, why in pairs {loop = "more than 5000000 instructions", memory = "not enough memory",
                           pattern = "pattern too complex", raise = "this mod is broken"} do
      assert.truthy(out:find(("failed: mod_%s/0: [^\n]*%s"):format(mod, why)), out)
    end
    assert.equal(4, select(2, out:gsub("failed: ", "")))
    assert.is_true(tonumber(out:match "game: (%d+) calls/s from players") > 0)
  end)

  it("compares with a game that has no bad scripts", function()
    local out = run(game .. "--seconds=0.3 --npcs=20 --players=2 --compare=1 --bad=raise")
    assert.truthy(out:find "control: 18 ticks" and out:find "bad: 18 ticks", out)
  end)

  it("says what is wrong with its script", function()
    local out, ok = support.shell("timeout 60 %sgame_server /no/such.lua", programs)
    assert.is_false(ok)
    assert.equal("game_server: load: cannot open /no/such.lua: No such file or directory\n", out)
  end)
end)

describe("sim_server", function()
  it("steps all agents, the same again for the same seed", function()
    local simulate = "sim_server bindings/c/sim_server.lua --agents=2000 --workers=3 --steps=20 --seed="
    local first, again, other = run(simulate .. 1), run(simulate .. 1), run(simulate .. 2)
    assert.truthy(first:find "^2000 agents, 3 workers, 20 steps: %d+ agents/s, [%d.]+ ms a step\n")
    assert.equal(first:match "\n.*", again:match "\n.*")
    assert.not_equal(first:match "%x+\n$", other:match "%x+\n$")
  end)

  it("refuses numbers that make no sense", function()
    local out, ok = support.shell("timeout 60 %ssim_server bindings/c/sim_server.lua --workers=0", programs)
    assert.is_false(ok)
    assert.equal("sim_server: options: 1 to 64 workers, and no fewer agents\n", out)
  end)
end)
