--- Host nodes where no program implements them.

package.path = "spec/embed/?.lua;" .. package.path
local lp = require "lp"
local support = require "support"

describe("lp.HostNode", function()
  local function refused(words, fn)
    local ok, err = pcall(fn)
    assert.is_false(ok)
    assert.truthy(tostring(err):find(words, 1, true), err)
  end

  it("takes a name, and no other loop than the host's", function()
    refused('expected the name of a host node, a text, got nil', function() lp.HostNode() end)
    refused('expected the name of a host node, a text, got 5', function() lp.HostNode(5) end)
    refused('loop = "own": a HostNode lives on the thread of its program', function()
      lp.HostNode("world"):options{loop = "own"}
    end)
    lp.HostNode("world"):options{loop = "host", max_pending = 5}
  end)

  it("is shown by lp graph, and refused by lp run with what is missing", function()
    local folder = support.folder()
    support.write(folder .. "/game.lua", [[
      local lp = require "lp"
      local program = lp.Program "game"
      local world = program:add_node(lp.HostNode "world", "world")
      program:add_node(lp.LuaNode(function(client) client:x() end, world), "npc")
      return program]])
    local command = ("'%s/lp' "):format(support.build())
    assert.truthy(support.succeed(command .. "graph '%s/game.lua'", folder):find "npc/0 %-> world/0")
    local out, ok = support.shell(command .. "run '%s/game.lua'", folder)
    assert.is_false(ok)
    assert.truthy(out:find('node world/0: host node "world": there is no program around the engine', 1, true), out)
    support.succeed("rm -r '%s'", folder)
  end)
end)
