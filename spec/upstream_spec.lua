--- Launchpad's own tests, in Lua: a describe for each of its test files, an `it` for each test, by
-- what it tests. Where this engine means to differ the name says so. Not here: reverb/node_test (replay
-- tables come later) and xm_docker (another machine's affair).
local lp = require "lp"
local support = require "spec.nodes.support"
local e2e = require "spec.e2e.support"
local contains, raised = support.contains, support.raised

local function idle() lp.wait_for_stop() end
local function block() lp.wait_for_stop(60) end
local function fail() error "broken on purpose" end

--- Launches `{{label, fn, …}, …}`.
local function launch(launch_type, list)
  local program = lp.Program "upstream"
  for _, each in ipairs(list) do
    program:add_node(lp.LuaNode(each[2], table.unpack(each, 3)), each[1])
  end
  return lp.launch(program, {launch_type = launch_type})
end

--- Waits until every node of a run is in one of its states.
local function until_states(run, wanted)
  repeat
    lp.sleep(0.01)
    local missing = false
    for _, node in ipairs(run:nodes()) do
      if wanted[node.name] and node.state ~= wanted[node.name] then missing = true end
    end
  until not missing
end

describe("program_test", function()
  local function node() return lp.LuaNode(idle) end

  it("add_node stores the node under its label", function()
    local program, added = lp.Program "p", node()
    program:add_node(added, "label")
    assert.equal("label", program.groups[1].label)
    assert.equal(added, program.groups[1].nodes[1])
  end)

  it("nodes added inside a group land in that group in order", function()
    local program, first, second = lp.Program "p", node(), node()
    program:group("label", function()
      program:add_node(first)
      program:add_node(second)
    end)
    assert.same({"label/0", "label/1"}, {first.name, second.name})
  end)

  it("no label, an empty label, an empty group label are errors", function()
    local program = lp.Program "p"
    raised(program.add_node, program, node())
    raised(program.add_node, program, node(), "")
    raised(program.group, program, "", idle)
  end)

  it("a label that differs from the group's is an error, an equal one is fine", function()
    local program = lp.Program "p"
    program:group("label", function()
      program:add_node(node(), "label")
      contains("differs", raised(program.add_node, program, node(), "other"))
    end)
    assert.equal(1, #program:nodes())
  end)

  it("nested groups are an error", function()
    local program = lp.Program "p"
    program:group("a", function() raised(program.group, program, "b", idle) end)
  end)

  it("reusing labels appends; the same node twice is an error here", function()
    local program, twice = lp.Program "p", node()
    program:add_node(twice, "label")
    program:add_node(node(), "label")
    assert.equal(2, #program.groups[1].nodes)
    raised(program.add_node, program, twice, "other")
  end)

  it("get_all_nodes returns all nodes", function()
    local program = lp.Program "p"
    for i = 1, 3 do program:add_node(node(), "label" .. i) end
    assert.equal(3, #program:nodes())
  end)
end)

describe("signal_handling_test", function()
  teardown(e2e.clean)
  local WAIT = [[
    local lp = require "lp"
    local program = lp.Program "signals"
    program:add_node(lp.LuaNode(function()
      lp.register_stop_handler(function() print "handled" end)
      print "waiting"
      lp.wait_for_stop()
    end), "node")
    return program]]

  it("the handler of SIGINT runs once", function()
    local command = e2e.run(WAIT, {}, {background = true}):wait_for "waiting":signal "INT":finish():expect(130)
    assert.equal(1, select(2, command.out:gsub("handled", "")))
  end)

  it("SIGQUIT ends it at once", function()
    -- 124: it had to be killed.
    e2e.run(WAIT, {"--notice", "1000"}, {background = true}):wait_for "waiting":signal "QUIT":finish():expect(124)
  end)

  it("100 SIGINTs still end it once", function()
    local command = e2e.run(WAIT, {}, {background = true}):wait_for "waiting"
    e2e.shell("for i in $(seq 100); do kill -INT %d 2>/dev/null; done", command:pid())
    command:finish()
    assert.truthy(command.status == 130 or command.status == 124, command.status)
    assert.truthy(select(2, command.out:gsub("handled", "")) <= 1)
  end)
end)

describe("serialization_test", function()
  for _, launch_type in ipairs {"test_mt", "test_mp"} do
    it("a node that cannot be carried is an error with its label, also in threads, " .. launch_type, function()
      local file <close> = assert(io.open "/dev/null")
      local err = raised(launch, launch_type, {{"label", function() return file end}})
      contains("node label/0", err)
      contains("cannot send a userdata", err)
    end)
  end

  it("closures with state arrive as independent copies", function()
    local count = 0
    local function counter() count = count + 1 return count end
    local function check() assert(counter() == 1 and counter() == 2) end
    local run <close> = launch("test_mp", {{"a", check}, {"b", check}})
    assert.is_true(run:wait())
    assert.equal(1, counter())
  end)
end)

for _, launch_type in ipairs {"test_mt", "test_mp"} do
  describe("worker_manager_test, " .. launch_type, function()
    it("wait_for_stop and the stop event are true after the stop, and false before", function()
      local run <close> = launch(launch_type, {{"a", function()
        assert(not lp.wait_for_stop(0) and not lp.wait_for_stop(0.01) and not lp.stop_event():is_set())
        lp.stop()
        assert(lp.wait_for_stop() and lp.wait_for_stop(0) and lp.stop_event():wait())
      end}})
      assert.is_true(run:wait())
    end)

    it("a worker that needs a while to end after the stop is tolerated", function()
      local run <close> = launch(launch_type, {{"a", function() lp.wait_for_stop() lp.sleep(0.3) end}})
      until_states(run, {["a/0"] = "running"})
      run:stop()
      assert.is_true(run:wait())
    end)

    it("stop and wait end three workers", function()
      local run <close> = launch(launch_type, {{"a", idle}, {"b", idle}, {"b", block}})
      run:stop()
      assert.is_true(run:wait())
      until_states(run, {["a/0"] = "ended", ["b/0"] = "ended", ["b/1"] = "ended"})
    end)

    it("a failure in another group surfaces while waiting for one group; the second wait is clean", function()
      local run <close> = launch(launch_type, {{"one", block}, {"two", fail}})
      contains("broken on purpose", raised(run.wait, run, {labels = {"one"}}))
      assert.is_true(run:wait{labels = {"one"}})
      assert.is_true(run:wait())
    end)

    it("return_on_first_completed returns with one worker still blocked", function()
      local run <close> = launch(launch_type, {{"one", function() end}, {"two", block}, {"one", block}})
      assert.is_true(run:wait{labels = {"one"}, return_on_first_completed = true})
      assert.is_true(run:wait{return_on_first_completed = true})
      assert.is_false(run:wait{labels = {"one"}, timeout = 0})
      assert.is_false(run:wait{timeout = 0.01})
    end)

    it("raise_error = false leaves the error to the next wait", function()
      local run <close> = launch(launch_type, {{"a", fail}})
      assert.is_true(run:wait{raise_error = false})
      assert.is_true(run:wait{raise_error = false})
      contains("node a/0 failed", raised(run.wait, run))
      assert.is_true(run:wait())
    end)

    it("a child process `sleep 3600` of a node is stopped with it", function()
      local script = [[
        local lp = require "lp"
        local program = lp.Program "children"
        program:add_node(lp.LuaNode(function() print "up" os.execute "sleep 3600" end), "a")
        program:add_node(lp.LuaNode(function() lp.wait_for_stop() end), "b")
        return program]]
      local words = {"--launch", launch_type, "--notice", "0.1"}
      local command = e2e.run(script, words, {background = true}):wait_for "up"
      e2e.until_true("the child", function()
        for _, line in pairs(command:processes()) do
          if line:find "^sleep 3600" then return true end
        end
      end)
      command:signal "TERM":finish() -- nothing is left
      e2e.clean()
    end)

    it("wait_for_stop is true and a blocked waiter released after SIGTERM", function()
      local script = [[
        local lp = require "lp"
        local program = lp.Program "waiters"
        local up = program:add_node(lp.CourierNode(function() return {ping = function() end} end), "server")
        for _, wait in ipairs {lp.wait_for_stop, function() return lp.stop_event():wait() end} do
          program:add_node(lp.LuaNode(function(server) server:ping() print "up" print("stopped", wait()) end, up), "a")
        end
        return program]]
      local command = e2e.run(script, {"--launch", launch_type}, {background = true})
      command:wait_for "[a/0] up":wait_for "[a/1] up":signal "TERM":finish():expect(143)
      for i = 0, 1 do contains(("[a/%d] stopped\ttrue\n"):format(i), command.out) end
      e2e.clean()
    end)

    it("a process that ends badly is a failure with its status", function()
      local run <close> = launch(launch_type, {{"a", function() os.exit(17) end}})
      contains("17", raised(run.wait, run))
    end)

    it("labels that do not exist are refused", function()
      local run <close> = launch(launch_type, {{"a", idle}})
      contains('has no label "b"', raised(run.wait, run, {labels = {"b"}}))
      contains("array of labels", raised(run.wait, run, {labels = {}}))
      contains("array of labels", raised(run.wait, run, {labels = "a"}))
    end)
  end)

  describe("launch_test, " .. launch_type, function()
    it("a single node runs and ends well", function()
      local run <close> = launch(launch_type, {{"a", function() end}})
      assert.is_true(run:wait())
    end)

    it("waits for all", function()
      local run <close> = launch(launch_type, {{"a", function() end}, {"b", function() lp.sleep(0.05) end}})
      assert.is_true(run:wait())
      until_states(run, {["a/0"] = "ended", ["b/0"] = "ended"})
    end)

    it("waiting for one group ignores a blocked group", function()
      local run <close> = launch(launch_type, {{"a", function() end}, {"b", block}})
      assert.is_true(run:wait{labels = {"a"}})
    end)

    it("a failure in any group raises while waiting for another", function()
      local run <close> = launch(launch_type, {{"a", block}, {"b", fail}})
      local err = raised(run.wait, run, {labels = {"a"}})
      contains("node b/0 failed", err)
      contains("broken on purpose", err)
    end)

    it("handles are grouped by label, 1 and 2", function()
      local program = lp.Program "handles"
      local function server() return lp.CourierNode(function()
        return {name = function() return lp.context().node end}
      end) end
      local one = program:add_node(server(), "one")
      local two = program:group("two", function()
        return {program:add_node(server()), program:add_node(server())}
      end)
      program:add_node(lp.LuaNode(function(a, list)
        assert(a:name() == "one/0" and list[1]:name() == "two/0" and list[2]:name() == "two/1" and #list == 2)
        lp.stop()
      end, one, two), "check")
      local run <close> = lp.launch(program, {launch_type = launch_type})
      assert.is_true(run:wait())
    end)

    it("a node that stops the program ends a blocked node", function()
      local run <close> = launch(launch_type, {{"a", block}, {"b", function() lp.stop() end}})
      assert.is_true(run:wait())
    end)

    it("the end of the test ends a blocked node", function()
      local run = launch(launch_type, {{"a", block}})
      run:close()
      until_states(run, {["a/0"] = "ended"})
    end)

    it("a failing server fails the test promptly, whatever it waits for", function()
      local run <close> = launch(launch_type, {{"a", fail}})
      contains("node a/0 failed", raised(lp.sleep, 60))
      assert.is_true(run.seen)
    end)
  end)

  describe("multi_threading_colocation/node_test, " .. launch_type, function()
    local function colocate(list, options, more)
      local program = lp.Program "colocation"
      program:add_node(lp.MultiThreadingColocation(list, options), "node")
      if more then more(program) end
      return lp.launch(program, {launch_type = launch_type})
    end

    it("client and server in one node talk", function()
      local server = lp.CourierNode(function() return {ping = function() return "pong" end} end)
      local client = lp.LuaNode(function(other) assert(other:ping() == "pong") lp.stop() end, server:create_handle())
      local run <close> = colocate {server, client}
      assert.is_true(run:wait())
    end)

    it("a stop releases a waiting inner node", function()
      local run <close> = colocate {lp.LuaNode(idle)}
      run:stop()
      assert.is_true(run:wait())
    end)

    it("an inner error propagates though a sibling waits", function()
      local run <close> = colocate {lp.LuaNode(block), lp.LuaNode(fail)}
      local err = raised(run.wait, run)
      contains("node node/0/1 failed", err)
      contains("broken on purpose", err)
    end)

    it("return_on_first_completed returns before the slow node", function()
      local run <close> = colocate({lp.LuaNode(block), lp.LuaNode(function() end)}, {return_on_first_completed = true})
      assert.is_true(run:wait{labels = {"node"}})
      assert.is_true(run:wait()) -- the slow one was asked to stop
    end)

    it("the default waits for all", function()
      local run <close> = colocate {lp.LuaNode(function() end), lp.LuaNode(block)}
      until_states(run, {["node/0/0"] = "ended"})
      assert.is_false(run:wait{labels = {"node"}, timeout = 0.05})
    end)

    it("lp.stop inside stops the program", function()
      local run <close> = colocate({lp.LuaNode(function() lp.stop() end), lp.LuaNode(idle)}, nil, function(program)
        program:add_node(lp.LuaNode(block), "other")
      end)
      assert.is_true(run:wait())
    end)

    it("lp.stop inside a nested colocation stops the program", function()
      local inner = lp.MultiThreadingColocation {lp.LuaNode(function() lp.stop() end), lp.LuaNode(idle)}
      local run <close> = colocate {lp.MultiThreadingColocation {inner}, lp.LuaNode(block)}
      assert.is_true(run:wait())
    end)
  end)

  describe("multi_processing_colocation/node_test, " .. launch_type, function()
    local function colocate(list, retries)
      local program = lp.Program "colocation"
      program:add_node(lp.MultiProcessingColocation(list, {num_retries_on_failure = retries}), "node")
      return lp.launch(program, {launch_type = launch_type})
    end

    --- Appends its TMPDIR to a file, which counts how often it was started.
    local function note(path, fails)
      local file = assert(io.open(path, "a+"))
      file:write(os.getenv "TMPDIR", "\n")
      file:seek "set"
      local starts = select(2, file:read "a":gsub("\n", ""))
      file:close()
      if starts <= fails then error "crashed once more" end
    end

    local function started(path)
      local folders = {}
      for line in io.lines(path) do
        folders[#folders + 1] = line
        assert.is_nil(io.open(line), line .. " was not removed")
      end
      os.remove(path)
      return #folders
    end

    it("one and two subprocesses run, their temporary folders are removed", function()
      for count = 1, 2 do
        local path, list = os.tmpname(), {}
        for i = 1, count do list[i] = lp.LuaNode(note, path, 0) end
        local run <close> = colocate(list)
        assert.is_true(run:wait())
        assert.equal(count, started(path))
      end
    end)

    it("one failure, then success with one retry: two starts", function()
      local path = os.tmpname()
      local run <close> = colocate({lp.LuaNode(note, path, 1)}, 1)
      assert.is_true(run:wait())
      assert.equal(2, started(path))
    end)

    it("a failure without retry raises that (=0) is reached", function()
      local path = os.tmpname()
      local run <close> = colocate {lp.LuaNode(note, path, 1)}
      local err = raised(run.wait, run)
      contains("num_retries_on_failure (=0) is reached.", err)
      contains("crashed once more", err)
      assert.equal(1, started(path))
    end)

    it("the retries are those of all inner nodes together", function()
      local path = os.tmpname()
      local run <close> = colocate({lp.LuaNode(note, path, 9), lp.LuaNode(note, path, 9)}, 2)
      contains("num_retries_on_failure (=2) is reached.", raised(run.wait, run))
      local starts = started(path)
      assert.truthy(starts == 3 or starts == 4, starts) -- the second may have been stopped before it began
    end)
  end)

  describe("courier/node_test, " .. launch_type, function()
    local Server = {}
    Server.__index = Server
    function Server.new(other) return setmetatable({other = other}, Server) end
    function Server.ping() return "pong" end
    function Server.__call() return "called" end
    function Server.slow() lp.sleep(60) end
    function Server:round() return self.other:ping() end

    local function serve(use)
      support.serve(support.place(launch_type), Server, use)
    end

    it("ping answers pong, and calling the client calls __call", function()
      serve(function(client) assert.same({"pong", "called"}, {client:ping(), client()}) end)
    end)

    it("the same with futures", function()
      serve(function(client)
        assert.same({"pong", "called"}, {client.futures:ping():result(), client.futures():result()})
      end)
    end)

    it("configure makes cyclic handles visible", function()
      support.place(launch_type)(function(program)
        local one, two = lp.CourierNode(Server), lp.CourierNode(Server)
        local first, second = program:add_node(one, "one"), program:add_node(two, "two")
        one:configure(second)
        two:configure(first)
        return first, second
      end, function(first, second) assert.same({"pong", "pong"}, {first:round(), second:round()}) end)
    end)

    it("a call time-out of 50 ms ends with deadline exceeded", function()
      serve(function(client)
        local hasty = lp.with(client, {timeout = 0.05})
        assert.equal("deadline_exceeded", raised(hasty.slow, hasty).code)
      end)
    end)
  end)

  describe("consumer_producers/launch_test, " .. launch_type, function()
    it("with run disabled, ten steps through its handle succeed", function()
      local Consumer = {}
      Consumer.__index = Consumer
      function Consumer.new(producers) return setmetatable({producers = producers}, Consumer) end
      function Consumer.run() error "run was disabled" end
      function Consumer:step()
        local sum = 0
        for i, producer in ipairs(self.producers) do sum = sum + producer:work(i) end
        return sum
      end
      local function Producer() return {work = function(_, context) return context end} end
      support.place(launch_type)(function(program)
        local producers = {}
        for i = 1, 2 do producers[i] = program:add_node(lp.CourierNode(Producer), "producer") end
        return program:add_node(lp.CourierNode(Consumer, producers):disable_run(), "consumer")
      end, function(consumer)
        for _ = 1, 10 do assert.equal(3, consumer:step()) end
      end)
    end)
  end)
end

describe("decorate_output_test", function()
  teardown(e2e.clean)

  it("three lines come with their prefix, byte for byte", function()
    local ended = e2e.run([[
      local lp = require "lp"
      local program = lp.Program "decorate"
      program:add_node(lp.LuaNode(function() io.write "one\ntwo\nthree" end), "node")
      return program]]):expect(0)
    assert.equal("[node/0] one\n[node/0] two\n[node/0] three\n", ended.out)
  end)
end)

describe("run_python_tests.sh", function()
  teardown(e2e.clean)
  local path = e2e.shell "pwd" .. "/programs/consumer_producers.lua"

  for _, how in ipairs {{"local_mt"}, {"local_mp", "current_terminal"}, {"local_mp", "output_to_files"},
                        {"local_mp", "tmux_session"}} do
    local possible = how[2] ~= "tmux_session" or os.execute "command -v tmux >/dev/null";
    (possible and it or pending)("consumer_producers runs: " .. table.concat(how, ", "), function()
      local words = {"run", "--launch", how[1]}
      if how[2] then table.move({"--terminal", how[2]}, 1, 2, 4, words) end
      if how[2] == "output_to_files" then table.move({"--log-dir", "logs"}, 1, 2, 6, words) end
      words[#words + 1] = path
      e2e.start(words, {env = {"TMUX=", "TMUX_TMPDIR=$PWD"}}):finish():expect(0)
    end)
  end
end)
