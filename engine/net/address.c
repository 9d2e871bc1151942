/* See address.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/address.h"

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define ADDRESS_FORMS "unix:PATH, tcp:HOST:PORT or inproc:NAME"

static lp_status refuse(const char *text, fault *out, const char *why) {
  return fault_set(out, LP_INVALID_ARGUMENT, "bad address \"%.300s\": %s", text, why);
}

static bool copy_name(address *out, const char *name, size_t length) {
  if (length >= ADDRESS_NAME) return false;
  memcpy(out->name, name, length);
  out->name[length] = 0;
  return true;
}

static lp_status parse_name(const char *text, const char *name, address *out, fault *why) {
  if (!*name) return refuse(text, why, "the part after the colon is missing");
  if (!copy_name(out, name, strlen(name))) return refuse(text, why, "it is over 255 bytes long");
  return LP_OK;
}

/* Digits only, so that neither signs nor blanks pass. */
static bool parse_port(const char *digits, uint16_t *port) {
  unsigned value = 0;
  size_t length = strlen(digits);
  if (!length || length > 5 || strspn(digits, "0123456789") != length) return false;
  for (; *digits; digits++) value = value * 10 + (unsigned)(*digits - '0');
  *port = (uint16_t)value;
  return value <= UINT16_MAX;
}

static lp_status parse_tcp(const char *text, const char *host, address *out, fault *why) {
  const char *colon = strrchr(host, ':');
  if (!colon || !parse_port(colon + 1, &out->port))
    return refuse(text, why, "it must end in a colon and a port, a number from 0 to 65535");
  size_t length = (size_t)(colon - host);
  bool bracketed = length > 2 && host[0] == '[' && host[length - 1] == ']';
  if (bracketed) host++, length -= 2;
  if (!length) return refuse(text, why, "the host is missing (0.0.0.0 stands for any)");
  if (!bracketed && memchr(host, ':', length))
    return refuse(text, why, "an IPv6 host is written in brackets, as in tcp:[::1]:80");
  if (strcspn(host, "[]") < length) return refuse(text, why, "there are stray brackets in it");
  if (!copy_name(out, host, length)) return refuse(text, why, "its host is over 255 bytes long");
  return LP_OK;
}

lp_status address_parse(const char *text, address *out, fault *why) {
  memset(out, 0, sizeof *out);
  if (!strncmp(text, "unix:", 5)) {
    out->kind = ADDRESS_UNIX;
    return parse_name(text, text + 5, out, why);
  }
  if (!strncmp(text, "inproc:", 7)) {
    out->kind = ADDRESS_INPROC;
    return parse_name(text, text + 7, out, why);
  }
  out->kind = ADDRESS_TCP;
  if (!strncmp(text, "tcp:", 4)) return parse_tcp(text, text + 4, out, why);
  return refuse(text, why, "expected " ADDRESS_FORMS);
}

void address_format(const address *self, char *out, unsigned size) {
  if (self->kind == ADDRESS_TCP)
    snprintf(out, size, strchr(self->name, ':') ? "tcp:[%s]:%u" : "tcp:%s:%u", self->name,
             (unsigned)self->port);
  else
    snprintf(out, size, "%s:%s", self->kind == ADDRESS_UNIX ? "unix" : "inproc", self->name);
}

static lp_status resolve_unix(const address *self, struct sockaddr_storage *out, socklen_t *length,
                              fault *why) {
  struct sockaddr_un *path = (struct sockaddr_un *)(void *)out;
  size_t bytes = strlen(self->name);
  if (bytes >= sizeof path->sun_path)
    return fault_set(why, LP_INVALID_ARGUMENT,
                     "the socket path %s has %zu bytes, the system takes %zu: use a shorter folder",
                     self->name, bytes, sizeof path->sun_path - 1);
  path->sun_family = AF_UNIX;
  memcpy(path->sun_path, self->name, bytes + 1);
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
  return LP_OK;
}

/* Numbers only, so that it never waits for a name server. */
static lp_status resolve_tcp(const address *self, struct sockaddr_storage *out, socklen_t *length,
                             fault *why) {
  const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                 .ai_socktype = SOCK_STREAM};
  const char *host = strcmp(self->name, "localhost") ? self->name : "127.0.0.1";
  char port[8];
  snprintf(port, sizeof port, "%u", (unsigned)self->port);
  struct addrinfo *found;
  int failure = getaddrinfo(host, port, &hints, &found);
  if (failure == EAI_MEMORY)
    return fault_set(why, LP_RESOURCE_EXHAUSTED, "no memory to resolve %s", host);
  if (failure)
    return fault_set(
        why, LP_INVALID_ARGUMENT,
        "cannot resolve the host \"%s\": only numeric addresses and localhost are known", host);
  memcpy(out, found->ai_addr, found->ai_addrlen);
  *length = found->ai_addrlen;
  freeaddrinfo(found);
  return LP_OK;
}

lp_status address_resolve(const address *self, struct sockaddr_storage *out, socklen_t *length,
                          fault *why) {
  memset(out, 0, sizeof *out);
  if (self->kind == ADDRESS_UNIX) return resolve_unix(self, out, length, why);
  if (self->kind == ADDRESS_TCP) return resolve_tcp(self, out, length, why);
  return fault_set(why, LP_INVALID_ARGUMENT, "inproc:%s has no socket", self->name);
}
