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

--- Where the listener is, or nil and what is wrong.
function Address:find()
  if self.place then return self.place end
  if not self.node then
    return nil, ("%s belongs to no node: call node:allocate(address) before launch"):format(self)
  end
  return nil, ("%s of %s has no port before launch"):format(self, self.node:describe())
end

--- Where the listener is: `"host:port"`.
function Address:resolve()
  local place, mistake = self:find()
  return place or error(mistake, 2)
end

--- The port that the environment says for the address, or nil; raises a text about one that is none.
function Address:given_port()
  local variable = "LP_PORT_" .. (self.name or "")
  local text = self.name and os.getenv(variable)
  if not text or text == "" then return nil end
  local port = text:find "^%d+$" and tonumber(text)
  if port and port >= 1 and port <= 65535 then return port end
  error(("the variable %s: expected a port, 1 to 65535, got %q"):format(variable, text), 0)
end

return address
