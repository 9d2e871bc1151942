-- The scripts of game_server.c: NPCs with state machines, players, a matchmaker, a chat. The world
-- is the C program's (lp.HostNode "world").
local lp = require "lp"

local flags = lp.flags{
  npcs = {200, "How many NPCs there are."},
  players = {20, "How many headless players there are."},
  rate = {50.0, "Calls per second of each player."},
  bad = {"", "Bad scripts, a list of loop, memory, pattern, raise."},
}

-- ---------------------------------------------------------------- NPCs

local Npc = {}
Npc.__index = Npc

function Npc.new(world, chat)
  return setmetatable({world = world, chat = chat, state = "idle", since = 0}, Npc)
end

local states = {}

--- Stands about; begins to walk sooner or later, or runs after somebody who comes near.
function states.idle(npc, tick, near)
  if near then return "chase" end
  if tick - npc.since > math.random(5, 30) then return "patrol" end
end

function states.patrol(npc, tick, near)
  if near then return "chase" end
  npc.world:move(npc.id, math.random(-1, 1), math.random(-1, 1))
  if tick - npc.since > 40 then return "idle" end
end

function states.chase(npc, tick, near)
  if not near then return "idle" end
  local dx, dy = near.x - npc.x, near.y - npc.y
  if math.abs(dx) + math.abs(dy) <= 1 then
    npc.world:hit(near.id)
    return "flee"
  end
  npc.world:move(npc.id, dx > 0 and 1 or dx < 0 and -1 or 0, dy > 0 and 1 or dy < 0 and -1 or 0)
end

function states.flee(npc, tick)
  npc.world:move(npc.id, math.random(-2, 2), math.random(-2, 2))
  if tick - npc.since > 20 then return "idle" end
end

function Npc:run()
  local context = lp.context()
  self.id, self.x, self.y = self.world:join(context.node, context.index)
  while not lp.wait_for_stop(0) do
    local tick
    tick, self.x, self.y = self.world:next_turn(self.id) -- answered when it is this NPC's turn
    local near = self.world:look(self.id, 6)
    local state = states[self.state](self, tick, near)
    if state then self.state, self.since = state, tick end
  end
end

-- ---------------------------------------------------------------- players

local Chat = {}
Chat.__index = Chat

function Chat.new() return setmetatable({lines = {}, count = 0}, Chat) end

function Chat:say(who, text)
  self.count = self.count + 1
  self.lines[self.count % 100 + 1] = who .. ": " .. text
  return self.count
end

local Matchmaker = {}
Matchmaker.__index = Matchmaker

function Matchmaker.new() return setmetatable({waiting = nil, matches = 0}, Matchmaker) end

--- Waits for a second player; both get the number of their match.
function Matchmaker:join(name)
  local other = self.waiting
  if not other then
    self.waiting = {name = name, found = lp.Event()}
    other = self.waiting
    other.found:wait()
    return other.match, other.opponent
  end
  self.waiting = nil
  self.matches = self.matches + 1
  other.match, other.opponent = self.matches, name
  other.found:set()
  return self.matches, other.name
end

local Player = {}
Player.__index = Player

function Player.new(world, chat, matchmaker, rate)
  return setmetatable({world = world, chat = chat, matchmaker = matchmaker, rate = rate}, Player)
end

function Player:run()
  local name = lp.context().node
  self.matchmaker:join(name)
  local id = self.world:join(name, 1000 + lp.context().index)
  local due = lp.now()
  local calls = 0
  while not lp.wait_for_stop(0) do
    calls = calls + 1
    self.world:move(id, math.random(-1, 1), math.random(-1, 1))
    if calls % 100 == 0 then self.chat.notify:say(name, "still here") end
    due = math.max(due + 1 / self.rate, lp.now() - 1)
    lp.wait_for_stop(math.max(due - lp.now(), 0))
  end
end

-- ---------------------------------------------------------------- mods

--- What modders write: a text that gets the world. Each runs on the host's thread, in a sandbox.
local mods = {
  loop = [[
    local world, lp = ...
    while true do pcall(function() while true do end end) end]],
  memory = [[
    local list = {}
    while true do list[#list + 1] = ("x"):rep(10000) .. #list end]],
  pattern = [[
    return (("a"):rep(50)):find(("a*"):rep(30) .. "b")]],
  raise = [[
    error("this mod is broken")]],
}

local function run_mod(text, after, world)
  lp.sleep(after)
  assert(load(text, "=mod", "t"))(world, lp)
end

local sandbox = {instructions = 5000000, pattern_steps = 20000, string_bytes = 1 << 20}

-- ---------------------------------------------------------------- the program

local program = lp.Program "game"
local world = program:add_node(lp.HostNode "world", "world")
local chat = program:add_node(lp.CourierNode(Chat), "chat")
local matchmaker = program:add_node(lp.CourierNode(Matchmaker), "matchmaker")

program:group("npc", function()
  for _ = 1, flags.npcs do
    program:add_node(lp.LuaClassNode(Npc, world, chat):options{loop = "host", on_failure = "ignore"})
  end
end)

program:group("player", function()
  for _ = 1, flags.players do
    program:add_node(lp.LuaClassNode(Player, world, chat, matchmaker, flags.rate):options{loop = "players"})
  end
end)

local count = 0
for kind in flags.bad:gmatch "%a+" do
  local node = lp.LuaNode(run_mod, assert(mods[kind], kind), 0.3 + count * 0.2, world)
  node:options{loop = "host", on_failure = "ignore", sandbox = sandbox, memory_limit = "4M"}
  program:add_node(node, "mod_" .. kind)
  count = count + 1
end

return program
