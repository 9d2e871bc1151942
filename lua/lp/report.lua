--- Words for the log and for how nodes and processes end.
-- @module lp.report

local core = require "lp.core"

local report = {}

local signals = {[1] = "SIGHUP", [2] = "SIGINT", [3] = "SIGQUIT", [4] = "SIGILL", [6] = "SIGABRT",
                 [7] = "SIGBUS", [8] = "SIGFPE", [9] = "SIGKILL", [11] = "SIGSEGV", [13] = "SIGPIPE",
                 [15] = "SIGTERM"}

--- How many nodes a reload has reached.
function report.renewed(count)
  return count == 1 and "1 node has new code" or ("%d nodes have new code"):format(count)
end

--- How a process ended.
function report.exit(status, signal)
  if signal ~= 0 then
    return ("its process was killed by signal %d%s")
           :format(signal, signals[signal] and " (" .. signals[signal] .. ")" or "")
  end
  return ("its process exited with status %d"):format(status)
end

--- Divides "message\nstack traceback:…" in two; nil when there is no traceback.
function report.split(text)
  local at = text:find("\nstack traceback:", 1, true)
  if not at then return text end
  return text:sub(1, at - 1), text:sub(at + 1)
end

--- How a node ended, without its traceback: for callers.
function report.ending(text)
  return (report.split(text or "it ended"))
end

--- What stands behind "node x failed: ", and the traceback or nil: callers are told that "it
-- failed: …", which is not said twice.
function report.failure(text)
  local message, trace = report.split(text)
  return (message:gsub("^it failed: ", "")), trace
end

function report.line(text)
  core.host.print(2, "", -1, text)
end

function report.info(text) report.line("lp: " .. text) end
function report.warning(text) report.line("lp: warning: " .. text) end
function report.error(text) report.line("lp: error: " .. text) end

return report
