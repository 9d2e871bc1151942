/* The last lines a program has printed and logged, kept for those who ask later (`lp logs`): a
 * bounded queue of whole lines with their node's name, numbered in the order printed. */
#ifndef LP_PROCESS_JOURNAL_H
#define LP_PROCESS_JOURNAL_H

#include <stdint.h>

#include "base/buffer.h"

enum {
  JOURNAL_BYTES = 1 << 20,     /* kept, names and bookkeeping included */
  JOURNAL_LINE_BYTES = 8 << 10 /* of one line; the rest is cut */
};

typedef struct journal {
  buffer lines;   /* records, oldest first */
  size_t first;   /* where the oldest begins */
  uint64_t count; /* lines ever added: the number of the next */
  uint64_t kept;  /* of them, those that are still here */
} journal;

typedef struct journal_line {
  uint64_t number;
  double time; /* seconds since 1970 */
  int stream;  /* 1 or 2 */
  const char *name, *text;
  uint32_t name_length, text_length;
} journal_line;

/* Adds the lines of `text`, each of `name` (not terminated), at the time that is now. Without
 * memory they are forgotten. */
void journal_add(journal *journal, int stream, const char *name, size_t name_length,
                 const char *text, size_t length);
/* Reads the line at `*at`, which begins as journal->first and moves on; false: there is none. */
bool journal_next(const journal *journal, size_t *at, journal_line *out);
void journal_fini(journal *journal);

#endif
