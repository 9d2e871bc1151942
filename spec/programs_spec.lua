--- The programs in programs/, started by the command as a user would.

local lp = os.getenv "LP_COMMAND" or "build/release/lp"
local licenses = "/usr/share/common-licenses"

local folder -- for files of a test

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- Runs a command of the shell. Returns what it wrote to stdout and its status.
local function shell(command)
  local pipe <close> = io.popen(command, "r")
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  return output, status
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local function write(name, text)
  local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
  file:write(text)
  return folder .. "/" .. name
end

--- Runs `lp run programs/NAME`. What is left of it afterwards is an error: every process it
-- started has our mark in its environment, and the run folders are below one of our own.
-- @treturn table {out=, err=, status=}
local function run(name, ...)
  local runtime, mark = folder .. "/runtime", "LP_SPEC_MARK=" .. folder
  local words = {"run", "programs/" .. name, ...}
  for i, word in ipairs(words) do words[i] = quote(word) end
  local out, status = shell(("mkdir -p -m 700 %s; env XDG_RUNTIME_DIR=%s %s timeout 60 %s %s 2>%s/err"):format(
    runtime, runtime, mark, quote(lp), table.concat(words, " "), folder))
  assert.equal("", (shell(("grep -lsz -x -e %s /proc/[0-9]*/environ"):format(mark))))
  assert.equal("", (shell(("find %s -path '*/lp/*'"):format(runtime))))
  return {out = out, err = read(folder .. "/err"), status = status}
end

