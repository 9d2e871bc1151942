/* Values of lp.h: what is pushed is read, and wrong use is an error. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "embed.h"

/* ---- values ----------------------------------------------------------------- */

static void test_values_are_read_as_they_were_pushed(void) {
  lp_values *values = lp_values_new();
  OK(lp_push_nil(values));
  OK(lp_push_boolean(values, true));
  OK(lp_push_integer(values, INT64_MIN));
  OK(lp_push_number(values, 3.0));
  OK(lp_push_string(values, "text"));
  OK(lp_push_bytes(values, "a\0\xff", 3));
  OK(lp_push_array(values, 2));
  OK(lp_push_integer(values, 1));
  OK(lp_push_map(values, 1));
  OK(lp_push_string(values, "key"));
  OK(lp_push_integer(values, 7));
  OK(lp_push_map(values, 0));
  CHECK(lp_values_count(values) == 8);
  lp_reader reader = lp_values_read(values), array, map;
  bool yes = false;
  int64_t integer = 0;
  double number = 0;
  char text[8];
  const char *bytes;
  size_t length;
  OK(lp_read_nil(&reader));
  OK(lp_read_boolean(&reader, &yes));
  CHECK(yes);
  OK(lp_read_integer(&reader, &integer));
  CHECK(integer == INT64_MIN);
  CHECK(lp_read_kind(&reader) == LP_NUMBER);
  lp_reader again = reader;
  OK(lp_read_integer(&again, &integer));
  CHECK(integer == 3);
  OK(lp_read_number(&reader, &number));
  CHECK(number == 3.0);
  OK(lp_read_string(&reader, text, sizeof text));
  CHECK(strcmp(text, "text") == 0);
  FAILS(lp_read_string(&reader, text, sizeof text), LP_OUT_OF_RANGE, "byte 0");
  OK(lp_read_bytes(&reader, &bytes, &length));
  CHECK(length == 3 && memcmp(bytes, "a\0\xff", 3) == 0);
  again = reader;
  OK(lp_read_skip(&again));
  CHECK(lp_read_kind(&again) == LP_MAP);
  OK(lp_read_array(&reader, &array));
  CHECK(lp_read_left(&array) == 2);
  OK(lp_read_number(&array, &number));
  OK(lp_read_map(&array, &map));
  CHECK(lp_read_left(&map) == 2);
  OK(lp_read_string(&map, text, sizeof text));
  OK(lp_read_integer(&map, &integer));
  CHECK(integer == 7 && lp_read_kind(&map) == LP_END && lp_read_kind(&array) == LP_END);
  OK(lp_read_map(&reader, &map));
  CHECK(lp_read_left(&map) == 0 && lp_read_left(&reader) == 0);
  FAILS(lp_read_nil(&reader), LP_INVALID_ARGUMENT, "value 9: expected nil, got no further value");
  lp_values_clear(values);
  CHECK(lp_values_count(values) == 0);
  lp_values_free(values);
}

static void test_values_used_wrongly(void) {
  lp_values *values = lp_values_new();
  lp_reader reader = lp_values_read(values);
  int64_t integer;
  FAILS(lp_push_nil(NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_boolean(NULL, true), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_integer(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_number(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_string(NULL, "x"), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_string(values, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_bytes(values, NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_array(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_map(NULL, 1), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_array(values, SIZE_MAX), LP_INVALID_ARGUMENT, "too many");
  FAILS(lp_push_node(values, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_push_next(values, NULL), LP_INVALID_ARGUMENT, "no further value");
  FAILS(lp_read_nil(NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_boolean(NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_integer(NULL, &integer), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_integer(&reader, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_number(&reader, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_bytes(&reader, NULL, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_string(&reader, NULL, 0), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_array(&reader, NULL), LP_INVALID_ARGUMENT, "NULL");
  FAILS(lp_read_map(&reader, &reader), LP_INVALID_ARGUMENT, "expected a map");
  FAILS(lp_read_skip(&reader), LP_INVALID_ARGUMENT, "expected a value");
  CHECK(lp_read_kind(NULL) == LP_END && lp_read_left(NULL) == 0 && lp_values_count(NULL) == 0);
  OK(lp_push_string(values, "x"));
  reader = lp_values_read(values);
  FAILS(lp_read_integer(&reader, &integer), LP_INVALID_ARGUMENT,
        "value 1: expected an integer, got string");
  for (int i = 0; i < 200; i++) OK(lp_push_array(values, 1));
  FAILS(lp_push_array(values, 1), LP_INVALID_ARGUMENT, "200 deep");
  lp_values_clear(NULL);
  lp_values_free(NULL);
  lp_values_free(values);
}

int main(void) {
  RUN(test_values_are_read_as_they_were_pushed);
  RUN(test_values_used_wrongly);
  return TEST_END();
}
