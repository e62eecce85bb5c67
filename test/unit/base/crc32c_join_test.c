/* base/crc32c_join: sums of stretches against the sum of the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crc32c_join.h"
#include "base/digest.h"
#include "base/rng.h"

enum { SIZE = 5000 };

/* Random bytes cut in two at many places, the ends too, and in equal pieces
 * that share one reach: joined, they are what digest_crc32c says of all. */
static void joined_sums_are_the_sum_of_the_whole(void **state)
{
    (void)state;
    uint8_t bytes[SIZE];
    for (uint32_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)rng_at(1, 2, i);
    }
    uint32_t whole = digest_crc32c(0, span_of(bytes, SIZE));
    for (size_t at = 0; at <= SIZE; at += at < 70 || at > SIZE - 70 ? 1 : 61) {
        uint32_t before = digest_crc32c(0, span_of(bytes, at));
        uint32_t after = digest_crc32c(0, span_of(bytes + at, SIZE - at));
        assert_int_equal(crc32c_join(before, after, crc32c_reach(SIZE - at)),
                         whole);
    }
    uint32_t joined = 0, reach = crc32c_reach(SIZE / 50);
    for (size_t at = 0; at < SIZE; at += SIZE / 50) {
        uint32_t each = digest_crc32c(0, span_of(bytes + at, SIZE / 50));
        joined = crc32c_join(joined, each, reach);
    }
    assert_int_equal(joined, whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_sums_are_the_sum_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
