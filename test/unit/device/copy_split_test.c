/* device/copy_split: shares of large copies, packs of small ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "device/copy_split.h"

#define MIB ((size_t)1 << 20)

/* The table of the specification. [engine T8] */
static void share_count_is_that_of_the_table(void **state)
{
    (void)state;
    assert_int_equal(device_copy_share_count(0), 0);
    assert_int_equal(device_copy_share_count(1), 1);
    assert_int_equal(device_copy_share_count(8 * MIB), 1);
    assert_int_equal(device_copy_share_count(8 * MIB + 1), 2);
    assert_int_equal(device_copy_share_count(100 * MIB), 13);
    assert_int_equal(device_copy_share_count(128 * MIB), 16);
    assert_int_equal(device_copy_share_count(1024 * MIB), 16);
    assert_int_equal(device_copy_share_count(SIZE_MAX), 16);
}

/* The share example of the specification. [engine T8] */
static void twenty_mib_go_in_three_shares(void **state)
{
    (void)state;
    const size_t bytes[] = {6990512, 6990512, 6990496};
    size_t offset = 0;
    assert_int_equal(device_copy_share_count(20 * MIB), 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct device_copy_share share = device_copy_share(20 * MIB, i);
        assert_int_equal(share.offset, offset);
        assert_int_equal(share.bytes, bytes[i]);
        offset += share.bytes;
    }
}

/* Sizes around each step of the count and drawn ones up to 2 GiB: shares lie
 * end to end, none is empty, each begins on a multiple of 16. [engine T8] */
static void shares_cover_a_copy_once(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(8);
    for (uint32_t i = 0; i < 4000; i++) {
        size_t bytes = i < 400 ? 8 * MIB * (i / 20) + i % 20 * 16
                               : rng_below(&rng, 2048 * MIB);
        uint32_t count = device_copy_share_count(bytes);
        size_t offset = 0;
        for (uint32_t k = 0; k < count; k++) {
            struct device_copy_share share = device_copy_share(bytes, k);
            assert_int_equal(share.offset, offset);
            assert_int_equal(share.offset % DEVICE_COPY_UNIT, 0);
            assert_true(share.bytes > 0);
            offset += share.bytes;
        }
        assert_int_equal(offset, bytes);
    }
}

enum { COPIES = 300 };

static size_t draw_bytes(struct rng *rng)
{
    const size_t max[] = {1, 512, 65536, 32 * MIB};
    size_t bytes = rng_below(rng, max[rng_below(rng, 4)]);
    return bytes / DEVICE_COPY_UNIT * DEVICE_COPY_UNIT;
}

static void check_pack(const struct device_copy *copies,
                       const struct device_copy_item *item, size_t *moved)
{
    size_t bytes = 0;
    assert_in_range(item->count, 1, DEVICE_COPY_PACK_COUNT_MAX);
    for (uint32_t i = item->first; i < item->first + item->count; i++) {
        assert_true(bytes < DEVICE_COPY_PACK_BYTES);
        assert_true(copies[i].bytes <= DEVICE_COPY_SHARE_BYTES);
        bytes += copies[i].bytes;
        moved[i] += copies[i].bytes;
    }
    assert_true(bytes > 0);
}

/* Lists of drawn sizes, empty copies among them: the pieces of a list move each
 * byte of each copy once, shares in their order, and keep to their bounds. */
static void pieces_cover_a_list_once(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(9);
    static struct device_copy copies[COPIES];
    for (int round = 0; round < 300; round++) {
        uint32_t count = (uint32_t)rng_below(&rng, COPIES + 1);
        for (uint32_t i = 0; i < count; i++) {
            copies[i].bytes = draw_bytes(&rng);
        }
        size_t moved[COPIES] = {0};
        struct device_copy_item item;
        struct device_copy_cursor cursor =
            device_copy_cursor_first(copies, count);
        while (device_copy_cursor_next(&cursor, copies, count, &item)) {
            if (item.share.bytes == 0) {
                check_pack(copies, &item, moved);
                continue;
            }
            assert_int_equal(item.count, 1);
            assert_int_equal(item.share.offset, moved[item.first]);
            moved[item.first] += item.share.bytes;
        }
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(moved[i], copies[i].bytes);
        }
    }
}

/* Counts pieces: 100 copies of 0 bytes make none, 130 of 16 bytes make three
 * packs, a large one between two small ones stands alone. [engine T40] */
static void small_copies_share_a_piece(void **state)
{
    (void)state;
    const struct {
        size_t bytes[3];
        uint32_t count, pieces;
    } cases[] = {
        {{0, 0, 0}, 100, 0},
        {{16, 16, 16}, 130, 3},
        {{4096, 4096, 4096}, 64, 1},
        {{16, 20 * MIB, 16}, 3, 5},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        static struct device_copy copies[130];
        for (uint32_t i = 0; i < cases[c].count; i++) {
            copies[i].bytes = cases[c].bytes[i % 3];
        }
        struct device_copy_cursor cursor =
            device_copy_cursor_first(copies, cases[c].count);
        struct device_copy_item item;
        uint32_t pieces = 0;
        while (
            device_copy_cursor_next(&cursor, copies, cases[c].count, &item)) {
            pieces++;
        }
        assert_int_equal(pieces, cases[c].pieces);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_count_is_that_of_the_table),
        cmocka_unit_test(twenty_mib_go_in_three_shares),
        cmocka_unit_test(shares_cover_a_copy_once),
        cmocka_unit_test(pieces_cover_a_list_once),
        cmocka_unit_test(small_copies_share_a_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
