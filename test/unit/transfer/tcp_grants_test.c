/* transfer/tcp_grants: what may land, beside a map of every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "transfer/tcp_grants.h"

enum { SIZE = 300 };

static const struct transfer_token ONE = {7, 1}, TWO = {7, 2};

/* Random ranges, touching and overlapping, against a flag for each byte: each
 * question about an offset and a size has the answer of the flags. */
static void covers_exactly_the_ranges(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(1);
    for (int round = 0; round < 200; round++) {
        struct tcp_grants grants;
        tcp_grants_init(&grants, 2);
        bool is_in[SIZE] = {false};
        struct transfer_range ranges[12];
        size_t count = rng_below(&rng, 12);
        for (size_t i = 0; i < count; i++) {
            ranges[i].offset = rng_below(&rng, SIZE);
            ranges[i].size = rng_below(&rng, SIZE - ranges[i].offset) / 4;
            memset(is_in + ranges[i].offset, true, ranges[i].size);
        }
        assert_int_equal(tcp_grants_add(&grants, 5, ONE, ranges, count), OK);
        const struct tcp_grant *grant = tcp_grants_find(&grants, 5, ONE);
        for (int i = 0; i < 300; i++) {
            uint64_t offset = rng_below(&rng, SIZE);
            uint64_t size = 1 + rng_below(&rng, SIZE - offset) / 8;
            size = size > SIZE - offset ? SIZE - offset : size;
            bool is_all = memchr(is_in + offset, false, size) == NULL;
            assert_int_equal(tcp_grant_covers(grant, offset, size), is_all);
        }
        assert_false(tcp_grant_covers(grant, UINT64_MAX, 2));
        tcp_grants_finish(&grants);
    }
}

/* Sender, rid and attempt all count; a removed one is gone, the others stay,
 * and the change number never repeats. */
static void tokens_are_told_apart(void **state)
{
    (void)state;
    struct tcp_grants grants;
    tcp_grants_init(&grants, 3);
    struct transfer_range range = {0, 10};
    uint64_t before = grants.change;
    assert_int_equal(tcp_grants_add(&grants, 5, ONE, &range, 1), OK);
    assert_int_equal(tcp_grants_add(&grants, 5, ONE, &range, 1), ERR_EXISTS);
    assert_int_equal(tcp_grants_add(&grants, 5, TWO, &range, 1), OK);
    assert_int_equal(tcp_grants_add(&grants, 6, ONE, &range, 1), OK);
    assert_int_equal(tcp_grants_add(&grants, 6, TWO, &range, 1), ERR_FULL);
    assert_null(tcp_grants_find(&grants, 7, ONE));
    tcp_grants_remove(&grants, 5, ONE);
    tcp_grants_remove(&grants, 5, ONE);
    assert_null(tcp_grants_find(&grants, 5, ONE));
    assert_non_null(tcp_grants_find(&grants, 5, TWO));
    assert_non_null(tcp_grants_find(&grants, 6, ONE));
    assert_int_equal(grants.change, before + 4);
    tcp_grants_clear(&grants);
    assert_null(tcp_grants_find(&grants, 6, ONE));
    tcp_grants_finish(&grants);
}

/* Once each place has held its most, giving and taking back allocates nothing:
 * the count of the heap stands still. */
static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct tcp_grants grants;
    tcp_grants_init(&grants, 4);
    struct transfer_range ranges[64];
    for (uint64_t i = 0; i < 64; i++) {
        ranges[i] = (struct transfer_range){2 * i, 1};
    }
    uint64_t before = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        struct transfer_token token = {(int64_t)i, i};
        assert_int_equal(tcp_grants_add(&grants, 9, token, ranges, 64), OK);
        if (i >= 3) {
            struct transfer_token old = {(int64_t)i - 3, i - 3};
            tcp_grants_remove(&grants, 9, old);
        }
        before = i == 20 ? mem_allocation_count() : before;
    }
    assert_int_equal(mem_allocation_count(), before);
    tcp_grants_finish(&grants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_exactly_the_ranges),
        cmocka_unit_test(tokens_are_told_apart),
        cmocka_unit_test(steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
