--- What the specs of the Lua side share: ways to look at errors.

local helper = {
  core = require "lp.core",
  lp = require "lp",
}

--- The error of a call, as text.
function helper.failure(fn, ...)
  local ok, err = pcall(fn, ...)
  assert(not ok, "no error was raised")
  return tostring(err)
end

--- Raises unless the error of `fn` contains `text` and points to the line of its call, which
-- is the line where `fn` is defined.
function helper.fails_here(text, fn)
  local message = helper.failure(fn)
  local info = debug.getinfo(fn, "S")
  local place = ("%s:%d:"):format(info.short_src, info.linedefined)
  assert(message:find(place, 1, true), ("%q does not begin with %s"):format(message, place))
  assert(message:find(text, 1, true), ("%q does not contain %q"):format(message, text))
end

return helper
