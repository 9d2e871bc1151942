/* What the silence of another process (runtime/silence.h) means to the peers of its nodes: calls
 * that do not wait fail, those under way as well; the others wait on. */
#ifndef LP_RPC_PEER_SILENCE_H
#define LP_RPC_PEER_SILENCE_H

#include "rpc/peer.h"
#include "runtime/engine.h"

/* From any thread: the node of `key` is silent, or (why NULL) answers again; every node of this
 * process hears of it. False: memory is out. */
bool peer_silence(engine *engine, const char *key, const char *why);
/* Does the other end not answer at present? The fault says so in words for a caller. */
bool peer_is_silent(const peer *peer, fault *fault);

#endif
