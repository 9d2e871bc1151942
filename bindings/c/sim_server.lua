-- The agents of sim_server.c: a few nodes hold thousands of them, and step all of theirs when the
-- host says so. A small epidemic on a ring: agents meet their neighbours, fall ill, recover.
local lp = require "lp"

local flags = lp.flags{
  agents = {10000, "How many agents there are."},
  workers = {4, "How many nodes hold them."},
}

local Worker = {}
Worker.__index = Worker

--- `first` is the number of its first agent; the others follow.
function Worker.new(first, count)
  local self = setmetatable({first = first, count = count, agents = {}, ill = 0}, Worker)
  for i = 1, count do
    local ill = (first + i) % 100 == 0
    self.agents[i] = {ill = ill and 1 or 0, immune = 0, energy = math.random()}
    if ill then self.ill = self.ill + 1 end
  end
  return self
end

--- One step of an agent between its neighbours.
local function step(agent, left, right)
  agent.energy = agent.energy * 0.99 + math.random() * 0.01
  if agent.immune > 0 then
    agent.immune = agent.immune - 1
  elseif agent.ill > 0 then
    agent.ill = agent.ill + 1
    if agent.ill > 10 then agent.ill, agent.immune = 0, 20 end
  elseif left + right > 0 and math.random() < 0.2 * (left + right) * (1.5 - agent.energy) then
    agent.ill = 1
  end
end

--- Steps all agents. `left` and `right`: are the neighbours beyond its first and last ill?
-- Returns how many are ill, and whether its own first and last are.
function Worker:step(left, right)
  local agents, count, ill = self.agents, self.count, 0
  local before = left
  for i = 1, count do
    local agent = agents[i]
    local was = agent.ill > 0 and 1 or 0
    local after = right
    if i < count then after = agents[i + 1].ill > 0 and 1 or 0 end
    step(agent, before, after)
    before = was
    if agent.ill > 0 then ill = ill + 1 end
  end
  return ill, agents[1].ill > 0 and 1 or 0, agents[count].ill > 0 and 1 or 0
end

local program = lp.Program "simulation"
local share = flags.agents // flags.workers
program:group("worker", function()
  for i = 0, flags.workers - 1 do
    local count = i < flags.workers - 1 and share or flags.agents - share * (flags.workers - 1)
    program:add_node(lp.CourierNode(Worker, i * share, count))
  end
end)
return program
