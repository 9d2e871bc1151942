--- A program that calls another one by its address, while that is killed and started again.
local support = require "spec.e2e.support"

teardown(support.clean)

--- Serves at the path it is given: a link to wherever its node listens.
local server_script = [[
local lp = require "lp"
local path = ...
local Server = {}
Server.__index = Server
function Server.new() return setmetatable({seen = 0}, Server) end
function Server:pid() return lp.context().pid end
function Server:count() self.seen = self.seen + 1 return self.seen end
function Server:hold() print "holding" lp.sleep(3600) end
local program = lp.Program "server"
local server = program:add_node(lp.CourierNode(Server), "server")
program:add_node(lp.LuaNode(function(client)
  client:pid()
  os.execute(("ln -sfn %s %s"):format(lp.address(client):match "^unix:(.*)$", path))
  print "listening"
  lp.wait_for_stop()
end, server), "linker")
return program
]]

--- Says what its calls come to.
local client_script = [[
local lp = require "lp"
local path = ...
local server = lp.connect("unix:" .. path)
local hasty = lp.with(server, {wait_for_ready = false})
io.stdout:setvbuf "line"
print("hasty", pcall(hasty.count, hasty))
print("count", server:count())
print("server", server:pid())
local ok, err = pcall(server.hold, server)
print("held", err.code, err.message)
local first, second = server.futures:count(), server.futures:count()
print("state", lp.connection_state(server) ~= "ready")
print("count", first:result(), second:result())
print("hasty", hasty:count())
print("server", server:pid())
os.exit(0)
]]

describe("a client of another program", function()
  local folder = support.shell "mktemp -d /tmp/lpr.XXXXXX"
  teardown(function() support.shell("rm -rf %s", folder) end)
  local path = folder .. "/server"

  local function start_server()
    return support.run(server_script, {"--launch", "local_mp"}, {background = true, words = {path}})
                  :wait_for "listening"
  end

  --- Everything of it at once: nobody is left to remove its sockets.
  local function kill_all(server)
    server:kill()
    server:wait_gone()
  end

  it("waits for it, and finds it again after a kill -9", function()
    local client = support.run(client_script, {}, {background = true, words = {path}})
    client:wait_for(("hasty\tfalse\tunavailable: failed to connect to unix:%s: No such file"):format(path))
    local server = start_server()
    server:wait_for "holding"
    kill_all(server)
    client:wait_for "held\tunavailable\t":wait_for "state\ttrue"
    local again = start_server() -- its path is that of a socket nobody serves any more
    client:finish():expect(0, "count\t1\t2", "hasty\t3")
    local first, second = client.out:match "server\t(%d+)\n.*server\t(%d+)\n"
    assert.not_equal(first, second)
    again:signal("TERM"):finish()
    kill_all(server)
  end)
end)
