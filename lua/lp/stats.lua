--- lp.stats: what this node counts and times about itself.
-- @module lp.stats

local core = require "lp.core"

local stats = {}

--- The node's counts and times: a tree of tables; docs/lua.md lists its fields.
function stats.stats()
  return core.overview "stats"
end

return stats
