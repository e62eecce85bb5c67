#include "unit/base/test.h"

#include "kv/geometry.h"

enum { KEY, VALUE, SCALE, KIB = 1024, MIB = 1024 * 1024 };
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* [engine T2] Three life cycles of different slots are three groups; a second
 * windowed layer makes two of them equal, which then share one. */
static void equal_slot_lists_share_a_group(void **state)
{
    (void)state;
    const struct kv_buffer buffers[] = {
        {0, KEY, 0, 32 * KIB, 1}, {0, VALUE, 0, 32 * KIB, 1},
        {1, KEY, 0, 32 * KIB, 1}, {1, VALUE, 0, 32 * KIB, 1},
        {2, KEY, 1, 32 * KIB, 1}, {2, VALUE, 1, 32 * KIB, 1},
        {3, KEY, 2, 64 * KIB, 1}, {3, VALUE, 2, 2 * MIB, 1},
        {4, KEY, 1, 32 * KIB, 1}, {4, VALUE, 1, 32 * KIB, 1},
    };
    struct kv_geometry geometry;
    struct kv_place places[COUNT(buffers)];
    assert_int_equal(kv_geometry_plan(buffers, COUNT(buffers) - 2, 3, NULL,
                                      &geometry, places),
                     OK);
    assert_int_equal(geometry.group_count, 3);
    assert_int_equal(geometry.slot_bytes[geometry.group_of[0]][0], 128 * KIB);
    assert_int_equal(geometry.slot_bytes[geometry.group_of[1]][0], 64 * KIB);
    uint8_t recurrent = geometry.group_of[2];
    assert_int_equal(geometry.pool_counts[recurrent], 2);
    assert_int_equal(geometry.slot_bytes[recurrent][0], 2 * MIB);
    assert_int_equal(geometry.slot_bytes[recurrent][1], 64 * KIB);
    assert_int_equal(places[6].pool, 1);
    assert_int_equal(places[2].scale, 4);
    assert_int_equal(places[2].offset_pages, 2);
    assert_int_equal(places[2].offset, 64 * KIB);

    assert_int_equal(
        kv_geometry_plan(buffers, COUNT(buffers), 3, NULL, &geometry, places),
        OK);
    assert_int_equal(geometry.group_count, 2);
    assert_int_equal(geometry.group_of[0], geometry.group_of[1]);
    assert_int_not_equal(geometry.group_of[0], geometry.group_of[2]);
    assert_int_equal(places[9].offset_pages, 3);
}

/* A buffer of a quarter of the block size has four pages in a block. */
static void smaller_blocks_are_more_pages(void **state)
{
    (void)state;
    const struct kv_buffer buffers[] = {{0, KEY, 0, 64, 4},
                                        {0, VALUE, 0, 64, 4}};
    struct kv_geometry geometry;
    struct kv_place places[2];
    assert_int_equal(kv_geometry_plan(buffers, 2, 1, NULL, &geometry, places),
                     OK);
    assert_int_equal(places[1].scale, 8);
    assert_int_equal(places[1].offset_pages, 4);
    assert_int_equal(places[1].offset, 64);
}

static void refuses(const struct kv_buffer *buffers, uint32_t count,
                    uint32_t life_count, const char *word)
{
    struct why why = {{0}};
    struct kv_geometry geometry;
    struct kv_place places[8];
    assert_int_equal(
        kv_geometry_plan(buffers, count, life_count, &why, &geometry, places),
        ERR_INVALID);
    assert_non_null(strstr(why.text, word));
}

static void bad_buffers_are_named(void **state)
{
    (void)state;
    refuses((struct kv_buffer[]){{0, KEY, 0, 16, 1}, {0, KEY, 0, 32, 1}}, 2, 1,
            "role");
    refuses((struct kv_buffer[]){{0, KEY, 0, 24, 1}}, 1, 1, "bytes");
    refuses((struct kv_buffer[]){{0, KEY, 0, 0, 1}}, 1, 1, "bytes");
    refuses((struct kv_buffer[]){{0, KEY, 0, SIZE_MAX - 15, 1}}, 1, 1, "bytes");
    refuses((struct kv_buffer[]){{0, KEY, 0, 16, 3}}, 1, 1, "expansion");
    refuses((struct kv_buffer[]){{0, KEY, 1, 16, 1}}, 1, 1, "life");
    refuses((struct kv_buffer[]){{0, KEY, 0, 16, 1}}, 1, 2, "no buffer");
    refuses(NULL, 0, KV_LIFE_COUNT_MAX + 1, "life_count");
    refuses(NULL, KV_BUFFER_COUNT_MAX + 1, 1, "buffer_count");
    refuses((struct kv_buffer[]){{0, KEY, 0, 16, 1},
                                 {1, KEY, 0, 32, 1},
                                 {2, KEY, 0, 48, 1},
                                 {3, KEY, 0, 64, 1},
                                 {4, KEY, 0, 80, 1}},
            5, 1, "sizes");
}

static void chunks_grow_with_the_quota(void **state)
{
    (void)state;
    const size_t gib = (size_t)1 << 30;
    assert_int_equal(kv_geometry_chunk_bytes(0), 2 * MIB);
    assert_int_equal(kv_geometry_chunk_bytes(2 * gib - 1), 2 * MIB);
    assert_int_equal(kv_geometry_chunk_bytes(2 * gib), 4 * MIB);
    assert_int_equal(kv_geometry_chunk_bytes(4 * gib), 8 * MIB);
    assert_int_equal(kv_geometry_chunk_bytes(16 * gib), 32 * MIB);
    assert_int_equal(kv_geometry_chunk_bytes(1000 * gib), 32 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_slot_lists_share_a_group),
        cmocka_unit_test(smaller_blocks_are_more_pages),
        cmocka_unit_test(bad_buffers_are_named),
        cmocka_unit_test(chunks_grow_with_the_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
