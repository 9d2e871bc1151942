--- Packs a node's constructor and arguments into a bundle that a fresh
-- interpreter rebuilds with `lp.unship`.
--
-- By value go functions with their upvalues, tables and metatables; sharing and
-- cycles are kept. By name goes what every node finds itself: the standard library
-- and whatever is reachable, through tables and metatables, from package.loaded.
-- Globals go along when a carried function names them, and all of them when one
-- uses _ENV or _G as a value, or runs text (`load`, `loadfile`, `dofile`).
-- Everything else is refused with the path to it; in a global, reading is refused.
--
-- `lp.ship.walk` makes records of everything reachable from the arguments; this
-- file adds what goes along with them (globals, additions to standard tables,
-- package.preload); `lp.ship.write` turns the records into instructions.
-- @module lp.ship

local Walk = require "lp.ship.walk"
local named = require "lp.ship.named"
local refusal = require "lp.ship.refusal"
local write = require "lp.ship.write"

local ship = {}

local GLOBALS = package.loaded._G

local default_baseline = named.snapshot()

--- What counts as standard, as it is now: to be taken before the script runs.
ship.snapshot = named.snapshot

-- The record of a standard table, made when something is to be put there.
local function standard_table(walk, object)
  return walk:token(object, nil, "root", "standard library")
end

local function is_own_module(name)
  return type(name) == "string" and (name == "lp" or name:find("^lp%.") ~= nil)
end

local function find_additions(baseline)
  local list = {}
  for _, library in ipairs(baseline.libraries) do
    if not rawequal(library.object, GLOBALS) then
      for key, value in named.additions(library) do
        list[#list + 1] = { library = library, key = key, value = value }
      end
    end
  end
  return list
end

-- Looked for once for all nodes that are packed with the same options.
local function carry_additions(walk)
  local options = walk.options
  options.additions = options.additions or find_additions(walk.baseline)
  for _, added in ipairs(options.additions) do
    walk:try_field(standard_table(walk, added.library.object), added.key, added.value, added.library.name)
  end
  for name, value in next, package.preload do
    if not is_own_module(name) then
      walk:try_field(standard_table(walk, package.preload), name, value, "package.preload")
    end
  end
end

local function global_library(walk)
  for _, library in ipairs(walk.baseline.libraries) do
    if rawequal(library.object, GLOBALS) then return library end
  end
end

local function lookup(environment, name)
  if rawequal(environment, GLOBALS) then return rawget(GLOBALS, name) end
  return environment[name]
end

local function global_text(name, refused)
  local path = refused.path:gsub("^: ", "")
  if path ~= "" then path = path .. ": " end
  return ("global '%s' was not carried to this node: %s%s"):format(name, path, refused.what)
end

local function carry_global(walk, name, value)
  walk.in_global = true
  local refused = walk:try_field(walk.globals, name, value, "")
  walk.in_global = false
  if not refused then return end
  walk.refused = walk.refused or {}
  table.insert(walk.refused, { name, global_text(name, refused) })
end

-- Carrying a global may bring in functions that name more of them, hence the
-- list that grows while it is gone through.
local function carry_wanted(walk, done, standard)
  local at = 1
  while walk.wanted[at] ~= nil do
    local name, environment = walk.wanted[at], walk.wanted[at + 1]
    at = at + 2
    if not done[name] then
      done[name] = true
      local value = lookup(environment, name)
      local added = value ~= nil and not rawequal(value, standard[name])
      if added then carry_global(walk, name, value) end
    end
  end
  walk.wanted = {}
end

local function carry_globals(walk)
  local library, done = global_library(walk), {}
  carry_wanted(walk, done, library.values)
  if not walk.everything then return end
  for name in named.additions(library) do
    if type(name) == "string" then walk:want({ name }, GLOBALS) end
  end
  carry_wanted(walk, done, library.values)
end

local function pack_roots(walk, roots)
  local tokens = {}
  for i = 1, roots.n or #roots do
    tokens[i] = walk:token(roots[i][2], nil, "root", roots[i][1])
  end
  walk:finish()
  return tokens
end

--- Packs values into a bundle.
-- @tparam table roots array of {name, value}; `n` if their number is not `#roots`.
--   Names are how messages call them ("argument 1").
-- @tparam[opt] table options
--   `replace(value, where)`: asked for tables and userdata first; may return
--   {kind = string, data = table}, and the node calls `restore(kind, data)`;
--   where() is the path as text ·
--   `refuse(value)`: a text, if a table or userdata must not be sent ·
--   `global_refusal(value)`: the same for what a global holds ·
--   `pack_object(value)`: name and values, for objects with a registered class ·
--   `strip`: leave debug information out ·
--   `baseline`: what counts as standard, a `ship.snapshot()`
-- @treturn string the bundle, for `unship.load`
-- @raise a string, "argument 2: .env.socket: cannot send a userdata (FILE*); …"
function ship.pack(roots, options)
  local walk = Walk.new(options or {}, options and options.baseline or default_baseline)
  local ok, tokens = pcall(pack_roots, walk, roots)
  if not ok then
    if not refusal.is(tokens) then error(tokens, 0) end
    error(tokens.path .. ": " .. tokens.what, 0)
  end
  carry_additions(walk)
  carry_globals(walk)
  return write(walk, tokens)
end

return ship
