--- Commands that make nodes and runs do something: wait, go on, end, start again, take new code.
-- Called as those of lp.console.commands.
-- @module lp.console.steering

local runs = require "lp.console.runs"

local steering = {}

local function done(what, name)
  return {value = {node = name, done = what}, text = ("node %s was %s\n"):format(name, what)}
end

--- A command that asks its word of the run's service, which has so many seconds for it.
local function asking(what, past, seconds)
  return function(session, words)
    if seconds then
      session.link:ask_within(seconds, what, words[1])
    else
      session.link:ask(what, words[1])
    end
    return done(past, words[1])
  end
end

steering.pause = asking("pause", "paused")
steering.resume = asking("resume", "resumed")
steering.kill = asking("kill", "killed")
steering.interrupt = asking("interrupt", "interrupted")
steering.restart = asking("restart", "restarted", 60)

--- The first word is a node if it looks like one.
local function node_and_file(words)
  if words[1] and (words[2] or words[1]:find "^[%w_.-]+/[%d/]+$") then return words[1], words[2] end
  return nil, words[1]
end

function steering.reload(session, words)
  local name, path = node_and_file(words)
  local text
  if path then
    local mistake
    text, mistake = require("lp.files").read(path)
    if not text then error(mistake, 0) end
  end
  local result = session.link:ask_within(40, "reload", name, path, text)
  local lines = {require("lp.report").renewed(result.nodes)}
  for _, note in ipairs(result.notes) do lines[#lines + 1] = note end
  return {value = result, text = table.concat(lines, "\n") .. "\n"}
end

--- Waits for the end in short steps: the socket goes with the run.
local function wait_gone(link)
  repeat
    local ok, ended = pcall(link.ask, link, "wait", 1)
    if not ok then
      local gone = true
      for _, run in ipairs(runs.list()) do gone = gone and run.id ~= link.id end
      ended = gone
    end
  until ended
end

function steering.stop(session, _, options)
  local link = session.link
  if link.own then link:ask("stop", options.notice, false) else link:ask("stop", options.notice) end
  wait_gone(link)
  return {value = {stopped = link.id}, text = ("run %s has ended\n"):format(link.id)}
end

return steering
