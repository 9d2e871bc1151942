--- Measuring by running programs that print one line of JSON: interleaved, in rounds.
-- A figure counts only beside its floor, which ran a moment before on the same core; so
-- ratios are taken within a round and the median of them is what is reported.
-- @module harness

local machine = require "machine"

local harness = {}

--- A word for the shell, quoted where it has to be.
local function quoted(word)
  if word:find("^[%w%-_./,:=]+$") then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function shell(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = quoted(tostring(word)) end
  return table.concat(list, " ")
end

--- Runs a command to its end: what it printed on stdout, or nil and how it ended.
function harness.output(words)
  local pipe <close> = assert(io.popen(shell(words), "r"))
  local text = pipe:read("a")
  local ok, kind, code = pipe:close()
  if ok then return text end
  return nil, ("%s: %s %d"):format(shell(words), kind, code)
end

--- The numbers of the first flat JSON object in a text, by name.
local function numbers(text)
  local object = text:match("{.-}")
  if not object then return nil end
  local found = {}
  for name, value in object:gmatch('"([%w_]+)":(-?[%d.e+-]+)') do found[name] = tonumber(value) end
  return found
end

local last = {} -- what was run last: `command`, `text`

--- Runs a command and takes `field` from the line it prints; also returns the ticks of
-- processor time it took. `again`: another figure of what was run last will do, if it was this.
function harness.figure(words, field, again)
  local ticks, command, err = machine.children_ticks(), shell(words), nil
  if not again or last.command ~= command then
    last.command, last.text = command, nil
    last.text, err = harness.output(words)
  end
  local found = last.text and numbers(last.text)
  local figure = found and found[field]
  if not figure then error(err or command .. ": no " .. field .. " in what it printed", 0) end
  return figure, machine.children_ticks() - ticks
end

--- The middle of a list of numbers; the list is left as it is.
function harness.median(list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local half = #sorted // 2
  if #sorted % 2 == 1 then return sorted[half + 1] end
  return (sorted[half] + sorted[half + 1]) / 2
end

--- How far the numbers lie apart, as a part of their median.
function harness.spread(list)
  local middle = harness.median(list)
  if middle == 0 then return 0 end
  return (math.max(table.unpack(list)) - math.min(table.unpack(list))) / middle
end

--- What one case is worth beside its floor; above 1 is more. For rates the floor's time is
-- above the line, so that more is better.
local function ratio(case, ours, floor)
  return case.rate and floor / ours or ours / floor
end

--- The same by processor time, which others' work on the core leaves nearly alone; the start
-- of the programs is in it.
local function processor_ratio(case, ours, floor)
  if not case.counts or ours == 0 or floor == 0 then return nil end
  return ratio(case, ours / case.counts.ours, floor / case.counts.floor)
end

--- One round of a case: floor first, ours right after.
local function measure(case, result)
  local floor, floor_ticks
  if case.floor then floor, floor_ticks = harness.figure(case.floor, "ns_per_op") end
  local ours, ticks = harness.figure(case.ours, case.field or "ns_per_op", case.again)
  table.insert(result.ours, ours)
  if not floor then return end
  table.insert(result.floor, floor)
  table.insert(result.ratios, ratio(case, ours, floor))
  table.insert(result.processor, processor_ratio(case, ticks, floor_ticks))
end

local function met(case, value)
  if not case.limit then return nil end
  if case.least then return value >= case.limit end
  return value <= case.limit
end

local function summary(result)
  local case = result.case
  local row = {work = case.work, pinned = case.pinned, unit = case.unit or "ns", rate = case.rate,
               limit = case.limit, least = case.least, step = case.step, gate = case.gate,
               ours = harness.median(result.ours), spread = harness.spread(result.ours)}
  if result.floor[1] then
    row.floor, row.floor_spread = harness.median(result.floor), harness.spread(result.floor)
    row.ratio = harness.median(result.ratios)
    row.processor_ratio = result.processor[1] and harness.median(result.processor)
  end
  row.met = met(case, row.ratio or row.ours)
  if row.processor_ratio then row.met_by_processor = met(case, row.processor_ratio) end
  return row
end

--- Runs all cases `rounds` times, round by round; `tell` is called before each case.
-- @treturn table rows in the order of the cases
function harness.run(cases, rounds, tell)
  local results = {}
  for i, case in ipairs(cases) do
    results[i] = {case = case, ours = {}, floor = {}, ratios = {}, processor = {}}
  end
  for round = 1, rounds do
    for i, case in ipairs(cases) do
      if round <= (case.rounds or rounds) then
        tell(round, case)
        measure(case, results[i])
      end
    end
  end
  local rows = {}
  for i, result in ipairs(results) do rows[i] = summary(result) end
  return rows
end

return harness
