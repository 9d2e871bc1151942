/* See tmpdir.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/tmpdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/tree.h"

static const char PREFIX[] = "lp-tmp.";

static const char *base(void) {
  const char *given = getenv("TMPDIR");
  return given && *given ? given : "/tmp";
}

lp_status tmpdir_create(char *out, size_t size, fault *fault) {
  int length = snprintf(out, size, "%s/%s%d.XXXXXX", base(), PREFIX, (int)getpid());
  if (length < 0 || (size_t)length >= size)
    return fault_set(fault, LP_INVALID_ARGUMENT, "TMPDIR is too long: %.100s", base());
  if (mkdtemp(out)) return LP_OK;
  return fault_set(fault, LP_FAILED_PRECONDITION, "cannot make a temporary folder in %s: %s",
                   base(), strerror(errno));
}

/* The process that made the folder `name`; 0: it is none of ours by its name. */
static pid_t maker(const char *name) {
  if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0) return 0;
  char *end;
  long pid = strtol(name + sizeof PREFIX - 1, &end, 10);
  return pid > 0 && *end == '.' ? (pid_t)pid : 0;
}

void tmpdir_remove(const char *path) {
  const char *name = strrchr(path, '/');
  if (name && maker(name + 1)) tree_remove(AT_FDCWD, path);
}

static bool is_ours(int folder, const char *name) {
  struct stat info;
  return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == geteuid();
}

void tmpdir_sweep(void) {
  DIR *stream = opendir(base());
  if (!stream) return;
  for (struct dirent *entry; (entry = readdir(stream));) {
    pid_t pid = maker(entry->d_name);
    if (!pid || kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (is_ours(dirfd(stream), entry->d_name)) tree_remove(dirfd(stream), entry->d_name);
  }
  closedir(stream);
}
