/* The command `lp`: a main thread that runs the command line as a node's main task, beside
 * the engine's service thread. Started with --node it is a node process instead: the main
 * thread is then the service, and its nodes have threads of their own. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/host.h"
#include "api/terminal.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "process/descendants.h"
#include "process/guard.h"
#include "process/limits.h"
#include "process/spawn.h"
#include "runtime/interrupt.h"

/* The command's own, not the library's: its words, and the status it will exit with. */
static struct {
  int argc;
  char **argv;
  atomic_int status; /* -1: not decided yet */
  bool quit;         /* node process: the policy is done */
  int signals[2];    /* pipe of signal numbers, written by the handler */
  pthread_mutex_t lock;
  guard guard;  /* this and the next are under the lock */
  bool leaving; /* no guard any more */
} command = {.status = -1, .signals = {-1, -1}, .lock = PTHREAD_MUTEX_INITIALIZER};

static void on_signal(int number) {
  int saved = errno;
  unsigned char byte = (unsigned char)number;
  ssize_t written = write(command.signals[1], &byte, 1);
  (void)written; /* full: enough signals are waiting */
  errno = saved;
}

/* Handlers, not blocked signals: what nodes start with io.popen inherits a mask, while
 * handlers become the default there. */
static bool take_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  if (pipe2(command.signals, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &action, NULL);
  return true;
}

/* Most programs start nothing, and need no guard. */
static void on_child(engine *engine) {
  (void)engine;
  pthread_mutex_lock(&command.lock);
  if (!command.guard.child.pid && !command.leaving) guard_start(&command.guard);
  pthread_mutex_unlock(&command.lock);
}

/* What we have started ends with us. */
static void end_children(void) {
  pthread_mutex_lock(&command.lock);
  command.leaving = true; /* nodes that could not be stopped may start more */
  guard_stop(&command.guard);
  pthread_mutex_unlock(&command.lock);
  descendants_kill();
}

/* status(number): what the process exits with */
static int command_status(lua_State *L) {
  command.status = (int)luaL_checkinteger(L, 1);
  return 0;
}

static int command_quit(lua_State *L) {
  command.status = (int)luaL_checkinteger(L, 1);
  command.quit = node_of(L)->loop->quit = true; /* the turn under way must not wait */
  return 0;
}

/* abandon(): ends the process with the status, although the main chunk is inside of a C
 * function that does not return. */
static int command_abandon(lua_State *L) {
  (void)L;
  end_children();
  terminal_end();
  _exit(command.status);
}

/* lp.core.command: argv (array, argv[0] at 0), id (this node's), status, quit, abandon */
static int open_command(lua_State *L) {
  lua_newtable(L);
  lua_pushinteger(L, (lua_Integer)node_of(L)->id);
  lua_setfield(L, -2, "id");
  lua_pushcfunction(L, command_abandon);
  lua_setfield(L, -2, "abandon");
  lua_newtable(L);
  for (int i = 0; i < command.argc; i++) {
    lua_pushstring(L, command.argv[i]);
    lua_rawseti(L, -2, i);
  }
  lua_setfield(L, -2, "argv");
  lua_pushcfunction(L, command_status);
  lua_setfield(L, -2, "status");
  lua_pushcfunction(L, command_quit);
  lua_setfield(L, -2, "quit");
  lua_pushstring(L, LP_VERSION);
  lua_setfield(L, -2, "version");
  terminal_open(L);
  lua_setfield(L, -2, "command");
  return 0;
}

static int complain(const fault *fault) {
  fprintf(stderr, "lp: %s\n", fault->text);
  return 1;
}

