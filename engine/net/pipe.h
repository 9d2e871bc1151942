/* A link in memory between two loops of one process: two ends, each used by one thread.
 *
 * An end looks like a stream: bytes appended to its out buffer travel when it is flushed,
 * and the other end's events report them. What was flushed is handed over whole, not
 * copied: the buffer itself is the message, and the receiver keeps it for its answers. */
#ifndef LP_NET_PIPE_H
#define LP_NET_PIPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/mailbox.h"
#include "net/stream.h"

typedef struct pipe_end pipe_end;

/* Makes a pipe whose ends report to loops with these mailboxes. Events of an end are set
 * by pipe_attach before anything may reach it. False: memory is out. */
bool pipe_new(mailbox *box_a, mailbox *box_b, pipe_end **a, pipe_end **b);
/* Sets who is told of what reaches this end (only on_data and on_close are used). */
void pipe_attach(pipe_end *end, const stream_events *events, void *owner);

/* The buffer to append to; NULL when memory is out. */
buffer *pipe_out(pipe_end *end);
/* Hands what was appended to the other end's loop. False when that loop is gone or the
 * other end was freed: the caller treats the link as closed; the bytes stay for pipe_unsent. */
bool pipe_flush(pipe_end *end);
/* The same, but a loop that sleeps is left to sleep until pipe_flush. */
bool pipe_hand_over(pipe_end *end);
/* What was appended and not handed over. */
const uint8_t *pipe_unsent(const pipe_end *end, size_t *length);
/* Is the other end on another loop? */
bool pipe_crosses(const pipe_end *end);
/* Who uses the other end, if that is on this loop and open; else NULL. */
void *pipe_owner_here(const pipe_end *end);
/* The same, if it has been told of all that was flushed here. */
void *pipe_near(const pipe_end *end);
/* While on_data is told of something: a time not before the other end flushed it, and at most
 * CLOCK_COARSE_NS behind that, however long it has lain here since. */
int64_t pipe_given(const pipe_end *end);
/* Has pipe_flush nothing to do? */
bool pipe_is_flushed(const pipe_end *end);
/* Bytes appended here that the other end's loop has not taken up yet. */
size_t pipe_queued(const pipe_end *end);
/* Has no faults injected in what this end sends (fault_point.h). */
void pipe_spare(pipe_end *end);
/* Tells the other end (on_close) and frees this one. Accepts NULL. */
void pipe_free(pipe_end *end);

#endif
