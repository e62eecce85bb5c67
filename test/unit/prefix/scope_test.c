#include "unit/base/test.h"

#include "prefix/scope.h"

/* Each combination of fields, byte for byte: the mask, then what is present. */
static void a_scope_is_a_mask_and_what_is_present(void **state)
{
    (void)state;
    static const uint8_t BOTH[17] = {3,    8, 7, 6, 5, 4, 3, 2,   1,
                                     0x11, 0, 0, 0, 0, 0, 0, 0x22};
    struct prefix_scope_id id = {.lora = 0x0102030405060708,
                                 .salt = 0x2200000000000011};
    uint8_t out[PREFIX_SCOPE_BYTES_MAX];
    assert_int_equal(prefix_scope_encode(NULL, out), 1);
    assert_int_equal(out[0], 0);
    assert_int_equal(prefix_scope_encode(&id, out), 1);
    assert_int_equal(out[0], 0);
    id.has_lora = true;
    assert_int_equal(prefix_scope_encode(&id, out), 9);
    assert_int_equal(out[0], 1);
    assert_memory_equal(out + 1, BOTH + 1, 8);
    id.has_salt = true;
    assert_int_equal(prefix_scope_encode(&id, out), 17);
    assert_memory_equal(out, BOTH, 17);
    id.has_lora = false;
    assert_int_equal(prefix_scope_encode(&id, out), 9);
    assert_int_equal(out[0], 2);
    assert_memory_equal(out + 1, BOTH + 9, 8);
}

/* SHA-256("abc") begins ba7816bf8f01cfea (FIPS 180); the older generation's id
 * of "abc" is pinned in serve.md 3.3. */
static void a_salt_id_is_the_start_of_its_digest(void **state)
{
    (void)state;
    assert_true(prefix_salt_id("abc") == UINT64_C(0xeacf018fbf1678ba));
    assert_true(prefix_salt_id("") == UINT64_C(0x141cfc9842c4b0e3));
    assert_true(prefix_salt_id_blake3("abc") == UINT64_C(3697813978277427044));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_is_a_mask_and_what_is_present),
        cmocka_unit_test(a_salt_id_is_the_start_of_its_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
