--- Reading what a person named: scripts and settings. Whatever it is (a file, a pipe, a device), it
-- is read up to a bound and no further.
-- @module lp.files

local files = {}

local LIMIT = 64 << 20 -- bytes
local PIECE = 1 << 16

--- All that is left to read.
-- @param file open
-- @string path for the words
-- @treturn string or nil and what is wrong
function files.rest(file, path)
  local pieces, size = {}, 0
  while true do
    local piece, why = file:read(PIECE)
    if not piece and why then return nil, ("cannot read %s: %s"):format(path, why) end
    if not piece then return table.concat(pieces) end
    pieces[#pieces + 1], size = piece, size + #piece
    if size > LIMIT then
      return nil, ("cannot read %s: there are more than %d MiB of it"):format(path, LIMIT >> 20)
    end
  end
end

--- The text of a file.
-- @treturn string or nil and what is wrong
function files.read(path)
  local file, why = io.open(path, "r")
  if not file then return nil, "cannot open " .. why end
  local closing <close> = file -- luacheck: ignore 211
  return files.rest(file, path)
end

return files
