/* Intrusive hash table: an element embeds a hash_link, as with lists. Looks elements up by
 * a 64-bit value: a number, or that of a text (hash_text), whose owner compares the text.
 *
 * Entering never fails: without memory for more buckets their chains get longer. */
#ifndef LP_BASE_HASH_H
#define LP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct hash_link {
  struct hash_link *next;
  uint64_t value;
} hash_link;

typedef struct hash {
  hash_link **buckets; /* owned; NULL while there are none, then `few` is the only chain */
  hash_link *few;
  uint32_t bits; /* 1 << bits buckets */
  uint32_t count;
} hash;

/* All zero is an empty table, too. */
static inline void hash_init(hash *table) {
  *table = (hash){0};
}

/* Frees the buckets; the elements are their owner's. */
void hash_fini(hash *table);

/* Enters an element that is in no table. Several may have one value. */
void hash_put(hash *table, hash_link *link, uint64_t value);
/* Takes it out; harmless when it is not in the table. */
void hash_remove(hash *table, hash_link *link);

/* The first element with this value, and the next one of the same; or NULL. */
hash_link *hash_find(const hash *table, uint64_t value);
hash_link *hash_again(const hash_link *link);

uint64_t hash_text(const char *text);

#endif
