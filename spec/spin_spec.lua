--- --spin: looking for work before sleeping changes how fast calls are, never what they do.

local lp = os.getenv "LP_COMMAND" or "build/release/lp"

local function run(words)
  local pipe = assert(io.popen(("%s run %s 2>&1"):format(lp, words), "r"))
  local text = pipe:read("a")
  local _, _, status = pipe:close()
  return text, status
end

describe("lp run --spin", function()
  for _, launch in ipairs {"local_mt", "local_mp"} do
    for _, spin in ipairs {0, 20, 1000} do
      it(("%d answers every call (%s)"):format(spin, launch), function()
        local text, status = run(("--launch %s --spin %d programs/bench/rpc.lua --calls 300")
                                 :format(launch, spin))
        assert.equal(0, status, text)
        assert.matches('"calls":300', text)
      end)
    end
  end

  it("refuses what is no number of microseconds", function()
    local text, status = run "--spin soon programs/bench/rpc.lua"
    assert.equal(2, status)
    assert.matches("%-%-spin", text)
  end)
end)
