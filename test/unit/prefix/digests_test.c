#include "unit/base/test.h"

#include "prefix/digests.h"

/* The prompt of serve.md 3.3: tokens 1 to 10, blocks of 4, so 4, 4 and 1. */
static const int32_t TOKENS[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static void assert_numbers(enum prefix_hash_algo algo, uint64_t salt,
                           const uint64_t expected[3])
{
    struct prefix_scope_id id = {.has_salt = salt != 0, .salt = salt};
    struct prefix_digest digests[4];
    assert_int_equal(prefix_digests(algo, &id, TOKENS, 10, 4, 4, digests), 3);
    for (int i = 0; i < 3; i++) {
        assert_true(digests[i].number == expected[i]);
    }
}

/* Every number of serve.md 3.3; what it gives as hex is compared by its first 8
 * bytes here. [serve T42] */
static void numbers_are_those_of_the_specification(void **state)
{
    (void)state;
    static const uint64_t V1[3] = {924206229973855u, 2728178455351807326u,
                                   5840390857880430736u};
    static const uint64_t V1_SALTED[3] = {
        6280297290684427985u, 10638839244871160162u, 6966901140503279595u};
    static const uint64_t V2[3] = {15438395711626328209u, 13406813981758916444u,
                                   4375479487392958573u};
    static const uint64_t V2_HEX[3] = {0xd640331a8566b891u, 0xba0e9248b87b075cu,
                                       0x3cb8d3695810c86du};
    static const uint64_t V2_SALTED[3] = {
        0x7571c9aa0b0677b2u, 0xeacd744ab45602e3u, 0xda95a8920946c822u};
    assert_numbers(PREFIX_V1_BLOCK_KEY, 0, V1);
    assert_numbers(PREFIX_V1_BLOCK_KEY, 123, V1_SALTED);
    assert_numbers(PREFIX_V2_SHA256_64, 0, V2);
    assert_numbers(PREFIX_V2_SHA256, 0, V2_HEX);
    assert_numbers(PREFIX_V2_SHA256, 123, V2_SALTED);
}

/* The first v2 digest in full, as text; the 64-bit ones in decimal.
 * [serve T42] */
static void text_is_hex_or_decimal(void **state)
{
    (void)state;
    struct prefix_digest digest =
        prefix_digest_next(PREFIX_V2_SHA256, NULL, NULL, TOKENS, 4);
    struct buf buf;
    buf_init(&buf, 200);
    prefix_digest_add_text(&buf, PREFIX_V2_SHA256, &digest);
    assert_string_equal(
        buf_string(&buf),
        "d640331a8566b89199962bb4552f386a57361738fef5a92ac3d8a5c7bfbb4231");
    buf_reset(&buf);
    prefix_digest_add_text(&buf, PREFIX_V2_SHA256_64, &digest);
    assert_string_equal(buf_string(&buf), "15438395711626328209");
    digest = prefix_digest_next(PREFIX_V1_BLOCK_KEY, NULL, NULL, TOKENS, 4);
    buf_reset(&buf);
    prefix_digest_add_text(&buf, PREFIX_V1_BLOCK_KEY, &digest);
    assert_string_equal(buf_string(&buf), "924206229973855");
    buf_finish(&buf);
}

/* Block by block, parent in and digest out, what the whole prompt gives.
 * [serve T42] */
static void blocks_chain(void **state)
{
    (void)state;
    struct prefix_scope_id id = {.has_lora = true, .lora = 7};
    for (int algo = 0; algo < PREFIX_HASH_ALGO_COUNT; algo++) {
        struct prefix_digest all[5];
        struct prefix_digest one;
        assert_int_equal(prefix_digests(algo, &id, TOKENS, 10, 2, 5, all), 5);
        for (uint32_t i = 0; i < 5; i++) {
            one = prefix_digest_next(algo, &id, i == 0 ? NULL : &one,
                                     TOKENS + 2 * i, i == 4 ? 1 : 2);
            assert_memory_equal(&one, &all[i], sizeof(one));
        }
    }
}

/* The last token never counts, a partial block does, and room is respected. */
static void count_is_of_all_but_the_last_token(void **state)
{
    (void)state;
    struct prefix_digest digests[3];
    assert_int_equal(prefix_digest_count(0, 4), 0);
    assert_int_equal(prefix_digest_count(1, 4), 0);
    assert_int_equal(prefix_digest_count(2, 4), 1);
    assert_int_equal(prefix_digest_count(5, 4), 1);
    assert_int_equal(prefix_digest_count(6, 4), 2);
    assert_int_equal(prefix_digest_count(UINT32_MAX, 1), UINT32_MAX - 1);
    assert_int_equal(
        prefix_digests(PREFIX_V1_BLOCK_KEY, NULL, TOKENS, 10, 4, 2, digests),
        2);
    assert_int_equal(
        prefix_digests(PREFIX_V1_BLOCK_KEY, NULL, TOKENS, 0, 4, 2, digests), 0);
}

/* Both scopes' fields reach every algorithm's first block. */
static void scopes_differ(void **state)
{
    (void)state;
    struct prefix_scope_id ids[] = {
        {.has_lora = false},
        {.has_lora = true, .lora = 5},
        {.has_salt = true, .salt = 5},
        {.has_lora = true, .lora = 5, .has_salt = true, .salt = 5},
    };
    for (int algo = 0; algo < PREFIX_HASH_ALGO_COUNT; algo++) {
        uint64_t seen[4];
        for (int i = 0; i < 4; i++) {
            seen[i] = prefix_digest_next(algo, &ids[i], NULL, TOKENS, 4).number;
            for (int j = 0; j < i; j++) {
                assert_true(seen[i] != seen[j]);
            }
        }
    }
}

/* Every name is found under itself, nothing else is, and the text says so. */
static void algorithms_have_names(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"v1_block_key", "v2_sha256",
                                        "v2_sha256_64"};
    struct why why = {.text = ""};
    enum prefix_hash_algo found;
    for (int algo = 0; algo < PREFIX_HASH_ALGO_COUNT; algo++) {
        assert_string_equal(prefix_hash_algo_name(algo), NAMES[algo]);
        assert_int_equal(
            prefix_hash_algo_find(span_of_string(NAMES[algo]), &why, &found),
            OK);
        assert_int_equal(found, algo);
    }
    assert_int_equal(
        prefix_hash_algo_find(span_of_string("v2_sha25"), &why, &found),
        ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "\"v2_sha25\""));
    assert_int_equal(prefix_hash_algo_find(span_of(NULL, 0), &why, &found),
                     ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_specification),
        cmocka_unit_test(text_is_hex_or_decimal),
        cmocka_unit_test(blocks_chain),
        cmocka_unit_test(count_is_of_all_but_the_last_token),
        cmocka_unit_test(scopes_differ),
        cmocka_unit_test(algorithms_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
