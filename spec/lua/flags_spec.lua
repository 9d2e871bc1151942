local helper = require "spec.lua.helper"
local fails_here = helper.fails_here

describe("lp.flags", function()
  local flags, ended
  local script_words, context = rawget(_G, "arg"), helper.core.context

  --- The state of a program that was started with these words.
  local function started(...)
    package.loaded["lp.flags"] = nil
    flags = require "lp.flags"
    ended = nil
    flags.exit = function(status, text, stream)
      ended = {status = status, text = text, stream = stream}
      error("ended", 0)
    end
    rawset(_G, "arg", {[0] = "program.lua", ...})
  end

  after_each(function()
    rawset(_G, "arg", script_words)
    helper.core.context = context
    package.loaded["lp.flags"] = nil
  end)

  --- The values of `spec` for these words.
  local function values(spec, ...)
    started(...)
    return flags.flags(spec)
  end

  --- How the program ended when lp.flags was called with `spec`.
  local function ending(spec, ...)
    started(...)
    assert.equal("ended", helper.failure(flags.flags, spec))
    return ended
  end

  it("returns defaults, and the types they have", function()
    assert.same({n = 2, x = 0.5, on = false, name = "a", list = {}},
                values {n = {2}, x = {0.5}, on = {false}, name = {"a"}, list = {{}}})
    assert.same({n = 3, name = "bare"}, values {n = 3, name = "bare"})
    assert.same({}, values {n = {type = "int"}})
  end)

  it("understands --f v, --f=v, --f and --nof", function()
    local spec = {n = {2}, on = {false}, off = {true}, name = {"a"}}
    assert.same({n = 5, on = true, off = false, name = "b=c"},
                values(spec, "--n", "5", "--on", "--nooff", "--name=b=c"))
    assert.same({n = -5, on = false, off = true, name = ""},
                values(spec, "--n", "-5", "--on=false", "--off=true", "--name="))
    assert.equal(2, values({n = {1}}, "--n=1", "--n=2").n)
  end)

  it("takes - for _", function()
    local spec = {num_producers = {2}, ["dry-run"] = {true}}
    assert.same({num_producers = 4, dry_run = false},
                values(spec, "--num-producers=4", "--no-dry-run"))
    assert.equal(5, values(spec, "--num_producers", "5").num_producers)
  end)

  it("keeps integers integers and floats floats", function()
    assert.equal("integer", math.type(values({n = {1}}, "--n=7").n))
    assert.equal("float", math.type(values({n = {1.0}}, "--n=7").n))
    assert.equal("float", math.type(values {n = {1, type = "float"}}.n))
  end)

  it("takes several words for a list, up to the next flag", function()
    local spec = {input = {{"x"}}, n = {1}}
    assert.same({input = {"x"}, n = 1}, values(spec))
    assert.same({input = {"a", "b"}, n = 2}, values(spec, "--input", "a", "b", "--n", "2"))
    assert.same({input = {"a", "b", "c"}, n = 1}, values(spec, "--input=a", "--input", "b", "c"))
    assert.same({input = {"a"}, n = 1}, values(spec, "--input", "a", "--", "b", "--n", "2"))
  end)

  it("gives each table a list of its own", function()
    local default = {"x"}
    local spec = {input = {default}}
    table.insert(values(spec).input, "y")
    assert.same({"x"}, default)
  end)

  it("ends with status 2 for unknown flags and bad values, on stderr", function()
    local spec = {n = {2}, on = {false}, mode = {"a", choices = {"a", "b"}}}
    for words, text in pairs {
      ["--nope"] = "program.lua: unknown flag --nope",
      ["--nope=3"] = "unknown flag --nope=3",
      ["-x"] = "unknown flag -x",
      ["--non"] = "unknown flag --non",
      ["--n=x"] = 'flag --n: expected an integer, got "x"',
      ["--n=1.5"] = "expected an integer",
      ["--n"] = "flag --n needs a value",
      ["--n --on"] = "flag --n needs a value",
      ["--on=maybe"] = "expected true or false",
      ["--mode=c"] = "flag --mode: expected one of a, b, got \"c\"",
    } do
      local list = {}
      for word in words:gmatch("%S+") do list[#list + 1] = word end
      local result = ending(spec, table.unpack(list))
      assert.equal(2, result.status)
      assert.equal("stderr", result.stream)
      assert.truthy(result.text:find(text, 1, true), result.text)
    end
  end)

  it("leaves plain words and what follows -- to the script", function()
    assert.same({n = 1}, values({n = {1}}, "file", "-", "-5", "--", "--nope"))
    assert.same({[0] = "program.lua", "file", "-", "-5", "--", "--nope"}, rawget(_G, "arg"))
  end)

  it("answers --help on stdout with status 0, sorted by name", function()
    local spec = {b = {2, "Second."}, a = {false, "First."}, c = {{}, "Third."},
                  d = {"x", "Fourth.", choices = {"x", "y"}}, e = {"", "Fifth."}}
    for _, word in ipairs {"--help", "-h"} do
      local result = ending(spec, "--nope", word)
      assert.equal(0, result.status)
      assert.equal("stdout", result.stream)
      assert.equal([[
Usage: program.lua [flags]

Flags:
  --[no]a                        First. (default: false)
  --b N                          Second. (default: 2)
  --c TEXT...                    Third. (default: none)
  --d TEXT                       Fourth. (one of x, y; default: x)
  --e TEXT                       Fifth. (default: "")
  --help                         Show this text.
]], result.text)
    end
  end)

  it("knows the flags of earlier calls", function()
    started("--a=1")
    assert.equal(1, flags.flags {a = {0}}.a)
    assert.same({b = 2}, flags.flags {b = {2}})
    fails_here("a is defined twice", function() flags.flags {a = {"text"}} end)
    assert.equal(1, flags.flags {a = {5}}.a)
  end)

  it("decides nothing while a module is loaded, but at the script's own call", function()
    started("--a=1", "--b=2", "--c=3")
    local module_flags
    package.preload.spec_flags = function() module_flags = flags.flags {a = {0}} end
    finally(function() package.preload.spec_flags, package.loaded.spec_flags = nil, nil end)
    require "spec_flags"
    assert.same({a = 1}, module_flags)
    assert.same({"--b=2", "--c=3"}, flags.leftover())
    assert.equal("ended", helper.failure(flags.flags, {b = {0}}))
    assert.truthy(ended.text:find("unknown flag --c=3", 1, true))
  end)

  it("decides at the end of the script when only modules have flags", function()
    started("--b=2")
    flags.finish() -- nobody called lp.flags: the words are the script's
    package.preload.spec_flags = function() flags.flags {a = {0}} end
    finally(function() package.preload.spec_flags, package.loaded.spec_flags = nil, nil end)
    require "spec_flags"
    assert.equal("ended", helper.failure(flags.finish))
    assert.equal(2, ended.status)
  end)

  it("refuses definitions that make no sense, at the caller's line", function()
    started()
    fails_here("expected a table", function() flags.flags() end)
    fails_here("lp_x is Launchpad's own", function() flags.flags {lp_x = {1}} end)
    fails_here("help is Launchpad's own", function() flags.flags {help = {1}} end)
    fails_here("names must be", function() flags.flags {"x"} end)
    fails_here("unknown type \"date\"", function() flags.flags {x = {1, type = "date"}} end)
    fails_here("is not of type integer", function() flags.flags {x = {1.5, type = "int"}} end)
    fails_here("unknown field \"defualt\"", function() flags.flags {x = {defualt = 1}} end)
    fails_here("the help must be a text", function() flags.flags {x = {1, 2}} end)
    fails_here("unknown type \"function\"", function() flags.flags {x = {print}} end)
  end)

  it("in a node decides nothing and lays the group's args over", function()
    started("--nope", "--n=1")
    helper.core.context = function() return {node = "worker/0"} end
    flags.args = {n = "7", other = true}
    assert.same({n = 7, name = "x"}, flags.flags {n = {0}, name = {"x"}})
  end)

  it("recognises its table in a node and lays the group's args over it", function()
    local table_of_flags = values({n = {1}, rate = {0.5}, list = {{}}, on = {false}})
    assert.is_true(flags.is(table_of_flags))
    assert.is_false(flags.is {n = 1})
    local record = flags.record(table_of_flags)
    started()
    local carried = flags.restore(record, {n = "4", rate = 2, list = "a", on = "true",
                                           stranger = 1})
    assert.same({n = 4, rate = 2.0, list = {"a"}, on = true}, carried)
    assert.equal("float", math.type(carried.rate))
    assert.is_true(flags.is(carried))
    assert.equal('args: n: expected an integer, got "x"',
                 helper.failure(flags.overlay, carried, {n = "x"}))
    assert.truthy(helper.failure(flags.overlay, carried, {on = 5}):find("args: on: expected"))
  end)
end)