static bool wants_colour(void) {
  const char *terminal = getenv("TERM"), *refused = getenv("NO_COLOR");
  for (int i = 1; i < command.argc; i++)
    if (strcmp(command.argv[i], "--no-color") == 0) return false;
  if (refused && *refused) return false;
  return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

/* Not fflush(NULL): it waits for streams that a stuck thread reads from. */
static void flush_now(FILE *stream) {
  if (ftrylockfile(stream) != 0) return;
  fflush(stream);
  funlockfile(stream);
}

/* Nobody has decided it when the main chunk or the policy found no memory for that. */
static int decided_status(void) {
  static const char words[] = "lp: it ended before its status was known; is memory out?\n";
  if (command.status >= 0) return command.status;
  ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
  (void)written;
  return 1;
}

/* When nodes could not be stopped their threads still run: then only leaving at once,
 * without a word to them, is safe. */
static int leave(host *host) {
  int status = decided_status();
  end_children();
  flush_now(stdout);
  flush_now(stderr);
  if (!host_free(host)) {
    terminal_end();
    _exit(status);
  }
  terminal_end();
  return status;
}

/* The command line, as the node "main" on this thread. */
static int run_command(void) {
  fault fault;
  bool colour = wants_colour();
  if (terminal_wanted(command.argc, command.argv)) terminal_divert();
  host_options options = {.service = {"lp.service", "boot", "", 0},
                          .colour = colour,
                          .adopts = true,
                          .signal_fd = command.signals[0],
                          .on_child = on_child,
                          .open = open_command};
  host *host = host_new(&options, &fault);
  if (!host) return complain(&fault);
  fault_set(&fault, LP_RESOURCE_EXHAUSTED, "no memory to start"); /* unless told otherwise */
  loop *loop = loop_new(host_engine(host), "main", &fault);
  node_request request = {
      .name = "main", .key = "main", .boot = {"lp.main", "boot", "", 0}, .open = open_command};
  node *node = loop ? core_node(loop, &request, &fault) : NULL;
  if (!node || !host_adopt(host, loop, node->id) ||
      loop_start(host_service_loop(host), &fault) != LP_OK) {
    complain(&fault);
    if (node) node_close(node, LP_CANCELLED, "the engine could not start");
    loop_free(loop);
    host_free(host);
    return 1;
  }
  loop->until_empty = true;
  node_ref(node);
  interrupt_thread(loop);
  while (!list_empty(&loop->nodes)) loop_turn(loop, CLOCK_NEVER);
  interrupt_thread(NULL);
  host_forget_adopted(host);
  /* An error in a task that the script spawned; the service tells of it. */
  bool failed = node->end_status != LP_OK && node->end_status != LP_RESOURCE_EXHAUSTED;
  if (failed && command.status < 0) command.status = 1;
  node_unref(node);
  int status = leave(host);
  loop_free(loop);
  return status;
}

static int run_node_process(void) {
  fault fault;
  if (limits_apply(getenv("LP_NODE_NICE"), getenv("LP_NODE_AFFINITY"), &fault) != LP_OK)
    return complain(&fault);
  host_options options = {.service = {"lp.worker", "boot", "", 0},
                          .bare = true,
                          .signal_fd = command.signals[0],
                          .open = open_command};
  host *host = host_new(&options, &fault);
  if (!host) return complain(&fault);
  loop *service = host_service_loop(host);
  interrupt_thread(service);
  while (!command.quit && !list_empty(&service->nodes)) loop_turn(service, CLOCK_NEVER);
  interrupt_thread(NULL);
  return leave(host);
}

/* LP_FAULTS that is not understood must not pass for one under which all went well. */
static bool faults_understood(void) {
#ifdef LP_FAULTS
  fault fault;
  if (fault_points_read(&fault)) return true;
  fprintf(stderr, "lp: LP_FAULTS: %s\n", fault.text);
  return false;
#else
  return true;
#endif
}

/* Blocks of messages of some mebibytes are kept for the next ones: to have each mapped anew by
 * the system costs more than to copy it. For the command only; a host knows better. */
static void keep_large_blocks(void) {
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

/* The number of a standard stream that is closed would be that of the next file we open, the pipe
 * of signals for one: what is printed would be read as signals. It becomes /dev/null. */
static void fill_streams(void) {
  int fd;
  do fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
  fill_streams();
  keep_large_blocks();
  if (!faults_understood()) return 2;
  command.argc = argc;
  command.argv = argv;
  interrupt_install();
  if (!take_signals()) {
    fprintf(stderr, "lp: cannot make a pipe: %s\n", strerror(errno));
    return 1;
  }
  bool is_node = argc == 2 && strcmp(argv[1], "--node") == 0;
  bool is_guard = argc == 4 && strcmp(argv[1], "--guard") == 0;
  if (is_node || is_guard) spawn_listen();
  if (is_node) return run_node_process();
  if (is_guard) return guard_main(argv[2], argv[3]);
  guard_prepare();
  descendants_adopt();
  return run_command();
}
