/* Log files: added to, begun anew, shared with nobody, and full. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "process/logfile.h"
#include "test.h"

static char folder[64];

static const char *below(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static const char *content(const char *name) {
  static char text[4096];
  FILE *file = fopen(below(name), "r");
  if (!file) return "(none)";
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  return text;
}

static logfile *opened(const char *name, size_t limit) {
  fault fault;
  logfile *file = NULL;
  CHECK(logfile_open(below(name), limit, &file, &fault) == LP_OK);
  return file;
}

static void add(logfile *file, const char *text) {
  logfile_write(file, text, strlen(text));
}

static void lines_are_added_and_ended(void) {
  logfile *file = opened("a/b/c", 0);
  add(file, "one\ntwo");
  add(file, "");
  add(file, "three\n");
  CHECK(strcmp(content("a/b/c"), "one\ntwo\nthree\n") == 0);
  logfile_close(file);
  logfile_close(opened("a/b/c", 0));
  CHECK(strcmp(content("a/b/c"), "") == 0);
  logfile_close(NULL);
}

static void a_large_file_is_begun_anew(void) {
  static const char *const lines[] = {"1aaaaa\n", "2aaaaa\n", "3aaaaa\n", "4aaaaa\n", "5aaaaa\n"};
  logfile *file = opened("r", 10);
  for (int i = 0; i < 5; i++) add(file, lines[i]);
  CHECK(strcmp(content("r"), lines[4]) == 0);
  CHECK(strcmp(content("r.1"), lines[3]) == 0);
  CHECK(strcmp(content("r.3"), lines[1]) == 0);
  CHECK(strcmp(content("r.4"), "(none)") == 0);
  add(file, "longer than the limit\n");
  CHECK(strcmp(content("r"), "longer than the limit\n") == 0);
  logfile_close(file);
}

static void two_never_write_to_one_file(void) {
  logfile *first = opened("s", 10), *second = opened("s", 10), *third = opened("s", 10);
  add(first, "first\n");
  add(second, "second\n");
  CHECK(strcmp(logfile_path(third) + strlen(folder), "/s_2") == 0);
  add(first, "again and again\n"); /* a new file, and still locked */
  logfile *fourth = opened("s", 10);
  CHECK(strcmp(logfile_path(fourth) + strlen(folder), "/s_3") == 0);
  CHECK(strcmp(content("s_1"), "second\n") == 0);
  logfile_close(first);
  logfile_close(second);
  logfile_close(third);
  logfile_close(fourth);
}

static void a_full_disk_loses_lines_and_tears_none(void) {
  struct rlimit before, small;
  logfile *file = opened("f", 0);
  int cause;
  CHECK(logfile_lost(file, &cause) == 0);
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 10;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  add(file, "1234567\n");
  add(file, "89abcdef\n"); /* two bytes fit */
  add(file, "lost\n");
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(logfile_lost(file, &cause) == 7 + 1 + 5 || logfile_lost(file, &cause) == 7 + 5);
  CHECK(cause == EFBIG);
  add(file, "room again\n");
  CHECK(strcmp(content("f"), "1234567\n89\nroom again\n") == 0);
  logfile_close(file);
}

static void what_cannot_be_made_is_refused_with_the_path(void) {
  fault fault;
  logfile *file = NULL;
  logfile_close(opened("plain", 0));
  CHECK(logfile_open(below("plain/x"), 0, &file, &fault) == LP_FAILED_PRECONDITION);
  CHECK(strstr(fault.text, "plain/x: Not a directory"));
  CHECK(symlink("/etc/passwd", below("link")) == 0);
  CHECK(logfile_open(below("link"), 0, &file, &fault) == LP_FAILED_PRECONDITION);
  CHECK(!file);
}

int main(void) {
  strcpy(folder, "/tmp/lp_logfile.XXXXXX");
  if (!mkdtemp(folder)) return 1;
  RUN(lines_are_added_and_ended);
  RUN(a_large_file_is_begun_anew);
  RUN(two_never_write_to_one_file);
  RUN(a_full_disk_loses_lines_and_tears_none);
  RUN(what_cannot_be_made_is_refused_with_the_path);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command) != 0) return 1;
  return TEST_END();
}
