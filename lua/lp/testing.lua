--- `lp test`: busted inside the engine, so that specs can wait and launch programs.
-- Everything runs in the main chunk's task. A spec launches with `launch_type` "test_mt" or
-- "test_mp" (lp.launch) and closes its run; what it forgets is closed at the end.
-- @module lp.testing

local testing = {}

--- Does stdout go to a terminal? busted and its assert ask the C module term, which wants a
-- file of C. What is preloaded travels to nodes, so that they can use that assert, too.
local function choose_output()
  local answer = os.execute("test -t 1") == true
  function package.preload.term()
    local term = dofile(assert(package.searchpath("term", package.path)))
    local isatty = term.isatty
    function term.isatty(file)
      if file == io.stdout then return answer end
      return isatty(file)
    end
    return term
  end
  return answer and "utfTerminal" or "plainTerminal"
end

local function complain(text)
  io.stderr:write("lp test: ", text, "\n")
  return 2
end

--- The words, read by busted's own parser; or nil and a message.
local function parse(words)
  local cli = require "busted.modules.cli" {standalone = false, output = choose_output()}
  cli:set_name("lp test")
  local parsed, message = cli:parse(words)
  if not parsed then return nil, (tostring(message):gsub("^lp test: error: ", "")) end
  return parsed
end

--- The first of the specs that does not exist.
local function missing(parsed)
  local path = require "pl.path"
  for _, spec in ipairs(parsed.ROOT) do
    local place = path.join(parsed.directory, spec)
    if not path.exists(place) then return place end
  end
end

--- Closes what is still open. A node that failed unseen is a failure of the specs.
local function close_runs()
  local failed = false
  for _, run in ipairs(require("lp.launch").runs) do
    local ok, err = pcall(run.close, run)
    if not ok then
      io.stderr:write("lp test: a run left open by a spec: ", tostring(err), "\n")
      failed = true
    end
  end
  return failed
end

--- describe, it, … are seen by modules that specs share, too, not by the specs' files only.
local function share_words()
  local new = require "busted.core"
  package.loaded["busted.core"] = function(...)
    local busted = new(...)
    setmetatable(_G, {__index = function(_, name) return busted.executors[name] end})
    return busted
  end
end

--- busted's runner, given the words we have parsed. It returns when all is well and calls
-- os.exit else.
local function run_busted(parsed)
  local exit = os.exit
  share_words()
  package.loaded["busted.modules.cli"] = function()
    return {set_name = function() end, parse = function() return parsed end}
  end
  function os.exit(code) -- luacheck: ignore
    local caller = debug.getinfo(2, "S").source
    if caller:find("busted/compatibility.lua", 1, true) and close_runs() then code = 1 end
    exit(code)
  end
  -- What was replaced up to here is the command's own and does not travel to nodes.
  require("lp.launch").baseline = require("lp.ship").snapshot()
  require "busted.runner" {standalone = false}
  return close_runs() and 1 or 0
end

--- Runs specs.
-- @tparam table words of the command line: spec files, folders, options of busted
-- @treturn int the status: 0, 1 (something failed) or 2 (no such spec, unknown option)
function testing.run(words)
  if not pcall(require, "busted.core") then
    return complain("busted is missing; on Debian and Ubuntu: apt-get install lua-busted")
  end
  arg = {[0] = "lp test"} -- luacheck: ignore
  local parsed, message = parse(words)
  if not parsed then return complain(message) end
  local absent = missing(parsed)
  if absent then return complain(("no such spec: %s"):format(absent)) end
  return run_busted(parsed)
end

return testing
