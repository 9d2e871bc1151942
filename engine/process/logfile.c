/* See logfile.h. Whether another program writes to a file is seen by its lock (flock). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum { MOST_NAMES = 1000, OPEN = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW };

struct logfile {
  int fd;
  size_t size, limit, lost;
  int cause;
  bool torn; /* the last line was written in part */
  char path[PATH_MAX];
};

/* Makes the folders that lead to `path`. */
static int make_folders(const char *path) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return errno;
    *slash = '/';
  }
  return 0;
}

/* Opens and locks the file; EWOULDBLOCK: somebody else writes to it. */
static int open_locked(logfile *file) {
  file->fd = open(file->path, OPEN, 0666);
  if (file->fd < 0) return errno;
  if (flock(file->fd, LOCK_EX | LOCK_NB) == 0) return 0;
  int error = errno;
  close(file->fd);
  file->fd = -1;
  return error;
}

static int open_first_free(logfile *file, const char *path) {
  int error = EWOULDBLOCK;
  for (int number = 0; number < MOST_NAMES && error == EWOULDBLOCK; number++) {
    char suffix[16] = "";
    if (number) snprintf(suffix, sizeof suffix, "_%d", number);
    int length = snprintf(file->path, sizeof file->path, "%s%s", path, suffix);
    if (length < 0 || (size_t)length + 4 >= sizeof file->path) return ENAMETOOLONG;
    error = open_locked(file);
  }
  return error;
}

lp_status logfile_open(const char *path, size_t limit_bytes, logfile **out, fault *fault) {
  logfile *file = mem_new(sizeof *file);
  if (!file) return fault_set(fault, LP_RESOURCE_EXHAUSTED, "no memory for log file %s", path);
  *file = (logfile){.fd = -1, .limit = limit_bytes};
  int error = make_folders(path);
  if (!error) error = open_first_free(file, path);
  if (!error && ftruncate(file->fd, 0) != 0) error = errno;
  if (!error) {
    *out = file;
    return LP_OK;
  }
  logfile_close(file);
  return fault_set(fault, LP_FAILED_PRECONDITION, "cannot write log file %s: %s", path,
                   strerror(error));
}

void logfile_close(logfile *file) {
  if (!file) return;
  if (file->fd >= 0) close(file->fd);
  mem_free(file);
}

const char *logfile_path(const logfile *file) {
  return file->path;
}

size_t logfile_lost(const logfile *file, int *cause) {
  *cause = file->cause;
  return file->lost;
}

static void old_path(const logfile *file, int number, char *out, size_t size) {
  snprintf(out, size, number ? "%s.%d" : "%s", file->path, number);
}

/* When that is not possible the file goes on growing: lines are worth more than its size. */
static void rotate(logfile *file) {
  char from[PATH_MAX + 16], to[PATH_MAX + 16];
  for (int number = LOGFILE_OLD; number > 0; number--) {
    old_path(file, number - 1, from, sizeof from);
    old_path(file, number, to, sizeof to);
    if (rename(from, to) != 0 && errno != ENOENT) return;
  }
  int old = file->fd;
  if (open_locked(file) == 0) {
    close(old);
    file->size = 0;
    file->torn = false;
  } else {
    file->fd = old;
  }
}

static bool write_all(logfile *file, const char *bytes, size_t count) {
  while (count) {
    ssize_t wrote = write(file->fd, bytes, count);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      file->lost += count;
      if (!file->cause) file->cause = wrote < 0 ? errno : ENOSPC;
      return false;
    }
    file->size += (size_t)wrote;
    bytes += wrote;
    count -= (size_t)wrote;
  }
  return true;
}

void logfile_write(logfile *file, const char *text, size_t length) {
  if (!length) return;
  if (file->limit && file->size && file->size + length > file->limit) rotate(file);
  if (file->torn && !write_all(file, "\n", 1)) {
    file->lost += length;
    return;
  }
  size_t before = file->size;
  bool whole = write_all(file, text, length);
  if (whole && text[length - 1] != '\n') whole = write_all(file, "\n", 1);
  file->torn = !whole && (file->size > before || file->torn);
  if (whole) file->torn = false;
}
