/* See terminal.h. */
#define _GNU_SOURCE /* pipe2 */
#include "api/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <lauxlib.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "base/memory.h"
#include "rpc/rpc.h"

enum {
  HISTORY_LINES = 2000,
  COMPLETION_MS = 400, /* then the prompt goes on without */
  PROMPT_BYTES = 128
};

/* The process has one terminal. Fields below `lock` are under it. */
static struct {
  int tty;    /* the terminal's own descriptor, -1: not diverted */
  int output; /* read end of the pipe that is stdout and stderr now */
  int wake;   /* eventfd: look at the fields */
  FILE *in, *out;
  EditLine *line;
  History *history;
  char *history_file; /* NULL: none */
  pthread_t thread;
  bool running;
  bool interrupted; /* by Ctrl-C, in the line being edited */
  mailbox *box;     /* of the loop where the handler lives */
  uint64_t node;
  int handler; /* registry reference */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool wanted, closing; /* a line is; the thread is to end */
  char prompt[PROMPT_BYTES];
  uint32_t question, answered; /* completions asked for, and the last one answered */
  char *insert, *list;         /* the answer; owned */
} terminal = {.tty = -1,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER,
              .handler = LUA_NOREF};

bool terminal_wanted(int argc, char **argv) {
  const char *kind = getenv("TERM");
  if (argc < 2 || strcmp(argv[1], "repl") != 0) return false;
  for (int i = 2; i < argc; i++)
    if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--help") == 0) return false;
  return kind && strcmp(kind, "dumb") != 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* ---- output ----------------------------------------------------------------- */

static void write_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t written = write(fd, bytes, length);
    if (written < 0 && errno == EAGAIN) {
      struct pollfd end = {fd, POLLOUT, 0};
      poll(&end, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      return;
    } else if (written > 0) {
      bytes += written;
      length -= (size_t)written;
    }
  }
}

/* Copies what there is from the pipe to the terminal. False: nothing was there. `torn`: it ended
 * within a line. */
static bool copy_output(bool *torn) {
  char bytes[4096];
  bool some = false;
  for (;;) {
    ssize_t got = read(terminal.output, bytes, sizeof bytes);
    if (got <= 0) return some;
    write_all(terminal.tty, bytes, (size_t)got);
    *torn = bytes[got - 1] != '\n';
    some = true;
  }
}

/* The same while a line is edited: above it. */
static void output_above(EditLine *line) {
  static const char clear[] = "\r\x1b[J";
  bool torn = false;
  write_all(terminal.tty, clear, sizeof clear - 1);
  if (copy_output(&torn) && torn) write_all(terminal.tty, "\n", 1);
  el_set(line, EL_REFRESH);
}

/* ---- telling the handler ---------------------------------------------------- */

typedef struct told {
  message message;
  const char *kind; /* static */
  size_t length;
  char text[];
} told;

static void told_drop(message *carried) {
  mem_free(carried);
}

static int call_handler(lua_State *L) {
  const told *told = lua_touserdata(L, 1);
  if (lua_rawgeti(L, LUA_REGISTRYINDEX, terminal.handler) != LUA_TFUNCTION) return 0;
  lua_pushstring(L, told->kind);
  lua_pushlstring(L, told->text, told->length);
  rpc_spawn(L, 2);
  return 0;
}

static void told_run(message *carried, void *at) {
  node *node = loop_find_node(at, terminal.node);
  if (node) node_enter(node, call_handler, carried, NULL);
  told_drop(carried);
}

static void tell(const char *kind, const char *text, size_t length) {
  told *made = mem_new(sizeof *made + length + 1);
  if (!made) return;
  made->message = (message){.run = told_run, .drop = told_drop};
  made->kind = kind;
  made->length = length;
  memcpy(made->text, text, length);
  if (!mailbox_push(terminal.box, MAILBOX_MAIL, &made->message)) mem_free(made);
}

/* ---- keys ------------------------------------------------------------------- */

static char *prompt_of(EditLine *line) {
  (void)line;
  return terminal.prompt;
}

static bool is_closing(void) {
  uint64_t count;
  ssize_t got = read(terminal.wake, &count, sizeof count);
  (void)got;
  pthread_mutex_lock(&terminal.lock);
  bool closing = terminal.closing;
  pthread_mutex_unlock(&terminal.lock);
  return closing;
}

