/* See journal.h. */
#include "process/journal.h"

#include <string.h>
#include <time.h>

/* Before the bytes of name and text. */
typedef struct head {
  uint64_t number;
  double time;
  int32_t stream;
  uint32_t name_length, text_length;
} head;

static size_t record_bytes(const head *head) {
  return sizeof *head + head->name_length + head->text_length;
}

static void drop_first(journal *journal) {
  head first;
  memcpy(&first, journal->lines.data + journal->first, sizeof first);
  journal->first += record_bytes(&first);
  journal->kept--;
}

/* Room for `bytes` more within the bound; what was dropped is given back in large pieces. */
static bool make_room(journal *journal, size_t bytes) {
  while (journal->kept && journal->lines.length - journal->first + bytes > JOURNAL_BYTES)
    drop_first(journal);
  if (journal->first > JOURNAL_BYTES / 2 || !journal->kept) {
    buffer_consume(&journal->lines, journal->first);
    journal->first = 0;
  }
  return buffer_reserve(&journal->lines, bytes);
}

static void add_line(journal *journal, head *head, const char *name, const char *text) {
  head->number = journal->count++;
  if (!make_room(journal, record_bytes(head))) return;
  buffer_append(&journal->lines, head, sizeof *head);
  buffer_append(&journal->lines, name, head->name_length);
  buffer_append(&journal->lines, text, head->text_length);
  journal->kept++;
}

void journal_add(journal *journal, int stream, const char *name, size_t name_length,
                 const char *text, size_t length) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  head head = {.stream = stream,
               .time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9,
               .name_length = (uint32_t)name_length};
  for (const char *end = text + length; text < end;) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    size_t bytes = (size_t)((newline ? newline : end) - text);
    head.text_length = (uint32_t)(bytes < JOURNAL_LINE_BYTES ? bytes : JOURNAL_LINE_BYTES);
    add_line(journal, &head, name, text);
    text += bytes + 1;
  }
}

bool journal_next(const journal *journal, size_t *at, journal_line *out) {
  head head;
  if (*at >= journal->lines.length) return false;
  memcpy(&head, journal->lines.data + *at, sizeof head);
  const char *name = (const char *)journal->lines.data + *at + sizeof head;
  *out = (journal_line){.number = head.number,
                        .time = head.time,
                        .stream = head.stream,
                        .name = name,
                        .name_length = head.name_length,
                        .text = name + head.name_length,
                        .text_length = head.text_length};
  *at += record_bytes(&head);
  return true;
}

void journal_fini(journal *journal) {
  buffer_fini(&journal->lines);
}
