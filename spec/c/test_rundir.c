/* The run folder: what is made, what is refused, what is swept away. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/rundir.h"
#include "test.h"

static char runtime[64]; /* $XDG_RUNTIME_DIR of these tests */

static const char *below(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", runtime, name);
  return path;
}

static int exists(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0;
}

static void touch(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

static void remove_all(const char *path) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  if (system(command) != 0) abort();
}

static void fresh(void) {
  remove_all(below("lp"));
  setenv("XDG_RUNTIME_DIR", runtime, 1);
}

typedef struct seen {
  int count;
  char ids[256];
} seen;

static void note(void *owner, const char *id, const char *path) {
  seen *all = owner;
  all->count++;
  strcat(strcat(all->ids, id), " ");
  CHECK(strstr(path, id) != NULL);
}

static void makes_and_removes_a_private_folder(void) {
  rundir dir;
  struct stat info;
  fresh();
  CHECK(rundir_create("run-1_a", &dir, NULL) == LP_OK);
  CHECK(strcmp(dir.path, below("lp/run-1_a")) == 0);
  CHECK(stat(dir.path, &info) == 0 && (info.st_mode & 07777) == 0700);
  CHECK(fcntl(dir.lock_fd, F_GETFD) == FD_CLOEXEC);
  touch(below("lp/run-1_a/socket"));
  mkdir(below("lp/run-1_a/folder"), 0700);
  touch(below("lp/run-1_a/folder/file"));
  CHECK(symlink(runtime, below("lp/run-1_a/folder/link")) == 0);
  rundir_remove(&dir);
  CHECK(!exists(below("lp/run-1_a")) && exists(runtime) && dir.lock_fd == -1);
  rundir_remove(&dir);
}

static void writes_whole_files(void) {
  rundir dir;
  fault why;
  char text[32] = {0};
  fresh();
  CHECK(rundir_create("w", &dir, NULL) == LP_OK);
  CHECK(rundir_write(&dir, "manifest", "first and long", 14, NULL) == LP_OK);
  CHECK(rundir_write(&dir, "manifest", "second", 6, NULL) == LP_OK);
  int fd = open(below("lp/w/manifest"), O_RDONLY | O_CLOEXEC);
  CHECK(read(fd, text, sizeof text - 1) == 6 && strcmp(text, "second") == 0);
  close(fd);
  CHECK(rundir_write(&dir, "../x", "", 0, &why) == LP_INVALID_ARGUMENT);
  CHECK(rundir_write(&dir, "lock", "", 0, &why) == LP_INVALID_ARGUMENT);
  CHECK(rundir_write(&dir, "", "", 0, &why) == LP_INVALID_ARGUMENT);
  mkdir(below("lp/w/taken"), 0700);
  CHECK(rundir_write(&dir, "taken", "x", 1, &why) != LP_OK && strstr(why.text, "lp/w/taken"));
  CHECK(!exists(below("lp/w/.file.new")));
  rundir_remove(&dir);
}

static void a_live_id_is_refused_and_a_stale_one_taken(void) {
  rundir dir, again;
  fault why;
  fresh();
  CHECK(rundir_create("same", &dir, NULL) == LP_OK);
  CHECK(rundir_create("same", &again, &why) == LP_ALREADY_EXISTS);
  CHECK(strstr(why.text, dir.path) && again.lock_fd == -1);
  CHECK(rundir_sweep(dir.path) == 0 && exists(dir.path));
  touch(below("lp/same/old"));
  close(dir.lock_fd);
  CHECK(rundir_create("same", &again, &why) == LP_OK);
  CHECK(!exists(below("lp/same/old")));
  rundir_remove(&again);
}

static void lists_the_live_and_sweeps_the_stale(void) {
  rundir live, dead;
  seen all = {0};
  fresh();
  CHECK(rundir_each(note, &all, NULL) == LP_OK && all.count == 0);
  CHECK(!exists(below("lp")));
  CHECK(rundir_create("live", &live, NULL) == LP_OK);
  CHECK(rundir_create("dead", &dead, NULL) == LP_OK);
  close(dead.lock_fd);
  mkdir(below("lp/half"), 0700);
  touch(below("lp/file"));
  CHECK(symlink(live.path, below("lp/link")) == 0);
  CHECK(rundir_each(note, &all, NULL) == LP_OK);
  CHECK(all.count == 1 && strcmp(all.ids, "live ") == 0);
  CHECK(!exists(below("lp/dead")) && !exists(below("lp/half")));
  CHECK(exists(below("lp/file")) && exists(below("lp/link")));
  rundir_remove(&live);
}

