#include "unit/base/test.h"

#include "kv/radix.h"

/* Two chains that share their first two blocks, the pages as named:
 *
 *     7 -- 2 -- 9 -- 3
 *          `--- 4 -- 5
 */
enum { PAGE_COUNT = 10 };
static const kv_page_id LEFT[] = {7, 2, 9, 3};
static const kv_page_id RIGHT[] = {7, 2, 4, 5};

struct fixture {
    struct kv_radix *radix;
    struct prefix_key left[5]; /* the fifth block is in no tree */
    struct prefix_key right[5];
};

static void make_keys(const int32_t tokens[5], struct prefix_key keys_out[5])
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {42};
    struct prefix_scope scope;
    prefix_scope_init(&scope, SECRET, 0);
    assert_int_equal(prefix_keys(&scope, tokens, 5, 1, 5, keys_out), 5);
}

static void insert_chain(struct kv_radix *radix, const struct prefix_key *keys,
                         const kv_page_id *pages, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        kv_page_id parent = i == 0 ? KV_PAGE_NONE : pages[i - 1];
        kv_radix_insert(radix, &keys[i], parent, pages[i]);
    }
}

static void hold_chain(struct kv_radix *radix, const kv_page_id *pages,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        kv_radix_hold(radix, pages[i]);
    }
}

static void drop_chain(struct kv_radix *radix, const kv_page_id *pages,
                       uint32_t count)
{
    while (count > 0) {
        kv_radix_drop(radix, pages[--count]);
    }
}

/* Both chains present, each used by one sequence. */
static int create(void **state)
{
    static struct fixture fixture;
    make_keys((const int32_t[]){1, 2, 3, 4, 5}, fixture.left);
    make_keys((const int32_t[]){1, 2, 30, 40, 50}, fixture.right);
    fixture.radix = kv_radix_create(PAGE_COUNT);
    insert_chain(fixture.radix, fixture.left, LEFT, 0, 4);
    hold_chain(fixture.radix, RIGHT, 2);
    insert_chain(fixture.radix, fixture.right, RIGHT, 2, 4);
    *state = &fixture;
    return 0;
}

static int destroy(void **state)
{
    struct fixture *fixture = *state;
    kv_radix_destroy(fixture->radix);
    return 0;
}

/* Evicts until nothing is idle and compares with the order expected. */
static void assert_evicts(struct kv_radix *radix, const kv_page_id *expected,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(kv_radix_evict(radix), expected[i]);
        assert_true(kv_radix_is_valid(radix));
    }
    assert_int_equal(kv_radix_evict(radix), KV_PAGE_NONE);
}

/* Every length of both chains, and one block more than there is: as many pages
 * as blocks, in order. */
static void match_finds_the_longest_run_of_blocks(void **state)
{
    struct fixture *fixture = *state;
    kv_page_id pages[5];
    for (uint32_t count = 0; count <= 5; count++) {
        uint32_t expected = count < 4 ? count : 4;
        assert_int_equal(
            kv_radix_match(fixture->radix, fixture->left, count, pages),
            expected);
        assert_memory_equal(pages, LEFT, expected * sizeof(pages[0]));
        assert_int_equal(
            kv_radix_match(fixture->radix, fixture->right, count, pages),
            expected);
        assert_memory_equal(pages, RIGHT, expected * sizeof(pages[0]));
    }
}

/* A prompt that leaves the known path after two blocks gets these two. */
static void match_stops_at_first_block_not_cached(void **state)
{
    struct fixture *fixture = *state;
    struct prefix_key keys[5];
    kv_page_id pages[5];
    make_keys((const int32_t[]){1, 2, 77, 4, 5}, keys);
    assert_int_equal(kv_radix_match(fixture->radix, keys, 5, pages), 2);
    assert_int_equal(pages[0], 7);
    assert_int_equal(pages[1], 2);
    make_keys((const int32_t[]){77, 2, 3, 4, 5}, keys);
    assert_int_equal(kv_radix_match(fixture->radix, keys, 5, pages), 0);
}

/* Nothing is idle while each node has a user, so nothing can be given up. */
static void used_nodes_are_never_evicted(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(kv_radix_evict(fixture->radix), KV_PAGE_NONE);
    drop_chain(fixture->radix, LEFT, 4);
    assert_int_equal(kv_radix_idle_count(fixture->radix), 2);
    assert_evicts(fixture->radix, (const kv_page_id[]){3, 9}, 2);
    assert_int_equal(kv_radix_node_count(fixture->radix), 4);
}

/* A chain of four is let go: its deepest block is the oldest. Giving up two
 * leaves a match of two. [engine T27] */
static void deepest_block_goes_first(void **state)
{
    struct fixture *fixture = *state;
    kv_page_id pages[5];
    drop_chain(fixture->radix, RIGHT, 4);
    drop_chain(fixture->radix, LEFT, 4);
    assert_int_equal(kv_radix_evict(fixture->radix), 5);
    assert_int_equal(kv_radix_evict(fixture->radix), 4);
    assert_int_equal(kv_radix_evict(fixture->radix), 3);
    assert_int_equal(kv_radix_evict(fixture->radix), 9);
    assert_int_equal(kv_radix_match(fixture->radix, fixture->left, 4, pages),
                     2);
    assert_evicts(fixture->radix, (const kv_page_id[]){2, 7}, 2);
    assert_int_equal(kv_radix_node_count(fixture->radix), 0);
}

/* The left chain is older, but is used once more: the right one goes first, and
 * the blocks both share go last, with their younger user. */
static void use_makes_young(void **state)
{
    struct fixture *fixture = *state;
    drop_chain(fixture->radix, LEFT, 4);
    drop_chain(fixture->radix, RIGHT, 4);
    hold_chain(fixture->radix, LEFT, 4);
    assert_int_equal(kv_radix_idle_count(fixture->radix), 2);
    drop_chain(fixture->radix, LEFT, 4);
    assert_evicts(fixture->radix, (const kv_page_id[]){5, 4, 3, 9, 2, 7}, 6);
}

/* A page that was given up can carry another block afterwards. */
static void evicted_page_can_be_inserted_anew(void **state)
{
    struct fixture *fixture = *state;
    kv_page_id pages[5];
    drop_chain(fixture->radix, LEFT, 4);
    assert_int_equal(kv_radix_evict(fixture->radix), 3);
    kv_radix_hold(fixture->radix, 9);
    kv_radix_insert(fixture->radix, &fixture->left[4], 9, 3);
    assert_int_equal(kv_radix_find(fixture->radix, &fixture->left[4]), 3);
    assert_int_equal(kv_radix_find(fixture->radix, &fixture->left[3]),
                     KV_PAGE_NONE);
    assert_int_equal(kv_radix_match(fixture->radix, fixture->left, 4, pages),
                     3);
}

static void users_are_counted(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(kv_radix_users(fixture->radix, 7), 2);
    assert_int_equal(kv_radix_users(fixture->radix, 5), 1);
    assert_false(kv_radix_has(fixture->radix, 0));
    assert_false(kv_radix_has(fixture->radix, KV_PAGE_NONE));
    assert_false(kv_radix_has(fixture->radix, PAGE_COUNT));
    assert_true(kv_radix_is_valid(fixture->radix));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(match_finds_the_longest_run_of_blocks),
        TEST(match_stops_at_first_block_not_cached),
        TEST(used_nodes_are_never_evicted),
        TEST(deepest_block_goes_first),
        TEST(use_makes_young),
        TEST(evicted_page_can_be_inserted_anew),
        TEST(users_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
