#pragma once
/* prefix/table: which key has which id: an open-addressed table of fixed size.
 *
 *   slots:  | some bits of the key, id | empty | ... |     8 bytes each
 *              a key's home = 4 of its bytes, scaled to the slots;
 *              the key lies there or in the next free place after it
 *   owner:  keys[id], the whole key, inside whatever the owner keeps per id
 *
 *   count <= capacity <= 0.6 * slots
 *
 * Equality is on all 16 bytes: a slot only says whom to ask. Removing shifts
 * what follows back, so that no mark of the dead is left and a look-up never
 * slows down. Nothing is allocated after creation. One thread.
 *
 * The keys of one prompt are present up to some length and absent from there on
 * when whoever inserts keeps ancestors for as long as descendants; the length is
 * then found with a handful of look-ups (engine.md 6.2). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "prefix/keys.h"

#define PREFIX_TABLE_NONE UINT32_MAX
#define PREFIX_TABLE_CAPACITY_MAX ((UINT32_C(1) << 31) - 1)

struct prefix_table_options {
    uint32_t capacity; /* at most PREFIX_TABLE_CAPACITY_MAX */
    uint32_t id_count; /* ids are less; 0: than capacity. At most as many */
    /* The key of id 0; that of id i lies i * key_stride bytes further. Owned by
     * the caller, and unchanged while the id is in the table. */
    const struct prefix_key *keys;
    size_t key_stride;
};

struct prefix_table;
/* NULL: the system has no memory for it. */
struct prefix_table *prefix_table_create(
    const struct prefix_table_options *options);
void prefix_table_destroy(struct prefix_table *table); /* NULL is fine */

/* Adds the id under its key, which the owner has written and which is not here
 * yet. ERR_FULL: capacity reached. */
MUST_USE enum err prefix_table_insert(struct prefix_table *table, uint32_t id);
/* Removes an id that is here. */
void prefix_table_remove(struct prefix_table *table, uint32_t id);
/* The id of a key, or PREFIX_TABLE_NONE. */
uint32_t prefix_table_find(const struct prefix_table *table,
                           const struct prefix_key *key);
/* These keys will be asked for or inserted soon: their homes are fetched, side by
 * side and while the caller goes on. */
void prefix_table_expect(const struct prefix_table *table,
                         const struct prefix_key *keys, uint32_t count);
/* Many at once, their memory fetched side by side. `ids_out` is (count). */
void prefix_table_find_many(const struct prefix_table *table,
                            const struct prefix_key *keys, uint32_t count,
                            uint32_t *ids_out);
/* How many leading ones of `keys` (count), the keys of one prompt, are here.
 * `guess`: the answer last time or 0; a good one saves steps, a wrong one only
 * costs some. `id_out`, unless NULL: of the last one; PREFIX_TABLE_NONE: none. */
uint32_t prefix_table_find_longest(const struct prefix_table *table,
                                   const struct prefix_key *keys,
                                   uint32_t count, uint32_t guess,
                                   uint32_t *id_out);

uint32_t prefix_table_count(const struct prefix_table *table);
size_t prefix_table_bytes(const struct prefix_table *table);
/* Every slot reachable from its home, agreeing with its owner's key, no key
 * twice, count right. Slow. */
bool prefix_table_is_valid(const struct prefix_table *table);
