-- The smallest program: one node that prints a line and ends.
-- Run it with `lp run programs/hello_world.lua`; in a process of its own instead of a thread
-- by adding `--lp_launch_type=local_mp`.

local lp = require "lp"

-- What a node does. It runs in an interpreter of its own, so it shares nothing with this
-- script: what it needs is given to it as arguments.
local function hello(name)
  print(("Hello, %s!"):format(name))
end

-- A program is a graph of nodes. Here it has one, called `hello/0`: the label, and its
-- number among the nodes of that label.
local program = lp.Program "hello_world"
program:add_node(lp.LuaNode(hello, "world"), "hello")

-- Returning the program has `lp run` launch it and wait for its end: all nodes have
-- finished, one of them has failed, or one has called `lp.stop()`.
return program
