/* The run folder. See rundir.h.
 *
 * Every folder is opened once, without following a link, checked through its descriptor
 * and then used through it, so that nothing can be exchanged between check and use.
 *
 * Two locks (flock). A run holds an exclusive one on its file `lock` while it lives;
 * whoever asks whether it lives tries a shared one, so two that ask do not mistake each
 * other for the run. The file gets its name when it is locked already. The base
 * folder is locked while a run folder is made or removed, so a sweeper never sees one
 * half made. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/rundir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "process/tree.h"

enum {
  OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
  OPEN_NEW = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
  BASE_WAIT_MS = 2000 /* for the base's lock; its holders take well under a millisecond */
};

static const char LOCK[] = "lock", LOCK_NEW[] = ".lock.new", FILE_NEW[] = ".file.new";

static lp_status code_of(int error) {
  switch (error) {
    case ENOENT: return LP_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS: return LP_PERMISSION_DENIED;
    case EEXIST: return LP_ALREADY_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return LP_RESOURCE_EXHAUSTED;
    default: return LP_FAILED_PRECONDITION;
  }
}

static lp_status cannot(fault *why, const char *verb, const char *path, int error) {
  return fault_set(why, code_of(error), "cannot %s %s: %s", verb, path, strerror(error));
}

/* ---- folders of ours -------------------------------------------------------- */

static bool is_ours(const struct stat *info) {
  return S_ISDIR(info->st_mode) && info->st_uid == geteuid() && (info->st_mode & 0777) == 0700;
}

static lp_status refuse(const struct stat *info, const char *path, fault *why) {
  if (info->st_uid != geteuid())
    return fault_set(why, LP_PERMISSION_DENIED,
                     "folder %s belongs to user %u, not to us (%u): set XDG_RUNTIME_DIR to a "
                     "folder of your own",
                     path, (unsigned)info->st_uid, (unsigned)geteuid());
  return fault_set(why, LP_PERMISSION_DENIED,
                   "folder %s has mode %04o, which lets others in: run `chmod 700 %s`", path,
                   (unsigned)info->st_mode & 07777, path);
}

static lp_status cannot_open(int parent, const char *name, const char *path, int error,
                             fault *why) {
  struct stat info;
  bool is_other = error == ELOOP || error == ENOTDIR;
  if (is_other && fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
    return fault_set(
        why, LP_PERMISSION_DENIED,
        "%s is a %s, not a folder: remove it, or set XDG_RUNTIME_DIR to another folder", path,
        S_ISLNK(info.st_mode) ? "symbolic link" : "file");
  return cannot(why, "open folder", path, error);
}

/* Opens the folder `name` in `parent` when it is private to us. `path` is for messages. */
static lp_status open_ours(int parent, const char *name, const char *path, int *fd, fault *why) {
  struct stat info;
  *fd = openat(parent, name, OPEN_FOLDER);
  if (*fd < 0) return cannot_open(parent, name, path, errno, why);
  if (fstat(*fd, &info) == 0 && is_ours(&info)) return LP_OK;
  close(*fd);
  *fd = -1;
  return refuse(&info, path, why);
}

static lp_status make_ours(const char *path, int *fd, fault *why) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST)
    return fault_set(why, code_of(errno),
                     "cannot make folder %s: %s; set XDG_RUNTIME_DIR to a folder of your own", path,
                     strerror(errno));
  return open_ours(AT_FDCWD, path, path, fd, why);
}

/* ---- the base folder -------------------------------------------------------- */

/* $XDG_RUNTIME_DIR when it is what its specification demands, else NULL. */
static const char *runtime_folder(void) {
  struct stat info;
  const char *path = getenv("XDG_RUNTIME_DIR");
  if (!path || path[0] != '/' || stat(path, &info) != 0) return NULL;
  bool is_private = info.st_uid == geteuid() && (info.st_mode & 022) == 0;
  return S_ISDIR(info.st_mode) && is_private ? path : NULL;
}

static lp_status base_path(char *out, size_t size, fault *why) {
  const char *runtime = runtime_folder();
  int length = runtime ? snprintf(out, size, "%s/lp", runtime)
                       : snprintf(out, size, "/tmp/lp-%u", (unsigned)geteuid());
  if (length >= 0 && (size_t)length < size) return LP_OK;
  return fault_set(why, LP_INVALID_ARGUMENT,
                   "folder %s/lp is too long for a socket's address (at most %d bytes): set "
                   "XDG_RUNTIME_DIR to a shorter path",
                   runtime ? runtime : "/tmp", RUNDIR_PATH - 1);
}

lp_status rundir_base(char *out, size_t size, fault *why) {
  int fd;
  lp_status status = base_path(out, size, why);
  if (status == LP_OK) status = make_ours(out, &fd, why);
  if (status == LP_OK) close(fd);
  return status;
}

