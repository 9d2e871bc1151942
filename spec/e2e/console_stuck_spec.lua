--- Every command about a run in which one node computes without end, one is inside a C function, one is
-- dead, and (a process) one is stopped by a signal; and nodes that wait for each other in a circle.

local cjson = require "cjson"
local support = require "spec.e2e.support"

local PROGRAM = [[
  local lp = require "lp"
  local Node = {}
  Node.__index = Node
  function Node.new() return setmetatable({}, Node) end
  function Node:echo(x) return x end
  function Node:spin() while true do end end
  function Node:sink() os.execute "exec sleep 1000" end
  function Node:die() error "it died" end
  local program = lp.Program "demo"
  local handles = {}
  for _, label in ipairs {"lua", "c", "dead", "halted", "well"} do
    local node = lp.CourierNode(Node.new)
    if label == "dead" then node:options{on_failure = "ignore"} end
    handles[label] = program:add_node(node, label)
  end
  program:add_node(lp.LuaNode(function(nodes)
    for _, node in pairs(nodes) do node:echo(1) end
    nodes.lua.notify:spin()
    nodes.c.notify:sink()
    print "up"
    nodes.lua:echo(2)
  end, handles), "driver")
  return program
]]

local CIRCLE = [[
  local lp = require "lp"
  local Node = {}
  Node.__index = Node
  function Node.new(next) return setmetatable({next = next}, Node) end
  function Node:go() return self.next:go() end
  function Node:echo(x) return x end
  local program, nodes, handles = lp.Program "ring", {}, {}
  for i = 1, 3 do
    nodes[i] = lp.CourierNode(Node.new):options{max_concurrency = 1}
    handles[i] = program:add_node(nodes[i], "ring")
  end
  for i = 1, 3 do nodes[i]:configure(handles[i % 3 + 1]) end
  program:add_node(lp.LuaNode(function(first) first:go() end, handles[1]), "driver")
  return program
]]

