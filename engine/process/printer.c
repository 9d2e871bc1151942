/* Lines behind prefixes, and the pipes they come from. How a descriptor is written without
 * waiting is output.c's. See printer.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/printer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/memory.h"
#include "process/output.h"

enum {
  SCRATCH = 16 * 1024,       /* bytes read from a source at a time */
  LONGEST_LINE = 256 * 1024, /* of a source; a longer one is broken */
  LAST_READS = 64,           /* what a source may still hold: a pipe of 1 MiB */
  PARTIAL_NS = 200 * 1000000 /* until a partial line is printed */
};

struct printer {
  poller *loop;
  output out, err; /* when merged `err` is closed */
  bool merged, colour;
  bool waiting; /* the limit was passed; sources pause until half of it is written */
  size_t limit;
  void (*on_room)(void *owner);
  void *owner;
  void (*sink)(void *owner, int stream, const char *prefix, const char *text, size_t length);
  void *sink_owner; /* instead of descriptors */
  list sources;
  journal journal;
  char scratch[SCRATCH]; /* of the source that is being read */
};

struct printer_source {
  list link; /* in `sources` */
  printer *printer;
  int fd; /* -1 after its end */
  poller_watch *watch;
  int stream;
  char *prefix;
  int hue;
  buffer partial;       /* of a line that is not yet complete */
  int64_t since;        /* when `partial` began */
  bool broken;          /* its line was printed so far: a newline that comes next ends it */
  const divert *divert; /* or NULL */
  void (*on_end)(void *owner);
  void *owner;
};

/* ---- the two streams -------------------------------------------------------- */

static size_t queued(const printer *to) {
  return output_queued(&to->out) + output_queued(&to->err);
}

static void on_written(void *owner) {
  printer *to = owner;
  if (!to->waiting || queued(to) > to->limit / 2) return;
  to->waiting = false;
  for (list *link = to->sources.next; link != &to->sources; link = link->next) {
    printer_source *source = list_entry(link, printer_source, link);
    if (source->watch) poller_watch_set(source->watch, POLLER_READ);
  }
  if (to->on_room) to->on_room(to->owner);
}

printer *printer_new(poller *loop, int out_fd, int err_fd, bool colour, size_t limit_bytes) {
  printer *to = mem_new(sizeof *to);
  if (!to) return NULL;
  to->loop = loop;
  to->colour = colour;
  to->limit = limit_bytes;
  to->merged = output_is_one_file(out_fd, err_fd);
  list_init(&to->sources);
  output_init(&to->out, loop, out_fd, on_written, to);
  output_init(&to->err, loop, to->merged ? -1 : err_fd, on_written, to);
  return to;
}

static int milliseconds_until(int64_t deadline) {
  int64_t left = deadline - clock_now();
  return left <= 0 ? 0 : (int)((left + 999999) / 1000000);
}

static void write_when_ready(output *out, short events) {
  if (events) output_write(out);
}

/* Writes until nothing is queued or the reader has not taken all of it in time. */
static void drain(printer *to, int timeout_ms) {
  int64_t deadline = clock_now() + (int64_t)timeout_ms * 1000000;
  for (bool in_time = true; in_time && queued(to);) {
    int wait_ms = milliseconds_until(deadline);
    struct pollfd ends[2] = {{output_queued(&to->out) ? to->out.fd : -1, POLLOUT, 0},
                             {output_queued(&to->err) ? to->err.fd : -1, POLLOUT, 0}};
    in_time = wait_ms > 0;
    if (poll(ends, 2, wait_ms) <= 0) continue;
    write_when_ready(&to->out, ends[0].revents);
    write_when_ready(&to->err, ends[1].revents);
  }
}

void printer_free(printer *to, int timeout_ms) {
  if (!to) return;
  assert(list_empty(&to->sources));
  drain(to, timeout_ms);
  output_fini(&to->out);
  output_fini(&to->err);
  journal_fini(&to->journal);
  mem_free(to);
}

const journal *printer_journal(const printer *to) {
  return &to->journal;
}

/* "[worker/0] " is the line of worker/0. */
static void keep(printer *to, int stream, const char *prefix, const char *text, size_t length) {
  size_t name_length = strlen(prefix);
  while (name_length && prefix[name_length - 1] == ' ') name_length--;
  bool bracketed = name_length > 2 && prefix[0] == '[' && prefix[name_length - 1] == ']';
  if (bracketed) prefix++, name_length -= 2;
  journal_add(&to->journal, stream, prefix, name_length, text, length);
}

