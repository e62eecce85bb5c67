#include "unit/base/test.h"

#include "prefix/pmac_aesni.h"

#if defined(__x86_64__)

/* The key expansion example of FIPS 197, appendix A.1: first, second and last
 * round key. Skipped where the processor lacks the instructions. */
static void round_keys_are_those_of_the_standard(void **state)
{
    (void)state;
    static const uint8_t KEY[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae,
                                    0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88,
                                    0x09, 0xcf, 0x4f, 0x3c};
    static const uint8_t SECOND[16] = {0xa0, 0xfa, 0xfe, 0x17, 0x88, 0x54,
                                       0x2c, 0xb1, 0x23, 0xa3, 0x39, 0x39,
                                       0x2a, 0x6c, 0x76, 0x05};
    static const uint8_t LAST[16] = {0xd0, 0x14, 0xf9, 0xa8, 0xc9, 0xee,
                                     0x25, 0x89, 0xe1, 0x3f, 0x0c, 0xc8,
                                     0xb6, 0x63, 0x0c, 0xa6};
    if (!prefix_pmac_aesni_is_usable()) {
        skip();
    }
    struct prefix_pmac pmac;
    prefix_pmac_init_with(&pmac, &PREFIX_PMAC_AESNI, KEY);
    assert_memory_equal(pmac.round_keys[0], KEY, 16);
    assert_memory_equal(pmac.round_keys[1], SECOND, 16);
    assert_memory_equal(pmac.round_keys[10], LAST, 16);
}

/* FIPS 197, appendix C.1, in the middle of several blocks: each by itself. */
static void a_block_is_encrypted_as_the_standard_says(void **state)
{
    (void)state;
    static const uint8_t CIPHER[16] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b,
                                       0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80,
                                       0x70, 0xb4, 0xc5, 0x5a};
    if (!prefix_pmac_aesni_is_usable()) {
        skip();
    }
    uint8_t key[16];
    uint8_t blocks[48] = {0};
    for (int i = 0; i < 16; i++) {
        key[i] = (uint8_t)i;
        blocks[16 + i] = (uint8_t)(i << 4 | i);
    }
    struct prefix_pmac pmac;
    prefix_pmac_init_with(&pmac, &PREFIX_PMAC_AESNI, key);
    PREFIX_PMAC_AESNI.encrypt(&pmac, blocks, 3);
    assert_memory_equal(blocks + 16, CIPHER, 16);
    assert_memory_equal(blocks, blocks + 32, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_keys_are_those_of_the_standard),
        cmocka_unit_test(a_block_is_encrypted_as_the_standard_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