static void a_dead_process_leaves_a_stale_folder(void) {
  fresh();
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    rundir dir;
    if (rundir_create("killed", &dir, NULL) == LP_OK) (void)!write(ends[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  CHECK(read(ends[0], &byte, 1) == 1);
  CHECK(rundir_sweep(below("lp/killed")) == 0);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  CHECK(rundir_sweep(below("lp/killed")) == 1 && !exists(below("lp/killed")));
  CHECK(rundir_sweep(below("lp/killed")) == 1);
  CHECK(rundir_sweep(below("nowhere/killed")) == 1);
  CHECK(rundir_sweep("killed") == 0 && rundir_sweep("/") == 0 && rundir_sweep("") == 0);
  close(ends[0]);
  close(ends[1]);
}

/* The run was swept by hand and its id taken again: the first owner must not remove it. */
static void removal_spares_a_folder_made_anew(void) {
  rundir first, second;
  fresh();
  CHECK(rundir_create("r", &first, NULL) == LP_OK);
  remove_all(first.path);
  CHECK(rundir_create("r", &second, NULL) == LP_OK);
  rundir_remove(&first);
  CHECK(exists(second.path));
  rundir_remove(&second);
  CHECK(!exists(second.path));
}

static void refused(const char *id, lp_status status, const char *says, const char *remedy) {
  rundir dir;
  fault why = {0};
  lp_status got = rundir_create(id, &dir, &why);
  CHECK(got == status && dir.lock_fd == -1);
  if (!strstr(why.text, says) || !strstr(why.text, remedy)) {
    CHECK(!"text names thing and remedy");
    fprintf(stderr, "  text: %s\n  wanted: %s / %s\n", why.text, says, remedy);
  }
}

static void refuses_links_and_foreign_folders(void) {
  fresh();
  CHECK(symlink("/tmp", below("lp")) == 0);
  refused("x", LP_PERMISSION_DENIED, below("lp"), "symbolic link");
  fresh();
  touch(below("lp"));
  refused("x", LP_PERMISSION_DENIED, below("lp"), "remove it");
  fresh();
  mkdir(below("lp"), 0700);
  chmod(below("lp"), 0755);
  refused("x", LP_PERMISSION_DENIED, "mode 0755", "chmod 700");
  CHECK(rundir_each(note, NULL, NULL) == LP_PERMISSION_DENIED);
  chmod(below("lp"), 0700);
  CHECK(symlink("/tmp", below("lp/x")) == 0);
  refused("x", LP_PERMISSION_DENIED, below("lp/x"), "symbolic link");
  mkdir(below("lp/y"), 0770);
  chmod(below("lp/y"), 0770);
  refused("y", LP_PERMISSION_DENIED, below("lp/y"), "chmod 700");
  CHECK(exists(below("lp/y")));
  if (geteuid() != 0 || chown(below("lp"), 12345, 0) != 0) return;
  refused("x", LP_PERMISSION_DENIED, "belongs to user 12345", "XDG_RUNTIME_DIR");
}

static void refuses_ids_that_are_no_names(void) {
  fresh();
  static const char *const ids[] = {"", ".", "..", "a/b", "a b", "a.b", "\xff"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    refused(ids[i], LP_INVALID_ARGUMENT, ids[i], "letters");
}

static void refuses_long_paths(void) {
  char name[RUNDIR_PATH + 1];
  fresh();
  memset(name, 'n', sizeof name);
  name[sizeof name - 1] = '\0';
  refused(name, LP_INVALID_ARGUMENT, name, "shorter");
  name[RUNDIR_PATH - 1 - strlen(below("lp/"))] = '\0'; /* just fits */
  rundir dir;
  CHECK(rundir_create(name, &dir, NULL) == LP_OK && strlen(dir.path) == RUNDIR_PATH - 1);
  rundir_remove(&dir);
  char deep[200];
  snprintf(deep, sizeof deep, "%s/%0100d", runtime, 0);
  mkdir(deep, 0700);
  setenv("XDG_RUNTIME_DIR", deep, 1);
  refused("x", LP_INVALID_ARGUMENT, deep, "shorter");
  rmdir(deep);
}

static void falls_back_to_tmp(void) {
  char wanted[64], base[RUNDIR_PATH];
  snprintf(wanted, sizeof wanted, "/tmp/lp-%u", (unsigned)geteuid());
  unsetenv("XDG_RUNTIME_DIR");
  CHECK(rundir_base(base, sizeof base, NULL) == LP_OK && strcmp(base, wanted) == 0);
  setenv("XDG_RUNTIME_DIR", "relative", 1);
  CHECK(rundir_base(base, sizeof base, NULL) == LP_OK && strcmp(base, wanted) == 0);
  setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
  CHECK(rundir_base(base, sizeof base, NULL) == LP_OK && strcmp(base, wanted) == 0);
  setenv("XDG_RUNTIME_DIR", "/tmp", 1); /* writable by others */
  CHECK(rundir_base(base, sizeof base, NULL) == LP_OK && strcmp(base, wanted) == 0);
  CHECK(rundir_base(base, 4, NULL) == LP_INVALID_ARGUMENT);
}

static void each_names_no_folder_it_cannot_read(void) {
  fresh();
  touch(below("lp"));
  fault why = {0};
  CHECK(rundir_each(note, NULL, &why) == LP_PERMISSION_DENIED && strstr(why.text, below("lp")));
}

static void a_file_that_cannot_be_written_leaves_the_old_one(void) {
  rundir dir;
  fault why = {0};
  char text[8] = {0};
  struct rlimit limit, small;
  fresh();
  CHECK(rundir_create("full", &dir, NULL) == LP_OK);
  CHECK(rundir_write(&dir, "manifest", "old", 3, NULL) == LP_OK);
  getrlimit(RLIMIT_FSIZE, &limit);
  small = limit;
  small.rlim_cur = 4;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK(rundir_write(&dir, "manifest", "new and longer", 14, &why) != LP_OK);
  setrlimit(RLIMIT_FSIZE, &limit);
  CHECK(strstr(why.text, "lp/full/manifest: File too large") != NULL);
  int fd = open(below("lp/full/manifest"), O_RDONLY | O_CLOEXEC);
  CHECK(read(fd, text, sizeof text - 1) == 3 && strcmp(text, "old") == 0);
  close(fd);
  CHECK(!exists(below("lp/full/.file.new")));
  rundir_remove(&dir);
}

enum { ROUNDS = 300 };
static atomic_int failures, working;

static void *create_and_remove(void *arg) {
  const char *id = arg;
  for (int i = 0; i < ROUNDS; i++) {
    rundir dir;
    fault why;
    if (rundir_create(id, &dir, &why) != LP_OK) {
      fprintf(stderr, "round %d: %s\n", i, why.text);
      failures++;
      continue;
    }
    if (rundir_write(&dir, "manifest", "m", 1, NULL) != LP_OK) failures++;
    if (rundir_sweep(dir.path) || !exists(dir.path)) failures++;
    if (i % 3)
      rundir_remove(&dir);
    else
      close(dir.lock_fd);
  }
  working--;
  return NULL;
}

static void count(void *owner, const char *id, const char *path) {
  (void)id;
  (void)path;
  ++*(int *)owner;
}

static void *list_and_sweep(void *arg) {
  int live = 0;
  while (working) {
    if (rundir_each(count, &live, NULL) != LP_OK) failures++;
    rundir_sweep(arg);
  }
  return NULL;
}

static void creating_and_sweeping_at_once(void) {
  pthread_t threads[4];
  char path[256];
  fresh();
  snprintf(path, sizeof path, "%s", below("lp/one"));
  failures = 0;
  working = 2;
  static char one[] = "one", two[] = "two";
  pthread_create(&threads[0], NULL, create_and_remove, one);
  pthread_create(&threads[1], NULL, create_and_remove, two);
  pthread_create(&threads[2], NULL, list_and_sweep, path);
  pthread_create(&threads[3], NULL, list_and_sweep, path);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  CHECK(failures == 0);
}

int main(void) {
  snprintf(runtime, sizeof runtime, "/tmp/lp-test-XXXXXX");
  if (!mkdtemp(runtime)) return 1;
  RUN(makes_and_removes_a_private_folder);
  RUN(writes_whole_files);
  RUN(a_live_id_is_refused_and_a_stale_one_taken);
  RUN(lists_the_live_and_sweeps_the_stale);
  RUN(a_dead_process_leaves_a_stale_folder);
  RUN(removal_spares_a_folder_made_anew);
  RUN(refuses_links_and_foreign_folders);
  RUN(refuses_ids_that_are_no_names);
  RUN(refuses_long_paths);
  RUN(falls_back_to_tmp);
  RUN(each_names_no_folder_it_cannot_read);
  RUN(a_file_that_cannot_be_written_leaves_the_old_one);
  RUN(creating_and_sweeping_at_once);
  remove_all(runtime);
  return TEST_END();
}
