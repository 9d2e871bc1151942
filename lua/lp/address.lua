--- lp.Address: a port for a node's own listener.
-- It is assigned to one node in set-up, bound to a free port at launch, and resolved in
-- whatever node it was passed to.
-- @module lp.address

local address = {}

local Address = {__name = "lp.Address"}
Address.__index = Address
address.metatable = Address

--- A port. With a name it can be set from outside: `LP_PORT_http` for `"http"`.
-- @string[opt] name lower-case letters and digits, a letter first
function address.Address(name)
  if name ~= nil and not (type(name) == "string" and name:find("^%l[%l%d]*$")) then
    error("lp.Address: the name must be lower-case letters and digits, a letter first; got " ..
          require("lp.options").describe(name), 2)
  end
  return setmetatable({name = name}, Address)
end

--- Is `value` an lp.Address?
function address.is(value)
  return type(value) == "table" and debug.getmetatable(value) == Address
end

function Address:__tostring()
  return self.name and ("lp.Address(%q)"):format(self.name) or "lp.Address()"
end

--- Makes `node` the one that listens here. Used by node:allocate.
-- @treturn boolean true, or nil and what is wrong
function Address:assign(node)
  if self.node == node then return nil, ("%s was assigned to this node already"):format(self) end
  if self.node then
    return nil, ("%s was assigned to %s already"):format(self, self.node:describe())
  end
  self.node = node
  return true
end

--- Gives the address its place, `"host:port"`. Used at launch.
function Address:bind(place)
  self.place = place
end

--- Where the listener is: `"host:port"`.
function Address:resolve()
  if self.place then return self.place end
  if not self.node then
    error(("%s belongs to no node: call node:allocate(address) before launch"):format(self), 2)
  end
  error(("%s of %s has no port before launch"):format(self, self.node:describe()), 2)
end

return address