describe("the commands about a run that is in trouble", function()
  teardown(support.clean)
  local it = support.it_interrupts(it, pending)

  local function lp(run, ...)
    local list = {}
    for i, word in ipairs {...} do list[i] = "'" .. word:gsub("'", [['\'']]) .. "'" end
    local command = ("cd %s && XDG_RUNTIME_DIR=$PWD/run timeout -s KILL 60 %s %s >answer 2>complaint </dev/null")
                    :format(run.folder, support.lp(), table.concat(list, " "))
    local _, _, status = os.execute(command)
    return status, run:read "answer", run:read "complaint"
  end

  local function shows(run, ...)
    local status, out, err = lp(run, ...)
    assert(status == 0, ("%s: status %s, %s"):format(table.concat({...}, " "), status, err))
    return out
  end

  --- Runs all commands, arrays of words, at the same time: each waits for those that do not answer.
  -- Returns arrays of statuses, outputs and complaints.
  local function at_once(run, commands)
    local script = {"cd " .. run.folder, "export XDG_RUNTIME_DIR=$PWD/run"}
    for i, words in ipairs(commands) do
      local list = {}
      for k, word in ipairs(words) do list[k] = "'" .. word:gsub("'", [['\'']]) .. "'" end
      script[#script + 1] = ("{ timeout -s KILL 60 %s %s >out.%d 2>err.%d </dev/null; echo $? >status.%d; } &")
                            :format(support.lp(), table.concat(list, " "), i, i, i)
    end
    script[#script + 1] = "wait"
    os.execute(table.concat(script, "\n"))
    local statuses, outputs, complaints = {}, {}, {}
    for i in ipairs(commands) do
      statuses[i] = tonumber((run:read("status." .. i)))
      outputs[i], complaints[i] = run:read("out." .. i), run:read("err." .. i)
    end
    return statuses, outputs, complaints
  end

  --- The answer of `lp COMMAND demo WORDS --json`.
  local function json(run, command, ...)
    local words = {...}
    words[#words + 1] = "--json"
    return cjson.decode(shows(run, command, "demo", table.unpack(words)))
  end

  local function by_node(list)
    local found = {}
    for _, row in ipairs(list) do
      local name = row.node or row.name
      if name and (not found[name] or row.partial) then found[name] = row end -- calls have none
    end
    return found
  end

  support.placements(describe, "one node in Lua, one in C, one dead", function(launch_type)
    local run, separate = nil, launch_type == "local_mp"

    local function start()
      run = support.run(PROGRAM, {"--launch", launch_type}, {background = true}):wait_for "up"
      -- The nodes that do not answer are of the run that is looked at: until both are where they go.
      support.until_true("the trouble", function()
        local nodes = by_node(json(run, "stacks"))
        return nodes["c/0"].partial and nodes["lua/0"].groups[1]
      end)
      shows(run, "kill", "demo", "dead/0")
      support.until_true("an end", function() return by_node(json(run, "nodes"))["dead/0"].state == "failed" end)
      if separate then
        local pid = by_node(json(run, "nodes"))["halted/0"].pid
        support.shell("kill -STOP %d", pid)
        support.until_true("a stop", function()
          return by_node(json(run, "nodes"))["halted/0"].state == "halted"
        end)
      end
    end

    local silent = {"c/0", "dead/0"}
    if separate then silent[3] = "halted/0" end

    --- Those that cannot answer are marked. (On a busy machine others may be late, too.)
    local function check_partial(found, what)
      for _, name in ipairs(silent) do
        assert(found[name] and found[name].partial == true, ("%s: %s is not marked"):format(what, name))
        assert.is_string(found[name].partial_reason)
      end
    end

    it("are all answered", function()
      start()
      local queries = {"calls", "stacks", "net", "mem", "stats", "lat", "slow", "why", "nodes", "graph"}
      local commands = {}
      for i, query in ipairs(queries) do
        commands[i] = {query, "demo", "--json"}
        commands[#queries + i] = {query, "demo"}
      end
      local more = #commands
      for _, words in ipairs {
        {"top", "demo", "--interval", "0.1", "--json"}, {"why", "demo", "driver/0"}, {"stack", "demo", "lua/0"},
        {"stack", "demo", "c/0"}, {"stack", "demo", "dead/0"}, {"stats", "demo", "--prometheus"},
        {"logs", "demo", "c/0"}, {"node", "demo", "c/0", "--json"}, {"node", "demo", "dead/0", "--json"},
      } do commands[#commands + 1] = words end
      local statuses, outputs, complaints = at_once(run, commands)
      for i, words in ipairs(commands) do
        assert(statuses[i] == 0, ("%s: %s %s"):format(table.concat(words, " "), statuses[i], complaints[i]))
      end
      local function says(i, text)
        local out = outputs[more + i]
        assert(out:find(text, 1, true), ("%q is not in the answer of %s: %s"):format(text,
               table.concat(commands[more + i], " "), out))
      end
      for i = 1, 7 do
        check_partial(by_node(cjson.decode(outputs[i])), queries[i])
        assert.truthy(outputs[#queries + i]:find("partial: node c/0", 1, true) or queries[i] == "stacks")
      end
      assert.equal(6, #cjson.decode(outputs[9]))
      assert.equal(5, #cjson.decode(outputs[10]).edges)
      check_partial(by_node(cjson.decode(outputs[more + 1])), "top")
      local function comes_to_say(text, ...)
        local words = {...}
        support.until_true(text, function()
          local status, out = lp(run, table.unpack(words))
          return status == 0 and out:find(text, 1, true)
        end)
      end
      comes_to_say("driver/0 waits", "why", "demo", "driver/0")
      comes_to_say("lua/0 waits for no other node: it computes", "why", "demo", "driver/0")
      comes_to_say("p.lua:6: in", "stack", "demo", "lua/0")
      support.until_true("answers of those that can", function()
        local found = by_node(json(run, "stats"))
        return not (found["lua/0"].partial or found["well/0"].partial or found["driver/0"].partial)
      end)
      says(4, "partial: ")
      says(5, "partial: it has ended: ")
      says(6, 'node="c/0"} 0')
      assert.is_true(cjson.decode(outputs[more + 8]).partial)
      assert.is_true(cjson.decode(outputs[more + 9]).partial)

      commands = {}
      for _, name in ipairs(silent) do
        for _, words in ipairs {{"eval", "demo", name, "1"}, {"call", "demo", name, "echo"}, {"gc", "demo", name}} do
          table.insert(words, 2, "--timeout")
          table.insert(words, 3, "0.3")
          commands[#commands + 1] = words
        end
      end
      statuses, outputs, complaints = at_once(run, commands)
      for i, words in ipairs(commands) do
        assert(statuses[i] == 1 and complaints[i]:find "^lp: ", ("%s: %s %s"):format(table.concat(words, " "),
               outputs[i], complaints[i]))
        if words[1] ~= "call" then -- (gc waited ten seconds and said no more than that)
          assert.truthy(complaints[i]:find("node " .. words[5] .. " cannot answer: ", 1, true), complaints[i])
        end
      end
      assert.equal("5\n", shows(run, "eval", "demo", "well/0", "2 + 3"))
      assert.equal("5\n", shows(run, "call", "demo", "well/0", "echo", "5"))
      shows(run, "pause", "demo", "well/0")
      support.until_true("a pause", function() return json(run, "stats", "well/0").paused end)
      assert.equal(1, (lp(run, "call", "--timeout", "0.2", "demo", "well/0", "echo", "5")))
      shows(run, "resume", "demo", "well/0")
      assert.equal("6\n", shows(run, "call", "demo", "well/0", "echo", "6"))
      shows(run, "interrupt", "demo", "lua/0")
      assert.equal("7\n", shows(run, "call", "--timeout", "60", "demo", "lua/0", "echo", "7"))
      shows(run, "restart", "demo", "dead/0")
      assert.equal("8\n", shows(run, "call", "demo", "dead/0", "echo", "8"))
      run:signal "QUIT"
      run:finish()
    end)
  end)

  support.placements(describe, "nodes that wait in a circle", function(launch_type)
    it("are named", function()
      local run = support.run(CIRCLE, {"--launch", launch_type, "--notice", "0"}, {background = true})
      local function why(...)
        local status, out = lp(run, "why", "ring", ...)
        return status == 0 and out or ""
      end
      local text = support.until_true("the circle", function()
        local out = why()
        return out:find("a circle: ", 1, true) and out
      end)
      assert.truthy(text:find("a circle: ring/0 -> ring/1 -> ring/2 -> ring/0", 1, true), text)
      assert.truthy(text:find "ring/1 waits [%d.]+ [mµs]+ for ring/2%.go", text)
      assert.truthy(why("ring/1"):find("a circle: ring/1 -> ring/2 -> ring/0 -> ring/1", 1, true))
      assert.truthy(why("driver/0"):find("driver/0 waits", 1, true))
      assert.truthy(why("driver/0"):find("a circle: ring/0", 1, true))
      local calls = cjson.decode((select(2, lp(run, "calls", "ring", "--json"))))
      assert.equal(4, #calls)
      shows(run, "stop", "ring")
      run:finish()
    end)
  end)
end)
