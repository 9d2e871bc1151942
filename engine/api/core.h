/* The Lua module lp.core: what the Lua side of the library stands on. Every interpreter of
 * the engine has it; it is not meant for users. */
#ifndef LP_API_CORE_H
#define LP_API_CORE_H

#include <lua.h>

#include "runtime/node.h"
#include "runtime/terms.h"

/* What to run in a fresh node: `module`.`field`(argument), as its main task. */
typedef struct boot {
  const char *module;
  const char *field;
  const char *argument; /* bytes */
  size_t length;
} boot;

typedef struct node_request {
  uint64_t id; /* 0: a fresh one, entered in the directory; else it is there already */
  const char *name, *key;
  size_t memory_limit; /* bytes; 0: none */
  int64_t timeslice;   /* of its tasks against each other; ns, 0: none */
  terms terms;         /* what it takes from each caller; 0 calls: the default */
  boot boot;
  lua_CFunction open; /* adds to lp.core: called with the module on top of the stack; or NULL */
} node_request;

/* Makes a complete node on `loop` (on its thread): interpreter, rpc, lp.core, and starts its
 * main task. NULL with fault. */
node *core_node(loop *loop, const node_request *request, fault *fault);

#endif
