/* Long strings that came over a socket stay where they were read to: see base/adopted.h. The
 * splitter puts a frame so that the first long string in it lies as in a block of Lua's; here it
 * is seen whether the string may be had, and the allocator is told when it is asked for. */
#ifndef LP_RPC_ADOPT_H
#define LP_RPC_ADOPT_H

#include "rpc/peer.h"

enum { ADOPT_KEPT = 256 /* bytes of a frame's method and its last element together */ };

/* Before `frame`, which the peer's splitter put together, is taken: what is read of it after its
 * body goes to `kept`, since the string's head comes over the one and an end behind it over the
 * other. */
void adopt_begin(peer *peer, frame *frame, char kept[ADOPT_KEPT]);
/* Nothing may be had of this frame any more. Harmless if nothing was. */
void adopt_end(rpc *rpc);
/* The codec's hook. */
void adopt_push(lua_State *L, const char *bytes, size_t length);

#endif
