/* Errors on the wire: one MessagePack map. Every node that an error passes signs it. */
#ifndef LP_RPC_REMOTE_H
#define LP_RPC_REMOTE_H

#include "rpc/rpc.h"

/* Pushes the table that goes out for the lp.Error (or string) at `index`. May raise, so it
 * comes before a frame is begun. */
void remote_prepare(lua_State *L, int index, const rpc *rpc, const char *method);
/* Appends that table (on top); never fails but for memory (false). */
bool remote_write(lua_State *L, const rpc *rpc, buffer *out);
bool remote_write_plain(const rpc *rpc, lp_status status, const char *text, buffer *out);
/* Pushes the error in these bytes as an lp.Error. */
void remote_read(lua_State *L, rpc *rpc, const uint8_t *data, size_t length);

#endif
