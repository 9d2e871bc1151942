-- An evolution strategy: finds where a function is least, without its derivatives.
-- In each generation many candidates are drawn around the present point and evaluated; the point
-- moves to the middle of the better half, the better ones counting more. Every evaluator keeps
-- the point. A candidate is the point plus noise, and noise follows from its seed: so what
-- travels are seeds and values, never vectors, however many dimensions there are.
-- Run it with `lp run programs/evolution_strategies.lua --problem rastrigin`. With the same
-- --seed the output is the same for any number of --evaluators.

local lp = require "lp"

local flags = lp.flags {
  problem = {"sphere", "The function.", choices = {"sphere", "rastrigin"}},
  dimensions = {5, "How many numbers the function takes."},
  evaluators = {4, "How many nodes evaluate."},
  candidates = {200, "How many candidates there are in a generation."},
  generations = {100, "How many generations there are."},
  seed = {1, "Seed of the seeds."},
}

-- Both are 0 where all numbers are 0, and larger everywhere else. Rastrigin's function has dents
-- all over, in which methods that only go downhill are caught.
local problems = {}

function problems.sphere(x)
  local sum = 0.0
  for i = 1, #x do sum = sum + x[i] ^ 2 end
  return sum
end

function problems.rastrigin(x)
  local sum = 0.0
  for i = 1, #x do sum = sum + x[i] ^ 2 + 10 * (1 - math.cos(2 * math.pi * x[i])) end
  return sum
end

-- Normally distributed numbers, the same for the same seed in every node: the generator of
-- random numbers belongs to the interpreter, and each node has one of its own.
local function noise_of(seed)
  math.randomseed(seed)
  local noise = {}
  for i = 1, flags.dimensions do
    local radius = math.sqrt(-2 * math.log(1 - math.random()))
    noise[i] = radius * math.cos(2 * math.pi * math.random())
  end
  return noise
end

-- The point plus `share` of the noise of a seed.
local function step(point, seed, share)
  local noise, moved = noise_of(seed), {}
  for i = 1, #point do moved[i] = point[i] + share * noise[i] end
  return moved
end

-- All evaluators are told the same moves in the same order, so their points stay equal to the
-- last bit.
local function Evaluator()
  local evaluator, point, value_of = {}, {}, problems[flags.problem]
  for i = 1, flags.dimensions do point[i] = 3.0 end

  function evaluator:evaluate(seeds, width)
    local values = {}
    for i, seed in ipairs(seeds) do values[i] = value_of(step(point, seed, width)) end
    return values
  end

  -- Moves the point, and returns its value. `seeds` are those of the better candidates, the
  -- best first; the shares of their noise fall with the rank, and add up to 1.
  function evaluator:move(seeds, width)
    local all = #seeds * (#seeds + 1) / 2
    for rank, seed in ipairs(seeds) do
      point = step(point, seed, width * (#seeds + 1 - rank) / all)
    end
    return value_of(point)
  end
  return evaluator
end

-- The value of each seed. Every evaluator gets a part of them, and all work at the same time.
local function evaluate(evaluators, seeds, width)
  local parts, futures, values = {}, {}, {}
  for k = 1, #evaluators do parts[k] = {} end
  for i, seed in ipairs(seeds) do table.insert(parts[i % #parts + 1], seed) end
  for k, part in ipairs(parts) do futures[k] = evaluators[k].futures:evaluate(part, width) end
  for k, found in ipairs(lp.gather(futures)) do
    for i, value in ipairs(found) do values[parts[k][i]] = value end
  end
  return values
end

-- One generation. Candidates of the same value are ordered by their seeds: the order must not
-- depend on who evaluated them.
local function advance(evaluators, width)
  local seeds, moved = {}, {}
  for i = 1, flags.candidates do seeds[i] = math.random(0, 1 << 52) end
  local values = evaluate(evaluators, seeds, width)
  table.sort(seeds, function(a, b)
    return values[a] < values[b] or values[a] == values[b] and a < b
  end)
  local better = table.move(seeds, 1, math.ceil(#seeds / 2), 1, {})
  for k, evaluator in ipairs(evaluators) do moved[k] = evaluator.futures:move(better, width) end
  return lp.gather(moved)[1]
end

-- The search narrows as it goes on: wide enough at first to leave the dents, fine at the end.
local function drive(evaluators)
  math.randomseed(flags.seed)
  local width = 2.0
  for generation = 1, flags.generations do
    local value = advance(evaluators, width)
    width = width * 0.95
    if generation % 10 == 0 or generation == flags.generations then
      print(("generation %3d: %s is %.6f"):format(generation, flags.problem, value))
    end
  end
  lp.stop()
end

if math.min(flags.evaluators, flags.candidates, flags.dimensions) < 1 then
  io.stderr:write("evolution_strategies: it takes an evaluator, a candidate and a dimension at least\n")
  os.exit(2)
end

local program, evaluators = lp.Program "evolution_strategies", {}
for i = 1, flags.evaluators do
  evaluators[i] = program:add_node(lp.CourierNode(Evaluator), "evaluator")
end
program:add_node(lp.LuaNode(drive, evaluators), "driver")

return program
