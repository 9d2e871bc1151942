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

-- A server keeps some of the weights by their numbers, and takes the steps. Asynchronously
-- a gradient counts when it comes, even if others have changed the weights since its worker
-- pulled them. With --sync no push is answered before all workers have pushed. Then the
-- gradients are added in the order of the workers, not in that of their arrival: a sum of
-- floats depends on the order, and a run shall give the same numbers again.
local function Server()
  local server, weights = {}, {}
  local round = {gradients = {}, count = 0, complete = lp.Event()}

  local function apply(gradient)
    for i, slope in pairs(gradient) do
      weights[i] = (weights[i] or 0.0) - flags.rate / flags.workers * slope
    end
  end

  function server:pull() return weights end

  function server:push(worker, gradient)
    if not flags.sync then return apply(gradient) end
    local mine = round
    mine.gradients[worker], mine.count = gradient, mine.count + 1
    if mine.count < flags.workers then
      mine.complete:wait() -- the pushes of others are handled meanwhile
    else
      for i = 1, flags.workers do apply(mine.gradients[i]) end
      round = {gradients = {}, count = 0, complete = lp.Event()}
      mine.complete:set()
    end
  end
  return server
end

-- What the model with these weights gives for a sample.
local function output_of(sample, weights)
  local sum = 0.0
  for i = 1, flags.weights do sum = sum + weights[i] * sample[i] end
  return sum
end

-- All servers are asked at the same time.
local function pull(servers)
  local futures, weights = {}, {}
  for i = 1, flags.weights do weights[i] = 0.0 end
  for k, server in ipairs(servers) do futures[k] = server.futures:pull() end
  for _, shard in ipairs(lp.gather(futures)) do
    for i, weight in pairs(shard) do weights[i] = weight end
  end
  return weights
end

-- Weight i lies on server i modulo their number.
local function push(servers, worker, gradient)
  local futures = {}
  for k, server in ipairs(servers) do
    local shard = {}
    for i = k, flags.weights, #servers do shard[i] = gradient[i] end
    futures[k] = server.futures:push(worker, shard)
  end
  lp.gather(futures)
end

local function Worker(number, samples, servers)
  local worker = {}

  function worker:train(steps)
    for _ = 1, steps do
      local weights, gradient = pull(servers), {}
      for _, sample in ipairs(samples) do
        local off = (output_of(sample, weights) - sample.result) / #samples
        for i = 1, flags.weights do gradient[i] = (gradient[i] or 0.0) + off * sample[i] end
      end
      push(servers, number, gradient)
    end
  end

  -- The mean squared error on the worker's samples.
  function worker:loss()
    local weights, sum = pull(servers), 0.0
    for _, sample in ipairs(samples) do
      sum = sum + (output_of(sample, weights) - sample.result) ^ 2
    end
    return sum / #samples
  end
  return worker
end

-- The driver has all workers train at the same time. Between two epochs nobody pushes, so that
-- all losses are those of the same weights.
local function drive(workers)
  for epoch = 0, flags.epochs do
    local trained, losses, sum = {}, {}, 0.0
    for i, worker in ipairs(workers) do
      trained[i] = worker.futures:train(epoch > 0 and flags.steps or 0)
    end
    lp.gather(trained)
    for i, worker in ipairs(workers) do losses[i] = worker.futures:loss() end
    for _, loss in ipairs(lp.gather(losses)) do sum = sum + loss end
    print(("epoch %2d: loss %.6f"):format(epoch, sum / #workers))
  end
  lp.stop()
end

-- The rest runs once, before there are nodes. Samples are made from weights that nobody is told,
-- with a little noise. As an argument each worker gets a copy of its own, and of no others.
local function random() return math.random() * 2 - 1 end

local function make_samples(weights)
  local samples = {}
  for n = 1, 60 do
    local sample = {}
    for i = 1, flags.weights do sample[i] = random() end
    sample.result = output_of(sample, weights) + 0.05 * random()
    samples[n] = sample
  end
  return samples
end

if math.min(flags.workers, flags.servers, flags.weights) < 1 then
  io.stderr:write("parameter_server: it takes a worker, a server and a weight at least\n")
  os.exit(2)
end

math.randomseed(flags.seed)
local program, servers, workers, truth = lp.Program "parameter_server", {}, {}, {}
for i = 1, flags.weights do truth[i] = random() end
for i = 1, flags.servers do
  servers[i] = program:add_node(lp.CourierNode(Server), "server")
end
for i = 1, flags.workers do
  local worker = lp.CourierNode(Worker, i, make_samples(truth), servers)
  workers[i] = program:add_node(worker, "worker")
end
program:add_node(lp.LuaNode(drive, workers), "driver")

return program
