--- Was the machine quiet while we measured? Counts what others computed meanwhile.
-- @module machine

local machine = {}

local BUSY, STOLEN, SPREAD = 0.10, 0.02, 0.30 -- parts of a core, of all time, of a median

local function read(path, format)
  local file <close> = io.open(path, "r")
  return file and file:read(format) or ""
end

--- Ticks of all cores since the start: those worked, those stolen, and all.
local function ticks()
  local columns = {}
  for figure in read("/proc/stat", "l"):gmatch("%d+") do columns[#columns + 1] = tonumber(figure) end
  local all = 0
  for i = 1, math.min(#columns, 8) do all = all + columns[i] end
  local idle = (columns[4] or 0) + (columns[5] or 0)
  return {worked = all - idle - (columns[8] or 0), stolen = columns[8] or 0, all = all}
end

--- Columns of /proc/self/stat from the process's state on.
local function self_columns()
  local after_name = read("/proc/self/stat", "a"):match("%) (.*)$") or ""
  local columns = {}
  for word in after_name:gmatch("%S+") do columns[#columns + 1] = tonumber(word) or 0 end
  return columns
end

--- Ticks used by the children that were waited for, and theirs.
function machine.children_ticks()
  local columns = self_columns()
  return (columns[14] or 0) + (columns[15] or 0)
end

local function own_ticks()
  local columns = self_columns()
  return (columns[12] or 0) + (columns[13] or 0) + machine.children_ticks()
end

function machine.cores()
  local cores = 0
  for line in io.lines "/proc/stat" do
    if line:find("^cpu%d") then cores = cores + 1 end
  end
  return cores
end

--- The first of the cores that this process may use; others can be asked for by number.
function machine.first_core()
  return tonumber(read("/proc/self/status", "a"):match("Cpus_allowed_list:%s*(%d+)")) or 0
end

--- What the kernel grants at most when a program asks for a socket buffer.
function machine.socket_buffer()
  return tonumber(read("/proc/sys/net/core/wmem_max", "l")) or 212992
end

--- Begins to watch.
function machine.watch()
  return {ticks = ticks(), own = own_ticks(), load = tonumber(read("/proc/loadavg", "a"):match("%S+"))}
end

--- Ends the watch: figures, and reasons not to trust what was measured (none: an empty list).
function machine.verdict(watch, rows)
  local now, own = ticks(), own_ticks() - watch.own
  local all = math.max(now.all - watch.ticks.all, 1)
  local others = math.max(now.worked - watch.ticks.worked - own, 0) / all * machine.cores()
  local verdict = {load_before = watch.load, others_cores = others, reasons = {},
                   stolen = (now.stolen - watch.ticks.stolen) / all}
  local function doubt(...) table.insert(verdict.reasons, (...)) end
  if others > BUSY then
    doubt(("other programs used %.0f %% of a core"):format(others * 100))
  end
  if verdict.stolen > STOLEN then
    doubt(("the host took %.0f %% of the time"):format(verdict.stolen * 100))
  end
  local unsteady = 0
  for _, row in ipairs(rows) do
    if (row.floor_spread or 0) > SPREAD then unsteady = unsteady + 1 end
  end
  if unsteady > 0 then
    doubt(("%d of %d floors varied by more than %.0f %%"):format(unsteady, #rows, SPREAD * 100))
  end
  return verdict
end

return machine
