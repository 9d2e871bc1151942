-- Parameter servers: workers learn together, each from data of its own.
-- What is learned are the weights of a linear model, by least squares. They lie on servers, each
-- of which keeps a shard of them. A worker again and again pulls the weights, finds from its
-- samples in which direction the error grows (the gradient), and pushes that; the servers take a
-- step the other way. Samples stay where they are; weights and gradients travel.
-- Run it with `lp run programs/parameter_server.lua`, add `--sync`, `--workers=8`, `--servers=3`.

local lp = require "lp"

local flags = lp.flags {
  workers = {4, "How many nodes have samples."},
  servers = {2, "How many nodes keep weights."},
  sync = {false, "Take a step only when all workers have pushed."},
  weights = {12, "How many weights there are to learn."},
  epochs = {10, "How often the loss is printed."},
  steps = {10, "How many steps a worker takes in each epoch."},
  rate = {0.5, "How far a step goes."},
  seed = {1, "Seed of the samples."},
}

-- A server keeps some of the weights, by their numbers, and takes the steps. Asynchronously
-- a gradient counts when it comes, even if others have changed the weights since its worker
-- pulled them. With --sync no push is answered before all workers have pushed. Then the
-- gradients are added in the order of the workers, not in that of their arrival: a sum of
-- floats depends on the order, and a run shall give the same numbers again.
local function Server()
  local server, weights, pushed, complete = {}, {}, {}, lp.Event()

  local function apply(gradient)
    for i, slope in pairs(gradient) do
      weights[i] = (weights[i] or 0.0) - flags.rate / flags.workers * slope
    end
  end

  function server:pull() return weights end

  function server:push(worker, gradient)
    if not flags.sync then return apply(gradient) end
    pushed[worker] = gradient
    for i = 1, flags.workers do
      if not pushed[i] then return complete:wait() end -- others are answered meanwhile
    end
    for i = 1, flags.workers do apply(pushed[i]) end
    complete:set()
    pushed, complete = {}, lp.Event()
  end
  return server
end

-- Calls a method of all nodes at the same time, and waits for the results.
local function all(nodes, method, ...)
  local futures = {}
  for i, node in ipairs(nodes) do futures[i] = lp.call(node.futures, method, ...) end
  return lp.gather(futures)
end

-- What the model with these weights gives for a sample.
local function output_of(sample, weights)
  local sum = 0.0
  for i = 1, flags.weights do sum = sum + weights[i] * sample[i] end
  return sum
end

local function Worker(number, samples, servers)
  local worker = {}

  local function pull()
    local weights = {}
    for i = 1, flags.weights do weights[i] = 0.0 end -- until somebody has pushed
    for _, shard in ipairs(all(servers, "pull")) do
      for i, weight in pairs(shard) do weights[i] = weight end
    end
    return weights
  end

  -- Every server gets its part: the first of three weights 1, 4, 7 and so on.
  local function push(gradient)
    local futures = {}
    for k, server in ipairs(servers) do
      local shard = {}
      for i = k, flags.weights, #servers do shard[i] = gradient[i] end
      futures[k] = server.futures:push(number, shard)
    end
    lp.gather(futures)
  end

  function worker:train(steps)
    for _ = 1, steps do
      local weights, gradient = pull(), {}
      for _, sample in ipairs(samples) do
        local off = (output_of(sample, weights) - sample.result) / #samples
        for i = 1, flags.weights do gradient[i] = (gradient[i] or 0.0) + off * sample[i] end
      end
      push(gradient)
    end
  end

  -- The mean squared error on the worker's samples.
  function worker:loss()
    local weights, sum = pull(), 0.0
    for _, sample in ipairs(samples) do
      sum = sum + (output_of(sample, weights) - sample.result) ^ 2
    end
    return sum / #samples
  end
  return worker
end

-- Between two epochs nobody pushes, so that all losses are those of the same weights.
local function drive(workers)
  for epoch = 0, flags.epochs do
    if epoch > 0 then all(workers, "train", flags.steps) end
    local sum = 0.0
    for _, loss in ipairs(all(workers, "loss")) do sum = sum + loss end
    print(("epoch %2d: loss %.6f"):format(epoch, sum / #workers))
  end
  lp.stop()
end

-- The rest runs once, before there are nodes. Samples are made from weights that nobody is told,
-- with a little noise. As an argument each worker gets a copy of its own, and of no others.
if math.min(flags.workers, flags.servers, flags.weights) < 1 then
  io.stderr:write("parameter_server: it takes a worker, a server and a weight at least\n")
  os.exit(2)
end

math.randomseed(flags.seed)

local function random_list()
  local list = {}
  for i = 1, flags.weights do list[i] = math.random() * 2 - 1 end
  return list
end

local function make_samples(weights)
  local samples = {}
  for n = 1, 60 do
    samples[n] = random_list()
    samples[n].result = output_of(samples[n], weights) + 0.1 * (math.random() - 0.5)
  end
  return samples
end

local program, servers, workers, truth = lp.Program "parameter_server", {}, {}, random_list()
for i = 1, flags.servers do servers[i] = program:add_node(lp.CourierNode(Server), "server") end
for i = 1, flags.workers do
  local worker = lp.CourierNode(Worker, i, make_samples(truth), servers)
  workers[i] = program:add_node(worker, "worker")
end
program:add_node(lp.LuaNode(drive, workers), "driver")

return program
