require "spec.lua.helper"
local cli = require "lp.cli"

describe("the command line", function()
  local function parse(...) return assert(cli.parse {...}) end

  --- Checks how the words end the command.
  local function ends(status, text, ...)
    local result, ending = cli.parse {...}
    assert.is_nil(result)
    assert.equal(status, ending.status)
    assert.equal(status == 0 and "stdout" or "stderr", ending.stream)
    assert.truthy(ending.text:find(text, 1, true), ending.text)
  end

  it("divides options, script and the script's words", function()
    local result = parse("run", "--launch", "local_mp", "--no-color", "a.lua", "--launch", "x", "-n")
    assert.equal("run", result.command)
    assert.equal("a.lua", result.script)
    assert.same({"--launch", "x", "-n"}, result.script_args)
    assert.same({launch_type = "local_mp", color = false, set = {}}, result.options)
  end)

  it("takes Launchpad's spellings before and after the script, but not after --", function()
    local result = parse("run", "--lp_launch_type=test_mt", "a.lua", "x",
                         "--lp_termination_notice_secs=-1", "--", "--lp_launch_type=no")
    assert.same({launch_type = "test_mt", notice = -1, set = {}}, result.options)
    assert.same({"x", "--", "--lp_launch_type=no"}, result.script_args)
    result = parse("run", "a.lua", "--lp-launch-type", "local_mp", "y")
    assert.equal("local_mp", result.options.launch_type)
    assert.same({"y"}, result.script_args)
  end)

  it("reads the values of options", function()
    local options = parse("run", "--notice", "-1", "--threads=4", "--seed", "7", "--name", "n",
                          "--log_level=debug", "-").options
    assert.same({notice = -1, threads = 4, seed = 7, name = "n", log_level = "debug", set = {}},
                options)
    assert.equal(0.5, parse("run", "--notice=0.5", "a").options.notice)
  end)

  it("reads --set", function()
    assert.same({{label = "worker", key = "max_pending", value = "3"},
                 {label = "w", key = "env.A", value = "x=y"}},
                parse("run", "--set", "worker.max_pending=3", "--set=w.env.A=x=y", "a").options.set)
    ends(2, "option '--set': expected LABEL.KEY=VALUE, got 'worker=3'",
         "run", "--set", "worker=3", "a")
  end)

  it("refuses unknown launch types, listing those there are", function()
    ends(2, "unknown launch type 'mt' (known: 'local_mt', 'local_mp', 'test_mt', 'test_mp')",
         "run", "--launch", "mt", "a.lua")
    ends(2, "unknown launch type", "run", "a.lua", "--lp_launch_type=mt")
  end)

  it("refuses what it does not know or cannot read", function()
    ends(2, "unknown option '--foo'", "run", "--foo", "a.lua")
    ends(2, "unknown option '--lp_foo", "run", "a.lua", "--lp_foo=1")
    ends(2, "requires an argument", "run", "--launch")
    ends(2, "option '--notice': expected a number of seconds", "run", "--notice", "x", "a")
    ends(2, "option '--threads'", "run", "--threads=0", "a")
    ends(2, "option '--log-level': expected one of", "run", "--log-level=loud", "a")
    ends(2, "the program is missing", "run")
    ends(2, "unknown command 'frob' (known: run, graph, ", "frob")
    ends(2, "lp run a.lua", "a.lua")
    ends(2, "unexpected word 'x'", "version", "x")
    ends(2, "unknown command 'x'", "help", "x")
    ends(2, "Usage: lp COMMAND")
  end)

  it("gave --format behind a script to the script, which took no notice", function()
    for _, words in ipairs {{"--format", "json"}, {"--format=json"}} do
      local result = parse("graph", "a.lua", "--n", table.unpack(words))
      assert.equal("json", result.options.format)
      assert.same({"--n"}, result.script_args)
    end
    assert.same({"--", "--format", "x"}, parse("graph", "a.lua", "--", "--format", "x").script_args)
    assert.same({"--format", "x"}, parse("run", "a.lua", "--format", "x").script_args)
    ends(2, "option '--format': expected one of", "graph", "a.lua", "--format", "png")
  end)

  it("takes lp graph with its options, a script and the script's words", function()
    local result = parse("graph", "--format", "json", "a.lua", "--n", "1", "--lp_launch_type=local_mp")
    assert.same({command = "graph", script = "a.lua", script_args = {"--n", "1"},
                 options = {format = "json", launch_type = "local_mp"}}, result)
    ends(2, "unknown option '--threads'", "graph", "--threads=1", "a.lua")
  end)

  it("answers help on stdout with status 0", function()
    for _, words in ipairs {{"--help"}, {"-h"}, {"help"}} do
      ends(0, "lp run [options] PROGRAM.lua", table.unpack(words))
    end
    for _, words in ipairs {{"run", "--help"}, {"run", "-h"}, {"help", "run"}} do
      ends(0, "--notice SECONDS", table.unpack(words))
    end
    ends(0, "Usage: lp test", "test", "--help")
    ends(0, "Usage: lp version", "help", "version")
  end)

  it("passes the words of lp test on untouched", function()
    local result = parse("test", "spec/a_spec.lua", "--filter", "x", "--lp_x")
    assert.same({"spec/a_spec.lua", "--filter", "x", "--lp_x"}, result.words)
  end)

  it("knows lp version in all its spellings", function()
    for _, word in ipairs {"version", "--version", "-v"} do
      assert.equal("version", parse(word).command)
    end
  end)

  it("needs no parser library for a run without options", function()
    package.loaded.argparse = nil
    parse("run", "a.lua", "--n", "1")
    assert.is_nil(package.loaded.argparse)
  end)
end)
