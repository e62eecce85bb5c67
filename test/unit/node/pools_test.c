#include "unit/base/test.h"

#include "node/pools.h"
#include "transfer/backend_inproc.h"

static const struct kv_shape SHAPE = {
    .life_count = 2,
    .layouts = {{.layer_count = 3, .tokens_per_block = 8},
                {.layer_count = 1, .tokens_per_block = 8}},
};

static struct node_limits limits_of(uint32_t host_page_count)
{
    return (struct node_limits){
        .life_count = 2,
        .pools = {{.page_bytes = 192,
                   .page_count = 7,
                   .host_page_count = host_page_count},
                  {.page_bytes = 64,
                   .page_count = 100,
                   .host_page_count = 2 * host_page_count}},
    };
}

static void fill(const struct kv_pool_view *view, uint8_t byte)
{
    memset(view->base, byte, view->page_bytes * view->page_count);
}

static void assert_filled(const struct kv_pool_view *view, uint8_t byte)
{
    for (size_t i = 0; i < view->page_bytes * view->page_count; i++) {
        assert_int_equal(view->base[i], byte);
    }
}

/* Proof: four pools of two levels, each filled with a byte of its own to its last
 * page, keep their bytes: none overlaps. Pages and layouts are those asked for. */
static void pools_do_not_overlap(void **state)
{
    (void)state;
    struct why why;
    struct node_pools pools = {0};
    struct kv_pool_view views[2][KV_LIFE_COUNT_MAX];
    const struct node_limits limits = limits_of(5);
    assert_int_equal(node_pools_take(&pools, &limits, NULL, &why), OK);
    node_pools_views(&pools, &limits, &SHAPE, views[0], views[1]);
    for (int i = 0; i < 4; i++) {
        const struct kv_pool_view *view = &views[i / 2][i % 2];
        assert_int_equal((uintptr_t)view->base % 64, 0);
        assert_int_equal(view->page_bytes, i % 2 == 0 ? 192 : 64);
        assert_int_equal(view->layout.layer_count, i % 2 == 0 ? 3 : 1);
        fill(view, (uint8_t)(i + 1));
    }
    for (int i = 0; i < 4; i++) {
        assert_filled(&views[i / 2][i % 2], (uint8_t)(i + 1));
    }
    assert_int_equal(views[0][1].page_count, 100);
    assert_int_equal(views[1][1].page_count, 10);
    node_pools_give(&pools);
    node_pools_give(&pools); /* fine: nothing is held */
}

/* Whole pages of the system, behind the last pool, of the same memory. */
static void the_arena_lies_behind_the_pools(void **state)
{
    (void)state;
    struct why why;
    struct node_pools pools = {0};
    struct node_limits limits = limits_of(0);
    uint64_t offset = 1, size = 1;
    node_pools_bounce(&limits, &offset, &size);
    assert_int_equal(size, 0);
    limits.bounce_bytes = 3 * 4096 + 5;
    node_pools_bounce(&limits, &offset, &size);
    assert_int_equal(offset, 4096 + 2 * 4096);
    assert_int_equal(size, 3 * 4096);
    assert_int_equal(node_pools_take(&pools, &limits, NULL, &why), OK);
    assert_int_equal(pools.memory.size, offset + size);
    node_pools_give(&pools);
}

/* Proof: the first level is the backend's, which has one pool to lend: a second
 * taker is refused. Without a second level its views are empty. */
static void peers_write_to_memory_of_the_backend(void **state)
{
    (void)state;
    struct why why;
    struct node_pools pools = {0};
    struct node_pools other = {0};
    struct transfer_backend *backend = NULL;
    struct kv_pool_view views[2][KV_LIFE_COUNT_MAX];
    const struct node_limits limits = limits_of(0);
    struct transfer_inproc_hub *hub = transfer_inproc_hub_create();
    assert_int_equal(transfer_backend_inproc_create(hub, 7, &backend), OK);
    assert_int_equal(node_pools_take(&pools, &limits, backend, &why), OK);
    assert_int_equal(node_pools_take(&other, &limits, backend, &why),
                     ERR_EXISTS);
    assert_non_null(strstr(why.text, "KV pool"));
    node_pools_views(&pools, &limits, &SHAPE, views[0], views[1]);
    assert_non_null(views[0][0].base);
    assert_null(views[1][0].base);
    assert_int_equal(views[1][0].page_count, 0);
    node_pools_give(&other);
    node_pools_give(&pools);
    transfer_backend_destroy(backend);
    transfer_inproc_hub_destroy(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_do_not_overlap),
        cmocka_unit_test(the_arena_lies_behind_the_pools),
        cmocka_unit_test(peers_write_to_memory_of_the_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
