/* See hash.h. */
#include "base/hash.h"

#include <stdbool.h>

#include "base/memory.h"

enum { FIRST_BITS = 3, FEW = 4 /* as many need no buckets */, MOST_BITS = 24 };

static hash_link **chain_of(const hash *table, uint64_t value) {
  if (!table->buckets) return (hash_link **)&table->few;
  return &table->buckets[value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - table->bits)];
}

static void push(hash *table, hash_link *link) {
  hash_link **chain = chain_of(table, link->value);
  link->next = *chain;
  *chain = link;
}

static void push_all(hash *table, hash_link *chain) {
  for (hash_link *next; chain; chain = next) {
    next = chain->next;
    push(table, chain);
  }
}

/* Twice as many buckets, if there is memory. */
static void grow(hash *table) {
  hash old = *table;
  uint32_t bits = old.buckets ? old.bits + 1 : FIRST_BITS;
  hash_link **buckets = mem_alloc(sizeof(hash_link *) << bits);
  if (!buckets) return;
  for (size_t i = 0; i < (size_t)1 << bits; i++) buckets[i] = NULL;
  *table = (hash){.buckets = buckets, .bits = bits, .count = old.count};
  if (old.buckets)
    for (size_t i = 0; i < (size_t)1 << old.bits; i++) push_all(table, old.buckets[i]);
  push_all(table, old.few);
  mem_free(old.buckets);
}

static bool is_full(const hash *table) {
  uint32_t room = table->buckets ? (uint32_t)1 << table->bits : FEW;
  return table->count >= room && table->bits < MOST_BITS;
}

void hash_put(hash *table, hash_link *link, uint64_t value) {
  if (is_full(table)) grow(table);
  link->value = value;
  push(table, link);
  table->count++;
}

void hash_remove(hash *table, hash_link *link) {
  hash_link **place = chain_of(table, link->value);
  while (*place && *place != link) place = &(*place)->next;
  if (!*place) return;
  *place = link->next;
  link->next = NULL;
  table->count--;
}

static hash_link *with_value(hash_link *link, uint64_t value) {
  while (link && link->value != value) link = link->next;
  return link;
}

hash_link *hash_find(const hash *table, uint64_t value) {
  return with_value(*chain_of(table, value), value);
}

hash_link *hash_again(const hash_link *link) {
  return with_value(link->next, link->value);
}

uint64_t hash_text(const char *text) {
  uint64_t value = UINT64_C(0xcbf29ce484222325);
  for (; *text; text++) value = (value ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
  return value;
}

void hash_fini(hash *table) {
  mem_free(table->buckets);
  hash_init(table);
}