bool printer_merged(const printer *to) {
  return to->merged;
}

bool printer_full(const printer *to) {
  return queued(to) > to->limit;
}

void printer_on_room(printer *to, void (*fn)(void *owner), void *owner) {
  to->on_room = fn;
  to->owner = owner;
}

void printer_sink(printer *to,
                  void (*fn)(void *owner, int stream, const char *prefix, const char *text,
                             size_t length),
                  void *owner) {
  to->sink = fn;
  to->sink_owner = owner;
}

static output *stream_output(printer *to, int stream) {
  return stream == 2 && !to->merged ? &to->err : &to->out;
}

size_t printer_lost(const printer *to, int stream, int *cause) {
  const output *out = stream == 2 && !to->merged ? &to->err : &to->out;
  if (cause) *cause = out->cause;
  return out->lost;
}

/* ---- lines ------------------------------------------------------------------ */

/* A prefix as it is stored before each line: `colour` and `reset` enclose its text but
 * not the blanks behind. */
typedef struct tag {
  const char *colour, *text, *reset, *blanks;
  size_t colour_bytes, text_bytes, reset_bytes, blank_bytes;
} tag;

static tag tag_of(const printer *to, const char *prefix, int hue) {
  static const char *const colours[] = {"\x1b[1;36m", "\x1b[1;33m", "\x1b[1;32m",
                                        "\x1b[1;34m", "\x1b[1;35m", "\x1b[1;31m"};
  size_t length = strlen(prefix), text = length;
  while (text && prefix[text - 1] == ' ') text--;
  bool coloured = to->colour && hue >= 0 && text;
  tag made = {.text = prefix, .text_bytes = text};
  made.colour = coloured ? colours[hue % 6] : "";
  made.reset = coloured ? "\x1b[0m" : "";
  made.blanks = prefix + text;
  made.colour_bytes = strlen(made.colour);
  made.reset_bytes = strlen(made.reset);
  made.blank_bytes = length - text;
  return made;
}

static size_t count_lines(const char *text, size_t length) {
  size_t lines = text[length - 1] != '\n';
  for (const char *end = text + length; (text = memchr(text, '\n', (size_t)(end - text))); text++)
    lines++;
  return lines;
}

/* The room for these is reserved. */
static void put_line(buffer *queue, const tag *before, const char *line, size_t length) {
  buffer_append(queue, before->colour, before->colour_bytes);
  buffer_append(queue, before->text, before->text_bytes);
  buffer_append(queue, before->reset, before->reset_bytes);
  buffer_append(queue, before->blanks, before->blank_bytes);
  buffer_append(queue, line, length);
  buffer_append(queue, "\n", 1);
}

static void put_lines(buffer *queue, const tag *before, const char *text, size_t length) {
  for (const char *end = text + length; text < end;) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    const char *stop = newline ? newline : end;
    put_line(queue, before, text, (size_t)(stop - text));
    text = stop + 1;
  }
}

/* Whatever was printed as it is must not run into the line that follows. */
static void end_open_line(output *out, buffer *queue) {
  if (out->open_line) buffer_append(queue, "\n", 1);
  out->open_line = false;
}

static bool hand_over(printer *to, output *out) {
  output_send(out);
  if (printer_full(to)) to->waiting = true;
  return true;
}

bool printer_text(printer *to, int stream, const char *text, size_t length) {
  output *out = stream_output(to, stream);
  if (length && to->sink) to->sink(to->sink_owner, stream, "", text, length);
  if (!length || out->fd < 0) return true;
  buffer *queue = output_reserve(out, length);
  if (!queue) {
    output_drop(out, length, ENOMEM);
    return false;
  }
  buffer_append(queue, text, length);
  out->open_line = text[length - 1] != '\n';
  return hand_over(to, out);
}

bool printer_lines(printer *to, int stream, const char *prefix, int hue, const char *text,
                   size_t length) {
  if (length) keep(to, stream, prefix, text, length);
  output *out = stream_output(to, stream);
  if (length && to->sink) to->sink(to->sink_owner, stream, prefix, text, length);
  if (!length || out->fd < 0) return true;
  tag before = tag_of(to, prefix, hue);
  size_t tag_bytes =
      before.colour_bytes + before.text_bytes + before.reset_bytes + before.blank_bytes;
  buffer *queue = output_reserve(out, count_lines(text, length) * tag_bytes + length + 2);
  if (!queue) {
    output_drop(out, length, ENOMEM);
    return false;
  }
  end_open_line(out, queue);
  put_lines(queue, &before, text, length);
  return hand_over(to, out);
}

