--- A few seconds of ./dev soak: nothing is left of calls whose servers were killed and started again.
-- Whether memory grows is seen in a longer run only.

local lp = os.getenv "LP_COMMAND" or "build/release/lp"

for _, launch in ipairs {"local_mt", "local_mp"} do
  describe("a program whose nodes are killed and started again (" .. launch .. ")", function()
    it("leaves no task, call, descriptor or process", function()
      local command = ("timeout -k 5 300 %s run --launch %s spec/soak.lua --seconds 2 --growth 1")
                      :format(lp, launch)
      local pipe <close> = assert(io.popen(command .. " 2>&1 </dev/null; echo status $?"))
      local output = pipe:read "a"
      assert(output:find "status 0\n$", command .. "\n" .. output)
      assert(tonumber(output:match "(%d+) calls, ") > 100, output)
    end)
  end)
end
