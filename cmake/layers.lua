-- Lint: the engine's layers are folders, and a file includes only from its own layer
-- and those below. Run in the root of the tree; prints each include that points up.

local order = { "base", "wire", "net", "runtime", "rpc", "process", "api" }
-- process knows nothing of interpreters and calls, so that it can be tested alone.
local allowed = { process = { base = true, net = true, process = true } }

for rank, layer in ipairs(order) do
  if not allowed[layer] then
    allowed[layer] = {}
    for below = 1, rank do allowed[layer][order[below]] = true end
  end
end

local mistakes = 0
local function complain(...)
  io.stderr:write(string.format(...), "\n")
  mistakes = mistakes + 1
end

local function check(path)
  local layer, number = path:match("^engine/([^/]+)/"), 0
  if not allowed[layer] then return complain("%s: '%s' is no layer", path, layer) end
  for line in io.lines(path) do
    number = number + 1
    local target = line:match('^%s*#%s*include%s+"([^"/]+)/')
    if target and not allowed[layer][target] then
      complain("%s:%d: %s must not include from %s", path, number, layer, target)
    end
  end
end

local files <close> = assert(io.popen("find engine -mindepth 2 -name '*.[ch]' | sort"))
for path in files:lines() do check(path) end
os.exit(mistakes == 0)
