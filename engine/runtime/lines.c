/* See lines.h. */
#define _GNU_SOURCE /* memrchr */
#include "runtime/lines.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "runtime/engine.h"

struct lines {
  node *node;
  buffer partial[2]; /* by stream - 1: text behind the last newline */
  timer timer;
};

static bool post(node *node, int stream, const void *text, size_t length) {
  engine *engine = node->engine;
  if (length == 0) return true;
  atomic_fetch_add(&engine->output_queued, length);
  if (engine_post(engine, EVENT_OUTPUT, node->id, stream, node->key, text, length)) return true;
  atomic_fetch_sub(&engine->output_queued, length);
  return false;
}

static void flush_stream(lines *lines, int stream) {
  buffer *partial = &lines->partial[stream - 1];
  post(lines->node, stream, partial->data, partial->length);
  partial->length = 0;
}

static void lines_timer(timer *timer) {
  lines *late = list_entry(timer, lines, timer);
  flush_stream(late, 1);
  flush_stream(late, 2);
}

lines *lines_new(node *node) {
  lines *made = mem_new(sizeof *made);
  if (!made) return NULL;
  made->node = node;
  timer_init(&made->timer, lines_timer);
  return made;
}

void lines_free(lines *lines) {
  if (!lines) return;
  timer_stop(&lines->node->loop->timers, &lines->timer);
  buffer_fini(&lines->partial[0]);
  buffer_fini(&lines->partial[1]);
  mem_free(lines);
}

bool lines_write(node *node, int stream, const char *text, size_t length) {
  lines *lines = node->lines;
  buffer *partial = &lines->partial[stream - 1];
  if (length == 0) return true;
  if (!buffer_append(partial, text, length)) return false;
  const char *newline = memrchr(text, '\n', length);
  size_t rest = newline ? (size_t)(text + length - newline - 1) : partial->length;
  if (rest >= LINES_LINE_MAX) rest = 0;
  size_t whole = partial->length - rest;
  bool posted = post(node, stream, partial->data, whole);
  buffer_consume(partial, whole);
  if (rest > 0 && !timer_running(&lines->timer))
    timer_start(&node->loop->timers, &lines->timer, clock_now() + LINES_PARTIAL_NS);
  return posted;
}

void lines_flush(node *node) {
  if (node->lines) lines_timer(&node->lines->timer);
}

void lines_log(node *node, int level, const char *text, size_t length) {
  engine *engine = node->engine;
  size_t bytes = length + LINES_LOG_BYTES;
  if (!lines_full(node)) {
    atomic_fetch_add(&engine->output_queued, bytes);
    if (engine_post(engine, EVENT_LOG, node->id, level, node->key, text, length)) return;
    atomic_fetch_sub(&engine->output_queued, bytes);
  }
  atomic_fetch_add(&engine->logs_dropped, 1);
}

bool lines_full(const node *node) {
  return atomic_load_explicit(&node->engine->output_queued, memory_order_relaxed) > LINES_QUEUE_MAX;
}
