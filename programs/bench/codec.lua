--- What turning a value into MessagePack and back costs, without any call.
--
--     lp run programs/bench/codec.lua [--shape small|map|doubles|nested] [--rounds N] [--unpack]
--
-- The shapes are those of bench/codec_hand.c, which writes the same bytes by hand. Prints
-- one line of JSON and stops.

local lp = require "lp"

local flags = lp.flags{
  shape = {"small", "What is packed.", choices = {"small", "map", "doubles", "nested"}},
  rounds = {200000, "Values to pack or to unpack."},
  unpack = {false, "Time the way back."},
}

local shapes = {}

function shapes.small() return {1, "echo", {42, "thirty-two bytes of text, or so."}} end

function shapes.map()
  return {id = 4711, name = "worker", score = 0.75, active = true, node = "evaluator/3"}
end

function shapes.doubles()
  local list = {}
  for i = 1, 1000 do list[i] = i + 0.5 end
  return list
end

function shapes.nested()
  local list = {}
  for i = 1, 10 do
    list[i] = {i, {i + 0.5, "leaf"}, {{i * 1000}, {false}}}
  end
  return list
end

local function time(fn, value, rounds)
  for _ = 1, rounds // 10 + 1 do fn(value) end -- warms up
  local start = lp.now()
  for _ = 1, rounds do fn(value) end
  return (lp.now() - start) / rounds * 1e9
end

local function measure(options)
  local core = require "lp.core"
  local value = shapes[options.shape]()
  local bytes = core.pack(value)
  local fn, given = core.pack, value
  if options.unpack then fn, given = core.unpack, bytes end
  print(('{"bench":"codec","shape":"%s","unpack":%s,"rounds":%d,"bytes":%d,"ns_per_op":%.1f}')
        :format(options.shape, options.unpack, options.rounds, #bytes,
                time(fn, given, options.rounds)))
end

local program = lp.Program "bench_codec"
program:add_node(lp.LuaNode(measure, flags), "codec")

return program
