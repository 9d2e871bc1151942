--- The Lua stacks of many tasks, as people read them.
-- @module lp.stacks

local stacks = {}

--- Groups tasks with equal stacks.
-- @tparam table tasks as in the answer to "tasks"
-- @treturn table an array of {count=, stack=, tasks=}, the most frequent first
function stacks.group(tasks)
  local groups, by_stack = {}, {}
  for _, task in ipairs(tasks) do
    local text = table.concat(task.stack, "\n")
    local group = by_stack[text]
    if not group then
      group = {count = 0, stack = task.stack, tasks = {}}
      by_stack[text], groups[#groups + 1] = group, group
    end
    group.count = group.count + 1
    table.insert(group.tasks, task)
  end
  for i, group in ipairs(groups) do group.order = i end
  table.sort(groups, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.order < b.order
  end)
  for _, group in ipairs(groups) do group.order = nil end
  return groups
end

return stacks