/* One character of the terminal; what nodes print meanwhile goes above the line. */
static int read_char(EditLine *line, wchar_t *out) {
  mbstate_t state = {0};
  for (;;) {
    struct pollfd ends[] = {
        {STDIN_FILENO, POLLIN, 0}, {terminal.output, POLLIN, 0}, {terminal.wake, POLLIN, 0}};
    if (poll(ends, 3, -1) < 0 && errno != EINTR) return -1;
    if (ends[1].revents & POLLIN) output_above(line);
    if (ends[2].revents && is_closing()) return 0;
    if (!ends[0].revents) continue;
    char byte;
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return 0;
    size_t used = mbrtowc(out, &byte, 1, &state);
    if (used == (size_t)-2) continue; /* more bytes follow */
    if (used <= 1) return 1;
    memset(&state, 0, sizeof state); /* no character: skipped */
  }
}

/* Ctrl-C: what is typed is left standing, and forgotten. */
static unsigned char key_interrupt(EditLine *line, int key) {
  (void)line;
  (void)key;
  terminal.interrupted = true;
  write_all(terminal.tty, "^C", 2);
  return CC_NEWLINE;
}

/* Waits for the answer to question `number`, not for long. */
static bool wait_completion(uint32_t number) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += COMPLETION_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  int error = 0;
  while (terminal.answered != number && !terminal.closing && !error)
    error = pthread_cond_timedwait(&terminal.changed, &terminal.lock, &until);
  return terminal.answered == number;
}

static unsigned char key_complete(EditLine *line, int key) {
  (void)key;
  const LineInfo *info = el_line(line);
  unsigned char result = CC_REFRESH_BEEP;
  pthread_mutex_lock(&terminal.lock);
  uint32_t number = ++terminal.question;
  tell("complete", info->buffer, (size_t)(info->cursor - info->buffer));
  if (wait_completion(number)) {
    if (terminal.insert && *terminal.insert && el_insertstr(line, terminal.insert) == 0)
      result = CC_REFRESH;
    if (terminal.list && *terminal.list) {
      write_all(terminal.tty, "\n", 1);
      write_all(terminal.tty, terminal.list, strlen(terminal.list));
      write_all(terminal.tty, "\n", 1);
      result = CC_REDISPLAY;
    }
  }
  pthread_mutex_unlock(&terminal.lock);
  return result;
}

/* ---- the thread ------------------------------------------------------------- */

static void save_history(const char *text) {
  HistEvent event;
  if (strspn(text, " \t\r\n") == strlen(text)) return;
  history(terminal.history, &event, H_ENTER, text);
  if (!terminal.history_file) return;
  mode_t before = umask(077);
  history(terminal.history, &event, H_SAVE, terminal.history_file);
  umask(before);
}

static void read_line(void) {
  int count;
  terminal.interrupted = false;
  el_resize(terminal.line);
  const char *text = el_gets(terminal.line, &count);
  if (terminal.interrupted) {
    write_all(terminal.tty, "\n", 1);
    tell("interrupt", "", 0);
  } else if (!text || count <= 0) {
    tell("eof", "", 0);
  } else {
    save_history(text);
    tell("line", text, strcspn(text, "\n"));
  }
}

/* Waits until a line is wanted, and shows what is printed. False: the end. */
static bool wait_wanted(void) {
  bool torn = false;
  for (;;) {
    pthread_mutex_lock(&terminal.lock);
    bool wanted = terminal.wanted, closing = terminal.closing;
    if (wanted) terminal.wanted = false;
    pthread_mutex_unlock(&terminal.lock);
    copy_output(&torn); /* what came before the question, too */
    if (closing) return false;
    if (wanted) break;
    struct pollfd ends[] = {{terminal.output, POLLIN, 0}, {terminal.wake, POLLIN, 0}};
    poll(ends, 2, -1);
    if (ends[1].revents) is_closing();
  }
  if (torn) write_all(terminal.tty, "\n", 1);
  return true;
}

static void *thread_main(void *unused) {
  (void)unused;
  while (wait_wanted()) read_line();
  return NULL;
}

/* ---- life ------------------------------------------------------------------- */

