--- What specs of the embedding library share: shell commands, folders, the build under test.

local support = {}

--- What a command of the shell prints, stderr included, and whether it ended well.
function support.shell(text, ...)
  local pipe <close> = assert(io.popen("{ " .. text:format(...) .. "; } 2>&1 </dev/null", "r"))
  local output = pipe:read "a"
  local ok = pipe:close()
  return output, ok == true
end

--- The same for one that must end well; on a failure what it printed is the error.
function support.succeed(text, ...)
  local output, ok = support.shell(text, ...)
  if not ok then error(("failed: %s\n%s"):format(text:format(...), output), 2) end
  return output
end

--- The build folder of the command under test, absolute.
function support.build()
  local lp = os.getenv "LP_COMMAND" or support.succeed("readlink /proc/$PPID/exe"):gsub("%s+$", "")
  return (support.succeed("dirname $(readlink -f '%s')", lp):gsub("%s+$", ""))
end

function support.has(command)
  return select(2, support.shell("command -v %s", command))
end

--- Under sanitizers there is no library to install, and hosts would need their runtime.
function support.has_library()
  return select(2, support.shell("test -e '%s/liblp.so'", support.build()))
end

function support.folder()
  return (support.succeed("mktemp -d"):gsub("%s+$", ""))
end

function support.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

return support
