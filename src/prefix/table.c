#include "prefix/table.h"

#include "base/check.h"
#include "base/mem.h"

enum { CACHE_LINE = 64, BATCH = 32 };

/* The id in the low bits, as many as ids need, all set when the slot is empty;
 * above them the high bits of the key's first 8 bytes, 32 of them at least: its
 * home and some more. What lies in one slot's neighbourhood shares its home, so
 * the rest decides whom to ask, and the owner's copy settles it. */
typedef uint64_t table_slot;

struct prefix_table {
    uint32_t capacity;
    uint32_t slot_count; /* > capacity: an empty one ends every search */
    uint32_t count;
    uint64_t id_mask;
    const uint8_t *keys;
    size_t key_stride;
    table_slot *slots; /* (slot_count) */
};

/* All bits that an id may have. None itself is an id. */
static uint64_t mask_for(uint32_t id_count)
{
    uint64_t mask = 1;
    while (mask < id_count) {
        mask = 2 * mask + 1;
    }
    return mask;
}

struct prefix_table *prefix_table_create(
    const struct prefix_table_options *options)
{
    CHECK(options->capacity <= PREFIX_TABLE_CAPACITY_MAX);
    CHECK(options->id_count <= PREFIX_TABLE_CAPACITY_MAX);
    CHECK(options->key_stride >= sizeof(struct prefix_key));
    uint64_t slot_count = (uint64_t)options->capacity * 5 / 3 + 2;
    table_slot *slots =
        mem_try_aligned(CACHE_LINE, slot_count * sizeof(slots[0]));
    if (slots == NULL) {
        return NULL;
    }
    struct prefix_table *table = mem_new(sizeof(*table));
    *table = (struct prefix_table){
        .capacity = options->capacity,
        .slot_count = (uint32_t)slot_count,
        .id_mask = mask_for(options->id_count > 0 ? options->id_count
                                                  : options->capacity),
        .keys = (const uint8_t *)options->keys,
        .key_stride = options->key_stride,
        .slots = slots,
    };
    memset(slots, 0xff, slot_count * sizeof(slots[0]));
    return table;
}

void prefix_table_destroy(struct prefix_table *table)
{
    if (table == NULL) {
        return;
    }
    mem_free(table->slots);
    mem_free(table);
}

static uint64_t head_of(const struct prefix_key *key)
{
    uint64_t head;
    memcpy(&head, key->bytes, sizeof(head));
    return head;
}

static bool is_empty(const struct prefix_table *table, table_slot slot)
{
    return (slot & table->id_mask) == table->id_mask;
}

static uint32_t id_of(const struct prefix_table *table, table_slot slot)
{
    return is_empty(table, slot) ? PREFIX_TABLE_NONE
                                 : (uint32_t)(slot & table->id_mask);
}

/* Keys are pseudo-random, any of their bits spread well: scaled instead of
 * masked, the table need not be a power of two. */
static uint32_t home_of(const struct prefix_table *table, uint64_t head)
{
    return (uint32_t)((head >> 32) * table->slot_count >> 32);
}

static uint32_t after(const struct prefix_table *table, uint32_t at)
{
    return at + 1 == table->slot_count ? 0 : at + 1;
}

/* Steps forward from slot `a` to slot `b`. */
static uint32_t distance(const struct prefix_table *table, uint32_t a,
                         uint32_t b)
{
    return b >= a ? b - a : b + (table->slot_count - a);
}

static const struct prefix_key *key_of(const struct prefix_table *table,
                                       uint32_t id)
{
    return (const struct prefix_key *)(table->keys + id * table->key_stride);
}

static void prefetch(const struct prefix_table *table,
                     const struct prefix_key *key)
{
    __builtin_prefetch(&table->slots[home_of(table, head_of(key))]);
}

/* Slot of the key, or of the empty place that ends the search for it. With
 * `is_whole` the owner is asked, else what the slot has passes for the key. */
static uint32_t seek(const struct prefix_table *table,
                     const struct prefix_key *key, bool is_whole)
{
    uint64_t head = head_of(key);
    uint32_t at = home_of(table, head);
    for (;; at = after(table, at)) {
        table_slot slot = table->slots[at];
        if (is_empty(table, slot)) {
            return at;
        }
        bool is_alike = ((slot ^ head) & ~table->id_mask) == 0;
        if (is_alike &&
            (!is_whole ||
             prefix_key_equals(key_of(table, id_of(table, slot)), key))) {
            return at;
        }
    }
}

uint32_t prefix_table_find(const struct prefix_table *table,
                           const struct prefix_key *key)
{
    return id_of(table, table->slots[seek(table, key, true)]);
}

enum err prefix_table_insert(struct prefix_table *table, uint32_t id)
{
    CHECK(id < table->id_mask);
    if (table->count == table->capacity) {
        return ERR_FULL;
    }
    const struct prefix_key *key = key_of(table, id);
    uint32_t at = seek(table, key, true);
    CHECK(is_empty(table, table->slots[at]));
    table->slots[at] = (head_of(key) & ~table->id_mask) | id;
    table->count++;
    return OK;
}

void prefix_table_remove(struct prefix_table *table, uint32_t id)
{
    uint32_t hole = seek(table, key_of(table, id), true);
    CHECK(id_of(table, table->slots[hole]) == id);
    for (uint32_t at = after(table, hole); !is_empty(table, table->slots[at]);
         at = after(table, at)) {
        uint32_t home = home_of(table, table->slots[at]);
        if (distance(table, home, at) >= distance(table, hole, at)) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    }
    table->slots[hole] = UINT64_MAX;
    table->count--;
}

