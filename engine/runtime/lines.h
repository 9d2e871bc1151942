/* What a node prints: collected into lines, then handed to the service thread, which
 * alone writes to the process's descriptors. A partial line goes out after 0.2 s. */
#ifndef LP_RUNTIME_LINES_H
#define LP_RUNTIME_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/node.h"

enum {
  LINES_PARTIAL_NS = 200000000,
  LINES_LINE_MAX = 1 << 20, /* a longer line is cut into several */
  LINES_QUEUE_MAX = 4 << 20 /* bytes under way in an engine before printing waits */
};

typedef struct lines lines;

/* NULL: memory is out. */
lines *lines_new(node *node);
void lines_free(lines *lines); /* accepts NULL */

/* Appends to stream 1 or 2; false when memory is out (the text is lost). */
bool lines_write(node *node, int stream, const char *text, size_t length);
/* Hands over what there is, partial lines included. */
void lines_flush(node *node);
/* So much is under way that whoever prints should wait. */
bool lines_full(const node *node);

/* A line for the program's log, of a level as in lp.log, 0 to 3. It does not wait: while
 * lines_full, or without memory, it is dropped and counted. */
enum { LINES_LOG_BYTES = 128 }; /* what an event counts beside its text */
void lines_log(node *node, int level, const char *text, size_t length);

#endif
