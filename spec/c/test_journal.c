/* The journal keeps the last lines, whole, numbered, within its bound. */
#include "process/journal.h"
#include "test.h"

static bool text_is(const journal_line *line, const char *text) {
  return line->text_length == strlen(text) && memcmp(line->text, text, line->text_length) == 0;
}

static void splits_lines(void) {
  journal kept = {0};
  journal_line line;
  journal_add(&kept, 2, "a/0xx", 3, "one\n\nthree", 10);
  size_t at = kept.first;
  CHECK(journal_next(&kept, &at, &line) && text_is(&line, "one"));
  CHECK(line.number == 0 && line.stream == 2);
  CHECK(line.name_length == 3 && memcmp(line.name, "a/0", 3) == 0);
  CHECK(line.time > 1e9);
  CHECK(journal_next(&kept, &at, &line) && text_is(&line, ""));
  CHECK(journal_next(&kept, &at, &line) && text_is(&line, "three") && line.number == 2);
  CHECK(!journal_next(&kept, &at, &line));
  journal_fini(&kept);
}

static void forgets_the_oldest(void) {
  journal kept = {0};
  journal_line line;
  char text[1000];
  memset(text, 'x', sizeof text);
  for (int i = 0; i < 5000; i++) journal_add(&kept, 1, "n", 1, text, sizeof text);
  CHECK(kept.count == 5000 && kept.kept < 1100 && kept.kept > 900);
  CHECK(kept.lines.length - kept.first <= JOURNAL_BYTES);
  CHECK(kept.lines.capacity < 4 * JOURNAL_BYTES);
  size_t at = kept.first;
  uint64_t lines = 0;
  while (journal_next(&kept, &at, &line)) {
    CHECK(line.number == 5000 - kept.kept + lines && line.text_length == sizeof text);
    lines++;
  }
  CHECK(lines == kept.kept);
  journal_fini(&kept);
}

static void cuts_long_lines(void) {
  static char text[JOURNAL_BYTES * 2];
  journal kept = {0};
  journal_line line;
  memset(text, 'x', sizeof text);
  journal_add(&kept, 1, "n", 1, text, sizeof text);
  size_t at = kept.first;
  CHECK(journal_next(&kept, &at, &line) && line.text_length == JOURNAL_LINE_BYTES);
  journal_fini(&kept);
}

int main(void) {
  RUN(splits_lines);
  RUN(forgets_the_oldest);
  RUN(cuts_long_lines);
  return TEST_END();
}
