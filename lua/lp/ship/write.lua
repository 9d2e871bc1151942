--- Writes the records of a walk as a bundle: instructions for `lp.unship`.
--
-- They come in stages, so that each finds what it needs:
--
--   0   plain objects, and all that refers only to them; standard tables'
--       additions, package.path, package.preload and globals are then in place
--   1   modules are required, and what refers to them is filled in
--   2…  one stage for each object that the node restores (clients and the like),
--       after those that its data needs
-- @module lp.ship.write

local Walk = require "lp.ship.walk"
local scalar = require "lp.ship.scalar"
local unship = require "lp.unship"

local concat, pack = table.concat, string.pack
local PLAIN, MODULE = Walk.PLAIN, Walk.MODULE

-- The order within a stage.
local PARTS = { "create", "fill", "finish" }

local FINALISER = scalar.write "__gc"

-- Calls visit(record) for every record that this one's content refers to.
local function each_part(record, visit)
  for _, list in ipairs { record.items or {}, record.fields or {}, record.upvalues or {} } do
    for _, token in ipairs(list) do
      if type(token) == "table" then visit(token.record or token) end
    end
  end
  if record.metatable then visit(record.metatable) end
  if record.content then visit(record.content) end
end

-- In depth-first order an object is finished after all that it needs, unless
-- they need each other, for which there is no order.
local function finish_from(root, on_finish)
  local stack = { root }
  local function visit(record)
    if not record.entered then stack[#stack + 1] = record end
  end
  while #stack > 0 do
    local record = stack[#stack]
    if not record.entered then
      record.entered = true
      each_part(record, visit)
    else
      stack[#stack] = nil
      if not record.finished then
        record.finished = true
        on_finish(record)
      end
    end
  end
end

local function order_restored(records)
  local ordered = {}
  for _, record in ipairs(records) do
    if record.kind == "R" and not record.entered then
      finish_from(record, function(done)
        if done.kind == "R" then
          ordered[#ordered + 1] = done
          done.stage = MODULE + #ordered
        end
      end)
    end
  end
  return ordered
end

local function written(token)
  return type(token) == "string" and token or token.reference
end

local function stage_of(token)
  return type(token) == "table" and token.stage or PLAIN
end

-- A finaliser counts only when it is in the metatable as that is set.
local function metatable_stage(metatable)
  local stage = metatable.stage
  local fields = metatable.fields or {}
  for i = 1, #fields, 2 do
    if fields[i] == FINALISER then stage = math.max(stage, stage_of(fields[i + 1])) end
  end
  return stage
end

local function path_bytes(path)
  local bytes = { pack("<I4", #path) }
  for i = #path, 1, -1 do
    bytes[#bytes + 1] = path[i] and scalar.write(path[i]) or scalar.NIL
  end
  return concat(bytes)
end

local CREATE = {
  S = function(record) return pack("<c1s4", "S", record.value) end,
  F = function(record) return pack("<c1I4", "F", record.code.index) end,
  N = function(record) return pack("<c1s1", "N", record.name) .. path_bytes(record.path) end,
  M = function(record) return pack("<c1s4", "M", record.name) .. path_bytes(record.path) end,
  R = function(record) return pack("<c1s1I4", "R", record.name, record.content.index) end,
}

-- Instructions of one stage: objects are created, then filled, and metatables
-- come last.
local Writer = {}
Writer.__index = Writer

function Writer:stage(number)
  local stage = self.stages[number]
  if not stage then
    stage = { create = {}, fill = {}, finish = {} }
    self.stages[number] = stage
    if number > self.last then self.last = number end
  end
  return stage
end

function Writer:emit(number, part, bytes)
  local list = self:stage(number)[part]
  list[#list + 1] = bytes
end

function Writer:number(record)
  record.index = self.count
  record.reference = pack("<c1I4", "r", self.count)
  self.count = self.count + 1
end

function Writer:create(record)
  self:number(record)
  self:emit(record.stage, "create", CREATE[record.kind](record))
end

function Writer:emit_list(stage, letter, record, list, count)
  local head = pack("<c1I4I4", letter, record.index, count)
  self:emit(stage, "fill", head .. concat(list))
end

-- Turns tokens into bytes in place, as long as all are of the first stage.
local function write_plain(tokens)
  for _, token in ipairs(tokens) do
    if type(token) == "table" and token.stage > PLAIN then return false end
  end
  for i, token in ipairs(tokens) do
    if type(token) == "table" then tokens[i] = token.reference end
  end
  return true
end

-- Fields of one table, those of each stage together.
local function by_stage(fields)
  local lists = {}
  for i = 1, #fields, 2 do
    local key, value = fields[i], fields[i + 1]
    local stage = math.max(stage_of(key), stage_of(value))
    local list = lists[stage] or {}
    lists[stage] = list
    list[#list + 1] = written(key)
    list[#list + 1] = written(value)
  end
  return lists
end

function Writer:fields(record, fields)
  if write_plain(fields) then return self:emit_list(PLAIN, "f", record, fields, #fields // 2) end
  for stage, list in pairs(by_stage(fields)) do
    self:emit_list(stage, "f", record, list, #list // 2)
  end
end

-- Items of a later stage become fields.
local function split_items(items)
  local bytes, later = {}, {}
  for i, token in ipairs(items) do
    if stage_of(token) > PLAIN then
      table.insert(later, scalar.write(i))
      table.insert(later, token)
      token = scalar.NIL
    end
    bytes[i] = written(token)
  end
  return bytes, later
end

function Writer:items(record, items)
  if write_plain(items) then return self:emit_list(PLAIN, "a", record, items, #items) end
  local bytes, later = split_items(items)
  self:emit_list(PLAIN, "a", record, bytes, #bytes)
  self:fields(record, later)
end

function Writer:upvalues(record)
  for index, token in ipairs(record.upvalues) do
    if type(token) == "table" and token.record then
      local source = token.record.index
      self:emit(PLAIN, "fill", pack("<c1I4BI4B", "j", record.index, index, source, token.index))
    else
      local head = pack("<c1I4B", "u", record.index, index)
      self:emit(stage_of(token), "fill", head .. written(token))
    end
  end
end

-- Many objects share a metatable.
function Writer:metatable_stage(metatable)
  local stage = self.metatable_stages[metatable] or metatable_stage(metatable)
  self.metatable_stages[metatable] = stage
  return stage
end

function Writer:fill(record)
  if record.items and #record.items > 0 then self:items(record, record.items) end
  if record.fields and #record.fields > 0 then self:fields(record, record.fields) end
  if record.upvalues then self:upvalues(record) end
  if record.metatable then
    local bytes = pack("<c1I4I4", "m", record.index, record.metatable.index)
    self:emit(self:metatable_stage(record.metatable), "finish", bytes)
  end
end

function Writer:refused(refused)
  for _, entry in ipairs(refused or {}) do
    self:emit(PLAIN, "finish", pack("<c1s4s4", "g", entry[1], entry[2]))
  end
end

local function create_tables(writer, records)
  for _, record in ipairs(records) do
    if record.kind == "T" then writer:number(record) end
  end
  if writer.count > 0 then writer:emit(PLAIN, "create", pack("<c1I4", "T", writer.count)) end
end

-- Plain objects are numbered first, so that everything can refer to them.
local function create_all(writer, records)
  local restored = order_restored(records)
  create_tables(writer, records)
  for stage = PLAIN, MODULE do
    for _, record in ipairs(records) do
      if record.stage == stage and record.kind ~= "T" then writer:create(record) end
    end
  end
  for _, record in ipairs(restored) do
    writer:create(record)
  end
end

function Writer:result(roots)
  local parts = {}
  for number = PLAIN, self.last do
    local stage = self.stages[number]
    for _, part in ipairs(stage and PARTS or {}) do
      table.move(stage[part], 1, #stage[part], #parts + 1, parts)
    end
  end
  parts[#parts + 1] = pack("<c1I4", "E", #roots)
  for _, token in ipairs(roots) do
    parts[#parts + 1] = written(token)
  end
  local head = unship.SIGNATURE .. "\0\0\0\0\0\0\0\0"
  local body = concat(parts)
  local sum = unship.sum(head .. body, #head + 1)
  return unship.SIGNATURE .. pack("<i8", sum) .. body
end

--- Writes the bundle.
-- @tparam table walk the finished Walk
-- @tparam table roots tokens of the values it returns
-- @treturn string
local function write(walk, roots)
  local writer = setmetatable({
    stages = {}, last = PLAIN, -- number -> lists of instructions
    count = 0, -- objects numbered
    metatable_stages = {},
  }, Writer)
  create_all(writer, walk.records)
  for _, record in ipairs(walk.records) do
    writer:fill(record)
  end
  writer:refused(walk.refused)
  return writer:result(roots)
end

return write
