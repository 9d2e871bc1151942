--- What the failure of a node means: stop the program, go on without the node, or start it
-- again. Knows neither clocks nor nodes, so that it can be tested with numbers.
-- @module lp.service.policy

local policy = {}

--- What `restart = {…}` leaves out: at most `max` restarts within `within` seconds; the first
-- after `backoff` seconds, each further one after twice as long.
policy.defaults = {max = 5, within = 60, backoff = 0.1}
policy.longest_backoff = 30

--- The policy of a node from its options.
function policy.of(options)
  local given = options.restart or {}
  return {
    on_failure = options.on_failure or "stop",
    max = given.max or policy.defaults.max,
    within = given.within or policy.defaults.within,
    backoff = given.backoff or policy.defaults.backoff,
  }
end

--- Forgets restarts that are too long ago to count.
local function recent(history, since)
  while history[1] and history[1] <= since do table.remove(history, 1) end
  return #history
end

--- Decides about a failure.
-- @tparam table rule of policy.of
-- @tparam table history times of earlier restarts, kept by this function
-- @number now
-- @treturn string "stop", "ignore" or "restart"
-- @return for a restart the seconds to wait before it; for a stop in spite of
--   on_failure = "restart" the reason in words
function policy.decide(rule, history, now)
  if rule.on_failure ~= "restart" then return rule.on_failure end
  local count = recent(history, now - rule.within)
  if count >= rule.max then
    return "stop", ("it was restarted %d times within %g s, and restart.max is %d")
                   :format(count, rule.within, rule.max)
  end
  history[#history + 1] = now
  return "restart", math.min(rule.backoff * 2 ^ count, math.max(policy.longest_backoff, rule.backoff))
end

return policy
