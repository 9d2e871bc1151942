/* The switch of the fault points: what it is told, and that the seed decides. */
#include "base/fault_point.h"

#include "test.h"

#ifdef LP_FAULTS

static void check_refused(const char *text, const char *word) {
  fault fault = {0};
  CHECK(!fault_points_set(text, &fault));
  CHECK(fault.status == LP_INVALID_ARGUMENT && strstr(fault.text, word));
  if (!strstr(fault.text, word)) fprintf(stderr, "%s: %s\n", text, fault.text);
}

static void test_what_makes_no_sense_is_refused_with_what_there_is(void) {
  check_refused("frmae:drop:0.1", "no point \"frmae\"; there are stream.read");
  check_refused("frame:short:0.1", "no kind \"short\"; there are delay, drop, duplicate, reset");
  check_refused("frame", "no kind \"\"");
  check_refused("frame:drop:1.5", "no probability \"1.5\"");
  check_refused("frame:drop:", "no probability \"\"");
  check_refused("frame:drop:0.1;windw=3", "no setting \"windw\"");
  check_refused("seed=-1", "no value \"-1\"");
  check_refused("seed=4294967296", "no value \"4294967296\"");
}

static void set(const char *text) {
  fault fault = {0};
  CHECK(fault_points_set(text, &fault));
  if (fault.status) fprintf(stderr, "%s\n", fault.text);
}

static void test_a_refused_text_changes_nothing(void) {
  set("frame:drop:1;window=5");
  check_refused("frame:drop:2", "no probability");
  CHECK(fault_point_pass(FAULT_FRAME) == INJECT_DROP);
  CHECK(fault_point_setting(FAULT_WINDOW, 9) == 5);
  set(NULL);
  CHECK(fault_point_pass(FAULT_FRAME) == INJECT_NOTHING);
  CHECK(fault_point_setting(FAULT_WINDOW, 9) == 9);
}

enum { PASSES = 20000 };

static void record(const char *text, unsigned char *out) {
  set(text);
  for (int i = 0; i < PASSES; i++) out[i] = (unsigned char)fault_point_pass(FAULT_FRAME);
}

static int count(const unsigned char *kinds, fault_kind wanted) {
  int found = 0;
  for (int i = 0; i < PASSES; i++) found += kinds[i] == wanted;
  return found;
}

static void test_the_seed_decides_what_happens_when(void) {
  static unsigned char first[PASSES], again[PASSES], other[PASSES];
  record("frame:drop:0.1,frame:delay:0.3;seed=7", first);
  record("frame:drop:0.1,frame:delay:0.3;seed=7", again);
  record("frame:drop:0.1,frame:delay:0.3;seed=8", other);
  CHECK(memcmp(first, again, PASSES) == 0);
  CHECK(memcmp(first, other, PASSES) != 0);
  CHECK(count(first, INJECT_DROP) > PASSES / 10 * 0.9 &&
        count(first, INJECT_DROP) < PASSES / 10 * 1.1);
  CHECK(count(first, INJECT_DELAY) > PASSES / 10 * 2.8 &&
        count(first, INJECT_DELAY) < PASSES / 10 * 3.2);
  CHECK(count(first, INJECT_RESET) == 0);
}

static void add(void *owner, const char *point, const char *kind, unsigned long number) {
  if (strcmp(point, "frame") == 0 && strcmp(kind, "drop") == 0) *(unsigned long *)owner = number;
}

static void test_what_has_struck_is_counted(void) {
  unsigned long struck = 1;
  set("frame:drop:1");
  fault_points_count(add, &struck);
  CHECK(struck == 0);
  for (int i = 0; i < 3; i++) fault_point_pass(FAULT_FRAME);
  fault_points_count(add, &struck);
  CHECK(struck == 3);
}

static void test_a_cut_leaves_something_on_both_sides(void) {
  set("seed=3");
  CHECK(fault_point_cut(FAULT_PIPE, 1) == 1);
  for (int i = 0; i < 1000; i++) {
    size_t cut = fault_point_cut(FAULT_PIPE, 2 + (size_t)i % 9);
    CHECK(cut >= 1 && cut < 2 + (size_t)i % 9);
  }
}

int main(void) {
  RUN(test_what_makes_no_sense_is_refused_with_what_there_is);
  RUN(test_a_refused_text_changes_nothing);
  RUN(test_the_seed_decides_what_happens_when);
  RUN(test_what_has_struck_is_counted);
  RUN(test_a_cut_leaves_something_on_both_sides);
  return TEST_END();
}

#else

static void test_without_fault_points_nothing_happens(void) {
  CHECK(fault_point_pass(FAULT_FRAME) == INJECT_NOTHING);
  CHECK(fault_point_cut(FAULT_PIPE, 7) == 7);
  CHECK(fault_point_setting(FAULT_WINDOW, 9) == 9);
}

int main(void) {
  RUN(test_without_fault_points_nothing_happens);
  return TEST_END();
}

#endif