static bool lock_within(int fd, int operation, int wait_ms) {
  for (int waited = 0; flock(fd, operation | LOCK_NB) != 0; waited++) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= wait_ms) return false;
    usleep(1000);
  }
  return true;
}

/* Opens and locks the base; closing `fd` lets the lock go. */
static lp_status lock_base(const char *path, int *fd, fault *why) {
  lp_status status = open_ours(AT_FDCWD, path, path, fd, why);
  if (status != LP_OK || lock_within(*fd, LOCK_EX, BASE_WAIT_MS)) return status;
  close(*fd);
  return fault_set(why, LP_UNAVAILABLE,
                   "folder %s is locked by another command, which may be stopped: `fuser %s` names "
                   "it",
                   path, path);
}

/* ---- one run's folder ------------------------------------------------------- */

static bool is_valid_id(const char *id) {
  for (const char *at = id; *at; at++)
    if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_') return false;
  return *id != '\0';
}

static lp_status run_path(const char *id, const char *base, char *out, fault *why) {
  if (!is_valid_id(id))
    return fault_set(why, LP_INVALID_ARGUMENT,
                     "run id '%s' is not valid: only letters, digits, - and _ may stand in it", id);
  int length = snprintf(out, RUNDIR_PATH, "%s/%s", base, id);
  if (length >= 0 && length < RUNDIR_PATH) return LP_OK;
  return fault_set(why, LP_INVALID_ARGUMENT,
                   "folder %s/%s is too long for a socket's address (at most %d bytes): take a "
                   "shorter run id, or set XDG_RUNTIME_DIR to a shorter path",
                   base, id, RUNDIR_PATH - 1);
}

