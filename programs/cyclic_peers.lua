-- Two nodes that call each other: a graph with a circle in it.
-- A node's arguments are given when it is made, and the handle of another node exists only
-- once that one has been added. So in a circle one node is made without its arguments, and
-- gets them later by `configure`.
-- Run it with `lp run programs/cyclic_peers.lua`.

local lp = require "lp"

local Peer = {}
Peer.__index = Peer

function Peer.new(name, other)
  return setmetatable({name = name, other = other, other_is_done = lp.Event()}, Peer)
end

-- Calls go back and forth, each made while the one before still waits for its answer. A
-- node that waits for an answer can be called: calls and `run` take turns.
function Peer:count_down(n)
  if n == 0 then return self.name end
  return self.name .. " " .. self.other:count_down(n - 1)
end

function Peer:done()
  self.other_is_done:set()
end

-- Both peers start a count at once.
function Peer:run()
  print(self.name .. " counted: " .. self:count_down(4))
  -- A node ends when its `run` returns, and cannot be called any more. So each waits for
  -- the other. Then both end, and with its last node the program.
  self.other:done()
  self.other_is_done:wait()
end

local program = lp.Program "cyclic_peers"
local ping = lp.CourierNode(Peer)
local ping_handle = program:add_node(ping, "ping")
local pong_handle = program:add_node(lp.CourierNode(Peer, "pong", ping_handle), "pong")
ping:configure("ping", pong_handle)

return program
