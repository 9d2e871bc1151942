--- Every piece of code in the pages that teach is run as a reader would run it.
-- What a block is stands behind its language:
--   ```lua NAME.lua    a file; a block ```text behind it is the output of `lp run NAME.lua`
--   ```lua program     a script; `local lp = require "lp"` is put before it
--   ```lua node        the body of a node's function
--   ```console         commands behind `$ ` with their output
-- In the second and third kind `--> text` at the end of a line is a line of output.
-- Output is compared without the prefixes `[label/index] `, except in ```text and ```console,
-- and there as a set of lines, since nodes print at the same time.

local lp = os.getenv "LP_COMMAND" or "build/release/lp"
local pages = {"README.md", "docs/getting_started.md", "docs/command_line.md", "docs/repl.md", "docs/lua.md",
               "docs/lifecycle.md", "docs/testing.md"}

local root = io.popen("pwd"):read("l")
if lp:sub(1, 1) ~= "/" then lp = root .. "/" .. lp end

local folder

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local function write(name, text)
  local file <close> = assert(io.open(folder .. "/" .. name, "w"))
  file:write(text)
end

--- Runs a command of the shell in the folder of the page's files.
local function shell(command)
  local pipe = io.popen(("cd '%s' && PATH='%s':$PATH && (%s) 2>&1"):format(folder, folder, command))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  return output, status
end

--- The blocks of a page: {line=, kind=, text=}.
local function blocks_of(page)
  local blocks, block, number = {}, nil, 0
  for line in io.lines(page) do
    number = number + 1
    local info = line:match("^```(.*)$")
    if not info then
      if block then block.text = block.text .. line .. "\n" end
    elseif block then
      blocks[#blocks + 1] = block
      block = nil
    else
      block = {line = number, kind = info, text = ""}
    end
  end
  assert(not block, page .. ": a block is not closed")
  return blocks
end

local function sorted(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  table.sort(lines)
  return table.concat(lines, "\n")
end

local function without_prefixes(text)
  return (("\n" .. text):gsub("\n%[[%w_]+/[%d/]+%] ", "\n"):sub(2))
end

--- The lines that a block says it prints.
local function promised(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do
    lines[#lines + 1] = line:match("%-%->%s?(.*)$")
  end
  return table.concat(lines, "\n") .. (lines[1] and "\n" or "")
end

local function check_script(text, expected)
  write("snippet.lua", text)
  local output, status = shell("timeout 60 lp run snippet.lua")
  assert.equal(expected, without_prefixes(output))
  assert.equal(0, status)
end

local node_before = 'local lp = require "lp"; local program = lp.Program "page"; ' ..
                    "program:add_node(lp.LuaNode(function() "
local node_after = ' end), "node")\nreturn program\n'

local checks = {}

function checks.node(block)
  check_script(node_before .. block.text .. node_after, promised(block.text))
end

function checks.program(block)
  check_script('local lp = require "lp"; ' .. block.text, promised(block.text))
end

function checks.console(block)
  for command, expected in ("\n" .. block.text):gmatch("\n%$ ([^\n]*)\n([^$]*)") do
    local output = shell("timeout 60 " .. command:gsub("^%./dev run", "lp run"))
    assert.equal(sorted(expected), sorted(output))
  end
end

--- What differs from run to run: numbers of runs and processes, times, sizes, and the blanks between columns.
local function steady(text)
  text = text:gsub("(%a+)%-%d+%-%d+", "%1-N"):gsub("[%d.]+ [mµ]*s%f[^%w]", "TIME"):gsub("%d%d%d%d+", "N")
  text = text:gsub("(thread +)%d+", "%1N"):gsub("(process +)%d+", "%1N"):gsub("(pid%W+)%d+", "%1N")
  return (text:gsub(" +", " "):gsub(" \n", "\n"))
end

--- A session of `lp repl FILE`: what stands behind the prompts is typed, and answered as the rest says.
local function check_session(file, text)
  local typed, expected = {}, {}
  for line in text:gmatch("[^\n]*\n") do
    local input = line:match("^%l+> (.*)$") or line:match("^%l+ %l+/%d+> (.*)$") or line:match("^%.+> (.*)$")
    table.insert(input and typed or expected, input or line)
  end
  write("typed", table.concat(typed))
  local output = shell(("timeout 60 lp repl %s <typed"):format(file))
  assert.equal(steady(table.concat(expected)), steady(output))
end

--- Checks the block at `i`. Files stay for the commands that follow.
local function check(blocks, i)
  local block = blocks[i]
  local language, rest = block.kind:match("^(%a+) ?(.*)$")
  if language == "lua" and rest:find("%.lua$") then
    write(rest, block.text)
    local output = blocks[i + 1]
    if output and output.kind == "text" then
      local printed, status = shell("timeout 60 lp run " .. rest)
      assert.equal(sorted(output.text), sorted(printed))
      assert.equal(0, status)
    end
  elseif language == "repl" then
    check_session(rest, block.text)
  elseif language == "lua" then
    assert.truthy(checks[rest], "say what kind of block this is: " .. block.kind)
    checks[rest](block)
  elseif checks[language] then
    checks[language](block)
  end
end

describe("the page", function()
  setup(function()
    folder = io.popen("mktemp -d"):read("l")
    shell(("ln -s '%s' lp; ln -s '%s/programs' programs"):format(lp, root))
  end)
  teardown(function()
    os.execute("rm -r '" .. folder .. "'")
  end)

  for _, page in ipairs(pages) do
    local blocks = blocks_of(page)
    for i, block in ipairs(blocks) do
      if block.kind ~= "text" and block.kind ~= "sh" then
        it(("%s:%d does what it says"):format(page, block.line), function() check(blocks, i) end)
      end
    end
  end

  it("docs/lua.md has a part on every name of the module, and on no other", function()
    local known = {with = true}
    for name in read("lua/lp/init.lua"):match("local homes = (%b{})"):gmatch('([%a_]+) = "lp%.') do
      known[name] = require("lp")[name] ~= nil or nil
    end
    local text = read("docs/lua.md")
    for name in pairs(known) do
      assert.truthy(text:find("\n#+ [^\n]*`lp%." .. name .. "%f[^%w_]"), "missing: lp." .. name)
    end
    for line in text:gmatch("\n#+ ([^\n]*)") do
      for name in line:gmatch("`lp%.([%a_]+)") do assert.truthy(known[name], "unknown: lp." .. name) end
    end
  end)

  it("docs/command_line.md has every command and option of the help, and every variable", function()
    local text = read("docs/command_line.md")
    local function has(word)
      local found = text:find("`" .. word .. "`", 1, true) or text:find("`" .. word .. " ", 1, true)
      assert.truthy(found, "missing: " .. word)
    end
    for command in shell("lp help"):gmatch("\n  (lp %a+)") do
      has(command)
      for line in shell(command:gsub("lp", "lp help")):gmatch("\n +(%-[^\n]*)") do
        has(line:match("%-%-[%w_-]+"))
      end
    end
    local uses = shell(("grep -rhoE 'getenv.?\"[A-Z_]+' '%s/engine' '%s/lua'"):format(root, root))
    for variable in uses:gmatch('"([%u_]+)') do
      if not variable:find("_$") and not variable:find("^LP_NODE_") then has(variable) end
    end
  end)

  it("README.md begins with a program of 20 lines and the two commands", function()
    local blocks = blocks_of("README.md")
    local _, lines = blocks[1].text:gsub("\n", "\n")
    assert.truthy(lines <= 20, lines)
    assert.equal("text", blocks[2].kind)
    local commands = {}
    for i = 3, #blocks do
      for command in blocks[i].text:gmatch("%f[^\n\0]%$? ?(%./dev[^\n]*)") do
        commands[#commands + 1] = command
      end
    end
    assert.equal("./dev run programs/consumer_producers.lua", commands[1])
    assert.equal("./dev test", commands[2])
  end)
end)
