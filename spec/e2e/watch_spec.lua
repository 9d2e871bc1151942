--- `lp run --watch`: nodes get new code when the script or a module changes.
local support = require "spec.e2e.support"

local SCRIPT = [[
  package.path = "./?.lua;" .. package.path
  local lp = require "lp"
  local words = require "words"
  local Talker = {}
  Talker.__index = Talker
  function Talker.new(name) return setmetatable({name = name, count = 0}, Talker) end
  function Talker:say()
    self.count = self.count + 1
    return ("VERSION %s %s %d"):format(words.hello(), self.name, self.count)
  end
  function Talker:__reload(old) self.reloads = (self.reloads or 0) + 1 print("reload", self.reloads, old.say ~= nil) end
  local program = lp.Program "talk"
  local talker = program:add_node(lp.CourierNode(Talker, "joe"), "talker")
  program:add_node(lp.LuaNode(function(talker)
    local before
    while not lp.wait_for_stop(0.02) do
      local text = talker:say():gsub(" %d+$", "")
      if text ~= before then print(text) before = text end
    end
    print(talker:say() == nil)
  end, talker), "listener")
  return program]]

support.placements(describe, "lp run --watch", function(launch_type)
  teardown(support.clean)

  local function write(command, name, text)
    local path = command.folder .. "/" .. name
    local file = assert(io.open(path .. ".new", "w"))
    file:write(text)
    file:close()
    assert(os.rename(path .. ".new", path))
  end

  local function words_of(text)
    return ("return {hello = function() return %q end}"):format(text)
  end

  it("gives nodes new code, and keeps the old when the new is broken", function()
    local command = support.run((SCRIPT:gsub("VERSION", "first")), {"--watch", "--launch", launch_type},
                                {background = true, before = "echo \"" .. words_of("hello"):gsub('"', '\\"') ..
                                 "\" >words.lua"})
    command:wait_for "[listener/0] first hello joe\n"
    write(command, "p.lua", (SCRIPT:gsub("VERSION", "second")))
    command:wait_for "[listener/0] second hello joe\n"
    command:wait_for("1 node has new code", "err")
    command:wait_for "[talker/0] reload\t1\ttrue\n"
    write(command, "p.lua", "local = 5")
    command:wait_for("is not reloaded: ", "err")
    assert.truthy(command:read "err":find("p.lua:1: <name> expected", 1, true))
    write(command, "words.lua", words_of "bye")
    support.until_true("another word on the broken script", function()
      return select(2, command:read "err":gsub("is not reloaded", "")) >= 2
    end)
    write(command, "p.lua", (SCRIPT:gsub("VERSION", "third")))
    command:wait_for "[listener/0] third bye joe\n"
    write(command, "words.lua", "error 'no words'")
    command:wait_for("no words", "err")
    write(command, "words.lua", words_of "again")
    command:wait_for "[listener/0] third again joe\n"
    -- One that never ends is given up when it is mended.
    for _, endless in ipairs {"print 'endless' while true do end",
                              "print 'caught' while true do pcall(function() while true do end end) end"} do
      local word = endless:match "'(%a+)'"
      write(command, "p.lua", endless)
      command:wait_for(word .. "\n")
      write(command, "p.lua", (SCRIPT:gsub("VERSION", "after " .. word)))
      command:wait_for(("[listener/0] after %s again joe\n"):format(word))
      assert.truthy(command:read "err":find("p.lua is not reloaded: interrupted", 1, true))
    end
    command:signal "INT"
    command:finish()
    assert.equal(130, command.status)
  end)
end)
