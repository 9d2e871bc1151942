/* What every floor shares: the command line, pinning, the clock and the one JSON line
 * it prints. A floor is what the machine gives when nothing of ours runs.
 *
 *   NAME [--rounds N] [--pin CPU[,CPU]] [options of its own, each with a value] */
#ifndef LP_BENCH_FLOOR_H
#define LP_BENCH_FLOOR_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include"
#endif
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct floor_args {
  const char *name;
  int argc;
  char **argv;
  long rounds;
  int pins[2]; /* CPU of the first and second thread or process, -1: anywhere */
} floor_args;

static inline void floor_die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "failed");
  exit(1);
}

static inline int64_t floor_now(void) { /* ns */
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The value of option `name` ("--window"), or `otherwise`. */
static inline const char *floor_option(const floor_args *args, const char *name,
                                       const char *otherwise) {
  for (int i = 1; i + 1 < args->argc; i += 2)
    if (!strcmp(args->argv[i], name)) return args->argv[i + 1];
  return otherwise;
}

/* The same as a whole number of at least 1; anything else ends the program. */
static inline long floor_number(const floor_args *args, const char *name, long otherwise) {
  const char *text = floor_option(args, name, NULL);
  if (!text) return otherwise;
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (errno || *end || number < 1) {
    fprintf(stderr, "%s: %s takes a whole number of at least 1\n", args->name, name);
    exit(2);
  }
  return number;
}

/* Checks the words against `known` (more options, NULL at the end) and fills `args`. */
static inline void floor_init(floor_args *args, int argc, char **argv, const char *name,
                              long rounds, const char *const *known) {
  *args = (floor_args){name, argc, argv, rounds, {-1, -1}};
  for (int i = 1; i < argc; i += 2) {
    int found = !strcmp(argv[i], "--rounds") || !strcmp(argv[i], "--pin");
    for (int k = 0; !found && known && known[k]; k++) found = !strcmp(argv[i], known[k]);
    if (!found || i + 1 == argc) {
      fprintf(stderr, "%s: unknown option, or one without its value: %s\n", name, argv[i]);
      exit(2);
    }
  }
  args->rounds = floor_number(args, "--rounds", rounds);
  const char *pins = floor_option(args, "--pin", NULL);
  if (!pins) return;
  char *end;
  args->pins[0] = args->pins[1] = (int)strtol(pins, &end, 10);
  if (*end == ',') args->pins[1] = (int)strtol(end + 1, &end, 10);
  if (*end || end == pins) {
    fprintf(stderr, "%s: --pin takes CPU or CPU,CPU\n", name);
    exit(2);
  }
}

/* Binds the calling thread to the CPU of its side (0 or 1). */
static inline void floor_pin(const floor_args *args, int side) {
  if (args->pins[side] < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)args->pins[side], &set);
  if (sched_setaffinity(0, sizeof set, &set)) floor_die("sched_setaffinity");
}

/* The line's beginning, up to and with `ops` operations in `ns`; the caller adds fields of
 * its own, each with a leading comma, and floor_end. */
static inline void floor_begin(const floor_args *args, int64_t ns, long ops) {
  double each = (double)ns / (double)ops;
  printf("{\"bench\":\"%s\",\"rounds\":%ld,\"pin\":[%d,%d],\"ns_per_op\":%.1f,\"ops_per_s\":%.0f",
         args->name, args->rounds, args->pins[0], args->pins[1], each, 1e9 / each);
}

static inline void floor_end(void) {
  printf("}\n");
}

#endif
