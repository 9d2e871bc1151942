--- The benchmarks: `./dev bench [rpc|bulk|codec|launch|idle|embed] [flags]`, or
-- `lp run bench/run.lua …` beside a build that has the floors.
--
-- Runs every floor and the same work between Lua nodes right after it, several rounds, and
-- prints one table: medians, spread, ratio to the floor, target, met or not.

local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path

local lp = require "lp"
local cases = require "cases"
local harness = require "harness"
local machine = require "machine"
local report = require "report"

local flags = lp.flags{
  rounds = {5, "Rounds; the median counts."},
  scale = {1.0, "Multiplies how much is done in a round."},
  timeout = {0.0, "Each call's time-out in seconds, in rpc, bulk and mutual; 0: none."},
  json = {false, "Print JSON instead of the table."},
  gate = {false, "End with status 1 if a target of step 1 is missed."},
  core = {machine.first_core(), "The core to pin to."},
  build = {here .. "../build/release/", "Folder with the command and the floors."},
}

local function usage(text)
  io.stderr:write("bench: ", text, "\n")
  os.exit(2)
end

--- The suites named on the command line; all without a name.
local function chosen()
  local names = {}
  for _, word in ipairs(arg) do
    if word:find("^%-") then break end
    if not cases[word] or word == "names" then
      usage(("unknown benchmark %s (known: %s)"):format(word, table.concat(cases.names, ", ")))
    end
    names[#names + 1] = word
  end
  return names[1] and names or cases.names
end

local function collect(names)
  local build = flags.build:gsub("/?$", "/")
  local tools = {lp = build .. "lp", floors = build .. "bench/", bench = here,
                 programs = here .. "../programs/bench/", scale = flags.scale, timeout = flags.timeout,
                 core = flags.core, second = machine.cores() > 1 and (flags.core == 0 and 1 or 0)}
  local list = {}
  for _, name in ipairs(names) do table.move(cases[name](tools), 1, 99, #list + 1, list) end
  return list
end

local function missed(rows)
  for _, row in ipairs(rows) do
    if row.step == 1 and row.met == false or row.gate and row.ratio > row.gate then return true end
  end
  return false
end

local list = collect(chosen())
local watch = machine.watch()
local ok, rows = pcall(harness.run, list, flags.rounds, report.progress)
report.progress()
if not ok then
  io.stderr:write("bench: ", rows, "\n")
  os.exit(1)
end
local verdict = machine.verdict(watch, rows)
io.write(flags.json and report.json(rows, verdict) or report.table(rows, verdict), "\n")
os.exit(flags.gate and missed(rows) and 1 or 0)
