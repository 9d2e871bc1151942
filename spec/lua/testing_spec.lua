local helper = require "spec.lua.helper"
local lp = helper.lp

for _, launch_type in ipairs {"test_mt", "test_mp"} do
  describe("a program in a spec, " .. launch_type .. ",", function()
    local function launch(fn)
      local program = lp.Program "specimen"
      program:add_node(lp.LuaNode(fn), "worker")
      program:add_node(lp.CourierNode(function()
        return {wait = function() require("lp").sleep(60) end}
      end), "server")
      return lp.launch(program, {launch_type = launch_type})
    end

    local function fail()
      error "broken"
    end

    local function meets_the_failure(fn)
      local message = helper.failure(fn)
      assert.truthy(message:find("broken", 1, true), message)
      assert.truthy(message:find("worker/0", 1, true), message)
    end

    it("fails a spec that waits for it", function()
      meets_the_failure(function() launch(fail):wait() end)
    end)

    it("fails a spec that closes it", function()
      local run = launch(fail)
      run:client("worker/0") -- exists
      local timeout = helper.failure(function() run:client("nobody/0") end)
      assert.truthy(timeout:find("has no node", 1, true))
      while run.seen == nil and pcall(lp.sleep, 0.01) do end -- luacheck: ignore 542
      run:close()
    end)

    it("fails a spec that waits for something else", function()
      local _ <close> = launch(fail)
      local started = lp.now()
      meets_the_failure(function() lp.sleep(60) end)
      assert.is_true(lp.now() - started < 30)
    end)

    it("fails a spec that leaves the block of its run", function()
      meets_the_failure(function()
        local run <close> = launch(fail)
        run.seen = true
        while not pcall(run.wait, run, {raise_error = false}) do end -- luacheck: ignore 542
        run.seen = nil
      end)
    end)

    it("fails a spec that calls a node which stops with it", function()
      local run <close> = launch(fail)
      local server = run:client "server/0"
      assert.is_false(pcall(server.wait, server))
      run.seen = true -- the call may have met the end of the server before the failure
    end)

    it("sent its own os.exit to the nodes", function()
      local run <close> = launch(function()
        local from = debug.getinfo(os.exit, "S").source
        if from:find("testing", 1, true) then error("os.exit is from " .. from) end
      end)
      assert.is_true(run:wait{labels = {"worker"}, timeout = 60})
    end)

    it("is fine when nobody failed", function()
      do
        local run <close> = launch(function() end)
        assert.is_true(run:wait{labels = {"worker"}, timeout = 60})
      end
      lp.sleep(0)
    end)
  end)
end
