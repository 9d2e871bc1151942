/* Starting and watching children. An end is waited for through the poller or as the
 * end-of-file of a pipe that every process of the group holds. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/spawn.h"
#include "test.h"

static poller *loop;

typedef struct ending {
  int calls, status, signal;
  child *watched;
  int frees; /* frees the child within the call */
} ending;

static void on_end(void *owner, pid_t pid, int status, int signal) {
  ending *end = owner;
  end->calls++;
  end->status = status;
  end->signal = signal;
  CHECK(child_pid(end->watched) == pid);
  if (end->frees) child_free(end->watched);
}

static void wait_for(ending *end) {
  while (!end->calls) poller_wait(loop, -1);
}

static pid_t start(const char *script, int out, int err) {
  char *argv[] = {"sh", "-c", (char *)script, NULL};
  spawn_request request = {.file = "sh", .argv = argv, .stdout_fd = out, .stderr_fd = err};
  fault why;
  pid_t pid = -1;
  if (spawn_process(&request, &pid, &why) != LP_OK) fprintf(stderr, "%s\n", why.text);
  return pid;
}

static void watch(ending *end, pid_t pid) {
  *end = (ending){0};
  end->watched = child_watch(loop, pid, on_end, end, NULL);
  CHECK(end->watched != NULL);
}

/* Everything written to the pipe until nobody holds its write end any more. */
static size_t read_all(int fd, char *text, size_t size) {
  size_t length = 0;
  ssize_t got;
  while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
    length += (size_t)got;
  text[length] = '\0';
  close(fd);
  return length;
}

/* Runs the request with standard output into `text`, waits for its end. */
static ending run(spawn_request *request, char *text, size_t size) {
  int ends[2];
  pid_t pid = -1;
  fault why = {0};
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  request->stdout_fd = ends[1];
  lp_status status = spawn_process(request, &pid, &why);
  CHECK(status == LP_OK);
  close(ends[1]);
  ending end = {0};
  if (status == LP_OK) {
    watch(&end, pid);
    read_all(ends[0], text, size);
    wait_for(&end);
    child_free(end.watched);
  }
  return end;
}

static ending run_shell(const char *script, char *text, size_t size) {
  char *argv[] = {"sh", "-c", (char *)script, NULL};
  spawn_request request = {.file = "sh", .argv = argv, .stderr_fd = -1};
  return run(&request, text, size);
}

