#include "unit/base/test.h"

#include "base/digest.h"
#include "base/rng.h"
#include "prefix/pmac.h"

static const uint8_t KEY[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                8, 9, 10, 11, 12, 13, 14, 15};

static void assert_tag(const uint8_t *tag, const char *hex)
{
    uint8_t bytes[16];
    struct buf expected;
    buf_init(&expected, 64);
    assert_int_equal(digest_decode_hex(span_of_string(hex), &expected), OK);
    assert_int_equal(expected.size, sizeof(bytes));
    assert_memory_equal(tag, expected.data, sizeof(bytes));
    buf_finish(&expected);
}

/* The designers' seven vectors for PMAC-AES-128 (Rogaway's pages): messages of
 * 0, 3, 16, 20, 32 and 34 counting bytes and of 1000 zeros, on each body. */
static void each_body_gives_the_published_tags(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        const char *tag;
    } CASES[] = {
        {0, "4399572cd6ea5341b8d35876a7098af7"},
        {3, "256ba5193c1b991b4df0c51f388a9e27"},
        {16, "ebbd822fa458daf6dfdad7c27da76338"},
        {20, "0412ca150bbf79058d8c75a58c993f55"},
        {32, "e97ac04e9e5e3399ce5355cd7407bc75"},
        {34, "5cba7d5eb24f7c86ccc54604e53d5512"},
        {1000, "c2c9fa1d9985f6f0d2aff915a0e8d910"},
    };
    uint8_t message[1000] = {0};
    for (const struct prefix_pmac_body *const *body = prefix_pmac_bodies();
         *body != NULL; body++) {
        struct prefix_pmac pmac;
        prefix_pmac_init_with(&pmac, *body, KEY);
        for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
            for (size_t b = 0; b < sizeof(message); b++) {
                message[b] = CASES[i].size == 1000 ? 0 : (uint8_t)b;
            }
            uint8_t tag[16];
            prefix_pmac_tag(&pmac, message, CASES[i].size, tag);
            assert_tag(tag, CASES[i].tag);
        }
    }
}

/* A chain over random bytes, of message sizes around every border (whole blocks,
 * groups of eight, ragged ends), link by link against the tag of the message put
 * together by hand. */
static void a_chain_is_one_tag_after_the_other(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    struct rng rng = rng_from_seed(11);
    static uint8_t data[COUNT * 2048];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)rng_next(&rng);
    }
    for (const struct prefix_pmac_body *const *body = prefix_pmac_bodies();
         *body != NULL; body++) {
        struct prefix_pmac pmac;
        prefix_pmac_init_with(&pmac, *body, KEY);
        for (size_t size = 0; size <= 2048; size += size < 300 ? 4 : 116) {
            uint8_t tags[COUNT * 16];
            uint8_t message[2048 + 16];
            uint8_t tag[16] = {7};
            prefix_pmac_chain(&pmac, data, size, COUNT, tag, tags);
            for (size_t i = 0; i < COUNT; i++) {
                memcpy(message, data + i * size, size);
                memcpy(message + size, tag, 16);
                prefix_pmac_tag(&pmac, message, size + 16, tag);
                assert_memory_equal(tags + 16 * i, tag, 16);
            }
        }
    }
}

/* All bodies of this processor on random keys and lengths up to the limit: one
 * chain of whole blocks, one ragged, one tag; libcrypto is the judge. */
static void all_bodies_agree(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(12);
    static uint8_t data[PREFIX_PMAC_SIZE_MAX];
    for (int round = 0; round < 300; round++) {
        uint8_t key[16];
        for (size_t i = 0; i < sizeof(key); i++) {
            key[i] = (uint8_t)rng_next(&rng);
        }
        for (size_t i = 0; i < sizeof(data); i++) {
            data[i] = (uint8_t)rng_next(&rng);
        }
        size_t size = rng_below(&rng, PREFIX_PMAC_SIZE_MAX + 1);
        size_t link = rng_below(&rng, sizeof(data) / 4 - 16 + 1);
        struct prefix_pmac judge;
        uint8_t expected[9 * 16] = {0};
        prefix_pmac_init_with(&judge, &PREFIX_PMAC_LIBCRYPTO, key);
        prefix_pmac_tag(&judge, data, size, expected);
        prefix_pmac_chain(&judge, data, link, 4, key, expected + 16);
        prefix_pmac_chain(&judge, data, link & ~15ul, 4, key, expected + 80);
        for (int i = 0; prefix_pmac_bodies()[i] != NULL; i++) {
            struct prefix_pmac pmac;
            uint8_t got[9 * 16] = {0};
            prefix_pmac_init_with(&pmac, prefix_pmac_bodies()[i], key);
            prefix_pmac_tag(&pmac, data, size, got);
            prefix_pmac_chain(&pmac, data, link, 4, key, got + 16);
            prefix_pmac_chain(&pmac, data, link & ~15ul, 4, key, got + 80);
            assert_memory_equal(got, expected, sizeof(got));
        }
    }
}

/* The list ends, its last is the body that runs everywhere, and what init picks
 * is its first. */
static void there_is_always_a_body(void **state)
{
    (void)state;
    int count = 0;
    while (prefix_pmac_bodies()[count] != NULL) {
        count++;
    }
    assert_in_range(count, 1, 2);
    assert_ptr_equal(prefix_pmac_bodies()[count - 1], &PREFIX_PMAC_LIBCRYPTO);
    struct prefix_pmac pmac;
    prefix_pmac_init(&pmac, KEY);
    assert_ptr_equal(pmac.body, prefix_pmac_bodies()[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_body_gives_the_published_tags),
        cmocka_unit_test(a_chain_is_one_tag_after_the_other),
        cmocka_unit_test(all_bodies_agree),
        cmocka_unit_test(there_is_always_a_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
