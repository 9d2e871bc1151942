--- What the specs of nodes share: each is run with nodes in threads and in processes.

local lp = require "lp"
local assert = require "luassert"

local support = {}

--- Calls `body(place)` in a describe (busted's, of the file) for each placement; `place`
-- launches programs there.
function support.each(describe, title, body)
  for _, launch_type in ipairs {"test_mt", "test_mp"} do
    describe(("%s (%s)"):format(title, launch_type), function()
      body(support.place(launch_type))
    end)
  end
end

local serial = 0

local function launch(launch_type, build, options)
  serial = serial + 1
  local program = lp.Program("spec_" .. serial)
  local built = table.pack(build(program))
  local settings = {launch_type = launch_type}
  for name, value in pairs(options or {}) do settings[name] = value end
  return lp.launch(program, settings), built
end

local Placement = {}
Placement.__index = Placement

--- `place(function(program) … return handles end, use, options)` builds a program with the
-- first function, launches it, calls `use` with a client for each handle (and the run), and
-- closes it. A node that failed fails the spec.
function Placement:__call(build, use, options)
  local run <close>, built = launch(self.launch_type, build, options)
  local clients = {}
  for i = 1, built.n do clients[i] = run:client(built[i]) end
  clients[built.n + 1] = run
  use(table.unpack(clients, 1, built.n + 1))
  run:stop()
  run:wait()
end

--- The same for programs that fail: the failure's error goes to `use`, too, which is called
-- after the end.
function Placement.failing(self, build, use, options)
  local run <close> = launch(self.launch_type, build, options)
  use(support.raised(run.wait, run))
end

function support.place(launch_type)
  return setmetatable({launch_type = launch_type}, Placement)
end

--- A program of one courier node made by `ctor`, used through its client.
function support.serve(place, ctor, use, ...)
  local args = table.pack(...)
  return place(function(program)
    return program:add_node(lp.CourierNode(ctor, table.unpack(args, 1, args.n)), "server")
  end, use)
end

--- The error of a call; fails when there is none.
function support.raised(fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok, "no error was raised")
  return err
end

--- Fails unless the text of `value` contains `part`.
function support.contains(part, value)
  local text = tostring(value)
  assert(text:find(part, 1, true), ("%q does not contain %q"):format(text, part))
end

--- What a run knows of a node.
function support.node_of(run, name)
  for _, node in ipairs(run:nodes()) do
    if node.name == name then return node end
  end
end

--- Waits until a node's record satisfies `condition`, and returns it.
function support.until_node(run, name, condition)
  local node
  repeat
    lp.sleep(0.01)
    node = support.node_of(run, name)
  until condition(node)
  return node
end

--- Stops a process. The signal is sent when `kill` returns, but a thread of it may still run.
function support.stop_process(pid)
  assert(os.execute("kill -STOP " .. pid))
  repeat
    local threads <close> = io.popen(("cat /proc/%d/task/*/stat"):format(pid))
    local all = true
    for state in threads:read("a"):gmatch("%) (%a) ") do all = all and state == "T" end
  until all
end

return support
