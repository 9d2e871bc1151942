--- print, io.write, io.stdout, io.stderr and os.exit of a node: output goes through the
-- engine, line by line behind the node's name, and os.exit ends the node only.
-- @module lp.stdio

local core = require "lp.core"

local Stream = {__name = "FILE*"}
Stream.__index = Stream

--- The engine's stream 1 (stdout) or 2 (stderr), with the methods of a file.
local function stream(number, name)
  return setmetatable({number = number, name = name}, Stream)
end

function Stream:write(...)
  core.write(self.number, ...)
  return self
end

function Stream:flush()
  core.flush()
  return self
end

function Stream:close()
  core.flush()
  return true
end

function Stream.setvbuf()
  return true
end

function Stream:seek()
  return nil, self.name .. " cannot seek", 29
end

function Stream:read()
  return nil, self.name .. " cannot be read", 9
end

function Stream:lines()
  error(self.name .. " cannot be read", 2)
end

function Stream:__tostring()
  return ("file (node's %s)"):format(self.name)
end

local open, close, type_of = io.open, io.close, io.type
local current = stream(1, "stdout")

io.stdout, io.stderr = current, stream(2, "stderr")

function io.write(...)
  return current:write(...)
end

--- Without argument the current output; a name or a file makes it that.
function io.output(file)
  if file == nil then return current end
  if type(file) == "string" then file = assert(open(file, "w")) end
  current = file
  return file
end

function io.close(file)
  if file == nil then file = current end
  if getmetatable(file) == Stream then return file:close() end
  return close(file)
end

function io.type(value)
  if getmetatable(value) == Stream then return "file" end
  return type_of(value)
end

print = core.print -- luacheck: ignore

io.popen = core.popen -- it does not wait for the streams of other nodes

--- The C library's system() makes the whole process deaf to SIGINT while it waits; a pipe
-- does not. Standard input of what a node starts is empty.
if core.context().node then
  local execute = os.execute
  function os.execute(command)
    if command == nil then return execute() end
    local pipe, message, code = io.popen(command, "w")
    if not pipe then return nil, message, code end
    return pipe:close()
  end
end

--- Ends this node; a status that is not 0 (or false) is a failure of the node.
-- @param code true (the default), false, or a number
function os.exit(code)
  core.flush()
  if code == nil or code == true or code == 0 then return core.exit(true, "it has exited") end
  core.exit(false, ("it failed: os.exit(%s)"):format(code == false and "false" or code))
end

return true
