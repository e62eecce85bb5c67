#include "unit/base/test.h"

#include "prefix/keys.h"

static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {1, 2, 3};

static struct prefix_scope scope_of(uint64_t salt)
{
    struct prefix_scope scope;
    prefix_scope_init(&scope, SECRET, salt);
    return scope;
}

/* Two prompts of 3 full blocks that differ in the second: the first key is
 * shared, and the difference reaches the third although its tokens agree. */
static void a_key_stands_for_everything_before_it(void **state)
{
    (void)state;
    struct prefix_scope scope = scope_of(0);
    int32_t a[14] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    int32_t b[14] = {1, 2, 3, 4, 5, 6, 7, 99, 9, 10, 11, 12, 13, 14};
    struct prefix_key ka[4];
    struct prefix_key kb[4];
    assert_int_equal(prefix_keys(&scope, a, 14, 4, 4, ka), 3);
    assert_int_equal(prefix_keys(&scope, b, 14, 4, 4, kb), 3);
    assert_true(prefix_key_equals(&ka[0], &kb[0]));
    assert_false(prefix_key_equals(&ka[1], &kb[1]));
    assert_false(prefix_key_equals(&ka[2], &kb[2]));
}

/* Block by block with prefix_key_next gives what prefix_keys gives at once. */
static void one_by_one_equals_all_at_once(void **state)
{
    (void)state;
    struct prefix_scope scope = scope_of(7);
    int32_t tokens[32];
    for (int i = 0; i < 32; i++) {
        tokens[i] = i * 7919;
    }
    struct prefix_key keys[4];
    struct prefix_key key;
    assert_int_equal(prefix_keys(&scope, tokens, 32, 8, 4, keys), 4);
    for (int i = 0; i < 4; i++) {
        key = prefix_key_next(&scope, i == 0 ? NULL : &key, tokens + 8 * i, 8);
        assert_true(prefix_key_equals(&key, &keys[i]));
    }
}

/* Equal tokens under another salt, or another process's secret, share no key. */
static void scopes_and_secrets_share_nothing(void **state)
{
    (void)state;
    uint8_t other[PREFIX_SECRET_SIZE] = {1, 2, 4};
    struct prefix_scope a = scope_of(0);
    struct prefix_scope b = scope_of(1ull << 40);
    struct prefix_scope c;
    prefix_scope_init(&c, other, 0);
    int32_t tokens[4] = {1, 2, 3, 4};
    struct prefix_key ka = prefix_key_next(&a, NULL, tokens, 4);
    struct prefix_key kb = prefix_key_next(&b, NULL, tokens, 4);
    struct prefix_key kc = prefix_key_next(&c, NULL, tokens, 4);
    assert_false(prefix_key_equals(&ka, &kb));
    assert_false(prefix_key_equals(&ka, &kc));
}

/* Only full blocks have keys, and never more than there is room for. */
static void partial_blocks_and_missing_room_give_no_key(void **state)
{
    (void)state;
    struct prefix_scope scope = scope_of(0);
    int32_t tokens[8] = {0};
    struct prefix_key keys[2];
    assert_int_equal(prefix_keys(&scope, tokens, 0, 4, 2, keys), 0);
    assert_int_equal(prefix_keys(&scope, tokens, 3, 4, 2, keys), 0);
    assert_int_equal(prefix_keys(&scope, tokens, 7, 4, 2, keys), 1);
    assert_int_equal(prefix_keys(&scope, tokens, 8, 4, 1, keys), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_stands_for_everything_before_it),
        cmocka_unit_test(one_by_one_equals_all_at_once),
        cmocka_unit_test(scopes_and_secrets_share_nothing),
        cmocka_unit_test(partial_blocks_and_missing_room_give_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
