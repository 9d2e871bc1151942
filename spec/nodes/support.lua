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

--- A placement: `place(function(program, add) … return … end, use, options)` builds a program
-- with the first function, launches it, calls `use(run, …)` with what the first returned, and
-- closes the run.
function support.place(launch_type)
  return function(build, use, options)
    serial = serial + 1
    local program = lp.Program("spec_" .. serial)
    local built = table.pack(build(program))
    options = options or {}
    options.launch_type = launch_type
    local run <close> = lp.launch(program, options)
    local clients = {}
    for i = 1, built.n do clients[i] = run:client(built[i]) end
    use(table.unpack(clients, 1, built.n))
    if options.raises then return run end
  end
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

return support
