/* The program's output on the launcher's own descriptors: whole lines, each with its
 * node's prefix, never one mixed with another's.
 *
 * Used by the service thread. A slow terminal must not freeze that thread and O_NONBLOCK
 * must not be set on a descriptor we share with others; output.h says how that is done. */
#ifndef LP_PROCESS_PRINTER_H
#define LP_PROCESS_PRINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "net/poller.h"
#include "process/journal.h"

typedef struct printer printer;

/* Writes to `out_fd` and `err_fd` (borrowed). When both are one file (same device and
 * inode, or one terminal) there is one queue, so that their order is kept. `colour`:
 * prefixes are coloured. `limit_bytes` bounds what is queued (see printer_full). */
printer *printer_new(poller *poller, int out_fd, int err_fd, bool colour, size_t limit_bytes);
/* Writes what is queued, waiting for a slow reader `timeout_ms` at most, and frees. Every
 * source must have been freed. Accepts NULL. */
void printer_free(printer *printer, int timeout_ms);
bool printer_merged(const printer *printer); /* out and err are one file */

/* Queues the lines of `text` (split at newlines; a last line without one gets it) for
 * stdout (stream 1) or stderr (2), each line behind `prefix`, in colour `hue` (0 to 5;
 * negative: none). An empty prefix adds nothing. False: memory is out, text dropped. */
bool printer_lines(printer *printer, int stream, const char *prefix, int hue, const char *text,
                   size_t length);
/* Queues `text` as it is, for whoever has no prefix. A line that is left open is ended before
 * the next one of printer_lines. The journal does not keep it: it is no line of a node, and what a
 * prompt answers to "logs" would come back with the next answer. False: memory is out, text
 * dropped. */
bool printer_text(printer *printer, int stream, const char *text, size_t length);
/* Instead of writing: whatever is printed is given to `fn`, prefix and text apart. Set before
 * anything is printed, on a printer of no descriptors (-1). */
void printer_sink(printer *printer,
                  void (*fn)(void *owner, int stream, const char *prefix, const char *text,
                             size_t length),
                  void *owner);
/* Where lines of one origin go instead, without their prefix. */
typedef struct divert {
  void (*fn)(void *owner, const char *text, size_t length);
  void *owner;
} divert;
/* As printer_lines, to `divert`: here only the journal hears of it. */
void printer_diverted(printer *printer, const divert *divert, int stream, const char *prefix,
                      const char *text, size_t length);
/* More is queued than the limit: sources should hold back until on_room is called. */
bool printer_full(const printer *printer);
/* Called by the poller, once half of the limit is free again. */
void printer_on_room(printer *printer, void (*fn)(void *owner), void *owner);

/* Bytes of the stream that were dropped since they could not be written, and in `cause`
 * (may be NULL) the first errno: EPIPE when the reader went away, which is no error. */
size_t printer_lost(const printer *printer, int stream, int *cause);

/* The last lines that were printed by printer_lines and from sources, all streams together. */
const journal *printer_journal(const printer *printer);

/* A pipe whose lines are to be printed: the output of a node process. Takes over `fd`
 * (closed when NULL is answered: memory is out or it cannot be polled); a partial line is printed
 * after 200 ms (printer_source_tick, called by the owner's timer) or at its end. Reading pauses
 * while the printer is full. `on_end` is called once at end-of-file; the source is then freed by
 * its owner. */
typedef struct printer_source printer_source;
printer_source *printer_source_new(printer *printer, int fd, int stream, const char *prefix,
                                   int hue, void (*on_end)(void *owner), void *owner);
/* Its lines go there from now on; `divert` must outlive the source. */
void printer_source_divert(printer_source *source, const divert *divert);
/* Prints a partial line older than 200 ms; `now_ns` of clock_now. True while one waits. */
bool printer_source_tick(printer_source *source, int64_t now_ns);
/* Reads what is left without waiting, prints it, closes. Accepts NULL. */
void printer_source_free(printer_source *source);

#endif
