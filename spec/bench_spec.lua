--- The benchmarks run and report; no time is asserted.

local lp = os.getenv "LP_COMMAND" or "build/release/lp"
local build = lp:match("^(.*/)") or "./"

--- What a run prints; with `errors` also on stderr, where a busy machine's warnings go too.
local function bench(words, errors)
  if not words:find "%-%-build" then words = words .. " --build " .. build end
  local pipe = assert(io.popen(("%s run bench/run.lua %s --rounds 2 --scale 0.002 %s")
                               :format(lp, words, errors and "2>&1" or "2>/dev/null"), "r"))
  local text = pipe:read("a")
  local _, _, status = pipe:close()
  return text, status
end

local function has_floors()
  local file = io.open(build .. "bench/epoll_pingpong", "rb")
  return file and file:close()
end

describe("bench/run.lua", function()
  for _, name in ipairs {"rpc", "bulk", "codec", "launch", "idle"} do
    it("prints a table of " .. name .. " with targets and the state of the machine", function()
      if not has_floors() then pending "the floors are not built" return end
      local text, status = bench(name)
      assert.equal(0, status, text)
      assert.matches("^work +pinned to +floor +ours +spread +ratio +by cpu +target", text)
      assert.matches("<= ", text)
      assert.matches("\nload before [%d.]+, others %d+ %% of a core", text)
    end)
  end

  it("prints the same as JSON", function()
    if not has_floors() then pending "the floors are not built" return end
    local text, status = bench "codec --json"
    assert.equal(0, status, text)
    local decoded = require("cjson").decode(text)
    assert.equal("pack: small", decoded.rows[1].work)
    assert.is_number(decoded.rows[1].ratio)
    assert.is_boolean(decoded.trusted)
  end)

  it("refuses a benchmark it does not know, with the names it knows", function()
    local text, status = bench("speed", true)
    assert.equal(2, status)
    assert.matches("unknown benchmark speed %(known: rpc, bulk, codec, launch, idle, embed%)", text)
  end)

  it("says which command failed", function()
    local text, status = bench("idle --build /nowhere", true)
    assert.not_equal(0, status)
    assert.matches("bench: /nowhere/lp run", text)
  end)
end)
