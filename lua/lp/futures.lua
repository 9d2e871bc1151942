--- Waiting for several futures: lp.gather, lp.wait, lp.as_completed.
-- A future knows callbacks only, which cannot be taken back; so each future gets one
-- callback of ours, which tells those who are waiting at that moment. A wait that ends
-- early takes itself off and leaves nothing behind, however often it is repeated.
-- @module lp.futures

local core = require "lp.core"

local futures = {}

--- future -> set of the watchers it tells when it is done
local watched = setmetatable({}, {__mode = "k"})

--- A watcher counts what is done of its futures and wakes the one task that waits.
local Watcher = {}
Watcher.__index = Watcher

local function announce(set)
  for watcher, places in pairs(set) do
    set[watcher] = nil
    for _, place in ipairs(places) do watcher:note(place) end
  end
end

local function subscribe(watcher, future, place)
  local set = watched[future]
  if not set then
    set = {}
    watched[future] = set
    future:add_done_callback(function() announce(set) end)
  end
  local places = set[watcher]
  if places then places[#places + 1] = place else set[watcher] = {place} end
end

--- Takes the watcher off every future.
function Watcher:__close()
  for _, future in ipairs(self.futures) do
    local set = watched[future]
    if set then set[self] = nil end
  end
end

--- The future at `place` is done; `order` keeps the sequence in time.
function Watcher:note(place)
  self.order[#self.order + 1] = place
  if self.on_done then self.on_done(self.futures[place], place) end
  if self.token then core.wake(self.token) end
end

--- Watches `list`. Futures that are done already come first, in their order.
local function watch(list, on_done)
  local watcher = setmetatable({futures = list, order = {}, on_done = on_done}, Watcher)
  for place, future in ipairs(list) do
    if future:done() then watcher:note(place) else subscribe(watcher, future, place) end
  end
  return watcher
end

--- Waits until `enough()` or until the absolute time `due`. Returns false on time-out.
-- The token is taken before the question is asked, so no wake falls between the two.
local function wait_until(watcher, enough, due)
  while true do
    watcher.token = core.token()
    if enough() then break end
    local left = due and due - core.now()
    if left and left <= 0 then break end
    core.park(left)
  end
  watcher.token = nil
  return enough()
end

--- Is it a table of the user's? One of ours (a handle, a run, …) is no array, and may refuse to be
-- looked at.
local function is_plain(list)
  local meta = debug.getmetatable(list)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(list) == "table" and not (type(name) == "string" and name:find "^lp%.")
end

local SOURCES = "client.futures:method(…) and lp.spawn give futures"

--- A copy of the array of futures, each checked.
local function checked(what, list, level)
  level = level + 1
  if not is_plain(list) then
    require("lp.options").refuse(what, 1, ("an array of futures, %s{future, …} (%s)"):format(what, SOURCES),
      list, level)
  end
  local copy = {}
  for place = 1, rawget(list, "n") or #list do
    local future = list[place]
    if not core.is_future(future) then
      error(("%s: element %d of argument 1 must be a future (%s), got %s"):format(what, place, SOURCES,
            require("lp.options").describe(future)), level)
    end
    copy[place] = future
  end
  return copy
end

--- The first results of all futures: a table `r` with `r[i]` and their number `r.n`.
-- Raises the first failure at once; the other futures run on, and count as looked at.
-- @tparam table list array of futures
function futures.gather(list)
  list = checked("lp.gather", list, 2)
  local failed
  local watcher <close> = watch(list, function(future)
    if future:exception() and not failed then failed = future end
  end)
  wait_until(watcher, function() return failed or #watcher.order == #list end)
  if failed then
    -- Those still running will be looked at when they end, so that a second failure
    -- is no failure of the node.
    for _, future in ipairs(list) do
      if not future:done() then future:add_done_callback(function() future:exception() end) end
    end
    failed:result()
  end
  local results = {n = #list}
  for place, future in ipairs(list) do results[place] = (future:result()) end
  return results
end

local function wait_schema()
  local options = require "lp.options"
  return options, {
    timeout = options.seconds,
    return_when = options.one_of("all_completed", "first_completed", "first_exception"),
  }
end

--- What `return_when` asks of a watcher, as a function.
local function condition(watcher, return_when, failure)
  local total = #watcher.futures
  if return_when == "first_completed" then
    return function() return #watcher.order > 0 or total == 0 end
  elseif return_when == "first_exception" then
    return function() return failure.seen or #watcher.order == total end
  end
  return function() return #watcher.order == total end
end

--- Waits for futures without raising what they raise.
-- @tparam table list array of futures
-- @tparam[opt] table given `timeout` (seconds; 0 polls) and `return_when`:
--   `"all_completed"` (the default), `"first_completed"` or `"first_exception"`
-- @treturn table the futures that are done, in the order given
-- @treturn table those that are not
function futures.wait(list, given)
  list = checked("lp.wait", list, 2)
  local options, schema = wait_schema()
  given = options.check("lp.wait", schema, given, 2)
  local failure = {}
  local watcher <close> = watch(list, given.return_when == "first_exception" and function(future)
    if future:exception() then failure.seen = true end
  end)
  wait_until(watcher, condition(watcher, given.return_when, failure),
             given.timeout and core.now() + given.timeout)
  local done, pending = {}, {}
  for _, future in ipairs(list) do
    local side = future:done() and done or pending
    side[#side + 1] = future
  end
  return done, pending
end

--- Iterates over futures in the order in which they are done:
-- `for i, future in lp.as_completed(list) do`, where `i` is the place in `list`.
-- @tparam table list array of futures
function futures.as_completed(list)
  list = checked("lp.as_completed", list, 2)
  local watcher = watch(list)
  local given = 0
  local function following()
    if given == #list then return nil end
    given = given + 1
    wait_until(watcher, function() return #watcher.order >= given end)
    local place = watcher.order[given]
    return place, list[place]
  end
  -- The fourth value is closed when the loop ends, also by break or an error.
  return following, nil, nil, watcher
end

return futures
