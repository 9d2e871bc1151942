/* Addresses: unix:PATH, tcp:HOST:PORT, inproc:NAME. */
#ifndef LP_NET_ADDRESS_H
#define LP_NET_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"

typedef enum address_kind { ADDRESS_UNIX, ADDRESS_TCP, ADDRESS_INPROC } address_kind;

enum { ADDRESS_NAME = 256 };

typedef struct address {
  address_kind kind;
  char name[ADDRESS_NAME]; /* path, host or name; terminated */
  uint16_t port;           /* tcp */
} address;

/* Parses "unix:…", "tcp:…:…" (also "tcp:[::1]:80") or "inproc:…"; the fault quotes the text. */
lp_status address_parse(const char *text, address *out, fault *fault);
/* Writes the address as text into `out` of `size` bytes, cut when it does not fit. */
void address_format(const address *address, char *out, unsigned size);
/* The socket address of a unix or tcp address. Never waits: a tcp host is a numeric
 * address or "localhost" (127.0.0.1); names come when something can ask for them aside. */
lp_status address_resolve(const address *address, struct sockaddr_storage *out, socklen_t *length,
                          fault *fault);

#endif
