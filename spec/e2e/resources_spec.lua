--- Resources from the command line.
local support = require "spec.e2e.support"

local PROBE = [[
  local lp = require "lp"
  local flags = lp.flags{size = {1, "A size."}}
  local program = lp.Program "resources"
  local function show(flags)
    print(("%s x=%s size=%d"):format(lp.context().node, os.getenv "LP_X", flags.size))
  end
  for _ = 1, 2 do program:add_node(lp.LuaNode(show, flags), "worker") end
  program:add_node(lp.LuaNode(show, flags), "other")
  return program]]

describe("resources from the command line", function()
  teardown(support.clean)

  local function run(words, file, name)
    local list = {"--launch", "local_mp"}
    table.move(words, 1, #words, 3, list)
    local before = file and ("cat >%s <<'END'\n%s\nEND\n"):format(name, file)
    return support.run(PROBE, list, {before = before})
  end

  it("hold for a label or one node", function()
    run({"--set", "worker.env.LP_X=1", "--set", "worker/1.env.LP_X=2", "--set", "worker.args.size=7"})
      :expect(0, "worker/0 x=1 size=7", "worker/1 x=2 size=7", "other/0 x=nil size=1")
  end)

  it("come from a file in Lua or JSON, under --set", function()
    run({"--resources", "r.lua", "--set", "other.env.LP_X=set"},
        'return {worker = {env = {LP_X = "file"}, nice = 1}, other = {env = {LP_X = "file"}}}', "r.lua")
      :expect(0, "worker/0 x=file", "other/0 x=set")
    run({"--resources", "r.json"}, '{"worker": {"env": {"LP_X": "json"}, "args": {"size": 3}}}', "r.json")
      :expect(0, "worker/1 x=json size=3", "other/0 x=nil")
  end)

  it("are refused with what is wrong, before anything starts", function()
    run({"--set", "worker.colour=red"}):expect(2, "--set worker.colour: unknown key (known: affinity")
    run({"--set", "worker.nice=very"}):expect(2, "--set worker.nice: expected a whole number", "'very'")
    run({"--set", "nobody.nice=1"}):expect(1, 'no label or node "nobody"')
    run({"--resources", "none.lua"}):expect(2, "--resources: cannot open none.lua")
    run({"--resources", "r.lua"}, "return os", "r.lua"):expect(2, "expected a table of labels, got nil")
    run({"--resources", "r.lua"}, "return {", "r.lua"):expect(2, "r.lua:")
    run({"--resources", "r.json"}, "{", "r.json"):expect(2, "r.json:")
    run({"--resources", "r.lua"}, "return {worker = {speed = 1}}", "r.lua")
      :expect(1, 'resources of "worker": unknown option "speed"')
  end)
end)
