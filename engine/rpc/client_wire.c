/* How clients travel. An extension of type CODEC_EXT_CLIENT: the target's key, a zero byte, the
 * node's name. */
#include <string.h>

#include "rpc/adopt.h"
#include "rpc/client_parts.h"
#include "runtime/failure.h"
#include "wire/token.h"

size_t client_encode(uint8_t *out, size_t size, const peer *peer) {
  if (!peer->target) return 0;
  size_t key = strlen(peer->target) + 1, name = strlen(peer->name);
  if (key + name > UINT8_MAX || 3 + key + name > size) return 0;
  out[0] = 0xc7; /* ext 8 */
  out[1] = (uint8_t)(key + name);
  out[2] = CODEC_EXT_CLIENT;
  memcpy(out + 3, peer->target, key);
  memcpy(out + 3 + key, peer->name, name);
  return 3 + key + name;
}

static bool write_client(lua_State *L, int index, buffer *out) {
  client *client = client_at(L, index);
  if (!client || client->mode != MODE_CALL || !buffer_reserve(out, 3 + UINT8_MAX)) return false;
  size_t length = client_encode(out->data + out->length, 3 + UINT8_MAX, client->peer);
  out->length += length;
  return length > 0;
}

/* Both texts from the payload; the length of the first, 0: it is none. */
static size_t client_texts(const uint8_t *data, size_t length, char *text) {
  if (length > UINT8_MAX) return 0;
  memcpy(text, data, length);
  text[length] = 0;
  size_t key = strlen(text);
  return key < length ? key : 0;
}

size_t client_decode(const uint8_t *data, size_t length, char *text) {
  token t = {0};
  if (token_read(data, length, &t) != TOKEN_READ || t.kind != TOKEN_EXT ||
      t.ext_type != CODEC_EXT_CLIENT || t.value > length - t.head)
    return 0;
  return client_texts(data + t.head, (size_t)t.value, text);
}

static bool read_client(lua_State *L, int type, const uint8_t *data, size_t length) {
  char text[UINT8_MAX + 1];
  size_t key = type == CODEC_EXT_CLIENT ? client_texts(data, length, text) : 0;
  if (!key) return false;
  peer *peer = peer_get(rpc_of(L), text, text + key + 1);
  if (!peer) failure_raise(L, LP_RESOURCE_EXHAUSTED, "out of memory");
  client_push(L, peer);
  return true;
}

const codec_hooks client_codec_hooks = {
    .write_userdata = write_client, .read_ext = read_client, .push_long = adopt_push};
