--- New code for nodes that run, as lp.reload gives it.
local lp = require "lp"
local support = require "spec.nodes.support"

local reload = require "lp.reload"

--- A program of one node from a script's text; `use` gets its client and a function that runs a
-- new text as the script.
local function with_script(launch_type, text, use)
  local program = assert(load(text, "=script", "t"))()
  local run <close> = lp.launch(program, {launch_type = launch_type})
  local client = run:client "node/0"
  use(client, function(new)
    return reload.script(run, "=script", new, {})
  end)
end

local HEAD = [[
  local lp = require "lp"
  local program = lp.Program "script"
  local function add(node) program:add_node(node, "node") return program end
]]

for _, launch_type in ipairs {"test_mt", "test_mp"} do
  describe("new code for a node (" .. launch_type .. ")", function()
    it("comes through a constructor that is a function", function()
      local text = HEAD .. [[
        local Thing = {}
        Thing.__index = Thing
        function Thing:word() return "%s", self.made end
        return add(lp.CourierNode(function() return setmetatable({made = "%s"}, Thing) end))]]
      with_script(launch_type, text:format("one", "first"), function(node, renew)
        assert.same({"one", "first"}, {node:word()})
        assert.equal(1, renew(text:format("two", "second")).nodes)
        assert.same({"two", "first"}, {node:word()})
      end)
    end)

    it("reaches base classes, tables of functions and helpers", function()
      local text = HEAD .. [[
        local function helper() return "helper %s" end
        local actions = {go = function() return "go %s" end}
        local Base = {}
        Base.__index = Base
        function Base:base() return "base %s" end
        local Thing = setmetatable({}, {__index = Base})
        Thing.__index = Thing
        function Thing.new() return setmetatable({}, Thing) end
        function Thing:all() return helper(), actions.go(), self:base() end
        return add(lp.CourierNode(Thing))]]
      with_script(launch_type, (text:gsub("%%s", "1")), function(node, renew)
        assert.same({"helper 1", "go 1", "base 1"}, {node:all()})
        renew((text:gsub("%%s", "2")))
        assert.same({"helper 2", "go 2", "base 2"}, {node:all()})
      end)
    end)

    it("keeps tables that methods share, and takes numbers anew", function()
      local text = HEAD .. [[
        local seen, speed = {}, %d
        local Thing = {}
        Thing.__index = Thing
        function Thing.new() return setmetatable({}, Thing) end
        function Thing:add() seen[#seen + 1] = true return #seen * speed end
        return add(lp.CourierNode(Thing))]]
      with_script(launch_type, text:format(1), function(node, renew)
        assert.equal(1, node:add())
        assert.equal(2, node:add())
        renew(text:format(10))
        assert.equal(30, node:add())
      end)
    end)

    it("lets a run go on with what it began with, and call new methods", function()
      local text = HEAD .. [[
        local Thing = {}
        Thing.__index = Thing
        function Thing.new() return setmetatable({log = {}, go = lp.Event()}, Thing) end
        function Thing:word() return "%s" end
        function Thing:run()
          self.log[1] = "%s " .. self:word()
          self.go:wait()
          self.log[2] = "%s " .. self:word()
          lp.wait_for_stop()
        end
        function Thing:open() self.go:set() lp.sleep(0.01) return self.log[1], self.log[2] end
        return add(lp.CourierNode(Thing))]]
      with_script(launch_type, (text:gsub("%%s", "old")), function(node, renew)
        assert.equal("old", node:word())
        renew((text:gsub("%%s", "new")))
        local first, second
        repeat first, second = node:open() until second
        assert.same({"old old", "old new"}, {first, second})
      end)
    end)

    it("says what cannot be replaced, and what __reload raised", function()
      local text = HEAD .. [[
        return add(lp.CourierNode(function() return {word = function() return "%s" end} end))]]
      with_script(launch_type, text:format "old", function(node, renew)
        local result = renew(text:format "new")
        assert.equal(0, result.nodes)
        support.contains("node node/0 keeps its code: there is nothing to replace", result.notes[1])
        assert.equal("old", node:word())
      end)
      local class = HEAD .. [[
        local Thing = {}
        Thing.__index = Thing
        function Thing.new() return setmetatable({}, Thing) end
        function Thing:word() return "%s" end
        function Thing:__reload() error "not like this" end
        return add(lp.CourierNode(Thing))]]
      with_script(launch_type, class:format "old", function(node, renew)
        support.contains("not like this", renew(class:format "new").notes[1])
        assert.equal("new", node:word())
      end)
    end)

    it("changes nothing when the script is broken", function()
      local text = HEAD .. [[
        local Thing = {}
        Thing.__index = Thing
        function Thing.new() return setmetatable({}, Thing) end
        function Thing:word() return "%s" end
        %s
        return add(lp.CourierNode(Thing))]]
      with_script(launch_type, text:format("old", ""), function(node, renew)
        for broken, why in pairs {["x ="] = "unexpected symbol", ["error 'no'"] = "no",
                                  ["do return 5 end"] = "returned no program"} do
          local ok, err = pcall(renew, text:format("new", broken))
          assert.is_false(ok)
          support.contains(why, err)
          assert.equal("old", node:word())
        end
        renew(text:format("newer", ""))
        assert.equal("newer", node:word())
      end)
    end)

    it("is no way to end the run", function()
      local text = HEAD .. [[
        %s
        local Thing = {}
        Thing.__index = Thing
        function Thing.new() return setmetatable({}, Thing) end
        function Thing:word() return "%s" end
        return add(lp.CourierNode(Thing))]]
      with_script(launch_type, text:format("", "old"), function(node, renew)
        for broken, why in pairs {["os.exit(3)"] = "os.exit: the script is run again",
                                  ["require 'lp.flags'.exit(2, 'unknown flag --x')"] = "unknown flag --x"} do
          local ok, err = pcall(renew, text:format(broken, "new"))
          assert.is_false(ok)
          support.contains(why, err)
          assert.equal("old", node:word())
        end
        renew(text:format("", "newer"))
        assert.equal("newer", node:word())
      end)
    end)

    it("is what a restarted node starts from", function()
      local text = HEAD .. [[
        local Thing = {}
        Thing.__index = Thing
        function Thing.new() return setmetatable({made = "%s"}, Thing) end
        function Thing:word() return self.made end
        return add(lp.CourierNode(Thing):options{on_failure = "restart"})]]
      with_script(launch_type, text:format "old", function(node, renew)
        assert.equal("old", node:word())
        renew(text:format "new")
        assert.equal("old", node:word())
        require("lp.launch").runs[#require("lp.launch").runs]:restart "node/0"
        assert.equal("new", node:word())
      end)
    end)
  end)
end