local function sorted_lines(text)
  local lines = {}
  for line in text:gmatch("[^\n]*\n") do lines[#lines + 1] = line end
  table.sort(lines)
  return table.concat(lines)
end

--- Runs a program that must end well, and returns its output.
local function succeed(name, ...)
  local result = run(name, ...)
  assert.equal("", result.err)
  assert.equal(0, result.status)
  return result.out
end

--- Runs a program that must be refused with one line on stderr.
local function refused(status, text, name, ...)
  local result = run(name, ...)
  assert.equal("", result.out)
  assert.truthy(result.err:find(text, 1, true), result.err)
  assert.falsy(result.err:find("traceback", 1, true), result.err)
  assert.equal(status, result.status)
end

describe("programs", function()
  before_each(function()
    folder = shell("mktemp -d"):match("[^\n]+")
  end)
  after_each(function()
    shell("rm -r " .. quote(folder))
  end)

  --- The test runs under both launch types, and both must print the same lines.
  local function both(sentence, test)
    local outputs = {}
    for _, launch_type in ipairs {"local_mt", "local_mp"} do
      it(("%s (%s)"):format(sentence, launch_type), function()
        outputs[launch_type] = sorted_lines(test("--lp_launch_type=" .. launch_type) or "")
        if launch_type == "local_mp" and outputs.local_mt then
          assert.equal(outputs.local_mt, outputs.local_mp)
        end
      end)
    end
  end

  both("hello_world greets", function(launch)
    local out = succeed("hello_world.lua", launch)
    assert.equal("[hello/0] Hello, world!\n", out)
    return out
  end)

  describe("consumer_producers", function()
    both("takes ten steps and stops", function(launch)
      local out = succeed("consumer_producers.lua", launch)
      assert.equal(("[consumer/0] Results: 1, 2\n"):rep(10), out)
      return out
    end)

    both("has as many producers as --num_producers says", function(launch)
      local out = succeed("consumer_producers.lua", launch, "--num-producers", "5")
      assert.equal(("[consumer/0] Results: 1, 2, 3, 4, 5\n"):rep(10), out)
      return out
    end)

    it("shows its flags", function()
      local out = succeed("consumer_producers.lua", "--help")
      assert.truthy(out:find("--num_producers N +How many producers there are. %(default: 2%)"), out)
    end)

    it("refuses flags it does not have, and values that are none", function()
      refused(2, "unknown flag --producers", "consumer_producers.lua", "--producers=3")
      refused(2, 'flag --num_producers: expected an integer, got "two"',
              "consumer_producers.lua", "--num_producers=two")
    end)
  end)

  both("program_wait ends cleanly in every way there is", function(launch)
    local out = succeed("program_wait.lua", launch)
    for _, label in ipairs {"wait", "poll", "pause", "server", "stopper"} do
      local line = ("[%s/0] %s: clean termination\n"):format(label, label)
      assert.truthy(out:find(line, 1, true), line)
    end
    return out
  end)

  both("cyclic_peers call each other", function(launch)
    local out = succeed("cyclic_peers.lua", launch)
    assert.equal("[ping/0] ping counted: ping pong ping pong ping\n" ..
                 "[pong/0] pong counted: pong ping pong ping pong\n", sorted_lines(out))
    return out
  end)

  it("a node that was called before it had been started was not found", function()
    -- On one processor the first node runs before the service comes to starting the second.
    for _ = 1, 20 do
      local out, status = shell(("taskset -c 0 timeout 60 %s run programs/cyclic_peers.lua 2>&1")
                                :format(quote(lp)))
      assert.equal("[ping/0] ping counted: ping pong ping pong ping\n" ..
                   "[pong/0] pong counted: pong ping pong ping pong\n", sorted_lines(out))
      assert.equal(0, status)
    end
  end)

  describe("map_reduce", function()
    --- The table that stock tools make of the files: each ends its last word.
    local function expected(files)
      return (shell(([[for file in %s; do cat "$file"; echo; done | LC_ALL=C tr -cs A-Za-z '\n' |
        LC_ALL=C tr A-Z a-z | LC_ALL=C sort | LC_ALL=C uniq -c | awk 'NF == 2 { print $2, $1 }']])
        :format(files)))
    end

    --- Counts `inputs` and compares the table with that of the files of `glob`.
    local function counts(launch, glob, ...)
      local path = folder .. "/table"
      local out = succeed("map_reduce.lua", launch, "--output", path, "--input", ...)
      local text = read(path)
      assert.equal(expected(glob), text)
      return out .. text
    end

    both("counts a folder as a pipeline does", function(launch)
      return counts(launch, licenses .. "/*", licenses, "--mappers=4", "--reducers=2")
    end)

    both("counts the same with one node of each kind", function(launch)
      return counts(launch, licenses .. "/*", licenses, "--mappers=1", "--reducers=1")
    end)

    both("counts files named one by one", function(launch)
      return counts(launch, licenses .. "/GPL* " .. licenses .. "/BSD", licenses .. "/BSD",
                    licenses .. "/GPL", licenses .. "/GPL-1", licenses .. "/GPL-2",
                    "--input=" .. licenses .. "/GPL-3")
    end)

    both("counts every byte of files that are unusual", function(launch)
      shell("mkdir " .. folder .. "/in")
      write("in/empty", "")
      write("in/none", "1 2 3\n\0\255--\n")
      write("in/unended", "the last word has no newline")
      write("in/bytes", "nul\0nul caf\xc3\xa9s don't UPPER upper\r\nx1y2z\n")
      write("in/it's a -name", "quoted\n")
      write("in/long line", ("x"):rep(200000) .. " " .. ("word "):rep(50000))
      for length = 65530, 65540 do -- a word where one piece of the file ends
        write("in/border" .. length, (" "):rep(length) .. "border\nfollows")
      end
      return counts(launch, folder .. "/in/*", folder .. "/in", "--mappers=3", "--reducers=5")
    end)

    both("prints the most frequent words, those as frequent by name", function(launch)
      local out = succeed("map_reduce.lua", launch, "--input", write("text", "b a c b A\n"))
      assert.equal("[driver/0] 3 different words in 1 files\n[driver/0]        2 a\n" ..
                   "[driver/0]        2 b\n[driver/0]        1 c\n", out)
      return out
    end)

    both("finds no words in nothing", function(launch)
      shell("mkdir " .. folder .. "/in")
      local out = succeed("map_reduce.lua", launch, "--input", folder .. "/in")
      assert.equal("[driver/0] 0 different words in 0 files\n", out)
      return out
    end)

    it("refuses input that is missing, and words that make no sense", function()
      refused(2, "map_reduce: cannot find all of /nowhere/at/all", "map_reduce.lua",
              "--input", "/nowhere/at/all")
      refused(2, "--input", "map_reduce.lua")
      refused(2, "a mapper and a reducer", "map_reduce.lua", "--input=LICENSE", "--mappers=0")
      refused(2, "unknown flag --inputs", "map_reduce.lua", "--inputs=LICENSE")
    end)

    both("fails with the name of an output that cannot be written", function(launch)
      local result = run("map_reduce.lua", launch, "--input", "LICENSE", "--output", "/nowhere/table")
      assert.equal(1, result.status)
      assert.truthy(result.err:find("node driver/0 failed: .*/nowhere/table: No such file"), result.err)
    end)
  end)

  describe("parameter_server", function()
    --- The losses a run printed, by epoch.
    local function losses(out)
      local list = {}
      for epoch, loss in out:gmatch("%[driver/0%] epoch +(%d+): loss ([%d.]+)\n") do
        list[tonumber(epoch)] = tonumber(loss)
      end
      return list
    end

    both("learns asynchronously", function(launch)
      local found = losses(succeed("parameter_server.lua", launch))
      assert.equal(10, #found)
      assert.truthy(found[0] > 1 and found[1] < found[0] / 10, found[1])
      assert.truthy(found[10] < 0.001, found[10]) -- the noise of the samples is left
    end)

    both("learns in step, with the same numbers every time", function(launch)
      local out = succeed("parameter_server.lua", launch, "--sync")
      local found = losses(out)
      assert.equal(10, #found)
      for epoch = 1, 10 do assert.truthy(found[epoch] <= found[epoch - 1]) end
      assert.truthy(found[10] < 0.001, found[10])
      return out
    end)

    both("learns the same in step wherever the weights lie", function(launch)
      local one = succeed("parameter_server.lua", launch, "--sync", "--servers=1")
      for _, servers in ipairs {"--servers=5", "--servers=13"} do -- of 13 one has no weight
        assert.equal(one, succeed("parameter_server.lua", launch, "--sync", servers))
      end
      return one
    end)

    both("learns with one worker, and the same with and without --sync", function(launch)
      local out = succeed("parameter_server.lua", launch, "--workers=1", "--sync")
      assert.equal(out, succeed("parameter_server.lua", launch, "--workers=1", "--nosync"))
      return out
    end)

    it("refuses numbers that make no sense", function()
      refused(2, "a worker, a server and a weight", "parameter_server.lua", "--workers=0")
      refused(2, "a worker, a server and a weight", "parameter_server.lua", "--servers=-1")
      refused(2, "expected an integer", "parameter_server.lua", "--workers=many")
    end)
  end)

  describe("evolution_strategies", function()
    for _, problem in ipairs {"sphere", "rastrigin"} do
      both("finds where is least: " .. problem, function(launch)
        local out = succeed("evolution_strategies.lua", launch, "--problem", problem)
        local value = tonumber(out:match("generation 100: " .. problem .. " is ([%d.]+)\n$"))
        assert.truthy(value and value < 0.01, out)
        return out
      end)
    end

    both("finds the same with any number of evaluators", function(launch)
      local words = {"--problem=rastrigin", "--generations=20", "--candidates=20", "--seed=7"}
      local out = succeed("evolution_strategies.lua", launch, "--evaluators=1", table.unpack(words))
      for _, evaluators in ipairs {"--evaluators=3", "--evaluators=23"} do -- of 23 three have nothing to do
        assert.equal(out, succeed("evolution_strategies.lua", launch, evaluators, table.unpack(words)))
      end
      return out
    end)

    it("finds its way by its seed", function()
      assert.not_equal(succeed("evolution_strategies.lua", "--generations=1", "--seed=1"),
                       succeed("evolution_strategies.lua", "--generations=1", "--seed=2"))
    end)

    it("refuses what it cannot do", function()
      refused(2, "one of sphere, rastrigin", "evolution_strategies.lua", "--problem=cube")
      refused(2, "an evaluator, a candidate and a dimension", "evolution_strategies.lua", "--evaluators=0")
    end)
  end)

  describe("pipeline", function()
    --- Checks that every stage had all items, and returns the most that waited.
    local function waited(out, items)
      local stages, most = 0, 0
      for count, waiting in out:gmatch("%[stage%d/0%] (%d+) items, at most (%d+) waiting\n") do
        assert.equal(items, tonumber(count))
        stages, most = stages + 1, math.max(most, tonumber(waiting))
      end
      assert.equal(4, stages, out)
      return most
    end

    --- Runs the program with a piece of it replaced.
    local function run_changed(pattern, replacement, ...)
      local text, count = read("programs/pipeline.lua"):gsub(pattern, replacement)
      assert.equal(1, count)
      local path = write("changed.lua", text)
      return run(("../"):rep(20) .. path:sub(2), ...)
    end

    both("hands on all items", function(launch)
      assert.truthy(waited(succeed("pipeline.lua", launch, "--items=100"), 100) <= 4)
    end)

    both("holds no more than its places before a slow stage", function(launch)
      local out = succeed("pipeline.lua", launch, "--items=40", "--places=1", "--pause=0.01")
      assert.equal(1, waited(out, 40))
    end)

    both("needs no more memory for more items", function(launch)
      -- 200 MB go through stages that may use 7 MB each.
      assert.truthy(waited(succeed("pipeline.lua", launch, "--items=3000", "--pause=0"), 3000) <= 4)
    end)

    it("would be seen to need more, were its queues without bounds", function()
      local result = run_changed("lp%.Queue%(flags%.places%)", "lp.Queue()",
                                 "--pause=0.05", "--lp_termination_notice_secs=0.5")
      assert.equal(1, result.status)
      assert.truthy(result.err:find("node stage%d/0 failed: [^\n]*memory"), result.err)
    end)

    both("works off what is on its way when it is stopped", function(launch)
      local result = run_changed("if stop:is_set%(%)", "if i == 50 then lp.stop(); lp.wait_for_stop() end %0", launch)
      assert.equal("", result.err)
      assert.equal(0, result.status)
      waited(result.out, 49)
    end)

    both("ends with no items at all", function(launch)
      assert.equal(0, waited(succeed("pipeline.lua", launch, "--items=0"), 0))
    end)

    it("refuses numbers that make no sense", function()
      refused(2, "a place at least", "pipeline.lua", "--places=0")
      refused(2, "8 bytes an item", "pipeline.lua", "--size=7")
    end)
  end)
end)
