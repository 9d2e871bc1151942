--- lp.log: lines for the run's log, by level.
-- @module lp.log

local core = require "lp.core"

local ranks = {debug = 1, info = 2, warning = 3, error = 4}
local log = {}
local threshold = ranks[core.context().log_level] or ranks.info

--- One argument is the text itself, whatever it contains; with more it is a format.
local function text_of(...)
  if select("#", ...) == 1 then return tostring((...)) end
  local ok, text = pcall(string.format, ...)
  if ok then return text end
  error("lp.log: " .. text:gsub("^bad argument #(%d+) to 'format'", "bad argument #%1"), 3)
end

local function writer(level)
  local rank = ranks[level]
  return function(...)
    if rank < threshold then return end
    core.log(level, text_of(...))
  end
end

log.debug = writer "debug"
log.info = writer "info"
log.warning = writer "warning"
log.error = writer "error"

--- Lines below this level are dropped before they are formatted.
-- @string[opt] name `"debug"`, `"info"`, `"warning"` or `"error"`; without it nothing changes
-- @treturn string the level now
function log.level(name)
  if name ~= nil then
    if not ranks[name] then
      error(("lp.log.level: unknown level %s (known: debug, info, warning, error)")
            :format(require("lp.options").describe(name)), 2)
    end
    threshold = ranks[name]
  end
  for level, rank in pairs(ranks) do
    if rank == threshold then return level end
  end
end

return {log = log}
