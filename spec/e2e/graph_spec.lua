--- `lp graph`: what it shows, that nothing runs, and what it says when it cannot.

local support = require "spec.e2e.support"

local PROGRAM = [[
  local lp = require "lp"
  local flags = lp.flags{workers = {2, "How many."}}
  local program = lp.Program "example"
  local function Worker() return {work = function() end} end
  local workers = program:group("worker", function()
    local list = {}
    for i = 1, flags.workers do list[i] = program:add_node(lp.CourierNode(Worker)) end
    return list
  end)
  program:add_node(lp.LuaNode(function(list) print "a node runs" end, {workers}), "driver")
  program:add_node(lp.LuaClassNode(Worker, workers[1]):disable_run(), "watch")
]]

local TEXT = [[
program example: 4 nodes, 3 edges

nodes
  worker
    worker/0  CourierNode
    worker/1  CourierNode
  driver
    driver/0  LuaNode
  watch
    watch/0   LuaClassNode, run disabled

edges (caller -> called)
  driver/0 -> worker/0
  driver/0 -> worker/1
  watch/0 -> worker/0
]]

describe("lp graph", function()
  teardown(support.clean)

  --- Runs `lp graph OPTIONS SCRIPT WORDS`.
  local function graph(script, options, words, how)
    how = how or {}
    how.script = script
    local list = {"graph"}
    table.move(options or {}, 1, #(options or {}), #list + 1, list)
    list[#list + 1] = "SCRIPT"
    table.move(words or {}, 1, #(words or {}), #list + 1, list)
    return support.start(list, how):finish()
  end

  --- Runs it, which must end well with nothing on stderr, and returns what it wrote.
  local function shows(...)
    local ended = graph(...):expect(0)
    assert.equal("", ended.err)
    return ended.out
  end

  it("shows the program a script returns, which is not launched", function()
    assert.equal(TEXT, shows(PROGRAM .. "return program"))
    assert.equal(TEXT, shows(PROGRAM .. "return program", {"--format", "text"}))
  end)

  it("shows the program a script would launch, and ends the script there", function()
    for _, ending in ipairs {"lp.launch(program)", "lp.launch(program, {launch_type = 'local_mp'}):wait()",
                             "pcall(lp.launch, program)", "lp.launch{program}",
                             "lp.spawn(lp.launch, program):result()",
                             "coroutine.wrap(function() lp.launch(program) end)()"} do
      assert.equal(TEXT, shows(PROGRAM .. ending .. "\nos.execute 'echo the script goes on'; os.exit(3)"))
    end
  end)

  it("gives the script its flags and takes Launchpad's out", function()
    local out = shows(PROGRAM .. "assert(#arg == 2)\nreturn program", {"--format=text"},
                      {"--lp_launch_type=local_mp", "--workers", "1", "--lp_termination_notice_secs", "3"})
    assert.truthy(out:find("program example: 3 nodes, 2 edges", 1, true), out)
    assert.equal(shows(PROGRAM .. "return program"),
                 shows(PROGRAM .. "return program", {"--lp_launch_type=local_mt"}))
  end)

  it("shows the script's help and refuses its wrong flags", function()
    assert.truthy(shows(PROGRAM, nil, {"--help"}):find("How many.", 1, true))
    local ended = graph(PROGRAM, nil, {"--bogus"}):expect(2, "bogus")
    assert.equal("", ended.out)
  end)

  it("reads standard input", function()
    local ended = support.start({"graph", "-"}, {script = PROGRAM .. "return program", input = "<p.lua"})
    assert.equal(TEXT, ended:finish():expect(0).out)
  end)

  it("writes JSON with the field names of program:nodes() and program:edges()", function()
    local record = require "cjson".decode(shows(PROGRAM .. "return program", {"--format", "json"}))
    assert.equal("example", record.name)
    assert.same({{label = "worker", nodes = {"worker/0", "worker/1"}}, {label = "driver", nodes = {"driver/0"}},
                 {label = "watch", nodes = {"watch/0"}}}, record.groups)
    assert.same({name = "worker/1", label = "worker", index = 1, kind = "CourierNode", run = true},
                record.nodes[2])
    assert.same({name = "watch/0", label = "watch", index = 0, kind = "LuaClassNode", run = false},
                record.nodes[4])
    assert.same({{from = "driver/0", to = "worker/0"}, {from = "driver/0", to = "worker/1"},
                 {from = "watch/0", to = "worker/0"}}, record.edges)
  end)

  it("writes the language of dot", function()
    local out = shows(PROGRAM .. "return program", {"--format", "dot"})
    assert.truthy(out:find('^digraph "example" {\n'), out)
    assert.truthy(out:find('subgraph cluster_1 {\n    label="worker";\n    "worker/0" ', 1, true), out)
    assert.truthy(out:find('"watch/0" [label="watch/0\\nLuaClassNode, run disabled", shape=box];', 1, true), out)
    assert.truthy(out:find('\n  "driver/0" -> "worker/1";\n', 1, true), out)
    assert.truthy(out:find('\n}\n$'), out)
  end)

  it("quotes names in dot and JSON", function()
    local script = [[
      local lp = require "lp"
      local program = lp.Program 'a "b" \\n'
      program:add_node(lp.LuaNode(print), '"l\\"\255')
      return program]]
    local out = shows(script, {"--format", "dot"})
    assert.truthy(out:find([[digraph "a \"b\" \\n" {]], 1, true), out)
    assert.truthy(out:find([[label="\"l\\\"]] .. "\u{FFFD}" .. [[/0\nLuaNode"]], 1, true), out)
    local record = require "cjson".decode(shows(script, {"--format", "json"}))
    assert.equal('a "b" \\n', record.name)
    assert.equal('"l\\"\u{FFFD}', record.groups[1].label)
  end)

  --- A shell text that makes a folder `bin` the only one with commands, without Graphviz.
  local function without_graphviz(more)
    return ([[mkdir bin; for tool in sh cat mkdir env echo; do ln -s "$(command -v $tool)" bin/$tool; done
      %s
      PATH=$PWD/bin]]):format(more or "")
  end

  it("has dot draw the svg", function()
    local fake = [[printf '#!/bin/sh\necho "drawn with $1"; cat "$2"\n' >bin/dot; chmod +x bin/dot]]
    local out = shows(PROGRAM .. "return program", {"--format", "svg"}, nil,
                      {before = without_graphviz(fake)})
    assert.equal("drawn with -Tsvg\n" .. shows(PROGRAM .. "return program", {"--format", "dot"}), out)
  end)

  it("says so when dot fails", function()
    local fake = [[printf '#!/bin/sh\nexit 1\n' >bin/dot; chmod +x bin/dot]]
    graph(PROGRAM .. "return program", {"--format=svg"}, nil, {before = without_graphviz(fake)})
      :expect(1, "dot could not draw the graph")
  end)

  it("asks for Graphviz before the script runs", function()
    local ended = graph("print 'the script runs'", {"--format=svg"}, nil, {before = without_graphviz()})
    ended:expect(1, "needs Graphviz", "apt-get install graphviz")
    assert.falsy((ended.out .. ended.err):find("the script runs", 1, true))
  end)

  it("draws with the real dot", function()
    if support.shell "command -v dot" == "" then return pending("Graphviz is not installed") end
    local out = shows(PROGRAM .. "return program", {"--format=svg"})
    assert.truthy(out:find("<svg", 1, true) and out:find("worker/1", 1, true), out)
  end)

  it("keeps what the script prints out of the graph", function()
    local ended = graph(PROGRAM .. "print('one', 2) io.write 'three\\n' io.stdout:write 'four\\n'\nreturn program")
    assert.equal(TEXT, ended.out)
    assert.equal("one\t2\nthree\nfour\n", ended.err)
  end)

  it("shows a graph that cannot be launched, and says why", function()
    local ended = graph([[
      local lp = require "lp"
      local program = lp.Program "wrong"
      local quiet = program:add_node(lp.LuaNode(print), "quiet")
      program:add_node(lp.LuaNode(print, quiet), "caller")
      return program]])
    ended:expect(0, "caller/0 -> quiet/0", "cannot be launched: node caller/0: argument 1 is the handle of quiet/0")
  end)

  it("says what is wrong with a script", function()
    graph("local = 1"):expect(1, "p.lua:1:")
    graph("error 'no good'"):expect(1, "no good", "stack traceback")
    graph("return 42"):expect(1, "the script returned 42")
    graph(""):expect(1, "the script returned nil")
    graph("return require('lp').Program 'empty'"):expect(1, "has no nodes")
    graph("os.exit(7)"):expect(7)
  end)

  it("refuses wrong words with status 2", function()
    for _, case in ipairs {{{"graph"}, "the program is missing"},
                           {{"graph", "--format", "png", "p.lua"}, "option '--format': expected one of"},
                           {{"graph", "--launch", "local_mp", "p.lua"}, "unknown option '--launch'"},
                           {{"graph", "p.lua", "--lp_launch_type=no"}, "unknown launch type 'no'"},
                           {{"graph", "nowhere.lua"}, "cannot open nowhere.lua"}} do
      local ended = support.start(case[1]):finish():expect(2, case[2])
      assert.equal("", ended.out)
    end
  end)

  it("has help", function()
    local help = support.start({"graph", "--help"}):finish():expect(0, "lp graph [options]", "--format FORMAT")
    assert.falsy(help.out:find("lp_launch_type", 1, true))
  end)
end)