/* Somebody holds the lock of the run whose folder is `folder`. */
static bool is_live(int folder) {
  int fd = openat(folder, LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno != ENOENT && errno != ELOOP;
  bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

/* Removes the run folder `id` unless it is live; the caller holds the base's lock. */
static bool sweep(int base, const char *id) {
  int folder;
  if (open_ours(base, id, id, &folder, NULL) != LP_OK)
    return faccessat(base, id, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
  bool live = is_live(folder);
  close(folder);
  if (live) return false;
  tree_remove(base, id);
  return faccessat(base, id, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

/* Makes the file `lock`, locked from the moment it has that name; -1 (errno). */
static int make_lock(int folder) {
  int fd = openat(folder, LOCK_NEW, OPEN_NEW, 0600);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && renameat(folder, LOCK_NEW, folder, LOCK) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static lp_status make_run(int base, const char *id, rundir *out, fault *why) {
  int folder;
  if (mkdirat(base, id, 0700) != 0) return cannot(why, "make folder", out->path, errno);
  lp_status status = open_ours(base, id, out->path, &folder, why);
  if (status == LP_OK) {
    out->lock_fd = make_lock(folder);
    if (out->lock_fd < 0) status = cannot(why, "make the lock of folder", out->path, errno);
    close(folder);
  }
  /* Empty it goes without a descriptor, of which there may be none left. */
  if (status != LP_OK && unlinkat(base, id, AT_REMOVEDIR) != 0) tree_remove(base, id);
  return status;
}

/* Why the folder at `path` could not be swept away. */
static lp_status taken(int base, const char *id, const char *path, fault *why) {
  int folder;
  lp_status status = open_ours(base, id, path, &folder, why);
  if (status != LP_OK) return status;
  close(folder);
  return fault_set(why, LP_ALREADY_EXISTS, "folder %s is in use by a run: take another run id",
                   path);
}

lp_status rundir_create(const char *id, rundir *out, fault *why) {
  char base[RUNDIR_PATH];
  int fd;
  *out = (rundir){.lock_fd = -1};
  lp_status status = rundir_base(base, sizeof base, why);
  if (status == LP_OK) status = run_path(id, base, out->path, why);
  if (status == LP_OK) status = lock_base(base, &fd, why);
  if (status != LP_OK) return status;
  status = sweep(fd, id) ? make_run(fd, id, out, why) : taken(fd, id, out->path, why);
  close(fd);
  return status;
}

/* ---- files in it ------------------------------------------------------------ */

static int write_all(int fd, const char *text, size_t length) {
  while (length) {
    ssize_t wrote = write(fd, text, length);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    text += wrote;
    length -= (size_t)wrote;
  }
  return 0;
}

/* 0 or an error number; the new file is gone after an error. */
static int replace_file(int folder, const char *name, const char *text, size_t length) {
  unlinkat(folder, FILE_NEW, 0);
  int fd = openat(folder, FILE_NEW, OPEN_NEW, 0600);
  if (fd < 0) return errno;
  int error = write_all(fd, text, length);
  if (close(fd) != 0 && !error) error = errno;
  if (!error && renameat(folder, FILE_NEW, folder, name) != 0) error = errno;
  if (error) unlinkat(folder, FILE_NEW, 0);
  return error;
}

lp_status rundir_write(const rundir *dir, const char *name, const char *text, size_t length,
                       fault *why) {
  int folder;
  if (!*name || *name == '.' || strchr(name, '/') || strcmp(name, LOCK) == 0)
    return fault_set(why, LP_INVALID_ARGUMENT, "'%s' cannot name a file of a run folder", name);
  lp_status status = open_ours(AT_FDCWD, dir->path, dir->path, &folder, why);
  if (status != LP_OK) return status;
  int error = replace_file(folder, name, text, length);
  close(folder);
  if (!error) return LP_OK;
  return fault_set(why, code_of(error), "cannot write %s/%s: %s", dir->path, name, strerror(error));
}

/* ---- removal ---------------------------------------------------------------- */

/* Splits `path` into the base's path (copied to `base`) and the run's id; NULL: it is no
 * path of a run folder. */
static const char *split(const char *path, char base[RUNDIR_PATH]) {
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path || slash - path >= RUNDIR_PATH || !is_valid_id(slash + 1))
    return NULL;
  memcpy(base, path, (size_t)(slash - path));
  base[slash - path] = '\0';
  return slash + 1;
}

/* The lock we hold is the one in the folder: nobody has removed and made it anew. */
static bool holds_lock(const rundir *dir, int base, const char *id) {
  struct stat ours, theirs;
  char lock[RUNDIR_PATH + sizeof LOCK];
  snprintf(lock, sizeof lock, "%s/%s", id, LOCK);
  return fstat(dir->lock_fd, &ours) == 0 &&
         fstatat(base, lock, &theirs, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

void rundir_remove(rundir *dir) {
  char path[RUNDIR_PATH];
  int base;
  if (dir->lock_fd < 0) return;
  const char *id = split(dir->path, path);
  bool ours = true;
  if (id && lock_base(path, &base, NULL) == LP_OK) {
    ours = holds_lock(dir, base, id);
    if (ours) tree_remove(base, id);
    close(base);
  }
  close(dir->lock_fd);
  dir->lock_fd = -1;
  /* Had descriptors run out? The one just closed is enough. */
  if (ours && access(dir->path, F_OK) == 0) tree_remove(AT_FDCWD, dir->path);
}

int rundir_sweep(const char *path) {
  char base[RUNDIR_PATH];
  int fd;
  const char *id = split(path, base);
  if (!id) return 0;
  if (access(base, F_OK) != 0 && errno == ENOENT) return 1;
  if (lock_base(base, &fd, NULL) != LP_OK) return 0;
  bool gone = sweep(fd, id);
  close(fd);
  return gone;
}

/* ---- all runs --------------------------------------------------------------- */

/* The ids of live runs, each ended by a zero byte; stale folders are removed when nobody
 * else is at it. False: memory is out. */
static bool collect(DIR *stream, buffer *ids) {
  int base = dirfd(stream), folder;
  bool may_sweep = lock_within(base, LOCK_EX, 0);
  for (struct dirent *entry; (entry = readdir(stream));) {
    const char *id = entry->d_name;
    if (!is_valid_id(id) || open_ours(base, id, id, &folder, NULL) != LP_OK) continue;
    bool live = is_live(folder);
    close(folder);
    if (live && !buffer_append(ids, id, strlen(id) + 1)) return false;
    if (!live && may_sweep) sweep(base, id);
  }
  return true;
}

static void tell(const buffer *ids, const char *base, rundir_fn fn, void *owner) {
  char path[RUNDIR_PATH];
  for (size_t at = 0; at < ids->length;) {
    const char *id = (const char *)ids->data + at;
    if (run_path(id, base, path, NULL) == LP_OK) fn(owner, id, path);
    at += strlen(id) + 1;
  }
}

/* `fn` is called when no lock is held and no folder open, since it may take its time. */
lp_status rundir_each(rundir_fn fn, void *owner, fault *why) {
  char base[RUNDIR_PATH];
  int fd;
  buffer ids = {0};
  lp_status status = base_path(base, sizeof base, why);
  if (status != LP_OK || (access(base, F_OK) != 0 && errno == ENOENT)) return status;
  status = open_ours(AT_FDCWD, base, base, &fd, why);
  if (status != LP_OK) return status;
  DIR *stream = fdopendir(fd);
  if (!stream) {
    status = cannot(why, "read folder", base, errno);
    close(fd);
    return status;
  }
  if (!collect(stream, &ids)) status = fault_set(why, LP_RESOURCE_EXHAUSTED, "out of memory");
  closedir(stream);
  if (status == LP_OK) tell(&ids, base, fn, owner);
  buffer_fini(&ids);
  return status;
}