/* ---- sources ---------------------------------------------------------------- */

void printer_diverted(printer *to, const divert *divert, int stream, const char *prefix,
                      const char *text, size_t length) {
  if (!length) return;
  keep(to, stream, prefix, text, length);
  divert->fn(divert->owner, text, length);
}

void printer_source_divert(printer_source *source, const divert *divert) {
  source->divert = divert;
}

static void print(printer_source *source, const void *text, size_t length) {
  if (source->divert) {
    printer_diverted(source->printer, source->divert, source->stream, source->prefix, text, length);
    return;
  }
  printer_lines(source->printer, source->stream, source->prefix, source->hue, text, length);
}

static void print_partial(printer_source *source) {
  print(source, source->partial.data, source->partial.length);
  buffer_fini(&source->partial);
}

/* Prints the line so far although its newline has not come. */
static void break_line(printer_source *source) {
  if (!source->partial.length) return;
  print_partial(source);
  source->broken = true;
}

static void add_partial(printer_source *source, const char *text, size_t length) {
  if (!source->partial.length) source->since = clock_now();
  if (!buffer_append(&source->partial, text, length)) {
    break_line(source); /* memory is out: in two lines, if at all */
    print(source, text, length);
  }
}

static void feed(printer_source *source, const char *text, size_t length) {
  if (source->broken && *text == '\n') text++, length--;
  source->broken = false;
  const char *newline = length ? memrchr(text, '\n', length) : NULL;
  size_t whole = newline ? (size_t)(newline - text) + 1 : 0;
  if (whole && source->partial.length) {
    add_partial(source, text, whole);
    print_partial(source);
  } else if (whole) {
    print(source, text, whole);
  }
  if (length > whole) add_partial(source, text + whole, length - whole);
  if (source->partial.length > LONGEST_LINE) break_line(source);
}

typedef enum progress { READ_SOME, READ_NOTHING, READ_END } progress;

static progress read_some(printer_source *source) {
  char *scratch = source->printer->scratch;
  ssize_t got = read(source->fd, scratch, SCRATCH);
  if (got > 0) {
    feed(source, scratch, (size_t)got);
    return READ_SOME;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return READ_NOTHING;
  return READ_END; /* also EIO, by which a terminal ends */
}

static void source_close(printer_source *source) {
  break_line(source);
  poller_watch_free(source->watch);
  source->watch = NULL;
  if (source->fd >= 0) close(source->fd);
  source->fd = -1;
}

static void on_readable(void *owner, unsigned events) {
  (void)events;
  printer_source *source = owner;
  if (source->printer->waiting) {
    poller_watch_set(source->watch, 0); /* until on_written */
    return;
  }
  if (read_some(source) != READ_END) return;
  source_close(source);
  source->on_end(source->owner); /* may free the source */
}

static bool source_open(printer_source *source) {
  int flags = fcntl(source->fd, F_GETFL);
  if (!source->prefix || flags < 0) return false;
  if (fcntl(source->fd, F_SETFL, flags | O_NONBLOCK) != 0) return false;
  source->watch =
      poller_watch_new(source->printer->loop, source->fd, POLLER_READ, on_readable, source);
  return source->watch != NULL;
}

printer_source *printer_source_new(printer *to, int fd, int stream, const char *prefix, int hue,
                                   void (*on_end)(void *owner), void *owner) {
  printer_source *source = mem_new(sizeof *source);
  if (!source) {
    close(fd);
    return NULL;
  }
  *source = (printer_source){.printer = to, .fd = fd, .stream = stream, .hue = hue};
  source->on_end = on_end;
  source->owner = owner;
  source->prefix = mem_strdup(prefix);
  list_init(&source->link);
  if (source_open(source)) {
    list_push(&to->sources, &source->link);
    return source;
  }
  printer_source_free(source);
  return NULL;
}

bool printer_source_tick(printer_source *source, int64_t now_ns) {
  if (!source->partial.length) return false;
  if (now_ns - source->since < PARTIAL_NS) return true;
  break_line(source);
  return false;
}

void printer_source_free(printer_source *source) {
  if (!source) return;
  for (int i = 0; source->watch && i < LAST_READS; i++)
    if (read_some(source) != READ_SOME) break;
  source_close(source);
  list_remove(&source->link);
  mem_free(source->prefix);
  mem_free(source);
}