static int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static int no_child_left(void) {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static void tells_exit_status_and_signal(void) {
  char text[64];
  ending end = run_shell("exit 0", text, sizeof text);
  CHECK(end.calls == 1 && end.status == 0 && end.signal == 0);
  end = run_shell("exit 3", text, sizeof text);
  CHECK(end.status == 3 && end.signal == 0);
  end = run_shell("exit 255", text, sizeof text);
  CHECK(end.status == 255 && end.signal == 0);
  end = run_shell("kill -TERM $$", text, sizeof text);
  CHECK(end.status == 0 && end.signal == SIGTERM);
  end = run_shell("kill -SEGV $$", text, sizeof text); /* with or without a core */
  CHECK(end.status == 0 && end.signal == SIGSEGV);
  CHECK(no_child_left());
}

static void names_what_cannot_be_started(void) {
  char *argv[] = {"x", NULL};
  spawn_request request = {.file = "/no/such", .argv = argv, .stdout_fd = -1, .stderr_fd = -1};
  fault why;
  pid_t pid;
  CHECK(spawn_process(&request, &pid, &why) == LP_NOT_FOUND);
  CHECK(strcmp(why.text, "cannot start /no/such: No such file or directory") == 0);
  request.file = "/etc/passwd";
  CHECK(spawn_process(&request, &pid, &why) == LP_PERMISSION_DENIED);
  CHECK(strstr(why.text, "/etc/passwd: Permission denied") != NULL);
  request = (spawn_request){.file = "true", .argv = argv, .folder = "/nowhere"};
  request.stdout_fd = request.stderr_fd = -1;
  CHECK(spawn_process(&request, &pid, &why) == LP_NOT_FOUND);
  CHECK(strcmp(why.text, "cannot start true in /nowhere: No such file or directory") == 0);
  request.folder = "/etc/passwd";
  CHECK(spawn_process(&request, &pid, &why) == LP_NOT_FOUND);
  CHECK(strstr(why.text, "in /etc/passwd: Not a directory") != NULL);
  request.folder = NULL;
  request.stdout_fd = 9999;
  CHECK(spawn_process(&request, &pid, &why) != LP_OK && strstr(why.text, "Bad file"));
  CHECK(no_child_left());
}

static void gives_folder_environment_and_empty_input(void) {
  char text[256];
  char *argv[] = {"sh", "-c", "pwd; echo $A; readlink /proc/self/fd/0; wc -c", NULL};
  char *envp[] = {"A=value", "PATH=/bin:/usr/bin", NULL};
  spawn_request request = {.file = "sh", .argv = argv, .envp = envp, .folder = "/usr"};
  request.stderr_fd = -1;
  run(&request, text, sizeof text);
  CHECK(strcmp(text, "/usr\nvalue\n/dev/null\n0\n") == 0);
}

static void the_child_has_three_descriptors(void) {
  char text[256];
  int extra[50];
  for (int i = 0; i < 50; i++) extra[i] = open("/dev/null", O_RDONLY); /* without CLOEXEC */
  CHECK(dup2(extra[0], 700) == 700);
  char *argv[] = {"ls", "/proc/self/fd", NULL};
  spawn_request request = {.file = "ls", .argv = argv, .stderr_fd = -1};
  run(&request, text, sizeof text);
  CHECK(strcmp(text, "0\n1\n2\n3\n") == 0); /* 3 is the folder that ls reads */
  for (int i = 0; i < 50; i++) close(extra[i]);
  close(700);
}

static void the_child_has_default_signals_and_its_own_group(void) {
  char text[256], wanted[64];
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  char *argv[] = {"grep", "-hE", "^Sig(Blk|Ign)", "/proc/self/status", NULL};
  spawn_request request = {.file = "grep", .argv = argv, .stderr_fd = -1};
  run(&request, text, sizeof text);
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  unsigned long long blocked = 1, ignored = 1;
  CHECK(sscanf(text, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored) == 2);
  CHECK(blocked == 0);
  CHECK((ignored & ~0x180000000ULL) == 0); /* glibc keeps 32 and 33 for itself */
  run_shell(
      "read pid name state parent group session rest < /proc/$$/stat; "
      "test $group = $$ && echo $session",
      text, sizeof text);
  snprintf(wanted, sizeof wanted, "%d\n", (int)getsid(0));
  CHECK(strcmp(text, wanted) == 0);
}

/* What reaches the whole group before the child has left it must not end the child. */
static void a_deaf_child_forgets_what_came_before_it_listens(void) {
  char text[256];
  char *argv[] = {"grep", "-hE", "^SigBlk", "/proc/self/status", NULL};
  spawn_request request = {.file = "grep", .argv = argv, .stderr_fd = -1, .deaf = true};
  run(&request, text, sizeof text);
  unsigned long long blocked = 0, wanted = 0;
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  sigset_t mask, before;
  sigemptyset(&mask);
  for (int i = 0; i < 4; i++) {
    wanted |= 1ULL << (numbers[i] - 1);
    sigaddset(&mask, numbers[i]);
  }
  CHECK(sscanf(text, "SigBlk: %llx", &blocked) == 1 && blocked == wanted);
  pthread_sigmask(SIG_BLOCK, &mask, &before);
  for (int i = 0; i < 4; i++) raise(numbers[i]); /* they wait; each of them would end us */
  spawn_listen();
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  for (int i = 0; i < 4; i++) {
    struct sigaction action;
    CHECK(!sigismember(&mask, numbers[i]));
    CHECK(sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Standard streams that are closed or exchanged in the parent reach the child right. */
static void streams_may_be_swapped(void) {
  int out[2], err[2];
  char text[64];
  ending end;
  CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
  int saved_out = fcntl(1, F_DUPFD_CLOEXEC, 3), saved_err = fcntl(2, F_DUPFD_CLOEXEC, 3);
  dup2(out[1], 1);
  dup2(err[1], 2);
  pid_t pid = start("echo to-out; echo to-err >&2", 2, 1);
  dup2(saved_out, 1);
  dup2(saved_err, 2);
  close(saved_out);
  close(saved_err);
  close(out[1]);
  close(err[1]);
  read_all(out[0], text, sizeof text);
  CHECK(strcmp(text, "to-err\n") == 0);
  read_all(err[0], text, sizeof text);
  CHECK(strcmp(text, "to-out\n") == 0);
  watch(&end, pid);
  wait_for(&end);
  child_free(end.watched);
}

static void streams_may_be_one_pipe(void) {
  int ends[2];
  char text[64];
  ending end;
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  pid_t pid = start("echo 1; echo 2 >&2; echo 3; echo 4 >&2", ends[1], ends[1]);
  close(ends[1]);
  watch(&end, pid);
  read_all(ends[0], text, sizeof text);
  CHECK(strcmp(text, "1\n2\n3\n4\n") == 0);
  wait_for(&end);
  child_free(end.watched);
}

static void a_closed_stream_becomes_dev_null(void) {
  int ends[2];
  char text[64];
  ending end;
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  int saved_in = fcntl(0, F_DUPFD_CLOEXEC, 3), saved_out = fcntl(1, F_DUPFD_CLOEXEC, 3);
  close(0);
  close(1);
  pid_t pid = start("a=$(readlink /proc/$$/fd/0 /proc/$$/fd/1); echo \"$a\" >&2", -1, ends[1]);
  dup2(saved_out, 1);
  if (saved_in >= 0) dup2(saved_in, 0);
  close(saved_out);
  if (saved_in >= 0) close(saved_in);
  close(ends[1]);
  watch(&end, pid);
  read_all(ends[0], text, sizeof text);
  CHECK(strcmp(text, "/dev/null\n/dev/null\n") == 0);
  wait_for(&end);
  child_free(end.watched);
}

/* The pipe's end-of-file shows that the whole group is gone. */
static const char *const FAMILY = "sleep 1000 & (sleep 1000 & sleep 1000) & echo ready; ";

static ending end_family(const char *last, int signal, int group) {
  int ends[2];
  char text[64], script[200];
  ending end;
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  snprintf(script, sizeof script, "%s%s", FAMILY, last);
  pid_t pid = start(script, ends[1], -1);
  close(ends[1]);
  watch(&end, pid);
  CHECK(read(ends[0], text, 6) == 6);
  if (signal) child_signal(end.watched, signal, group);
  wait_for(&end);
  child_signal(end.watched, SIGKILL, 0); /* reaped: reaches nobody */
  child_signal(end.watched, SIGKILL, 1);
  child_free(end.watched);
  CHECK(read_all(ends[0], text, sizeof text) == 0);
  return end;
}

static void a_group_ends_with_its_leader(void) {
  ending end = end_family("exit 5", 0, 0);
  CHECK(end.status == 5 && end.signal == 0);
  end = end_family("exec sleep 1000", SIGKILL, 0);
  CHECK(end.signal == SIGKILL);
  end = end_family("exec sleep 1000", SIGTERM, 1);
  CHECK(end.signal == SIGTERM);
  end = end_family("trap '' TERM; kill -TERM 0; kill -STOP $$; exit 9", SIGKILL, 1);
  CHECK(end.signal == SIGKILL);
}

static void a_thousand_short_children_leave_nothing(void) {
  enum { ROUNDS = 20, AT_ONCE = 50 };
  int before = count_descriptors();
  for (int round = 0; round < ROUNDS; round++) {
    static ending ends[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
      char *argv[] = {"true", NULL};
      spawn_request request = {.file = "/bin/true", .argv = argv, .stdout_fd = -1};
      request.stderr_fd = -1;
      pid_t pid = -1;
      CHECK(spawn_process(&request, &pid, NULL) == LP_OK);
      watch(&ends[i], pid);
      ends[i].frees = i % 2;
    }
    for (int i = 0; i < AT_ONCE; i++) {
      wait_for(&ends[i]);
      CHECK(ends[i].calls == 1 && ends[i].status == 0 && ends[i].signal == 0);
      if (!ends[i].frees) child_free(ends[i].watched);
    }
  }
  CHECK(no_child_left());
  CHECK(count_descriptors() == before);
}

/* A host that waits for every process, as some do on SIGCHLD. */
static void a_child_reaped_by_the_host_is_reported(void) {
  ending end;
  pid_t pid = start("exit 7", -1, -1);
  watch(&end, pid);
  CHECK(waitpid(pid, NULL, 0) == pid);
  child_signal(end.watched, SIGKILL, 0);
  child_signal(end.watched, SIGKILL, 1);
  wait_for(&end);
  CHECK(end.calls == 1 && end.status == CHILD_STATUS_UNKNOWN && end.signal == 0);
  child_free(end.watched);
}

static void free_reaps_the_ended_and_spares_the_running(void) {
  ending end;
  siginfo_t info;
  pid_t pid = start("exit 0", -1, -1);
  watch(&end, pid);
  waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
  child_free(end.watched);
  CHECK(end.calls == 0 && no_child_left());
  pid = start("exec sleep 1000", -1, -1);
  watch(&end, pid);
  child_free(end.watched);
  CHECK(kill(pid, 0) == 0);
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
  child_free(NULL);
}

static void no_descriptor_left_is_an_error(void) {
  struct rlimit limit, small;
  ending end = {0};
  fault why = {0};
  pid_t pid = start("exec sleep 1000", -1, -1);
  getrlimit(RLIMIT_NOFILE, &limit);
  int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next);
  small = limit;
  small.rlim_cur = (rlim_t)next;
  setrlimit(RLIMIT_NOFILE, &small);
  CHECK(child_watch(loop, pid, on_end, &end, &why) == NULL);
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK(why.status == LP_RESOURCE_EXHAUSTED && strstr(why.text, "Too many open files"));
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
}

static atomic_int busy;

static void *open_and_close(void *unused) {
  (void)unused;
  while (busy) {
    void *block = malloc(1000);
    int fd = open("/dev/null", O_RDONLY);
    free(block);
    close(fd);
  }
  return NULL;
}

static void many_threads_and_descriptors_are_no_matter(void) {
  enum { EXTRA = 4000 };
  static int extra[EXTRA];
  pthread_t threads[4];
  char text[64];
  struct rlimit limit, large;
  getrlimit(RLIMIT_NOFILE, &limit);
  large = limit;
  large.rlim_cur = limit.rlim_max < 5000 ? limit.rlim_max : 5000;
  if (limit.rlim_cur < large.rlim_cur) setrlimit(RLIMIT_NOFILE, &large);
  for (int i = 0; i < EXTRA; i++) extra[i] = open("/dev/null", O_RDONLY);
  busy = 1;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, open_and_close, NULL);
  for (int i = 0; i < 50; i++) {
    char *argv[] = {"ls", "/proc/self/fd", NULL};
    spawn_request request = {.file = "ls", .argv = argv, .stderr_fd = -1};
    run(&request, text, sizeof text);
    CHECK(strcmp(text, "0\n1\n2\n3\n") == 0);
  }
  busy = 0;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < EXTRA; i++) close(extra[i]);
  setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void) {
  alarm(120); /* a wait that never ends is a failure */
  loop = poller_new();
  if (!loop) return 1;
  RUN(tells_exit_status_and_signal);
  RUN(names_what_cannot_be_started);
  RUN(gives_folder_environment_and_empty_input);
  RUN(the_child_has_three_descriptors);
  RUN(the_child_has_default_signals_and_its_own_group);
  RUN(a_deaf_child_forgets_what_came_before_it_listens);
  RUN(streams_may_be_swapped);
  RUN(streams_may_be_one_pipe);
  RUN(a_closed_stream_becomes_dev_null);
  RUN(a_group_ends_with_its_leader);
  RUN(a_thousand_short_children_leave_nothing);
  RUN(a_child_reaped_by_the_host_is_reported);
  RUN(free_reaps_the_ended_and_spares_the_running);
  RUN(no_descriptor_left_is_an_error);
  RUN(many_threads_and_descriptors_are_no_matter);
  poller_free(loop);
  return TEST_END();
}
