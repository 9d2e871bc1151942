/* The hash table: what is put in is found, however many there are and whatever memory does. */
#include "base/hash.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "base/memory.h"
#include "test.h"

typedef struct item {
  uint64_t id;
  hash_link link;
} item;

enum { MANY = 5000 };
static item items[MANY];

static item *find(const hash *table, uint64_t id) {
  hash_link *link = hash_find(table, id);
  return link ? list_entry(link, item, link) : NULL;
}

static void put_all(hash *table, uint64_t step) {
  for (uint64_t i = 0; i < MANY; i++) {
    items[i].id = i * step;
    hash_put(table, &items[i].link, items[i].id);
  }
}

static bool finds_all(const hash *table, uint64_t step) {
  for (uint64_t i = 0; i < MANY; i++)
    if (find(table, i * step) != &items[i]) return false;
  return true;
}

static void test_an_empty_table_finds_nothing(void) {
  hash table;
  item alone = {0};
  hash_init(&table);
  CHECK(!hash_find(&table, 0) && !hash_find(&table, 7));
  hash_remove(&table, &alone.link);
  CHECK(table.count == 0);
  hash_fini(&table);
}

static void test_what_is_put_in_is_found_and_taken_out(void) {
  static const uint64_t steps[] = {1, 64, 1000003, UINT64_C(1) << 40};
  for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
    hash table = {0};
    put_all(&table, steps[s]);
    CHECK(table.count == MANY && finds_all(&table, steps[s]));
    CHECK(!find(&table, MANY * steps[s]));
    for (int i = 0; i < MANY; i += 2) hash_remove(&table, &items[i].link);
    hash_remove(&table, &items[0].link); /* again: harmless */
    CHECK(table.count == MANY / 2);
    for (uint64_t i = 0; i < MANY; i++)
      CHECK(find(&table, i * steps[s]) == (i % 2 ? &items[i] : NULL));
    hash_fini(&table);
  }
}

static void test_elements_of_one_value_are_all_found(void) {
  hash table = {0};
  put_all(&table, 0);
  int met = 0;
  for (hash_link *link = hash_find(&table, 0); link; link = hash_again(link)) met++;
  CHECK(met == MANY && !hash_find(&table, 1));
  hash_fini(&table);
}

static void test_texts_have_different_values(void) {
  CHECK(hash_text("run/echo/1") == hash_text("run/echo/1"));
  CHECK(hash_text("run/echo/1") != hash_text("run/echo/2"));
  CHECK(hash_text("") != hash_text("a"));
}

#ifdef LP_FAULTS
/* From the n-th request for buckets on there is none. */
static int fill_with_fault(int n) {
  pid_t child = fork();
  if (child == 0) {
    char number[16];
    snprintf(number, sizeof number, "%d+", n);
    setenv("LP_FAULT_ALLOC", number, 1);
    hash table = {0};
    put_all(&table, 3);
    bool found = table.count == MANY && finds_all(&table, 3);
    hash_fini(&table);
    _exit(!found);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_without_memory_chains_get_longer(void) {
  for (int n = 1; n <= 12; n++) CHECK(fill_with_fault(n) == 0);
}
#endif

int main(void) {
  RUN(test_an_empty_table_finds_nothing);
  RUN(test_what_is_put_in_is_found_and_taken_out);
  RUN(test_elements_of_one_value_are_all_found);
  RUN(test_texts_have_different_values);
#ifdef LP_FAULTS
  RUN(test_without_memory_chains_get_longer);
#endif
  return TEST_END();
}
