#include "unit/base/test.h"

#include "serve/block_names.h"

enum { BLOCK = 4 };
static const int32_t TOKENS[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static struct prefix_key key_of(uint8_t number)
{
    return (struct prefix_key){{number, 1, 2, 3}};
}

/* Block `number`, which follows `parent` (0: none), with the ids of its place. */
static struct kv_event stored(uint8_t number, uint8_t parent, uint32_t ordinal,
                              uint8_t life)
{
    return (struct kv_event){
        .kind = KV_EVENT_STORED,
        .life = life,
        .ordinal = ordinal,
        .has_parent = parent != 0,
        .key = key_of(number),
        .parent = key_of(parent),
        .token_count = BLOCK,
        .tokens = TOKENS + ordinal * BLOCK,
    };
}

static uint64_t name_of(const struct serve_block_names *names, uint8_t number)
{
    struct prefix_key key = key_of(number);
    const struct prefix_digest *digest = serve_block_names_find(names, &key);
    return digest == NULL ? 0 : digest->number;
}

static bool store(struct serve_block_names *names, uint8_t number, uint8_t life)
{
    struct prefix_key key = key_of(number);
    return serve_block_names_store(names, life, &key) != NULL;
}

static bool remove_from(struct serve_block_names *names, uint8_t number,
                        uint8_t life)
{
    struct prefix_key key = key_of(number);
    return serve_block_names_remove(names, life, &key) != NULL;
}

/* Proof: a chain gets the digests that the whole prompt has, in whatever order
 * it comes; salted, others. */
static void names_are_those_of_the_prompt(void **state)
{
    (void)state;
    struct prefix_digest wanted[3];
    struct serve_block_names *names =
        serve_block_names_create(PREFIX_V1_BLOCK_KEY, 16);
    const struct kv_event events[] = {stored(3, 2, 2, 0), stored(2, 1, 1, 0),
                                      stored(1, 0, 0, 1)};
    serve_block_names_learn(names, events, 3);
    assert_int_equal(
        prefix_digests(PREFIX_V1_BLOCK_KEY, NULL, TOKENS, 13, BLOCK, 3, wanted),
        3);
    for (uint8_t i = 0; i < 3; i++) {
        assert_true(name_of(names, (uint8_t)(i + 1)) == wanted[i].number);
    }
    struct kv_event salted = stored(9, 0, 0, 0);
    salted.has_salt = true;
    salted.salt = 123;
    serve_block_names_learn(names, &salted, 1);
    assert_true(name_of(names, 9) != 0);
    assert_true(name_of(names, 9) != wanted[0].number);
    serve_block_names_destroy(names);
}

/* Proof: without the block before, or with a salt that is forgotten, there is
 * no name, and neither storing nor removing tells one. */
static void what_cannot_be_derived_has_no_name(void **state)
{
    (void)state;
    struct serve_block_names *names =
        serve_block_names_create(PREFIX_V2_SHA256, 16);
    struct kv_event events[] = {stored(2, 1, 1, 0), stored(5, 0, 0, 0)};
    events[1].has_salt = true;
    serve_block_names_learn(names, events, 2);
    for (uint8_t number = 1; number < 6; number++) {
        assert_true(name_of(names, number) == 0);
        assert_false(store(names, number, 0));
        assert_false(remove_from(names, number, 0));
    }
    assert_int_equal(serve_block_names_count(names), 0);
    serve_block_names_destroy(names);
}

/* Proof: a name stays while one life cycle announces the block, or a block
 * behind it lives; then the whole chain goes at once, and is learnt anew. */
static void a_name_lives_as_long_as_its_block_or_one_behind_it(void **state)
{
    (void)state;
    struct serve_block_names *names =
        serve_block_names_create(PREFIX_V1_BLOCK_KEY, 3);
    const struct kv_event events[] = {stored(1, 0, 0, 0), stored(2, 1, 1, 0),
                                      stored(3, 2, 2, 0)};
    for (int round = 0; round < 3; round++) {
        serve_block_names_learn(names, events, 3);
        assert_true(store(names, 1, 0));
        assert_true(store(names, 1, 1));
        assert_true(store(names, 2, 0));
        assert_true(store(names, 3, 0));
        assert_true(remove_from(names, 1, 0));
        assert_true(remove_from(names, 1, 1));
        assert_false(remove_from(names, 1, 1));
        assert_true(remove_from(names, 2, 0));
        serve_block_names_settle(names);
        assert_int_equal(serve_block_names_count(names), 3);
        assert_true(remove_from(names, 3, 0));
        assert_true(name_of(names, 3) != 0); /* until the batch ends */
        serve_block_names_settle(names);
        assert_int_equal(serve_block_names_count(names), 0);
    }
    serve_block_names_destroy(names);
}

/* Proof: what does not fit has no name; nothing else is touched. */
static void more_than_there_is_room_for_stays_unknown(void **state)
{
    (void)state;
    struct serve_block_names *names =
        serve_block_names_create(PREFIX_V1_BLOCK_KEY, 2);
    const struct kv_event events[] = {stored(1, 0, 0, 0), stored(2, 1, 1, 0),
                                      stored(3, 2, 2, 0)};
    serve_block_names_learn(names, events, 3);
    assert_true(store(names, 1, 0) && store(names, 2, 0));
    assert_false(store(names, 3, 0));
    serve_block_names_settle(names);
    assert_int_equal(serve_block_names_count(names), 2);
    serve_block_names_destroy(names);
}

/* Proof: after `forget` only what a listing stores is left. */
static void a_listing_replaces_what_was_known(void **state)
{
    (void)state;
    struct serve_block_names *names =
        serve_block_names_create(PREFIX_V1_BLOCK_KEY, 8);
    const struct kv_event events[] = {stored(1, 0, 0, 0), stored(2, 1, 1, 0),
                                      stored(4, 0, 0, 0)};
    serve_block_names_learn(names, events, 3);
    assert_true(store(names, 1, 0) && store(names, 2, 0) && store(names, 4, 0));
    serve_block_names_settle(names);
    serve_block_names_forget(names);
    assert_true(store(names, 2, 0)); /* its parent stays as such */
    serve_block_names_settle(names);
    assert_int_equal(serve_block_names_count(names), 2);
    assert_false(remove_from(names, 1, 0));
    assert_false(remove_from(names, 4, 0));
    assert_true(remove_from(names, 2, 0));
    serve_block_names_settle(names);
    assert_int_equal(serve_block_names_count(names), 0);
    serve_block_names_destroy(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_prompt),
        cmocka_unit_test(what_cannot_be_derived_has_no_name),
        cmocka_unit_test(a_name_lives_as_long_as_its_block_or_one_behind_it),
        cmocka_unit_test(more_than_there_is_room_for_stays_unknown),
        cmocka_unit_test(a_listing_replaces_what_was_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
