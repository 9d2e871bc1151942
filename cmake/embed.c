/* Build tool: compiles Lua modules to bytecode and writes them as one C file that
 * defines the table of engine/api/embedded.h.
 *
 *   embed OUT.c MODULE.lua...      paths relative to lua/, as "lp/program.lua"
 *
 * A module's name is its path with dots, "init" left out. The bytecode keeps its lines, for
 * tracebacks, but not the names of locals and upvalues, which only messages about mistakes in
 * these modules would show and which take a fifth of their memory in every node. It runs in
 * lua/, so that the chunk's name is "@lp/program.lua". */
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

/* ---- bytecode without names ---------------------------------------------------- */

/* Lua's dump of a module as it is rewritten: read at `at`, written up to `length`, both in
 * `bytes`, since leaving things out makes it shorter. */
typedef struct dump {
  unsigned char *bytes;
  size_t at, size, length;
} dump;

static int append(lua_State *L, const void *bytes, size_t count, void *data) {
  dump *out = data;
  (void)L;
  out->bytes = realloc(out->bytes, out->size + count);
  if (!out->bytes) fail("dump", "out of memory");
  memcpy(out->bytes + out->size, bytes, count);
  out->size += count;
  return 0;
}

static void copy(dump *d, size_t count) {
  if (count > d->size - d->at) fail("dump", "not the format that is expected");
  memmove(d->bytes + d->length, d->bytes + d->at, count);
  d->at += count;
  d->length += count;
}

static void skip(dump *d, size_t count) {
  if (count > d->size - d->at) fail("dump", "not the format that is expected");
  d->at += count;
}

/* Seven bits a byte, the last one marked. */
static size_t read_size(dump *d) {
  size_t value = 0;
  unsigned char byte;
  do {
    skip(d, 1);
    byte = d->bytes[d->at - 1];
    value = value << 7 | (byte & 0x7f);
  } while (!(byte & 0x80));
  return value;
}

static size_t copy_size(dump *d) {
  size_t from = d->at, value = read_size(d), count = d->at - from;
  memmove(d->bytes + d->length, d->bytes + from, count);
  d->length += count;
  return value;
}

static void put_zero(dump *d) {
  d->bytes[d->length++] = 0x80;
}

static void copy_string(dump *d) {
  size_t length = copy_size(d); /* 0: none, else one more than it has bytes */
  if (length) copy(d, length - 1);
}

static void skip_string(dump *d) {
  size_t length = read_size(d);
  if (length) skip(d, length - 1);
}

static void copy_constant(dump *d) {
  enum { NUMBER = 0x13, INTEGER = 0x03, SHORT_STRING = 0x04, LONG_STRING = 0x14 };
  copy(d, 1);
  unsigned char kind = d->bytes[d->length - 1];
  if (kind == NUMBER) copy(d, sizeof(lua_Number));
  if (kind == INTEGER) copy(d, sizeof(lua_Integer));
  if (kind == SHORT_STRING || kind == LONG_STRING) copy_string(d);
}

static void copy_lines(dump *d) {
  copy(d, copy_size(d)); /* one byte an instruction */
  for (size_t n = copy_size(d); n; n--) {
    copy_size(d);
    copy_size(d);
  }
}

static void drop_names(dump *d) {
  for (size_t n = read_size(d); n; n--) { /* locals, with where they live */
    skip_string(d);
    read_size(d);
    read_size(d);
  }
  put_zero(d);
  for (size_t n = read_size(d); n; n--) skip_string(d); /* upvalues */
  put_zero(d);
}

static void copy_function(dump *d) {
  enum { INSTRUCTION = 4, UPVALUE = 3 };
  copy_string(d); /* source; in inner functions that of the outer */
  copy_size(d);   /* first and last line */
  copy_size(d);
  copy(d, 3); /* parameters, varargs, stack */
  copy(d, copy_size(d) * INSTRUCTION);
  for (size_t n = copy_size(d); n; n--) copy_constant(d);
  copy(d, copy_size(d) * UPVALUE);
  for (size_t n = copy_size(d); n; n--) copy_function(d);
  copy_lines(d);
  drop_names(d);
}

/* The chunk on top of the stack, without names; loads it again to be sure. */
static dump dump_module(lua_State *L, const char *path) {
  enum { HEADER = 4 + 1 + 1 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number) };
  dump d = {0};
  if (lua_dump(L, append, &d, 0)) fail(path, "cannot write");
  copy(&d, HEADER);
  copy(&d, 1); /* number of upvalues */
  copy_function(&d);
  if (d.at != d.size) fail(path, "not the format that is expected");
  if (luaL_loadbufferx(L, (const char *)d.bytes, d.length, path, "b"))
    fail(path, lua_tostring(L, -1));
  lua_pop(L, 1);
  return d;
}

/* ---- the C file ------------------------------------------------------------------ */

static void write_module(lua_State *L, FILE *file, module *entry, int number) {
  if (luaL_loadfilex(L, entry->path, "t")) fail("cannot compile", lua_tostring(L, -1));
  dump code = dump_module(L, entry->path);
  fprintf(file, "static const unsigned char code_%d[] = {\n", number);
  for (size_t i = 0; i < code.length; i++)
    fprintf(file, "%u,%s", code.bytes[i], (i + 1) % 24 ? "" : "\n");
  fprintf(file, "};\n\n");
  if (ferror(file)) fail(entry->path, "cannot write");
  lua_pop(L, 1);
  entry->size = code.length;
  free(code.bytes);
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