void prefix_table_expect(const struct prefix_table *table,
                         const struct prefix_key *keys, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        prefetch(table, &keys[i]);
    }
}

/* Three passes, so that each waits for memory once: fetch the homes; find whom
 * to ask, and fetch their keys; compare. */
static void find_batch(const struct prefix_table *table,
                       const struct prefix_key *keys, uint32_t count,
                       uint32_t *ids_out)
{
    prefix_table_expect(table, keys, count);
    for (uint32_t i = 0; i < count; i++) {
        ids_out[i] = id_of(table, table->slots[seek(table, &keys[i], false)]);
        if (ids_out[i] != PREFIX_TABLE_NONE) {
            __builtin_prefetch(key_of(table, ids_out[i]));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ids_out[i] != PREFIX_TABLE_NONE &&
            !prefix_key_equals(key_of(table, ids_out[i]), &keys[i])) {
            ids_out[i] = prefix_table_find(table, &keys[i]);
        }
    }
}

void prefix_table_find_many(const struct prefix_table *table,
                            const struct prefix_key *keys, uint32_t count,
                            uint32_t *ids_out)
{
    for (uint32_t i = 0; i < count; i += BATCH) {
        uint32_t left = count - i;
        find_batch(table, keys + i, left < BATCH ? left : BATCH, ids_out + i);
    }
}

/* ---- the longest prefix ---- */

static bool has(const struct prefix_table *table, const struct prefix_key *key,
                bool is_whole)
{
    return !is_empty(table, table->slots[seek(table, key, is_whole)]);
}

/* Lengths 2^i - 1 beyond `known` until one is absent: `known` comes to the last
 * present, `*absent_inout` to the first absent length looked at. Where it will
 * look is known at the start, so all of it is fetched at once. */
static uint32_t gallop(const struct prefix_table *table,
                       const struct prefix_key *keys, uint32_t known,
                       uint32_t *absent_inout, bool is_whole)
{
    uint32_t end = *absent_inout;
    for (uint64_t at = (uint64_t)known + 1; at < end; at += at - known + 1) {
        prefetch(table, &keys[at - 1]);
    }
    uint64_t step = 1;
    while (known + step < end &&
           has(table, &keys[known + step - 1], is_whole)) {
        known += (uint32_t)step;
        step *= 2;
    }
    if (known + step < end) {
        *absent_inout = known + (uint32_t)step;
    }
    return known;
}

/* Halves the lengths between `known`, present, and `absent`. Both places that
 * the next step may look at are fetched meanwhile. */
static uint32_t halve(const struct prefix_table *table,
                      const struct prefix_key *keys, uint32_t known,
                      uint32_t absent, bool is_whole)
{
    while (absent - known > 1) {
        uint32_t middle = known + (absent - known) / 2;
        uint32_t low = known + (middle - known) / 2;
        uint32_t high = middle + (absent - middle) / 2;
        if (low > known) {
            prefetch(table, &keys[low - 1]);
        }
        prefetch(table, &keys[high - 1]);
        if (has(table, &keys[middle - 1], is_whole)) {
            known = middle;
        } else {
            absent = middle;
        }
    }
    return known;
}

static uint32_t search(const struct prefix_table *table,
                       const struct prefix_key *keys, uint32_t count,
                       uint32_t guess, bool is_whole)
{
    uint32_t known = 0;
    uint32_t absent = count + 1; /* length that is not there */
    if (guess > 0 && guess <= count) {
        if (has(table, &keys[guess - 1], is_whole)) {
            known = guess;
        } else {
            absent = guess;
        }
    }
    known = gallop(table, keys, known, &absent, is_whole);
    return halve(table, keys, known, absent, is_whole);
}

/* Searches by what slots have, which touches them only, and asks the owner of
 * the last one. "Absent" by that is absent, and the last one present implies
 * those before it, so that one answer proves the length. */
uint32_t prefix_table_find_longest(const struct prefix_table *table,
                                   const struct prefix_key *keys,
                                   uint32_t count, uint32_t guess,
                                   uint32_t *id_out)
{
    CHECK(count < UINT32_MAX);
    uint32_t length = search(table, keys, count, guess, false);
    uint32_t id = PREFIX_TABLE_NONE;
    if (length > 0) {
        id = prefix_table_find(table, &keys[length - 1]);
    }
    if (length > 0 && id == PREFIX_TABLE_NONE) {
        length = search(table, keys, count, guess, true);
        if (length > 0) {
            id = prefix_table_find(table, &keys[length - 1]);
        }
    }
    if (id_out != NULL) {
        *id_out = id;
    }
    return length;
}

uint32_t prefix_table_count(const struct prefix_table *table)
{
    return table->count;
}

size_t prefix_table_bytes(const struct prefix_table *table)
{
    return sizeof(*table) + table->slot_count * sizeof(table->slots[0]);
}

bool prefix_table_is_valid(const struct prefix_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->slot_count; i++) {
        table_slot slot = table->slots[i];
        if (is_empty(table, slot)) {
            continue;
        }
        count++;
        const struct prefix_key *key = key_of(table, id_of(table, slot));
        if (((slot ^ head_of(key)) & ~table->id_mask) != 0 ||
            seek(table, key, true) != i) {
            return false;
        }
    }
    return count == table->count && count <= table->capacity;
}