bool terminal_divert(void) {
  int ends[2];
  int tty = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  if (tty < 0) return false;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    close(tty);
    return false;
  }
  terminal.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  terminal.in = stdin;
  terminal.out = fdopen(fcntl(tty, F_DUPFD_CLOEXEC, 10), "w");
  if (terminal.wake < 0 || !terminal.out) {
    close(tty);
    close(ends[0]);
    close(ends[1]);
    return false;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  dup2(ends[1], STDOUT_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  terminal.output = ends[0];
  terminal.tty = tty;
  terminal.running = pthread_create(&terminal.thread, NULL, thread_main, NULL) == 0;
  if (!terminal.running) terminal_end();
  return terminal.running;
}

static void wake_thread(void) {
  uint64_t one = 1;
  ssize_t written = write(terminal.wake, &one, sizeof one);
  (void)written;
}

void terminal_end(void) {
  if (terminal.tty < 0) return;
  if (terminal.running) {
    pthread_mutex_lock(&terminal.lock);
    terminal.closing = true;
    pthread_cond_broadcast(&terminal.changed);
    pthread_mutex_unlock(&terminal.lock);
    wake_thread();
    pthread_join(terminal.thread, NULL);
    if (terminal.line) el_reset(terminal.line); /* el_end would lose the names given to EL_ADDFN */
    terminal.running = false;
  }
  dup2(terminal.tty, STDOUT_FILENO);
  dup2(terminal.tty, STDERR_FILENO);
  bool torn;
  copy_output(&torn);
  close(terminal.tty);
  terminal.tty = -1;
}

/* Ctrl-C and its kind come as characters while a line is edited, so that they concern the line
 * and not the program. */
static void set_keys(EditLine *line) {
  el_set(line, EL_EDITOR, "emacs");
  el_set(line, EL_SIGNAL, 0);
  el_set(line, EL_SETTY, "-d", "-isig", NULL);
  el_set(line, EL_PROMPT, prompt_of);
  el_set(line, EL_GETCFN, read_char);
  el_set(line, EL_ADDFN, "lp-interrupt", "Forget the line", key_interrupt);
  el_set(line, EL_ADDFN, "lp-complete", "Complete the word", key_complete);
  el_source(line, NULL); /* the user's own ~/.editrc */
  el_set(line, EL_BIND, "^C", "lp-interrupt", NULL);
  el_set(line, EL_BIND, "\t", "lp-complete", NULL);
  el_set(line, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

static void open_editor(const char *history_file) {
  HistEvent event;
  setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
  terminal.line = el_init("lp", terminal.in, terminal.out, terminal.out);
  terminal.history = history_init();
  history(terminal.history, &event, H_SETSIZE, HISTORY_LINES);
  history(terminal.history, &event, H_SETUNIQUE, 1);
  terminal.history_file = history_file ? mem_strdup(history_file) : NULL;
  if (terminal.history_file) history(terminal.history, &event, H_LOAD, terminal.history_file);
  el_set(terminal.line, EL_HIST, history, terminal.history);
  set_keys(terminal.line);
}

static int terminal_start(lua_State *L) {
  const char *file = luaL_optstring(L, 1, NULL);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  if (terminal.line) return luaL_error(L, "the terminal was started already");
  lua_settop(L, 2);
  terminal.handler = luaL_ref(L, LUA_REGISTRYINDEX);
  terminal.node = node_of(L)->id;
  terminal.box = node_of(L)->loop->box;
  open_editor(file);
  return 0;
}

static int terminal_read(lua_State *L) {
  const char *prompt = luaL_checkstring(L, 1);
  pthread_mutex_lock(&terminal.lock);
  snprintf(terminal.prompt, sizeof terminal.prompt, "%s", prompt);
  terminal.wanted = true;
  pthread_mutex_unlock(&terminal.lock);
  wake_thread();
  return 0;
}

static int terminal_complete(lua_State *L) {
  const char *insert = luaL_optstring(L, 1, ""), *list = luaL_optstring(L, 2, "");
  pthread_mutex_lock(&terminal.lock);
  mem_free(terminal.insert);
  mem_free(terminal.list);
  terminal.insert = mem_strdup(insert);
  terminal.list = mem_strdup(list);
  terminal.answered = terminal.question;
  pthread_cond_broadcast(&terminal.changed);
  pthread_mutex_unlock(&terminal.lock);
  return 0;
}

/* write(text): to the pipe, and so ahead of the line asked for next */
static int terminal_write(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  write_all(STDOUT_FILENO, text, length);
  return 0;
}

static int terminal_columns(lua_State *L) {
  struct winsize size;
  bool known = ioctl(terminal.tty, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  lua_pushinteger(L, known ? size.ws_col : 80);
  return 1;
}

void terminal_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"start", terminal_start},     {"read", terminal_read},   {"complete", terminal_complete},
      {"columns", terminal_columns}, {"write", terminal_write}, {NULL, NULL}};
  if (terminal.tty < 0) return;
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "terminal");
}
