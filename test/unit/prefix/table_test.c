#include "unit/base/test.h"

#include "base/mem.h"
#include "prefix/table.h"

enum { CAPACITY = 8 };

/* What an owner keeps: the key is not its first field. */
struct record {
    uint32_t other;
    struct prefix_key key;
};

static struct record records[64];

static struct prefix_table *make_table(uint32_t capacity)
{
    memset(records, 0, sizeof(records));
    struct prefix_table_options options = {.capacity = capacity,
                                           .id_count = 64,
                                           .keys = &records[0].key,
                                           .key_stride = sizeof(records[0])};
    struct prefix_table *table = prefix_table_create(&options);
    assert_non_null(table);
    return table;
}

/* A key at home in the slot that the share `home` of 2^32 falls into. */
static struct prefix_key key_of(uint32_t home, uint8_t middle, uint8_t last)
{
    struct prefix_key key = {{0}};
    memcpy(key.bytes + 4, &home, sizeof(home));
    key.bytes[3] = middle;
    key.bytes[15] = last;
    return key;
}

static void insert(struct prefix_table *table, uint32_t id,
                   struct prefix_key key)
{
    records[id].key = key;
    assert_int_equal(prefix_table_insert(table, id), OK);
    assert_true(prefix_table_is_valid(table));
}

/* In, found, out, not found; the count follows. */
static void what_is_inserted_is_found_until_removed(void **state)
{
    (void)state;
    struct prefix_table *table = make_table(CAPACITY);
    struct prefix_key a = key_of(1u << 30, 1, 1);
    struct prefix_key b = key_of(3u << 30, 2, 2);
    assert_int_equal(prefix_table_find(table, &a), PREFIX_TABLE_NONE);
    insert(table, 5, a);
    insert(table, 0, b);
    assert_int_equal(prefix_table_find(table, &a), 5);
    assert_int_equal(prefix_table_find(table, &b), 0);
    assert_int_equal(prefix_table_count(table), 2);
    prefix_table_remove(table, 5);
    assert_true(prefix_table_is_valid(table));
    assert_int_equal(prefix_table_find(table, &a), PREFIX_TABLE_NONE);
    assert_int_equal(prefix_table_find(table, &b), 0);
    assert_int_equal(prefix_table_count(table), 1);
    prefix_table_destroy(table);
}

/* Keys that agree in all bits that a slot holds are told apart by their owner's
 * copy, in each kind of look-up. */
static void equality_is_on_the_whole_key(void **state)
{
    (void)state;
    struct prefix_table *table = make_table(CAPACITY);
    struct prefix_key keys[3] = {key_of(9, 9, 1), key_of(9, 9, 2),
                                 key_of(9, 9, 3)};
    uint32_t ids[3];
    insert(table, 1, keys[0]);
    insert(table, 2, keys[1]);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(prefix_table_find(table, &keys[i]),
                         i < 2 ? i + 1 : PREFIX_TABLE_NONE);
    }
    prefix_table_find_many(table, keys, 3, ids);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], PREFIX_TABLE_NONE);
    uint32_t id;
    assert_int_equal(prefix_table_find_longest(table, keys, 3, 0, &id), 2);
    assert_int_equal(id, 2);
    assert_int_equal(prefix_table_find_longest(table, &keys[2], 1, 1, &id), 0);
    assert_int_equal(id, PREFIX_TABLE_NONE);
    prefix_table_destroy(table);
}

/* To expect keys, known or not, changes nothing of what is found. */
static void expecting_is_only_a_hint(void **state)
{
    (void)state;
    struct prefix_table *table = make_table(CAPACITY);
    struct prefix_key keys[2] = {key_of(9, 1, 1), key_of(UINT32_MAX, 2, 2)};
    insert(table, 3, keys[0]);
    prefix_table_expect(table, keys, 2);
    prefix_table_expect(table, keys, 0);
    assert_int_equal(prefix_table_find(table, &keys[0]), 3);
    assert_int_equal(prefix_table_find(table, &keys[1]), PREFIX_TABLE_NONE);
    assert_true(prefix_table_is_valid(table));
    prefix_table_destroy(table);
}

