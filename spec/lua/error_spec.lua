local helper = require "spec.lua.helper"
local lp, fails_here = helper.lp, helper.fails_here
local errors = require "lp.error"

local function raised(...)
  local ok, err = pcall(lp.error, ...)
  assert.is_false(ok)
  return err
end

describe("lp.error", function()
  it("raises a table with code, message and data", function()
    local err = raised("not_found", "no key x", {key = "x"})
    assert.equal("not_found", err.code)
    assert.equal("no key x", err.message)
    assert.same({key = "x"}, err.data)
    assert.is_nil(err.traceback)
  end)

  it("behaves like its text", function()
    local err = raised("not_found", "no key x1")
    assert.equal("not_found: no key x1", tostring(err))
    assert.equal("<not_found: no key x1>", "<" .. err .. ">")
    assert.equal(12, (err:find("no key", 1, true)))
    assert.equal("1", err:match("%d+"))
    assert.equal("NOT_FOUND", err:upper():sub(1, 9))
    assert.equal("not_found: no key x1", ("%s"):format(err))
  end)

  it("shows no code when it is unknown", function()
    assert.equal("boom", tostring(raised("unknown", "boom")))
  end)

  it("raises an error again as it is", function()
    local err = raised("aborted", "once")
    assert.equal(err, raised(err))
  end)

  it("takes the code as message when there is none, and any message as text", function()
    assert.equal("aborted", raised("aborted").message)
    assert.equal("42", raised("aborted", 42).message)
  end)

  it("wants a code", function()
    fails_here("code must be a string", function() lp.error(5, "x") end)
    fails_here("code must be a string", function() lp.error({}) end)
  end)
end)

describe("what was raised, as an lp.Error", function()
  it("keeps an lp.Error and makes a message of anything else", function()
    local err = errors.new("aborted", "x")
    assert.equal(err, errors.from(err))
    assert.equal("boom", errors.from("boom").message)
    assert.equal("unknown", errors.from("boom").code)
    assert.equal("nil", errors.from(nil).message)
    assert.equal("12", errors.from(12).message)
  end)

  it("makes data of a table: its raw fields, with its text as message", function()
    local raised_value = setmetatable({reason = "full"}, {__tostring = function() return "oops" end})
    local err = errors.from(raised_value)
    assert.equal("oops", err.message)
    assert.same({reason = "full"}, err.data)
    assert.is_nil(getmetatable(err.data))
  end)

  it("survives a __tostring that fails or returns no string", function()
    local function text(tostring_method)
      return errors.from(setmetatable({}, {__tostring = tostring_method})).message
    end
    assert.truthy(text(function() error "no" end):find("__tostring failed"))
    assert.truthy(text(function() return {} end):find("__tostring failed"))
    assert.equal("5", text(function() return 5 end))
  end)

  it("has the traceback of where it was raised", function()
    local function innermost() error("boom", 0) end
    local _, err = xpcall(function()
      innermost()
      return 1
    end, errors.traced)
    assert.truthy(err.traceback:find("innermost", 1, true))
  end)
end)

describe("lp.log", function()
  local logged
  local original = helper.core.log

  before_each(function()
    logged = {}
    helper.core.log = function(level, text) table.insert(logged, level .. " " .. text) end
  end)

  after_each(function() helper.core.log = original end)

  it("takes one argument literally and formats more", function()
    lp.log.info("100 %d")
    lp.log.warning("%d of %s", 1, "two")
    lp.log.error(nil)
    assert.same({"info 100 %d", "warning 1 of two", "error nil"}, logged)
  end)

  it("drops lines below its level", function()
    lp.log.debug("hidden")
    assert.equal("debug", lp.log.level("debug"))
    lp.log.debug("shown")
    assert.equal("error", lp.log.level("error"))
    lp.log.warning("hidden")
    assert.equal("info", lp.log.level("info"))
    assert.same({"debug shown"}, logged)
  end)

  it("points to the caller for a bad format or level", function()
    fails_here("bad argument #2", function() lp.log.info("%d", "x") end)
    fails_here("unknown level", function() lp.log.level("loud") end)
  end)
end)

describe("the table lp", function()
  it("has no field it does not know, and sets no global", function()
    assert.is_nil(lp.no_such_thing)
    assert.is_nil(rawget(_G, "lp"))
  end)

  it("loads in a node what is touched and no more", function()
    local program = lp.Program "loaded"
    program:add_node(lp.CourierNode(function()
      require("lp").gather {}
      return {loaded = function(_, name) return package.loaded[name] ~= nil end}
    end), "node")
    local run <close> = lp.launch(program, {launch_type = "test_mt"})
    local node = run:client "node/0"
    assert.is_true(node:loaded "lp.futures")
    for _, name in ipairs {"cli", "deferred", "flags", "launch", "log", "main", "node", "program", "ship", "unship"} do
      assert.is_false(node:loaded("lp." .. name), name)
    end
  end)
end)
