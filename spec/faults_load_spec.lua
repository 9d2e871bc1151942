--- Calls while things go wrong, in rounds: each is a program of its own (spec/faults/load.lua) whose
-- seed decides what goes wrong and when. Needs a build with fault points (./dev faults, or the
-- sanitizers' builds). A round is seen again with the command in its failure.
--
-- LP_FAULT_ROUNDS, LP_FAULT_CALLS and LP_FAULT_SEED (of the first) make it more than a short look.

local core = require "lp.core"
local lp = os.getenv "LP_COMMAND" or "build/debug/lp"

local rounds = tonumber(os.getenv "LP_FAULT_ROUNDS") or 9
local calls = tonumber(os.getenv "LP_FAULT_CALLS") or 2000
local first = tonumber(os.getenv "LP_FAULT_SEED") or 1

local places = {
  {"threads", "local_mt", ""},
  {"processes", "local_mp", ""},
  {"one loop", "local_mt", " --shared"},
}
local kinds = {"link", "frame", "memory"}

--- What holds from the start of a round: windows that are soon used up, ids that soon wrap.
local function settings(seed)
  local list = {}
  if seed % 4 == 3 then table.insert(list, "window=" .. 1 + seed % 8) end
  if seed % 2 == 0 then table.insert(list, "first_id=" .. 4294967295 - seed * 9) end
  return table.concat(list, ";")
end

local function run(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1 </dev/null; echo status $?"))
  local output = pipe:read "a"
  return output, tonumber(output:match "status (%d+)\n$")
end

describe("calls while things go wrong", function()
  local test = core.faults and it or pending

  for seed = first, first + rounds - 1 do
    local round = seed - first
    local place, kind = places[round % #places + 1], kinds[round // #places % #kinds + 1]

    test(("end with their own answer or an error, and leave nothing (%s, %s, seed %d)")
         :format(place[1], kind, seed), function()
      local command = ("LP_FAULTS='%s' timeout -k 5 300 %s run --notice 2 --launch %s "
                       .. "spec/faults/load.lua --kind %s --seed %d --calls %d%s")
                      :format(settings(seed), lp, place[2], kind, seed, calls, place[3])
      local output, status = run(command)
      -- A node may well fail for want of memory, and the program with it: but with these words.
      local failed_well = kind == "memory" and status == 1 and output:find "memory"
      assert(status == 0 or failed_well, ("%s\n%s"):format(command, output))
      if status == 0 then
        local answered = tonumber(output:match "(%d+) answered")
        assert(answered and answered > calls // 2, command .. "\nfew were answered:\n" .. output)
      end
    end)
  end
end)
