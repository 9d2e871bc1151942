/* See descendants.h. /proc tells everybody's parent; descendants are found by spreading
 * from ourselves until nobody is added. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"

typedef struct relative {
  pid_t pid, parent, group;
  bool ours;
} relative;

/* Fields 1, 4 and 5 of /proc/PID/stat; the name in between may hold anything. */
static bool look(const char *pid, relative *out) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC); /* a stuck thread may hold stdio's locks */
  if (file < 0) return false;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  const char *rest = strrchr(text, ')');
  int parent, group;
  char state;
  if (!rest || sscanf(rest + 1, " %c %d %d", &state, &parent, &group) != 3) return false;
  *out = (relative){.pid = (pid_t)atoi(pid), .parent = parent, .group = group};
  return state != 'Z';
}

static void collect(buffer *found) {
  DIR *folder = opendir("/proc");
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    relative one;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !look(entry->d_name, &one)) continue;
    if (!buffer_append(found, &one, sizeof one)) break;
  }
  closedir(folder);
}

static bool is_ours(const relative *list, size_t count, pid_t pid) {
  for (size_t i = 0; i < count; i++)
    if (list[i].pid == pid) return list[i].ours;
  return false;
}

/* Marks children of those that are marked; false: there were none left. */
static bool spread(relative *list, size_t count) {
  bool more = false;
  for (size_t i = 0; i < count; i++) {
    if (list[i].ours || !is_ours(list, count, list[i].parent)) continue;
    more = list[i].ours = true;
  }
  return more;
}

/* Kills those of the group that are marked or descend from one that is. */
static void kill_marked(relative *list, size_t count, pid_t group) {
  while (spread(list, count)) continue;
  for (size_t i = 0; i < count; i++)
    if (list[i].ours && list[i].group == group && list[i].pid != getpid())
      kill(list[i].pid, SIGKILL);
}

static bool has_children(void) {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

void descendants_adopt(void) {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void descendants_kill(void) {
  if (!has_children()) return;
  buffer found = {0};
  collect(&found);
  relative *list = (relative *)(void *)found.data;
  size_t count = found.length / sizeof *list;
  for (size_t i = 0; i < count; i++) list[i].ours = list[i].pid == getpid();
  kill_marked(list, count, getpgrp());
  buffer_fini(&found);
}

/* Was the process started with `mark` in its environment? */
static bool carries(pid_t pid, const char *mark, buffer *scratch) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t length = 1;
  scratch->length = 0;
  while (length > 0 && buffer_reserve(scratch, 4096)) {
    length = read(file, scratch->data + scratch->length, 4096);
    if (length > 0) scratch->length += (size_t)length;
  }
  close(file);
  /* With its end, so that no longer word is taken for it. */
  return memmem(scratch->data, scratch->length, mark, strlen(mark) + 1) != NULL;
}

void descendants_kill_marked(const char *mark, pid_t group) {
  buffer found = {0}, scratch = {0};
  collect(&found);
  relative *list = (relative *)(void *)found.data;
  size_t count = found.length / sizeof *list;
  for (size_t i = 0; i < count; i++)
    list[i].ours = list[i].group == group && carries(list[i].pid, mark, &scratch);
  kill_marked(list, count, group);
  buffer_fini(&scratch);
  buffer_fini(&found);
}
