-- A consumer and some producers: the smallest program that distributes work.
-- Run it with `lp run programs/consumer_producers.lua`, with processes instead of threads
-- by adding `--lp_launch_type=local_mp`, with more producers by `--num_producers=5`.

local lp = require "lp"

-- The program's own flags: name = {default, help}. `--help` shows them.
local flags = lp.flags {
  num_producers = {2, "How many producers there are."},
}

-- A producer is an ordinary class. Nothing in it knows of threads, processes or sockets:
-- its methods are what other nodes can call.
local Producer = {}
Producer.__index = Producer

function Producer.new()
  return setmetatable({}, Producer)
end

function Producer:work(context)
  return context
end

-- The consumer is given producers when it is constructed. A node with a method `run` is
-- active: `run` is called once, and the node ends when it returns.
local Consumer = {}
Consumer.__index = Consumer

function Consumer.new(producers)
  return setmetatable({producers = producers}, Consumer)
end

function Consumer:step()
  -- `producer:work(i)` would wait for the answer. Through `futures` a call returns at once
  -- with a promise of it, so all producers work at the same time.
  local futures = {}
  for i, producer in ipairs(self.producers) do
    futures[i] = producer.futures:work(i)
  end
  print("Results: " .. table.concat(lp.gather(futures), ", "))
end

function Consumer:run()
  for _ = 1, 10 do self:step() end
  -- Returning would end the consumer alone. Stopping ends the producers too.
  lp.stop()
end

-- The graph. Nothing runs yet: a node is a constructor with its arguments, and add_node
-- returns a handle that stands for the node. Whoever is given the handle, at any depth of
-- its arguments, finds a client in its place when it runs.
local program = lp.Program "consumer_producers"

local producers = program:group("producer", function()
  local handles = {}
  for i = 1, flags.num_producers do
    handles[i] = program:add_node(lp.CourierNode(Producer))
  end
  return handles
end)

program:add_node(lp.CourierNode(Consumer, producers), "consumer")

return program
