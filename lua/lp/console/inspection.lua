--- Commands that show what nodes are doing: their calls, stacks, waits, links, memory and times. The
-- loops of the nodes answer (lp.service.inspect), so what cannot be asked is marked as partial.
-- @module lp.console.inspection

local core = require "lp.core"
local render = require "lp.console.render"

local inspection = {}

--- The answers of one node, or of all.
local function answers(session, what, name)
  local found = session.link:ask(what, name)
  return name and {found} or found
end

--- Lines about nodes that did not answer, below a table.
local function foot(list)
  local lines = {}
  for _, answer in ipairs(list) do
    if answer.partial then
      lines[#lines + 1] = ("partial: node %s: %s"):format(answer.node, answer.partial_reason)
    end
  end
  return lines[1] and table.concat(lines, "\n") .. "\n" or ""
end

--- Rows for those that did not answer, so that JSON has them, too.
local function add_partial(rows, list)
  for _, answer in ipairs(list) do
    if answer.partial then
      rows[#rows + 1] = {node = answer.node, partial = true, partial_reason = answer.partial_reason}
    end
  end
end

--- An answer of rows with what is partial: a line each in text, a row each in JSON.
local function rows_of(rows, columns, list, none)
  local text = rows[1] and render.table(columns, rows) or none or ""
  text = text .. foot(list)
  local value = {}
  for i, row in ipairs(rows) do
    for _, column in ipairs(columns) do
      if row[column.field] == nil then row[column.field] = require("lp.json").null end
    end
    value[i] = row
  end
  add_partial(value, list)
  return {value = value, text = text}
end

local function number(field, title)
  return {field = field, title = title, right = true}
end

local function time(field, title)
  return {field = field, title = title, right = true, show = render.seconds}
end

local function bytes(field, title)
  return {field = field, title = title, right = true, show = render.bytes}
end

-- ---------------------------------------------------------------- calls

local call_columns = {
  {field = "from", title = "FROM"}, {field = "to", title = "TO"}, {field = "method", title = "METHOD"},
  {field = "state", title = "STATE"}, time("seconds", "AGE"), time("deadline", "DEADLINE"),
}

--- Calls under way, each once: as its handler sees it, or where it has none yet its caller.
function inspection.calls(session, words)
  local list, rows, served = answers(session, "calls", words[1]), {}, {}
  for _, answer in ipairs(list) do
    for _, call in ipairs(answer.served or {}) do
      call.to = answer.node
      rows[#rows + 1] = call
      local key = call.from .. "\n" .. call.to .. "\n" .. call.method
      served[key] = (served[key] or 0) + 1
    end
  end
  for _, answer in ipairs(list) do
    for _, call in ipairs(answer.made or {}) do
      call.from = answer.node
      local key = call.from .. "\n" .. call.to .. "\n" .. (call.method or "")
      if (served[key] or 0) > 0 then
        served[key] = served[key] - 1
      else
        rows[#rows + 1] = call
      end
    end
  end
  table.sort(rows, function(a, b) return a.seconds > b.seconds end)
  return rows_of(rows, call_columns, list, "no call is under way\n")
end

-- ---------------------------------------------------------------- stacks

local function waits_text(task)
  local wait = task.waits_for
  if not wait then return task.state end
  local what = wait.what
  if wait.node then
    what = ("%s of %s%s"):format(what, wait.node, wait.method and "." .. wait.method or "")
  end
  return ("waits %s for %s"):format(render.seconds(wait.seconds), what)
end

local function task_title(task)
  local name = task.method and ("%s for %s"):format(task.method, task.caller) or task.kind
  return ("%s, %s: %s"):format(name, render.seconds(task.seconds or 0), waits_text(task))
end

local function stack_text(answer)
  local lines = {}
  for _, group in ipairs(require("lp.stacks").group(answer.tasks or {})) do
    local first = group.tasks[1]
    lines[#lines + 1] = group.count == 1 and "  " .. task_title(first) or
                        ("  %d tasks, as %s"):format(group.count, task_title(first))
    for _, line in ipairs(group.stack) do lines[#lines + 1] = "    " .. line end
  end
  if (answer.omitted or 0) > 0 then lines[#lines + 1] = ("  … %d tasks more"):format(answer.omitted) end
  if answer.partial then lines[#lines + 1] = "  partial: " .. answer.partial_reason end
  if not lines[1] then lines[1] = "  no task" end
  return answer.node .. "\n" .. table.concat(lines, "\n") .. "\n"
end

function inspection.stacks(session, words)
  local list, texts = answers(session, "tasks", words[1]), {}
  for i, answer in ipairs(list) do
    texts[i] = stack_text(answer)
    answer.groups = require("lp.stacks").group(answer.tasks or {})
    answer.tasks = nil
  end
  return {value = words[1] and list[1] or list, text = table.concat(texts)}
end

inspection.stack = inspection.stacks

-- ---------------------------------------------------------------- waits

--- node -> array of {node=, method=, seconds=} it waits for, longest first.
local function waits_of(list)
  local waits = {}
  for _, answer in ipairs(list) do
    local mine = {}
    for _, task in ipairs(answer.tasks or {}) do
      local wait = task.waits_for
      if wait and wait.node and wait.what ~= "time" then
        mine[#mine + 1] = {node = wait.node, method = wait.method, seconds = wait.seconds, what = wait.what}
      end
    end
    table.sort(mine, function(a, b) return a.seconds > b.seconds end)
    waits[answer.node] = mine
  end
  return waits
end

--- The way from `name` along waits that comes back to a node of it, or nil: names, the last
-- of which is met twice.
local function circle_from(waits, name, path, seen)
  if path[name] then return {name} end
  if seen[name] then return nil end
  seen[name], path[name] = true, true
  for _, wait in ipairs(waits[name] or {}) do
    local rest = circle_from(waits, wait.node, path, seen)
    if rest then
      if rest.closed then return rest end
      table.insert(rest, 1, name)
      if rest[#rest] == name then rest.closed = true end
      path[name] = nil
      return rest
    end
  end
  path[name] = nil
  return nil
end

local function circles_of(waits, names)
  local circles, known = {}, {}
  for _, name in ipairs(names) do
    local circle = not known[name] and circle_from(waits, name, {}, {})
    if circle and circle.closed and not known[circle[1]] then
      for _, member in ipairs(circle) do known[member] = true end
      circle.closed = nil
      circles[#circles + 1] = circle
    end
  end
  return circles
end

local function wait_line(from, wait)
  return ("%s waits %s for %s%s"):format(from, render.seconds(wait.seconds), wait.node,
         wait.method and "." .. wait.method or wait.what == "room" and " to have room" or "")
end

--- Whom a node waits for, and whom these wait for, each node once.
local function chain_text(waits, name, state)
  local lines, seen, queue = {}, {[name] = true}, {name}
  while queue[1] do
    local here = table.remove(queue, 1)
    for _, wait in ipairs(waits[here] or {}) do
      lines[#lines + 1] = wait_line(here, wait)
      if not seen[wait.node] then
        seen[wait.node] = true
        queue[#queue + 1] = wait.node
      end
    end
    if not (waits[here] or {})[1] then
      lines[#lines + 1] = ("%s waits for no other node%s"):format(here, state(here))
    end
  end
  return lines
end

--- What a node that waits for nobody does instead.
local function doing(list)
  local by_name = {}
  for _, answer in ipairs(list) do by_name[answer.node] = answer end
  return function(name)
    local answer = by_name[name]
    if not answer then return ": it is no node of this run" end
    if answer.partial then return "; partial: " .. answer.partial_reason end
    for _, task in ipairs(answer.tasks or {}) do
      if task.state == "running" then
        return (": it computes, since %s, %s"):format(render.seconds(task.seconds), task.stack[1] or "")
      end
    end
    local first = (answer.tasks or {})[1]
    return first and ": " .. waits_text(first) or ": it has nothing to do"
  end
end

function inspection.why(session, words)
  local name = words[1]
  local list = answers(session, "tasks")
  local names, known = {}, {}
  for i, answer in ipairs(list) do names[i], known[answer.node] = answer.node, true end
  if name and not known[name] then error(("there is no node %s"):format(name), 0) end
  local waits = waits_of(list)
  local circles = circles_of(waits, name and {name} or names)
  local lines = {}
  for _, from in ipairs(name and {name} or names) do
    if name then
      for _, line in ipairs(chain_text(waits, from, doing(list))) do lines[#lines + 1] = line end
    else
      for _, wait in ipairs(waits[from]) do lines[#lines + 1] = wait_line(from, wait) end
    end
  end
  for _, circle in ipairs(circles) do lines[#lines + 1] = "a circle: " .. table.concat(circle, " -> ") end
  if not lines[1] then lines[1] = "no node waits for another" end
  return {value = {waits = waits, circles = circles}, text = table.concat(lines, "\n") .. "\n" ..
          (name and "" or foot(list))}
end

-- ---------------------------------------------------------------- links and memory

local link_columns = {
  {field = "node", title = "NODE"}, {field = "peer", title = "PEER"}, {field = "state", title = "STATE"},
  {field = "kind", title = "KIND"}, number("out", "CALLS OUT"), number("in", "CALLS IN"),
  bytes("sent_bytes", "SENT"), bytes("received_bytes", "RECEIVED"), bytes("queued_bytes", "QUEUED"),
  number("pending", "PENDING"), number("handling", "HANDLING"), number("credit", "CREDIT"),
  time("silent", "SILENT"),
}

function inspection.net(session, words)
  local list, rows = answers(session, "stats", words[1]), {}
  for _, answer in ipairs(list) do
    for _, link in ipairs(answer.links or {}) do
      link.node, link.out, link["in"] = answer.node, link.made.calls, link.served.calls
      rows[#rows + 1] = link
    end
  end
  return rows_of(rows, link_columns, list, "no links\n")
end

local memory_columns = {
  {field = "node", title = "NODE"}, bytes("bytes", "LUA"), bytes("limit", "LIMIT"), number("tasks", "TASKS"),
  bytes("waiting_bytes", "WAITING CALLS"), bytes("resident", "PROCESS"),
}

function inspection.mem(session, words)
  local list, rows = answers(session, "state", words[1]), {}
  local resident = session.link:ask("resident")
  for i, answer in ipairs(list) do
    local memory = type(answer.memory) == "table" and answer.memory or {bytes = answer.memory}
    rows[i] = {node = answer.node, bytes = memory.bytes, limit = memory.limit, tasks = answer.tasks,
               waiting_bytes = answer.waiting_bytes, resident = resident[answer.node]}
  end
  return rows_of(rows, memory_columns, list)
end

-- ---------------------------------------------------------------- times

local latency_columns = {
  {field = "node", title = "NODE"}, {field = "side", title = "SIDE"}, {field = "method", title = "METHOD"},
  number("calls", "CALLS"), number("errors", "ERRORS"), time("p50", "P50"), time("p90", "P90"),
  time("p99", "P99"), time("p999", "P99.9"), time("max", "MAX"),
}

--- One row for each method and side, of methods that were called.
local function latency_rows(list, method)
  local rows = {}
  for _, answer in ipairs(list) do
    for _, side in ipairs {"served", "made"} do
      for name, meter in pairs(answer[side] and answer[side].methods or {}) do
        if not method or name == method then
          local times = meter.latency or {}
          rows[#rows + 1] = {node = answer.node, side = side, method = name, calls = meter.calls,
                             errors = meter.errors, p50 = times.p50, p90 = times.p90, p99 = times.p99,
                             p999 = times.p999, max = times.max, mean = times.mean}
        end
      end
    end
  end
  return rows
end

function inspection.lat(session, words)
  local name, method
  if words[1] then
    name, method = words[1]:match "^([^.]+/[%d/]+)%.(.+)$"
    name = name or words[1]
  end
  local list = answers(session, "stats", name)
  local rows = latency_rows(list, method)
  table.sort(rows, function(a, b)
    if a.node ~= b.node then return a.node < b.node end
    if a.side ~= b.side then return a.side > b.side end
    return a.method < b.method
  end)
  return rows_of(rows, latency_columns, list, "no calls so far\n")
end

function inspection.slow(session)
  local list = answers(session, "stats")
  local rows = latency_rows(list)
  table.sort(rows, function(a, b) return (a.p99 or 0) > (b.p99 or 0) end)
  for i = #rows, 21, -1 do rows[i] = nil end
  return rows_of(rows, latency_columns, list, "no calls so far\n")
end

-- ---------------------------------------------------------------- stats

local stats_columns = {
  {field = "node", title = "NODE"}, {field = "state", title = "STATE"}, number("in", "CALLS IN"),
  number("out", "CALLS OUT"), number("errors", "ERRORS"), time("p50", "P50"), time("p99", "P99"),
  number("pending", "PENDING"), number("waiting", "WAITING"), bytes("bytes", "LUA"),
}

--- A summary of an answer to "stats".
local function summary(answer)
  local served, made = answer.served or {}, answer.made or {}
  local memory = type(answer.memory) == "table" and answer.memory or {bytes = answer.memory}
  return {node = answer.node, state = answer.state, ["in"] = served.calls, out = made.calls, errors = served.errors,
          p50 = served.latency and served.latency.p50, p99 = served.latency and served.latency.p99,
          pending = answer.pending, waiting = answer.waiting, bytes = memory.bytes}
end

function inspection.stats(session, words, options)
  local list = answers(session, "stats", words[1])
  if options.prometheus then
    return {value = list, text = require("lp.console.prometheus")(session.link.name, session.link.id, list)}
  end
  local rows = {}
  for i, answer in ipairs(list) do rows[i] = summary(answer) end
  local answer = rows_of(rows, stats_columns, list)
  answer.value = words[1] and list[1] or list
  return answer
end

-- ---------------------------------------------------------------- top

local top_columns = {
  {field = "node", title = "NODE"}, {field = "state", title = "STATE"},
  {field = "cpu", title = "CPU", right = true, show = function(value) return ("%.0f%%"):format(value * 100) end},
  {field = "in", title = "IN/S", right = true, show = function(value) return ("%.0f"):format(value) end},
  {field = "out", title = "OUT/S", right = true, show = function(value) return ("%.0f"):format(value) end},
  number("pending", "PENDING"), number("waiting", "WAITING"), bytes("bytes", "LUA"), time("uptime", "UPTIME"),
}

local function sample(session)
  local by_name = {}
  for _, record in ipairs(session.link:ask "top") do by_name[record.node] = record end
  return by_name
end

local function rate(before, now, field, seconds)
  local a, b = before and before[field], now[field]
  return a and b and b >= a and (b - a) / seconds or nil
end

--- Rows from two samples `seconds` apart.
local function top_rows(before, after, seconds)
  local rows = {}
  for name, now in pairs(after) do
    local old = before[name]
    rows[#rows + 1] = {node = name, state = now.state, cpu = rate(old, now, "cpu", seconds),
                       ["in"] = rate(old, now, "in", seconds), out = rate(old, now, "out", seconds),
                       pending = now.pending, waiting = now.waiting, bytes = now.bytes, uptime = now.uptime,
                       partial = now.partial, partial_reason = now.partial_reason}
  end
  table.sort(rows, function(a, b)
    if (a.cpu or 0) ~= (b.cpu or 0) then return (a.cpu or 0) > (b.cpu or 0) end
    return a.node < b.node
  end)
  return rows
end

local function on_terminal()
  return core.command.terminal ~= nil or os.execute "test -t 1 -a -t 0" == true
end

function inspection.top(session, _, options, write)
  local before = sample(session)
  local left = options.count or (not options.json and on_terminal() and math.huge or 1)
  -- A look costs the program some microseconds a node: with hundreds of them, once a second is
  -- more than a hundredth of a core.
  local span = options.interval or (left == math.huge and 3 or 1)
  while true do
    local began = core.now()
    core.sleep(span)
    local after = sample(session)
    local rows = top_rows(before, after, core.now() - began)
    left = left - 1
    if left < 1 then
      local text = render.table(top_columns, rows) .. foot(rows)
      for _, row in ipairs(rows) do
        for _, column in ipairs(top_columns) do
          if row[column.field] == nil then row[column.field] = require("lp.json").null end
        end
      end
      return {value = rows, text = text}
    end
    write("\27[H\27[J" .. render.table(top_columns, rows) .. foot(rows))
    core.flush()
    before = after
  end
end

return inspection
