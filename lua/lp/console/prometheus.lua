--- What nodes count and time, in Prometheus' text format (version 0.0.4).
-- @module lp.console.prometheus

local function escaped(text)
  return (text:gsub('[\\"\n]', {["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n"}))
end

local function labels(list)
  local parts = {}
  for i = 1, #list, 2 do parts[#parts + 1] = ('%s="%s"'):format(list[i], escaped(tostring(list[i + 1]))) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function number_text(value)
  if math.type(value) == "integer" then return ("%d"):format(value) end
  return ("%.9g"):format(value)
end

--- Families in order: name -> {kind=, help=, lines=}.
local Page = {}
Page.__index = Page

function Page:add(name, kind, help, own, value, suffix)
  if value == nil then return end
  local family = self[name]
  if not family then
    family = {("# HELP %s %s"):format(name, help), ("# TYPE %s %s"):format(name, kind)}
    self[name] = family
    table.insert(self, family)
  end
  local all = table.move(self.common, 1, #self.common, 1, {})
  table.move(own, 1, #own, #all + 1, all)
  family[#family + 1] = name .. (suffix or "") .. labels(all) .. " " .. number_text(value)
end

local quantiles = {{"p50", "0.5"}, {"p90", "0.9"}, {"p99", "0.99"}, {"p999", "0.999"}}

--- Calls, errors and times of the methods of one side.
local function add_side(page, node, side, meters)
  local names = {}
  for name in pairs(meters and meters.methods or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local meter = meters.methods[name]
    local own = {"node", node, "side", side, "method", name}
    page:add("lp_calls_total", "counter", "Calls that have ended.", own, meter.calls)
    page:add("lp_call_errors_total", "counter", "Calls that ended with an error.", own, meter.errors)
    local times = meter.latency
    if times then
      local help = "How long calls took."
      for _, pair in ipairs(quantiles) do
        local with = table.move(own, 1, #own, 1, {})
        with[#with + 1], with[#with + 2] = "quantile", pair[2]
        page:add("lp_call_seconds", "summary", help, with, times[pair[1]])
      end
      page:add("lp_call_seconds", "summary", help, own, times.sum, "_sum")
      page:add("lp_call_seconds", "summary", help, own, times.count, "_count")
    end
  end
end

local function add_node(page, answer)
  local own = {"node", answer.node}
  page:add("lp_node_up", "gauge", "1: the node answers.", own, answer.partial and 0 or 1)
  page:add("lp_node_uptime_seconds", "gauge", "Since the interpreter was made.", own, answer.uptime)
  local memory = type(answer.memory) == "table" and answer.memory.bytes or answer.memory
  page:add("lp_node_memory_bytes", "gauge", "Memory of the interpreter.", own, memory)
  page:add("lp_node_tasks", "gauge", "Tasks alive.", own, answer.tasks)
  page:add("lp_node_waiting_calls", "gauge", "Calls that wait for their turn.", own, answer.waiting)
  page:add("lp_node_pending_calls", "gauge", "Calls made that wait for an answer.", own, answer.pending)
  page:add("lp_node_refused_total", "counter", "Calls that were not begun.", own, answer.refused)
  add_side(page, answer.node, "served", answer.served)
  add_side(page, answer.node, "made", answer.made)
end

--- The page of a run, from the answers to "stats".
-- @treturn string
return function(name, id, list)
  local page = setmetatable({common = {"program", name, "run", id}}, Page)
  for _, answer in ipairs(list) do add_node(page, answer) end
  local lines = {}
  for _, family in ipairs(page) do lines[#lines + 1] = table.concat(family, "\n") end
  return table.concat(lines, "\n") .. "\n"
end
