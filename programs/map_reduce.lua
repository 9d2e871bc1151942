-- Counts words: mappers read files, reducers add up, a driver hands out the work.
-- Run it with `lp run programs/map_reduce.lua --input FILES AND FOLDERS`.
-- A word is a longest run of the letters A to Z and a to z, in lower case; all other bytes
-- separate words, and so does the end of a file. A folder stands for the regular files in it
-- at any depth, a link for what it leads to; a file counts as often as it is named or found.

local lp = require "lp"

local flags = lp.flags {
  input = {{}, "Files and folders to count."},
  mappers = {4, "How many nodes read files."},
  reducers = {2, "How many nodes add up; each has its share of the words."},
  output = {"", "File for the whole table: a word and its count a line, by word."},
}

-- A reducer adds up. A constructor may be any function that returns an object; what it
-- keeps in local variables is out of reach of the calls of others.
local function Reducer()
  local reducer, counts = {}, {}
  function reducer:add(more)
    for word, count in pairs(more) do counts[word] = (counts[word] or 0) + count end
  end
  function reducer:result() return counts end
  return reducer
end

-- Each word belongs to one reducer, the same whichever mapper meets it.
local function share_of(word, shares)
  local hash = 0
  for i = 1, #word do hash = (hash * 31 + word:byte(i)) % 4294967291 end
  return hash % shares + 1
end

-- Calls `found` for every word of a file, which is read in pieces of 64 KiB and the rest of
-- their last line: no word is cut in two.
local function each_word(path, found)
  local file <close> = assert(io.open(path, "rb"))
  for piece, rest in function() return file:read(1 << 16, "L") end do
    for word in (piece .. (rest or "")):gmatch("[A-Za-z]+") do found(word:lower()) end
  end
end

-- A mapper sums a file up first: one call to each reducer, not one for every word.
local function Mapper(reducers)
  local mapper = {}
  function mapper:count(path)
    local shares, futures = {}, {}
    for i = 1, #reducers do shares[i] = {} end
    each_word(path, function(word)
      local share = shares[share_of(word, #reducers)]
      share[word] = (share[word] or 0) + 1
    end)
    for i, reducer in ipairs(reducers) do futures[i] = reducer.futures:add(shares[i]) end
    lp.gather(futures)
  end
  return mapper
end

-- The driver has all mappers work at the same time, each on the files that fall to it.
local function drive(files, mappers, reducers)
  local output = flags.output ~= "" and assert(io.open(flags.output, "w"))
  local futures, words, counts = {}, {}, {}
  for i, file in ipairs(files) do
    futures[i] = mappers[i % #mappers + 1].futures:count(file)
  end
  lp.gather(futures)
  for _, reducer in ipairs(reducers) do
    for word, count in pairs(reducer:result()) do
      words[#words + 1], counts[word] = word, count
    end
  end
  if output then
    table.sort(words)
    for _, word in ipairs(words) do assert(output:write(word, " ", counts[word], "\n")) end
    assert(output:close())
  end
  table.sort(words, function(a, b)
    return counts[a] > counts[b] or counts[a] == counts[b] and a < b
  end)
  print(("%d different words in %d files"):format(#words, #files))
  for i = 1, math.min(10, #words) do print(("%8d %s"):format(counts[words[i]], words[i])) end
  lp.stop()
end

-- The rest runs once, before there are nodes: what is wrong here ends the script.
local function check(good, message)
  if good then return end
  io.stderr:write("map_reduce: ", message, "\n")
  os.exit(2)
end

-- Lua cannot list a folder, so `find` does. In quotes the shell takes a path as it is, and
-- with ./ before it `find` does not take it for an option.
local function add_files(files, path)
  if path:sub(1, 1) ~= "/" then path = "./" .. path end
  local found = io.popen("find -L '" .. path:gsub("'", "'\\''") .. "' -type f -print0")
  for name in found:read("a"):gmatch("[^\0]+") do files[#files + 1] = name end
  check(found:close(), "cannot find all of " .. path)
end

local files = {}
check(#flags.input > 0, "nothing to count: name files or folders with --input")
check(flags.mappers > 0 and flags.reducers > 0, "it takes a mapper and a reducer at least")
for _, path in ipairs(flags.input) do add_files(files, path) end

local program, reducers, mappers = lp.Program "map_reduce", {}, {}
for i = 1, flags.reducers do
  reducers[i] = program:add_node(lp.CourierNode(Reducer), "reducer")
end
for i = 1, flags.mappers do
  mappers[i] = program:add_node(lp.CourierNode(Mapper, reducers), "mapper")
end
program:add_node(lp.LuaNode(drive, files, mappers, reducers), "driver")

return program
