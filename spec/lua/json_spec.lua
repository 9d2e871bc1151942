require "spec.lua.helper"
local json = require "lp.json"
local lp = require "lp"

describe("JSON text", function()
  local function gives(expected, value)
    assert.equal(expected, json.encode(value))
  end

  it("has arrays for keys 1..n and objects with sorted keys for all others", function()
    gives("[1,2,3]", {1, 2, 3})
    gives('{"a":1,"b":[],"c":{}}', {c = lp.map {}, b = {}, a = 1})
    gives('{"1":true,"3":false}', {[1] = true, [3] = false})
    gives('[{"a":[[]]}]', {{a = {{}}}})
  end)

  it("keeps integers and floats apart, and every bit of them", function()
    gives("9223372036854775807", math.maxinteger)
    gives("1.0", 1.0)
    gives("-0.0", -0.0)
    for _, value in ipairs {0.1, 1 / 3, 1e300, 5e-324, 2.0 ^ 53} do
      assert.equal(value, tonumber(json.encode(value)))
    end
  end)

  it("has null for nil, and the names of numbers JSON does not know", function()
    gives("null", nil)
    gives('["nan","nan","inf","-inf"]', {0 / 0, -(0 / 0), math.huge, -math.huge})
  end)

  it("with a number that no float holds is refused, and nothing is made of it", function()
    local decode = require "lp.json.decode"
    for _, text in ipairs {"[1, 1e999]", "[1, -1e999]"} do
      assert.has_error(function() decode(text) end, "a number beyond what a float holds at character 5")
    end
    assert.equal(1e308, decode "1e308")
  end)

  it("escapes what has to be", function()
    gives([["\"\\\n\t\u0000\u001f"]], '"\\\n\t\0\31')
    gives('"ä€😀"', "ä€😀")
  end)

  it("is valid UTF-8 whatever the bytes", function()
    gives('"a\u{FFFD}b\u{FFFD}\u{FFFD}"', "a\xffb\xe2\x82")
    gives('"\u{FFFD}"', "\xff")
  end)

  it("reads back in cjson", function()
    local cjson = require "cjson"
    local value = {name = 'x"\\\n\0', list = {1, 2.5, "three", {true, false}}, deep = {a = {b = {}}}}
    assert.same(value, cjson.decode(json.encode(value)))
  end)

  it("refuses what has no form", function()
    assert.has_error(function() json.encode {print} end, "lp.json: a function has no JSON form")
  end)
end)
