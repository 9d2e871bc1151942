-- Four ways for a node to end cleanly when the program stops, and a node that stops it.
-- A stop is a request: every node is told, then has some seconds (`--notice`, 10 unless
-- given) to finish what it is doing. What has not ended by then is killed, and the command
-- says so with status 124. Here every node ends in time and says so.
-- Run it with `lp run programs/program_wait.lua`.

local lp = require "lp"

local function say_goodbye()
  print(lp.context().label .. ": clean termination")
end

-- 1. Nothing to do but wait: other tasks of the node (calls, timers) go on meanwhile.
local function wait()
  lp.wait_for_stop()
  say_goodbye()
end

-- 2. Work in a loop, and look between two pieces of it whether it is time to end. The event
-- is set at once, so even a loop that never waits for anything sees it.
local function poll()
  local stop, sum = lp.stop_event(), 0
  while not stop:is_set() do
    for i = 1, 10000 do sum = sum + i end
  end
  say_goodbye()
end

-- 3. Work in a rhythm: the pause between two rounds is the wait for the stop, which returns
-- false when its time (in seconds) is over.
local function pause()
  while not lp.wait_for_stop(0.01) do
    lp.log.debug("another round")
  end
  say_goodbye()
end

-- 4. Be called. A node with methods but no `run` serves until the program stops; a handler
-- is how it hears of that in time to tidy up.
local Server = {}
Server.__index = Server

function Server.new()
  lp.register_stop_handler(say_goodbye)
  return setmetatable({}, Server)
end

function Server:answer(question)
  return "you asked: " .. question
end

-- Whoever knows that the work is done stops the program for all. `lp.stop` returns at once,
-- and stops this node like any other.
local function stop_all(server)
  print(server:answer("shall we?"))
  lp.stop()
  say_goodbye()
end

local program = lp.Program "program_wait"
program:add_node(lp.LuaNode(wait), "wait")
program:add_node(lp.LuaNode(poll), "poll")
program:add_node(lp.LuaNode(pause), "pause")
local server = program:add_node(lp.CourierNode(Server), "server")
program:add_node(lp.LuaNode(stop_all, server), "stopper")

return program
