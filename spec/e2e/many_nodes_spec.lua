--- A thousand nodes in one process start, answer one call each and stop, within the memory that
-- the design promises (the time is for the benchmarks). Sanitizers' builds are only asked to do it
-- at all.

local lp = os.getenv "LP_COMMAND" or "build/release/lp"

local script = [[
local lp = require "lp"
local Echo = {}
Echo.__index = Echo
function Echo.new(number) return setmetatable({number = number}, Echo) end
function Echo:get(more) return self.number + more end

local program = lp.Program "many"
local handles = {}
program:group("echo", function()
  for i = 1, 1000 do handles[i] = program:add_node(lp.CourierNode(Echo, i)) end
end)
program:add_node(lp.LuaNode(function(echoes)
  local futures, sum = {}, 0
  for i, echo in ipairs(echoes) do futures[i] = echo.futures:get(1) end
  for _, future in ipairs(futures) do sum = sum + future:result() end
  for line in io.lines "/proc/self/status" do
    if line:find "^VmHWM" then print(line:match "%d+") end
  end
  print("sum", sum)
  lp.stop()
end, handles), "main")
return program
]]

describe("a thousand nodes in one process", function()
  it("start, answer one call each and stop in under 200 MB", function()
    local path = os.tmpname()
    do
      local file <close> = assert(io.open(path, "w"))
      file:write(script)
    end
    local pipe = io.popen(("%s run %s 2>&1; echo status $?"):format(lp, path))
    local output = pipe:read "a"
    pipe:close()
    os.remove(path)
    assert.equal("501500", output:match "sum%s+(%d+)", output)
    assert.equal("0", output:match "status (%d+)")
    if not lp:find("build/release", 1, true) then return end
    local kilobytes = tonumber(output:match "%[main/0%] (%d+)\n")
    assert.is_true(kilobytes < 200 * 1024, ("%d kB"):format(kilobytes))
  end)
end)
