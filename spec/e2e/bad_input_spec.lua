--- Input that cannot work: a clear message, a status, nothing started and nothing left.
local support = require "spec.e2e.support"

support.placements(describe, "bad input", function(launch_type)
  teardown(support.clean)

  local function run(text, how)
    return support.run(text, {"--launch", launch_type}, how)
  end

  local TWO = [[
    local lp = require "lp"
    local program = lp.Program "two"
    local server = program:add_node(lp.CourierNode(function()
      print "started"
      return {echo = function(_, x) return x end, size = function(_, x) return #x end}
    end), "server")
    program:add_node(lp.LuaNode(function(server) %s end, server%s), "client")
    return program]]

  it("an argument that cannot be carried is refused before anything starts", function()
    local ended = run(TWO:format("", ", {env = {socket = io.tmpfile()}}"))
    ended:expect(1, "node client/0: argument 2: .env.socket: cannot send a userdata (FILE*)")
    assert.equal("", ended.out)
  end)

  it("an upvalue that cannot be carried is named", function()
    local ended = run("local thread = coroutine.create(print)\n" .. TWO:format("print(thread)", ""))
    ended:expect(1, "node client/0: constructor", "thread")
    assert.equal("", ended.out)
  end)

  it("a message over the limit fails the call, and the link lives", function()
    run(TWO:format([[
      local ok, err = pcall(server.size, server, ("x"):rep(65 * 1024 * 1024))
      print(ok, err.code, err.message)
      print(server:echo "lives", server:size(("x"):rep(1024 * 1024)))
      lp.stop()]], "")):expect(0, "false\tresource_exhausted", "lives\t1048576")
  end)

  for name, before in pairs {
    ["is a file"] = "touch run/lp",
    ["is a symbolic link"] = "mkdir -m 700 elsewhere; ln -s ../elsewhere run/lp",
    ["can be written by everybody"] = "mkdir run/lp; chmod 777 run/lp",
    ["belongs to somebody else"] = "mkdir -m 700 run/lp; chown nobody run/lp || rm -r run/lp && touch run/lp",
  } do
    it("a folder of runs that " .. name .. " is refused", function()
      local command = run(TWO:format("", ""), {before = before, background = true})
      support.until_true("the end of the command", function() return command:ended() end)
      command:wait_gone(2)
      assert.equal("", command:read "out")
      local said = command:read "err"
      assert.truthy(said:find(command.folder .. "/run/lp", 1, true), said)
      assert.equal(1, command:ended())
      assert.equal("", support.shell("ls -A %s/run/lp/ %s/elsewhere 2>/dev/null | grep -v :$", command.folder,
                                     command.folder))
    end)
  end

  it("too few open files end the program with a message, or it works", function()
    local failed, worked
    for limit = 5, 61, launch_type == "local_mp" and 4 or 2 do
      local ended = run(TWO:format("print(server:echo 'answer') lp.stop()", ""),
                        {before = "ulimit -n " .. limit})
      if ended.status == 0 then
        worked = true
        assert.truthy(ended.out:find "answer", limit)
      else
        failed = true
        assert.truthy(ended.status == 1 or ended.status == 2, limit .. ": " .. ended.status)
        assert.truthy(ended.err:find "%S", "silent at limit " .. limit)
      end
    end
    assert.is_true(failed and worked)
  end)
end)
