/* See embedded.h. */
#include "api/embedded.h"

#include <stdlib.h>
#include <string.h>

static int compare_name(const void *name, const void *module) {
  return strcmp(name, ((const embedded_module *)module)->name);
}

const struct embedded_module *embedded_find(const char *name) {
  return bsearch(name, embedded_modules, embedded_count, sizeof *embedded_modules, compare_name);
}
