--- Answers of commands as text: tables with columns as wide as they need, and units for people.
-- @module lp.console.render

local render = {}

--- The width of a text on a terminal, near enough: characters, not bytes.
local function width(text)
  return utf8.len(text) or #text
end

--- A text on one line.
local function flat(text)
  return (text:gsub("\n.*", " …"):gsub("%c", " "))
end

local function cell(column, row)
  local value = row[column.field]
  if column.show and value ~= nil then value = column.show(value, row) end
  if value == nil then return column.none or "-" end
  return flat(tostring(value))
end

--- A table. `columns`: array of {field=, title=, right = true for numbers, show = fn, none = text}.
function render.table(columns, rows)
  local lines, widths = {{}}, {}
  for i, column in ipairs(columns) do
    lines[1][i], widths[i] = column.title, width(column.title)
  end
  for _, row in ipairs(rows) do
    local line = {}
    for i, column in ipairs(columns) do
      line[i] = cell(column, row)
      widths[i] = math.max(widths[i], width(line[i]))
    end
    lines[#lines + 1] = line
  end
  local out = {}
  for k, line in ipairs(lines) do
    for i, text in ipairs(line) do
      local pad = (" "):rep(widths[i] - width(text))
      line[i] = columns[i].right and pad .. text or text .. pad
    end
    out[k] = table.concat(line, "  "):gsub(" +$", "")
  end
  return table.concat(out, "\n") .. "\n"
end

--- Names and values, one a line.
function render.fields(list)
  local wide, out = 0, {}
  for _, pair in ipairs(list) do wide = math.max(wide, #pair[1]) end
  for _, pair in ipairs(list) do
    if pair[2] ~= nil then
      out[#out + 1] = pair[1] .. (" "):rep(wide - #pair[1] + 2) ..
                      tostring(pair[2]):gsub("\n", "\n" .. (" "):rep(wide + 2))
    end
  end
  return table.concat(out, "\n") .. "\n"
end

--- Seconds as people read them: 850 µs, 12 ms, 3.4 s, 2 m 05 s, 3 h 07 m.
function render.seconds(value)
  if value == nil then return nil end
  if value < 0.001 then return ("%.0f µs"):format(value * 1e6) end
  if value < 0.1 then return ("%.3g ms"):format(value * 1e3) end
  if value < 60 then return ("%.1f s"):format(value) end
  if value < 3600 then return ("%d m %02d s"):format(value // 60, value % 60 // 1) end
  return ("%d h %02d m"):format(value // 3600, value % 3600 // 60)
end

--- Bytes as people read them: 812 B, 61.4 KiB, 3.2 MiB.
function render.bytes(value)
  if value == nil then return nil end
  if value < 1024 then return ("%d B"):format(value) end
  local units, i = {"KiB", "MiB", "GiB", "TiB"}, 0
  repeat
    value, i = value / 1024, i + 1
  until value < 1024 or i == #units
  return ("%.1f %s"):format(value, units[i])
end

return render
