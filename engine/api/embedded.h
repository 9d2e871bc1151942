/* The engine's own Lua modules as bytecode, part of the library: a node loads what it
 * requires without touching the file system. The table is generated from lua/ when
 * the engine is built (cmake/embed.c). */
#ifndef LP_API_EMBEDDED_H
#define LP_API_EMBEDDED_H

typedef struct embedded_module {
  const char *name;          /* as given to require: "lp.program", "lp" */
  const unsigned char *code; /* for luaL_loadbufferx, mode "b" */
  unsigned size;             /* bytes of `code` */
} embedded_module;

/* Sorted by name (strcmp); one more entry behind the last has the name NULL. */
extern const struct embedded_module embedded_modules[];
extern const unsigned embedded_count;

/* NULL when there is no such module. */
const struct embedded_module *embedded_find(const char *name);

#endif
