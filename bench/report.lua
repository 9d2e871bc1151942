--- The figures as a table for people and as JSON.
-- @module report

local json = require "lp.json"

local report = {}

local function duration(ns)
  if ns < 1e3 then return ("%.0f ns"):format(ns) end
  if ns < 1e6 then return ("%.2f µs"):format(ns / 1e3) end
  return ("%.2f ms"):format(ns / 1e6)
end

local function rate(ns)
  local each_second = 1e9 / ns
  if each_second < 1e6 then return ("%.0f k/s"):format(each_second / 1e3) end
  return ("%.2f M/s"):format(each_second / 1e6)
end

local function figure(row, value)
  if not value then return "" end
  if row.rate then return rate(value) end
  if row.unit == "ns" then return duration(value) end
  if row.unit == "s" then return duration(value * 1e9) end
  return ("%.3g %s"):format(value, row.unit)
end

local function target(row)
  if not row.limit then return "" end
  local sign = row.least and ">=" or "<="
  if row.ratio then return ("%s %gx"):format(sign, row.limit) end
  return sign .. " " .. figure(row, row.limit)
end

local function verdict_of(row)
  if row.met == nil then return "" end
  local word = row.met and "met" or "missed"
  if not row.met and row.met_by_processor then word = "met by cpu time" end
  return row.step == 1 and word or ("%s (step %d)"):format(word, row.step)
end

local headings = {"work", "pinned to", "floor", "ours", "spread", "ratio", "by cpu", "target", ""}

local function cells(row)
  return {row.work, row.pinned, figure(row, row.floor), figure(row, row.ours),
          ("%.0f %%"):format(row.spread * 100), row.ratio and ("%.2fx"):format(row.ratio) or "",
          row.processor_ratio and ("%.2fx"):format(row.processor_ratio) or "", target(row), verdict_of(row)}
end

--- Pads to a width counted in characters, numbers to the right.
local function padded(text, width, right)
  local space = (" "):rep(width - utf8.len(text))
  return right and space .. text or text .. space
end

local function widths_of(lines)
  local widths = {}
  for _, line in ipairs(lines) do
    for i, cell in ipairs(line) do widths[i] = math.max(widths[i] or 0, utf8.len(cell)) end
  end
  return widths
end

local function format(lines)
  local widths, out = widths_of(lines), {}
  for n, line in ipairs(lines) do
    local row = {}
    for i, cell in ipairs(line) do row[i] = padded(cell, widths[i], i > 2 and i < 8) end
    out[n] = table.concat(row, "  "):gsub("%s+$", "")
  end
  return out
end

--- What to think of the figures, in lines.
local function trust(verdict)
  local lines = {("load before %.2f, others %.0f %% of a core, stolen %.1f %%")
                 :format(verdict.load_before or 0, verdict.others_cores * 100, verdict.stolen * 100)}
  if verdict.reasons[1] then
    lines[2] = "The machine was too busy to trust this: " .. table.concat(verdict.reasons, "; ") .. "."
  end
  return lines
end

function report.table(rows, verdict)
  local lines = {headings}
  for i, row in ipairs(rows) do lines[i + 1] = cells(row) end
  local out = format(lines)
  table.move(trust(verdict), 1, 2, #out + 1, out)
  return table.concat(out, "\n")
end

function report.json(rows, verdict)
  return json.encode{rows = rows, machine = verdict, trusted = not verdict.reasons[1]}
end

--- Shows on a terminal what is being measured; without arguments wipes that line.
function report.progress(round, case)
  if not report.terminal then return end
  io.stderr:write("\r\27[K", round and ("round %d: %s"):format(round, case.work) or "")
  io.stderr:flush()
end

return report
