#include "unit/base/test.h"

#include "kv/page_pool.h"

static int create(void **state)
{
    *state = kv_page_pool_create(3);
    return 0;
}

static int destroy(void **state)
{
    kv_page_pool_destroy(*state);
    return 0;
}

static kv_page_id take(struct kv_page_pool *pool)
{
    kv_page_id page = KV_PAGE_NONE;
    assert_int_equal(kv_page_pool_take(pool, &page), OK);
    return page;
}

/* Three takes give three different pages, the fourth is refused and changes
 * nothing. */
static void pages_are_lent_once_until_none_is_left(void **state)
{
    struct kv_page_pool *pool = *state;
    kv_page_id a = take(pool);
    kv_page_id b = take(pool);
    kv_page_id c = take(pool);
    kv_page_id d = 77;
    assert_true(a != b && b != c && a != c);
    assert_int_equal(kv_page_pool_take(pool, &d), ERR_FULL);
    assert_int_equal(d, 77);
    assert_true(kv_page_pool_is_valid(pool));
}

/* Two references: the page comes free with the second unref. */
static void last_reference_frees(void **state)
{
    struct kv_page_pool *pool = *state;
    kv_page_id page = take(pool);
    kv_page_pool_ref(pool, page);
    kv_page_pool_unref(pool, page);
    assert_int_equal(kv_page_pool_free_count(pool), 2);
    kv_page_pool_unref(pool, page);
    assert_int_equal(kv_page_pool_free_count(pool), 3);
    assert_true(kv_page_pool_is_valid(pool));
}

/* The page loses its last reference while leased twice. Then everything else is
 * taken: it is never among it, until the second lease has ended. */
static void leased_page_is_never_lent(void **state)
{
    struct kv_page_pool *pool = *state;
    kv_page_id page = take(pool);
    kv_page_id other = KV_PAGE_NONE;
    kv_page_pool_lease(pool, page);
    kv_page_pool_lease(pool, page);
    kv_page_pool_unref(pool, page);
    assert_int_not_equal(take(pool), page);
    assert_int_not_equal(take(pool), page);
    assert_int_equal(kv_page_pool_take(pool, &other), ERR_FULL);
    kv_page_pool_unlease(pool, page);
    assert_int_equal(kv_page_pool_take(pool, &other), ERR_FULL);
    assert_int_equal(kv_page_pool_leased_count(pool), 1);
    kv_page_pool_unlease(pool, page);
    assert_int_equal(kv_page_pool_leased_count(pool), 0);
    assert_int_equal(take(pool), page);
    assert_true(kv_page_pool_is_valid(pool));
}

/* A lease that ends before the reference does frees nothing. */
static void lease_alone_does_not_free(void **state)
{
    struct kv_page_pool *pool = *state;
    kv_page_id page = take(pool);
    kv_page_pool_lease(pool, page);
    kv_page_pool_unlease(pool, page);
    assert_int_equal(kv_page_pool_free_count(pool), 2);
    kv_page_pool_unref(pool, page);
    assert_int_equal(kv_page_pool_free_count(pool), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_are_lent_once_until_none_is_left,
                                        create, destroy),
        cmocka_unit_test_setup_teardown(last_reference_frees, create, destroy),
        cmocka_unit_test_setup_teardown(leased_page_is_never_lent, create,
                                        destroy),
        cmocka_unit_test_setup_teardown(lease_alone_does_not_free, create,
                                        destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
