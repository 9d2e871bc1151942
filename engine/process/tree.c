/* See tree.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 64 /* folders within a folder; each costs a descriptor while it is emptied */ };

static void remove_below(int parent, const char *name, int depth);

static void empty_folder(DIR *stream, int depth) {
  for (struct dirent *entry; (entry = readdir(stream));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    remove_below(dirfd(stream), entry->d_name, depth);
  }
}

static void remove_below(int parent, const char *name, int depth) {
  if (unlinkat(parent, name, 0) == 0 || depth == 0) return;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  DIR *stream = fdopendir(fd);
  if (stream) {
    empty_folder(stream, depth - 1);
    closedir(stream);
  } else {
    close(fd);
  }
  unlinkat(parent, name, AT_REMOVEDIR);
}

void tree_remove(int parent, const char *name) {
  remove_below(parent, name, DEPTH);
}