/* Full says so and changes nothing; a place that comes free is taken again. */
static void a_full_table_refuses(void **state)
{
    (void)state;
    struct prefix_table *table = make_table(CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        insert(table, i, key_of(0, (uint8_t)i, 0));
    }
    records[20].key = key_of(0, 20, 0);
    assert_int_equal(prefix_table_insert(table, 20), ERR_FULL);
    assert_true(prefix_table_is_valid(table));
    assert_int_equal(prefix_table_count(table), CAPACITY);
    prefix_table_remove(table, 3);
    assert_int_equal(prefix_table_insert(table, 20), OK);
    assert_int_equal(prefix_table_find(table, &records[20].key), 20);
    prefix_table_destroy(table);
}

/* A run of keys with one home, at the last slot so that it wraps around, and one
 * of another home in its way: whichever goes, the others stay reachable. */
static void removing_leaves_no_gap_in_a_run(void **state)
{
    (void)state;
    for (uint32_t gone = 0; gone < 5; gone++) {
        struct prefix_table *table = make_table(CAPACITY);
        insert(table, 0, key_of(UINT32_MAX, 0, 0));
        insert(table, 1, key_of(UINT32_MAX, 1, 0));
        insert(table, 2, key_of(0, 2, 0));
        insert(table, 3, key_of(UINT32_MAX, 3, 0));
        insert(table, 4, key_of(UINT32_MAX / 4, 4, 0));
        prefix_table_remove(table, gone);
        assert_true(prefix_table_is_valid(table));
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(prefix_table_find(table, &records[i].key),
                             i == gone ? PREFIX_TABLE_NONE : i);
        }
        prefix_table_destroy(table);
    }
}

/* Every length present of every number of keys, with every guess, right, wrong
 * and beyond the end: always the length and the id of its last key. */
static void the_longest_prefix_is_found_whatever_the_guess(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct prefix_key keys[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        keys[i] = key_of(i * 0x9e3779b9u, (uint8_t)i, 1);
    }
    struct prefix_table *table = make_table(COUNT);
    for (uint32_t present = 0;; present++) {
        for (uint32_t count = 0; count <= COUNT; count++) {
            uint32_t expected = present < count ? present : count;
            for (uint32_t guess = 0; guess <= COUNT + 1; guess++) {
                uint32_t id = 77;
                assert_int_equal(
                    prefix_table_find_longest(table, keys, count, guess, &id),
                    expected);
                assert_int_equal(id, expected == 0 ? PREFIX_TABLE_NONE
                                                   : expected - 1);
            }
        }
        if (present == COUNT) {
            break;
        }
        insert(table, present, keys[present]);
    }
    assert_int_equal(prefix_table_find_longest(table, keys, 7, 0, NULL), 7);
    prefix_table_destroy(table);
}

/* A record costs at most 14 bytes, half of what engine.md 6.4 grants, and none is
 * allocated after the start. */
static void memory_is_taken_once(void **state)
{
    (void)state;
    struct prefix_table *table = make_table(64);
    uint64_t before = mem_allocation_count();
    for (uint32_t i = 0; i < 64; i++) {
        insert(table, i, key_of(i * 0x9e3779b9u, (uint8_t)i, 1));
    }
    assert_true(mem_allocation_count() == before);
    prefix_table_destroy(table);
    struct prefix_table_options options = {
        .capacity = 1 << 16, .keys = &records[0].key, .key_stride = 64};
    table = prefix_table_create(&options);
    assert_in_range(prefix_table_bytes(table), 8 << 16, 14 << 16);
    prefix_table_destroy(table);
    prefix_table_destroy(NULL);
}

/* A table that may hold nothing is full and empty at once. */
static void a_table_of_no_capacity_holds_nothing(void **state)
{
    (void)state;
    struct prefix_table *table = make_table(0);
    records[0].key = key_of(UINT32_MAX, 1, 1);
    assert_int_equal(prefix_table_insert(table, 0), ERR_FULL);
    assert_int_equal(prefix_table_find(table, &records[0].key),
                     PREFIX_TABLE_NONE);
    prefix_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_inserted_is_found_until_removed),
        cmocka_unit_test(equality_is_on_the_whole_key),
        cmocka_unit_test(expecting_is_only_a_hint),
        cmocka_unit_test(a_full_table_refuses),
        cmocka_unit_test(removing_leaves_no_gap_in_a_run),
        cmocka_unit_test(the_longest_prefix_is_found_whatever_the_guess),
        cmocka_unit_test(memory_is_taken_once),
        cmocka_unit_test(a_table_of_no_capacity_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
