/* Floor of a call between two processes: frames of --bytes (32) over a stream socket,
 * --window (1) of them outstanding. With a window of 1 this is the sequential round trip;
 * with more, each side answers all frames it finds with one write.
 *
 *   epoll_pingpong [--link unix|tcp] [--window N] [--bytes N] [--rounds N] [--pin A,B] */
#define _GNU_SOURCE
#include "pair.h"

enum { SPACE = 65536 };

/* Reads once and returns how many whole frames `bytes` now starts with; `have` bytes of
 * it were there before and are in it after. */
static size_t read_frames(peer *self, char *bytes, size_t *have, size_t frame) {
  size_t got = peer_read(self, bytes + *have, SPACE - *have);
  if (!got) return 0;
  *have += got;
  return *have / frame;
}

static void drop_frames(char *bytes, size_t *have, size_t used) {
  *have -= used;
  if (*have) memmove(bytes, bytes + used, *have);
}

static void serve(const floor_args *args, peer *self) {
  static char bytes[SPACE];
  size_t frame = (size_t)floor_number(args, "--bytes", 32), have = 0;
  for (;;) {
    size_t before = have, frames = read_frames(self, bytes, &have, frame);
    if (have == before) return;
    if (!frames) continue;
    peer_write(self, bytes, frames * frame);
    drop_frames(bytes, &have, frames * frame);
  }
}

/* Sends `rounds` frames, never more than `window` unanswered, and awaits all answers. */
static void call(peer *self, long rounds, long window, size_t frame) {
  static char out[SPACE], in[SPACE];
  size_t have = 0;
  long sent = window < rounds ? window : rounds, answered = 0;
  peer_write(self, out, (size_t)sent * frame);
  while (answered < rounds) {
    size_t before = have, frames = read_frames(self, in, &have, frame);
    if (have == before) floor_die("the server closed");
    drop_frames(in, &have, frames * frame);
    answered += (long)frames;
    long more = (long)frames < rounds - sent ? (long)frames : rounds - sent;
    if (more) peer_write(self, out, (size_t)more * frame);
    sent += more;
  }
}

int main(int argc, char **argv) {
  static const char *const known[] = {"--link", "--window", "--bytes", NULL};
  floor_args args;
  floor_init(&args, argc, argv, "epoll_pingpong", 200000, known);
  const char *link = floor_option(&args, "--link", "unix");
  long window = floor_number(&args, "--window", 1), frame = floor_number(&args, "--bytes", 32);
  if (frame > SPACE || window > SPACE / frame) {
    fprintf(stderr, "epoll_pingpong: --window times --bytes is at most %d\n", SPACE);
    return 2;
  }
  int fds[2];
  pair_open(link, fds);
  pid_t child = pair_fork(&args, fds, serve);
  floor_pin(&args, 0);
  peer self = peer_open(fds[0]);
  call(&self, args.rounds / 10 + 1, window, (size_t)frame); /* warms up */
  int64_t start = floor_now();
  call(&self, args.rounds, window, (size_t)frame);
  floor_begin(&args, floor_now() - start, args.rounds);
  printf(",\"link\":\"%s\",\"window\":%ld,\"bytes\":%ld", link, window, frame);
  floor_end();
  pair_close(&self, child);
  return 0;
}
