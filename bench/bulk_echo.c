/* Floor of a large call: --bytes (1 MiB) go to the other process, which takes all of
 * them in before it sends them back, as an RPC has to. --sockbuf asks for socket buffers
 * of that many bytes; the line says what was granted.
 *
 *   bulk_echo [--link unix|tcp] [--bytes N] [--sockbuf N] [--rounds N] [--pin A,B] */
#define _GNU_SOURCE
#include "pair.h"

/* False: the other side closed before the first byte. */
static int read_all(peer *self, char *bytes, size_t size) {
  size_t have = 0;
  while (have < size) {
    size_t got = peer_read(self, bytes + have, size - have);
    if (!got) return 0;
    have += got;
  }
  return 1;
}

static char *message_new(size_t size) {
  char *bytes = malloc(size);
  if (!bytes) floor_die("malloc");
  memset(bytes, 'x', size);
  return bytes;
}

static void serve(const floor_args *args, peer *self) {
  size_t size = (size_t)floor_number(args, "--bytes", 1 << 20);
  char *bytes = message_new(size);
  while (read_all(self, bytes, size)) peer_write(self, bytes, size);
  free(bytes);
}

static void call(peer *self, char *bytes, size_t size, long rounds) {
  for (long i = 0; i < rounds; i++) {
    peer_write(self, bytes, size);
    if (!read_all(self, bytes, size)) floor_die("the server closed");
  }
}

/* The privileged form passes the system's limit; without the privilege, up to it. */
static void set_buffer(int fd, int forced, int plain, int bytes) {
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) &&
      setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes))
    floor_die("setsockopt");
}

static void set_buffers(int fds[2], long bytes) {
  for (int i = 0; bytes && i < 2; i++) {
    set_buffer(fds[i], SO_SNDBUFFORCE, SO_SNDBUF, (int)bytes);
    set_buffer(fds[i], SO_RCVBUFFORCE, SO_RCVBUF, (int)bytes);
  }
}

static int granted(int fd) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size)) floor_die("getsockopt");
  return bytes;
}

int main(int argc, char **argv) {
  static const char *const known[] = {"--link", "--bytes", "--sockbuf", NULL};
  floor_args args;
  floor_init(&args, argc, argv, "bulk_echo", 2000, known);
  const char *link = floor_option(&args, "--link", "unix");
  size_t size = (size_t)floor_number(&args, "--bytes", 1 << 20);
  int fds[2];
  pair_open(link, fds);
  set_buffers(fds, floor_number(&args, "--sockbuf", 0));
  pid_t child = pair_fork(&args, fds, serve);
  floor_pin(&args, 0);
  peer self = peer_open(fds[0]);
  char *bytes = message_new(size);
  call(&self, bytes, size, args.rounds / 10 + 1); /* warms up */
  int64_t start = floor_now();
  call(&self, bytes, size, args.rounds);
  floor_begin(&args, floor_now() - start, args.rounds);
  printf(",\"link\":\"%s\",\"bytes\":%zu,\"sockbuf\":%d", link, size, granted(self.fd));
  floor_end();
  free(bytes);
  pair_close(&self, child);
  return 0;
}
