--- No memory: a small program is run once for every request of it that can fail. Needs a build
-- with fault points (./dev faults, or the sanitizers' builds, where fewer are tried).

local lp = os.getenv "LP_COMMAND" or "build/debug/lp"
local program = "programs/hello_world.lua"
local text = "Hello, world!"

local function capture(command)
  local pipe <close> = assert(io.popen(command, "r"))
  return pipe:read "a"
end

--- How many requests a run makes; nil without fault points.
local function requests(launch, suffix)
  local output = capture(("LP_FAULT_ALLOC=0%s %s run --launch %s %s 2>&1 </dev/null")
                         :format(suffix, lp, launch, program))
  local most
  for count in output:gmatch "(%d+) requests for memory" do
    most = math.max(most or 0, tonumber(count))
  end
  return most
end

--- Those of the numbers 1, 1 + step, … whose run was not as it should be, in words.
local function failures(launch, suffix, step, count)
  return capture(("seq -f %%.0f%s 1 %d %d | xargs -P 2 -n 100 sh spec/faults.sh %s %s %s '%s' 2>&1")
                 :format(suffix, step, count, lp, launch, program, text))
end

local fault_points = requests("local_mt", "")

--- Every request in the plain build; a sanitizer's is slow.
local function step(count)
  if lp:find("debug", 1, true) then return 1 end
  return math.max(1, count // 100)
end

for _, launch in ipairs {"local_mt", "local_mp"} do
  describe("without memory (" .. launch .. ")", function()
    local test = fault_points and it or pending

    test("a program ends with an error or well when one request fails", function()
      -- More than it makes when all is well: it may take other ways.
      local count = requests(launch, "") + 20
      assert.equal("", failures(launch, "", step(count), count))
    end)

    test("a program ends with an error or well when all requests fail from one on", function()
      local count = requests(launch, "+") + 50
      -- Processes take the same steps as threads, so that fewer will do.
      local wide = launch == "local_mp" and 7 or 1
      assert.equal("", failures(launch, "+", math.max(wide, step(count)), count))
    end)

    test("no process and no run folder is left", function()
      local folder = capture("mktemp -d"):gsub("\n", "")
      local run = ("XDG_RUNTIME_DIR=%s "):format(folder)
      lp, run = run .. lp, lp
      local count = requests(launch, "+")
      local odd = capture(("export XDG_RUNTIME_DIR=%s; seq -f %%.0f+ 1 %d %d | " ..
                           "xargs -P 2 -n 20 sh spec/faults.sh %s %s %s '%s' 2>&1")
                          :format(folder, count // 60, count, run, launch, program, text))
      lp = run
      -- The folder of a run that had no memory to remove it goes with the next command.
      local after = capture(("XDG_RUNTIME_DIR=%s %s run %s 2>&1; find %s/lp -mindepth 1 | head")
                            :format(folder, lp, program, folder))
      local left = capture(("sleep 3; grep -lzs XDG_RUNTIME_DIR=%s /proc/[0-9]*/environ")
                           :format(folder))
      os.execute("rm -r " .. folder)
      assert.equal("", odd)
      assert.equal("[hello/0] Hello, world!\n", after)
      assert.equal("", left)
    end)
  end)
end

describe("without memory, a program that embeds the engine", function()
  local test = fault_points and it or pending
  local minimal = lp:gsub("[^/]*$", "bindings/c/minimal")

  -- Every fifth: most of its requests are those of the command, too. What could not be closed for
  -- want of memory stays with the program, which does not try again: no leak of the engine's.
  local function check(suffix)
    local output = capture(("LP_FAULT_ALLOC=0%s %s 2>&1 </dev/null"):format(suffix, minimal))
    local count = tonumber(output:match "(%d+) requests for memory") + 20
    assert.equal("", capture(("seq -f %%.0f%s 1 %d %d | ASAN_OPTIONS=detect_leaks=0 xargs -P 2 -n 50 " ..
                              "sh spec/embed/faults.sh %s 2>&1")
                             :format(suffix, step(count) * 5, count, minimal)))
  end

  test("ends with an error or well when one request fails", function() check "" end)
  test("ends with an error or well when all requests fail from one on", function() check "+" end)
end)
