/* Feeds the fuzzers' kept inputs (spec/fuzz/corpus/TARGET) to their targets: what once was a
 * finding stays mended, in builds of every kind. A target that finds something aborts. */
#include <dirent.h>
#include <stdlib.h>

#include "../fuzz/fuzz.h"
#include "test.h"

enum { LONGEST = 1 << 20 };

static uint8_t bytes[LONGEST];

static size_t read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file);
  if (!file) return 0;
  size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  return length;
}

/* In a block of its own length, so that reading beyond it is seen by the sanitizers. */
static void feed(void (*target)(const uint8_t *, size_t), size_t length) {
  uint8_t *copy = malloc(length ? length : 1);
  CHECK(copy);
  if (!copy) return;
  memcpy(copy, bytes, length);
  target(copy, length);
  free(copy);
}

static void replay(const char *name, void (*target)(const uint8_t *, size_t)) {
  char folder[1024], path[2048];
  int count = 0;
  snprintf(folder, sizeof folder, "%s/%s", FUZZ_CORPUS, name);
  DIR *listing = opendir(folder);
  CHECK(listing);
  if (!listing) return;
  for (struct dirent *entry; (entry = readdir(listing)); count++) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%s\n", path);
    feed(target, read_file(path));
  }
  closedir(listing);
  CHECK(count > 2);
}

static void test_the_decoder_with_what_was_found(void) {
  replay("decode", fuzz_decode);
}

static void test_the_splitter_with_what_was_found(void) {
  replay("frames", fuzz_frames);
}

static void test_a_node_with_what_was_found(void) {
  replay("session", fuzz_session);
}

int main(void) {
  RUN(test_the_decoder_with_what_was_found);
  RUN(test_the_splitter_with_what_was_found);
  RUN(test_a_node_with_what_was_found);
  return TEST_END();
}
