--- The tutorial of docs/embedding.md, followed word by word with the installed library.

package.path = "spec/embed/?.lua;" .. package.path
local support = require "support"

--- The blocks of the page: {kind =, text =}.
local function blocks_of(page)
  local blocks, block = {}, nil
  for line in io.lines(page) do
    local info = line:match "^```(.*)$"
    if info and block then
      blocks[#blocks + 1], block = block, nil
    elseif info then
      block = {kind = info, text = ""}
    elseif block then
      block.text = block.text .. line .. "\n"
    end
  end
  return blocks
end

local function sorted(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

local name = "docs/embedding.md does what it says"
if not support.has_library() then return pending(name) end

it(name, function()
  local folder = support.folder()
  local prefix = folder .. "/prefix"
  support.succeed("cmake --install '%s' --prefix '%s'", support.build(), prefix)
  local consoles = 0
  for _, block in ipairs(blocks_of "docs/embedding.md") do
    local file = block.kind:match "^%a+ (%S+)$"
    if file then
      support.write(folder .. "/" .. file, block.text)
    else
      assert.equal("console", block.kind)
      for command, expected in ("\n" .. block.text):gmatch "\n%$ ([^\n]*)\n([^$]*)" do
        local output = support.succeed("cd '%s' && CMAKE_PREFIX_PATH='%s' timeout 100 sh -c '%s'",
                                       folder, prefix, command)
        assert.same(sorted(expected), sorted(output))
        consoles = consoles + 1
      end
    end
  end
  assert.equal(1, consoles)
  support.succeed("rm -r '%s'", folder)
end)
