#include "unit/base/test.h"

#include "base/rng.h"
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

/* A key is the tag of the bytes that the header promises, put together here: the
 * ids little-endian, then the parent; of the scope, its bytes alone. */
static void a_key_is_the_tag_of_ids_and_parent(void **state)
{
    (void)state;
    struct prefix_scope scope = scope_of(0x0102030405060708);
    static const uint8_t ROOT[9] = {2, 8, 7, 6, 5, 4, 3, 2, 1};
    int32_t tokens[3] = {0x01020304, 0, INT32_MAX};
    uint8_t message[28] = {4, 3, 2, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f};
    struct prefix_key expected;
    prefix_pmac_tag(&scope.pmac, ROOT, sizeof(ROOT), expected.bytes);
    assert_true(prefix_key_equals(&scope.root, &expected));
    memcpy(message + 12, expected.bytes, 16);
    prefix_pmac_tag(&scope.pmac, message, sizeof(message), expected.bytes);
    struct prefix_key key = prefix_key_next(&scope, NULL, tokens, 3);
    assert_true(prefix_key_equals(&key, &expected));
}

/* Roots of no field, LoRA, salt, both, and the two swapped: all different. The
 * short form is the one without LoRA, and salt 0 is no salt. */
static void lora_and_salt_are_told_apart(void **state)
{
    (void)state;
    struct prefix_scope_id ids[] = {
        {.has_lora = false},
        {.has_lora = true, .lora = 5},
        {.has_salt = true, .salt = 5},
        {.has_lora = true, .lora = 5, .has_salt = true, .salt = 6},
        {.has_lora = true, .lora = 6, .has_salt = true, .salt = 5},
        {.has_lora = true, .lora = 0},
        {.has_salt = true, .salt = 0},
    };
    enum { COUNT = sizeof(ids) / sizeof(ids[0]) };
    struct prefix_scope scopes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        prefix_scope_init_for(&scopes[i], SECRET, &ids[i]);
        for (int j = 0; j < i; j++) {
            assert_false(prefix_key_equals(&scopes[i].root, &scopes[j].root));
        }
    }
    struct prefix_scope none = scope_of(0);
    struct prefix_scope salted = scope_of(5);
    assert_true(prefix_key_equals(&none.root, &scopes[0].root));
    assert_true(prefix_key_equals(&salted.root, &scopes[2].root));
}

/* The tail's key is that of its ids alone: of 2 ids, and not of the same ids
 * and zeros up to the block's size, nor of one fewer. */
static void a_tail_is_a_block_of_its_own_length(void **state)
{
    (void)state;
    struct prefix_scope scope = scope_of(0);
    int32_t tokens[8] = {1, 2, 3, 4, 5, 0, 0, 0};
    struct prefix_prompt prompt = {.tokens = tokens,
                                   .token_count = 6,
                                   .tokens_per_block = 4,
                                   .with_tail = true};
    struct prefix_key keys[3];
    struct prefix_key full[2];
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 3, keys), 2);
    assert_int_equal(prefix_keys(&scope, tokens, 8, 4, 2, full), 2);
    struct prefix_key two = prefix_key_next(&scope, &full[0], tokens + 4, 2);
    struct prefix_key one = prefix_key_next(&scope, &full[0], tokens + 4, 1);
    assert_true(prefix_key_equals(&keys[0], &full[0]));
    assert_true(prefix_key_equals(&keys[1], &two));
    assert_false(prefix_key_equals(&keys[1], &one));
    assert_false(prefix_key_equals(&keys[1], &full[1]));
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 1, keys), 1);
    prompt.token_count = 8;
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 3, keys), 2);
    prompt.with_tail = false;
    prompt.token_count = 6;
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 3, keys), 1);
}

enum { MEDIA_TOKENS = 16, MEDIA_BLOCK = 4, MEDIA_BLOCKS = 4 };

/* Keys of a prompt of 6 words, an item of 7 ids and 3 words: the item begins in
 * block 1 and ends in block 3. */
static void media_keys(const struct prefix_item_source *source,
                       struct prefix_key keys_out[MEDIA_BLOCKS])
{
    struct prefix_scope scope = scope_of(0);
    int32_t tokens[MEDIA_TOKENS];
    for (int i = 0; i < MEDIA_TOKENS; i++) {
        tokens[i] = i;
    }
    struct prefix_item item;
    assert_int_equal(prefix_item_init(source, 6, NULL, &item, tokens + 6), OK);
    struct prefix_prompt prompt = {.tokens = tokens,
                                   .token_count = MEDIA_TOKENS,
                                   .items = &item,
                                   .item_count = 1,
                                   .tokens_per_block = MEDIA_BLOCK};
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 9, keys_out),
                     MEDIA_BLOCKS);
}

/* How many leading keys two runs share. */
static int shared(const struct prefix_key *a, const struct prefix_key *b)
{
    int count = 0;
    while (count < MEDIA_BLOCKS && prefix_key_equals(&a[count], &b[count])) {
        count++;
    }
    for (int i = count; i < MEDIA_BLOCKS; i++) {
        assert_false(prefix_key_equals(&a[i], &b[i]));
    }
    return count;
}

/* One prompt with placeholder ids that never change. Another content parts from
 * it at the first block with the item, and for good; so do a user's id, another
 * user's id, and a content that equals the mixture of id and content. The same
 * item matches to the end. [engine T39] */
