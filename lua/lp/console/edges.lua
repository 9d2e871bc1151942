--- What goes along the edges of a program that runs: rate, latency and calls under way, from what the
-- callers count on their links, looked at twice.
-- @module lp.console.edges

local core = require "lp.core"
local render = require "lp.console.render"

local edges = {}

local SPAN = 0.5 -- seconds between the two looks

--- "from\nto" -> the link by which `from` calls `to`.
local function links_of(list)
  local found = {}
  for _, answer in ipairs(list) do
    for _, link in ipairs(answer.links or {}) do
      if not link.accepted then found[answer.node .. "\n" .. link.peer] = link end
    end
  end
  return found
end

local function note(edge)
  if not edge.calls then return nil end
  local parts = {("%.0f/s"):format(edge.rate or 0)}
  if edge.p50 then
    parts[#parts + 1] = ("p50 %s, p99 %s"):format(render.seconds(edge.p50), render.seconds(edge.p99))
  end
  parts[#parts + 1] = ("%d under way"):format(edge.pending)
  if edge.queued_bytes > 0 then parts[#parts + 1] = render.bytes(edge.queued_bytes) .. " queued" end
  return table.concat(parts, ", ")
end

--- Adds `calls`, `rate` (a second), `p50`, `p99` (seconds), `pending`, `queued_bytes` and a `note` for
-- people to the edges of a record. An edge nobody has called along yet stays as it is.
function edges.measure(link, record)
  if not record.edges[1] then return end
  local before, began = links_of(link:ask "stats"), core.now()
  core.sleep(SPAN)
  local after, seconds = links_of(link:ask "stats"), core.now() - began
  for _, edge in ipairs(record.edges) do
    local key = edge.from .. "\n" .. edge.to
    local old, now = before[key], after[key]
    if now then
      local times = now.made.latency or {}
      edge.calls, edge.p50, edge.p99 = now.made.calls, times.p50, times.p99
      edge.rate = math.max(now.made.calls - (old and old.made.calls or 0), 0) / seconds
      edge.pending, edge.queued_bytes = now.pending, now.queued_bytes
      edge.note = note(edge)
    end
  end
end

return edges
