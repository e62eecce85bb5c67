/* transfer/copy: bytes and digest, at every alignment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/rng.h"
#include "transfer/copy.h"

/* Random sizes and alignments against memcpy, with the bytes on both sides of
 * the target, and the digest of the whole. */
static void copies_are_exact_and_digested(void **state)
{
    (void)state;
    enum { SIZE = 20000 };
    static _Alignas(64) uint8_t source[SIZE], target[SIZE], expected[SIZE];
    struct rng rng = rng_from_seed(9);
    for (int i = 0; i < SIZE; i++) {
        source[i] = (uint8_t)rng_next(&rng);
    }
    for (int round = 0; round < 500; round++) {
        size_t from = rng_below(&rng, 70), to = rng_below(&rng, 70);
        to = rng_below(&rng, 2) ? to / 64 * 64 : to; /* the fast way */
        size_t size = rng_below(&rng, 2) ? rng_below(&rng, 200)
                                         : rng_below(&rng, SIZE - 70);
        memset(target, round, SIZE);
        memset(expected, round, SIZE);
        memcpy(expected + to, source + from, size);
        uint32_t crc = transfer_copy(target + to, source + from, size, source);
        transfer_copy_fence();
        assert_memory_equal(target, expected, SIZE);
        assert_int_equal(crc, digest_crc32c(0, span_of(source + from, size)));
        memset(target, round, SIZE);
        transfer_copy_plain(target + to, source + from, size, source);
        transfer_copy_fence();
        assert_memory_equal(target, expected, SIZE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_exact_and_digested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