static void items_of_other_content_or_user_do_not_match(void **state)
{
    (void)state;
    struct prefix_item_source source = {
        .vocab_size = 100, .token_count = 7, .content = {1}};
    struct prefix_key plain[MEDIA_BLOCKS], other[MEDIA_BLOCKS];
    struct prefix_key mine[MEDIA_BLOCKS], yours[MEDIA_BLOCKS];
    media_keys(&source, plain);
    media_keys(&source, other);
    assert_int_equal(shared(plain, other), MEDIA_BLOCKS);
    source.content[31] = 1;
    media_keys(&source, other);
    assert_int_equal(shared(plain, other), 1);
    source.content[31] = 0;
    source.has_user_id = true;
    source.user_id = span_of_string("mine");
    media_keys(&source, mine);
    assert_int_equal(shared(plain, mine), 1);
    media_keys(&source, other);
    assert_int_equal(shared(mine, other), MEDIA_BLOCKS);
    source.user_id = span_of_string("yours");
    media_keys(&source, yours);
    assert_int_equal(shared(mine, yours), 1);
    struct prefix_item mixture;
    int32_t ids[7];
    assert_int_equal(prefix_item_init(&source, 0, NULL, &mixture, ids), OK);
    memcpy(source.content, mixture.name, sizeof(source.content));
    source.has_user_id = false;
    media_keys(&source, other);
    assert_int_equal(shared(yours, other), 1);
}

/* The same ids without the item's name, with the name one place further, or
 * twice in one block, have other keys. */
static void place_and_number_of_items_count(void **state)
{
    (void)state;
    struct prefix_scope scope = scope_of(0);
    int32_t tokens[4] = {100, 100, 100, 100};
    struct prefix_item items[2] = {{.position = 1}, {.position = 1}};
    struct prefix_prompt prompt = {.tokens = tokens,
                                   .token_count = 4,
                                   .items = items,
                                   .tokens_per_block = 4};
    struct prefix_key keys[5];
    for (uint32_t count = 0; count <= 2; count++) {
        prompt.item_count = count;
        assert_int_equal(prefix_prompt_keys(&scope, &prompt, 1, &keys[count]),
                         1);
    }
    items[1].position = 2;
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 1, &keys[3]), 1);
    items[0].position = 2;
    prompt.item_count = 1;
    assert_int_equal(prefix_prompt_keys(&scope, &prompt, 1, &keys[4]), 1);
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < i; j++) {
            assert_false(prefix_key_equals(&keys[i], &keys[j]));
        }
    }
}

/* Random prompts, block sizes and items: all keys at once against one block
 * after another, each item mixed by hand. Items behind the last token, and in a
 * tail that has no key, change nothing. */
static void all_at_once_equals_block_by_block_with_items(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(21);
    struct prefix_scope scope = scope_of(3);
    for (int round = 0; round < 2000; round++) {
        int32_t tokens[100];
        struct prefix_item items[6] = {{0}};
        struct prefix_prompt prompt = {
            .tokens = tokens,
            .token_count = (uint32_t)rng_below(&rng, 100),
            .items = items,
            .item_count = (uint32_t)rng_below(&rng, 7),
            .tokens_per_block = 1 + (uint32_t)rng_below(&rng, 40),
            .with_tail = rng_below(&rng, 2) == 1};
        for (int i = 0; i < 100; i++) {
            tokens[i] = (int32_t)rng_below(&rng, 50000);
        }
        uint32_t position = 0;
        for (int i = 0; i < 6; i++) {
            position += (uint32_t)rng_below(&rng, 40);
            items[i].position = position;
            items[i].name[5] = (uint8_t)rng_next(&rng);
        }
        struct prefix_key keys[100];
        uint32_t count = prefix_prompt_keys(&scope, &prompt, 100, keys);
        uint32_t size = prompt.tokens_per_block;
        assert_int_equal(
            count,
            (prompt.token_count + (prompt.with_tail ? size - 1 : 0)) / size);
        struct prefix_key key = scope.root;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t begin = i * size;
            uint32_t end = begin + size < prompt.token_count
                               ? begin + size
                               : prompt.token_count;
            for (uint32_t n = 0; n < prompt.item_count; n++) {
                uint32_t at = items[n].position;
                if (at >= begin && at < end) {
                    key = prefix_key_mix_item(&scope, &key, &items[n],
                                              at - begin);
                }
            }
            key = prefix_key_next(&scope, &key, tokens + begin, end - begin);
            assert_true(prefix_key_equals(&key, &keys[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_stands_for_everything_before_it),
        cmocka_unit_test(one_by_one_equals_all_at_once),
        cmocka_unit_test(scopes_and_secrets_share_nothing),
        cmocka_unit_test(partial_blocks_and_missing_room_give_no_key),
        cmocka_unit_test(a_key_is_the_tag_of_ids_and_parent),
        cmocka_unit_test(lora_and_salt_are_told_apart),
        cmocka_unit_test(a_tail_is_a_block_of_its_own_length),
        cmocka_unit_test(items_of_other_content_or_user_do_not_match),
        cmocka_unit_test(place_and_number_of_items_count),
        cmocka_unit_test(all_at_once_equals_block_by_block_with_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
