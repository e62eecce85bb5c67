#include "unit/base/test.h"

#include "base/crc32c.h"
#include "base/crc32c_fold.h"
#include "base/digest.h"
#include "base/mem.h"
#include "base/rng.h"

/* Bit by bit, from the definition. */
static uint32_t crc_slow(uint32_t crc, struct span data)
{
    crc = ~crc;
    for (size_t i = 0; i < data.size; i++) {
        crc ^= data.data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

/* The check value of the catalogue and the examples of RFC 3720 B.4. */
static void crc_meets_published_vectors(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(digest_crc32c(0, span_of(NULL, 0)), 0);
    assert_int_equal(digest_crc32c(0, span_of_string("123456789")),
                     0xe3069283u);
    assert_int_equal(digest_crc32c(0, span_of(bytes, 32)), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(digest_crc32c(0, span_of(bytes, 32)), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)i;
    }
    assert_int_equal(digest_crc32c(0, span_of(bytes, 32)), 0x46dd794eu);
}

/* Sizes around every stretch of the fast paths, odd starts included, for each
 * body that this processor can. */
static void crc_equals_the_slow_one_at_any_size(void **state)
{
    (void)state;
    static const size_t SIZES[] = {1,    7,    8,    9,    1023, 1024,
                                   3071, 1279, 1280, 1281, 2048, 3072,
                                   3073, 6144, 6151, 9000, 20000};
    enum { MOST = 20008 };
    struct rng rng = rng_from_seed(7);
    uint8_t *bytes = mem_new(MOST);
    for (size_t i = 0; i < MOST; i++) {
        bytes[i] = (uint8_t)rng_next(&rng);
    }
    for (size_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        struct span data = span_of(bytes + i % 8, SIZES[i]);
        uint32_t expected = crc_slow(99, data);
        assert_int_equal(digest_crc32c(99, data), expected);
        for (int body = 0; body < CRC32C_BODY_COUNT; body++) {
            const struct crc32c_body *one = &crc32c_bodies[body];
            assert_true(!one->can() ||
                        ~one->sum(~99u, data.data, data.size) == expected);
        }
    }
    mem_free(bytes);
}

/* Folding alone and on the way of a copy, of one step and of many; nothing is
 * written beside the target. */
static void folding_copies_what_it_sums(void **state)
{
    (void)state;
    enum { STEPS = 9, SIZE = STEPS * CRC32C_FOLD_SIZE };
    if (!crc32c_can_fold()) {
        skip();
    }
    static _Alignas(64) uint8_t target[SIZE + 128];
    uint8_t *bytes = mem_new(SIZE + 8);
    struct rng rng = rng_from_seed(8);
    for (size_t i = 0; i < SIZE + 8; i++) {
        bytes[i] = (uint8_t)rng_next(&rng);
    }
    for (size_t step = 1; step <= STEPS; step++) {
        size_t size = step * CRC32C_FOLD_SIZE;
        const uint8_t *source = bytes + step % 8;
        uint32_t expected = ~crc_slow(~7u, span_of(source, size));
        memset(target, 0xee, sizeof(target));
        assert_int_equal(crc32c_fold(7, source, size), expected);
        assert_int_equal(crc32c_fold_copy(7, target + 64, source, size, source),
                         expected);
        assert_memory_equal(target + 64, source, size);
        assert_int_equal(target[63], 0xee);
        assert_int_equal(target[64 + size], 0xee);
    }
    mem_free(bytes);
}

/* The sum of the parts, fed on, is the sum of the whole. */
static void crc_goes_on_where_it_stopped(void **state)
{
    (void)state;
    struct span whole = span_of_string("a baton is passed while running");
    for (size_t cut = 0; cut <= whole.size; cut++) {
        uint32_t first = digest_crc32c(0, span_slice(whole, 0, cut));
        assert_int_equal(
            digest_crc32c(first, span_slice(whole, cut, whole.size)),
            digest_crc32c(0, whole));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_meets_published_vectors),
        cmocka_unit_test(crc_equals_the_slow_one_at_any_size),
        cmocka_unit_test(folding_copies_what_it_sums),
        cmocka_unit_test(crc_goes_on_where_it_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
