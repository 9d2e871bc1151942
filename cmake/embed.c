/* Build tool: compiles Lua modules to bytecode and writes them as one C file that
 * defines the table of engine/api/embedded.h.
 *
 *   embed OUT.c MODULE.lua...      paths relative to lua/, as "lp/program.lua"
 *
 * A module's name is its path with dots, "init" left out. The bytecode keeps lines and
 * local names; it runs in lua/, so that the chunk's name is "@lp/program.lua". */
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct module {
  const char *path;
  char name[256];
  size_t size; /* bytes of bytecode */
} module;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "embed: %s: %s\n", what, why);
  exit(1);
}

/* "lp/service/init.lua" => "lp.service" */
static void name_module(module *out, const char *path) {
  size_t length = strlen(path);
  if (length < 5 || length >= sizeof out->name || strcmp(path + length - 4, ".lua"))
    fail(path, "not a short path that ends in .lua");
  out->path = path;
  memcpy(out->name, path, length - 4);
  length -= 4;
  if (length > 5 && !strncmp(path + length - 5, "/init", 5)) length -= 5;
  out->name[length] = 0;
  for (char *c = out->name; *c; c++)
    if (*c == '/') *c = '.';
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const module *)a)->name, ((const module *)b)->name);
}

typedef struct output {
  FILE *file;
  size_t size;
} output;

static int write_bytes(lua_State *L, const void *bytes, size_t count, void *data) {
  output *out = data;
  (void)L;
  for (size_t i = 0; i < count; i++)
    fprintf(out->file, "%u,%s", ((const unsigned char *)bytes)[i], ++out->size % 24 ? "" : "\n");
  return ferror(out->file);
}

static void write_module(lua_State *L, FILE *file, module *entry, int number) {
  output out = {file, 0};
  if (luaL_loadfilex(L, entry->path, "t")) fail("cannot compile", lua_tostring(L, -1));
  fprintf(file, "static const unsigned char code_%d[] = {\n", number);
  if (lua_dump(L, write_bytes, &out, 0)) fail(entry->path, "cannot write");
  lua_pop(L, 1);
  fprintf(file, "};\n\n");
  entry->size = out.size;
}

static void write_table(FILE *file, const module *modules, int count) {
  fprintf(file, "const unsigned embedded_count = %d;\n", count);
  fprintf(file, "const struct embedded_module embedded_modules[] = {\n");
  for (int i = 0; i < count; i++)
    fprintf(file, "    {\"%s\", code_%d, %zu},\n", modules[i].name, i, modules[i].size);
  fprintf(file, "    {0, 0, 0},\n};\n");
}

int main(int argc, char **argv) {
  if (argc < 2) fail("usage", "embed OUT.c MODULE.lua...");
  int count = argc - 2;
  module *modules = calloc((size_t)count + 1, sizeof *modules);
  lua_State *L = luaL_newstate();
  FILE *file = fopen(argv[1], "w");
  if (!modules || !L || !file) fail(argv[1], "cannot open, or out of memory");
  for (int i = 0; i < count; i++) name_module(&modules[i], argv[i + 2]);
  qsort(modules, (size_t)count, sizeof *modules, by_name);
  fprintf(file, "/* Made by cmake/embed.c from lua/. */\n#include \"api/embedded.h\"\n\n");
  for (int i = 0; i < count; i++) write_module(L, file, &modules[i], i);
  write_table(file, modules, count);
  lua_close(L);
  free(modules);
  if (fclose(file)) fail(argv[1], "cannot write");
  return 0;
}
