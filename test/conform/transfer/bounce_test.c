/* Pages that go packed through the arenas, over inproc, ucx and tcp: what
 * arrives is what arrives the plain way, in slices too, and nothing of a
 * cancelled, corrupted or lost one is left. The arena is smaller than what goes
 * through it. */
#include "leaks.h"
#include "node.h"

#include "transfer/slice.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    BLOCKS = 200
};
#define MS UINT64_C(1000000)

struct pair {
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct node a, b; /* sender, receiver */
};

static void open_pair_with(struct pair *pair, struct node_setup setup,
                           bool has_b_arena)
{
    assert_int_equal(io_loop_create(&pair->loop), OK);
    pair->hub = transfer_inproc_hub_create();
    setup.loop = pair->loop;
    setup.hub = pair->hub;
    setup.incarnation = 0xa;
    setup.bounce = (struct transfer_bounce_options){.size = 65536,
                                                    .granule = 4096,
                                                    .chunk_max = 16384,
                                                    .patience_ns = 60000 * MS,
                                                    .is_forced = true};
    node_open(&pair->a, &setup);
    setup.incarnation = 0xb;
    setup.bounce.size = has_b_arena ? setup.bounce.size : 0;
    node_open(&pair->b, &setup);
    node_fill(&pair->a, 1);
    node_fill(&pair->b, 2);
}

static void open_pair(struct pair *pair, enum node_body body)
{
    open_pair_with(pair, (struct node_setup){.body = body}, true);
}

static struct transfer_stats stats_of(const struct node *node)
{
    struct transfer_stats stats;
    transfer_stats_read(node->transfer, &stats);
    return stats;
}

/* No region is lent or kept apart any more. */
static void expect_empty_arena(struct node *node)
{
    node_turns(node, 5);
    assert_int_equal(stats_of(node).bounce_live_bytes, 0);
    assert_int_equal(stats_of(node).bounce_quarantined_bytes, 0);
}

static void close_pair(struct pair *pair)
{
    expect_empty_arena(&pair->a);
    expect_empty_arena(&pair->b);
    node_close(&pair->a);
    node_close(&pair->b);
    io_loop_destroy(pair->loop);
    transfer_inproc_hub_destroy(pair->hub);
}

static uint8_t *copy_pool(struct node *node)
{
    size_t size = node->pool.page_bytes * NODE_PAGE_COUNT;
    uint8_t *copy = malloc(size);
    memcpy(copy, node->pool.base, size);
    return copy;
}

static void expect_pages(struct pair *pair, uint8_t *expected,
                         const kv_page_id *from, const kv_page_id *to,
                         uint32_t count)
{
    size_t size = pair->a.pool.page_bytes;
    for (uint32_t i = 0; i < count; i++) {
        if (to[i] != KV_PAGE_NONE) {
            memcpy(expected + size * (size_t)to[i],
                   node_page(&pair->a, from[i]), size);
        }
    }
    assert_memory_equal(pair->b.pool.base, expected, size * NODE_PAGE_COUNT);
    free(expected);
}

/* Random hand-offs, with holes, many times the arena: the whole receiving pool
 * is what it must be, both sides say T and Q and how much went packed.
 * [transfer T50] */
static void what_arrives_packed_is_what_was_sent(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct rng rng = rng_from_seed(5);
    uint64_t bytes = 0;
    for (uint64_t id = 1; id <= 12; id++) {
        kv_page_id from[BLOCKS], to[BLOCKS];
        uint32_t count = 1 + (uint32_t)rng_below(&rng, BLOCKS);
        node_pick(&rng, from, count, 0);
        node_pick(&rng, to, count, (uint32_t)rng_below(&rng, 5));
        uint8_t *expected = copy_pool(&pair.b);
        node_send(&pair.a, id, (int64_t)id, from, count, 0);
        node_receive(&pair.b, &pair.a, id, (int64_t)id, to, count, 0);
        assert_int_equal(node_await(&pair.b, id, T), T | Q);
        assert_int_equal(node_await(&pair.a, id, T), T | Q);
        expect_pages(&pair, expected, from, to, count);
        const struct transfer_report *sent = node_last(&pair.a, id);
        const struct transfer_report *got = node_last(&pair.b, id);
        assert_int_equal(sent->bounced_bytes, sent->moved_bytes);
        assert_int_equal(got->bounced_bytes, got->moved_bytes);
        bytes += sent->moved_bytes;
        pair.a.report_count = pair.b.report_count = 0;
    }
    assert_true(bytes > 10 * 65536);
    assert_int_equal(stats_of(&pair.a).sent_bounced_bytes, bytes);
    assert_int_equal(stats_of(&pair.b).received_bounced_bytes, bytes);
    assert_true(stats_of(&pair.a).sent_bounced_writes > 0);
    assert_int_equal(stats_of(&pair.b).integrity_failures, 0);
    close_pair(&pair);
}

/* One prompt in slices, each of them packed by itself. [transfer T40] */
static void slices_go_packed_too(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct rng rng = rng_from_seed(9);
    kv_page_id from[BLOCKS], to[BLOCKS];
    node_pick(&rng, from, BLOCKS, 0);
    node_pick(&rng, to, BLOCKS, 0);
    uint8_t *expected = copy_pool(&pair.b);
    node_receive(&pair.b, &pair.a, 2, 7, to, BLOCKS, 0);
    enum { SLICES = 8, EACH = BLOCKS / SLICES };
    for (uint32_t i = 0; i < SLICES; i++) {
        struct transfer_command command = {
            .kind = TRANSFER_SEND,
            .request = 1,
            .rid = 7,
            .pages = {from},
            .group_count = 1,
            .block_count = BLOCKS,
            .prompt_tokens = BLOCKS * NODE_TOKENS,
            .slice_index = i,
            .first_block = i * EACH,
            .end_block = (i + 1) * EACH,
            .is_last = i + 1 == SLICES,
            .aux = i + 1 == SLICES ? node_aux(1) : NULL,
        };
        assert_int_equal(io_mailbox_post(pair.a.port.commands, &command), OK);
        node_turns(&pair.a, 1 + (int)rng_below(&rng, 20));
        /* Else all that waits for the receiver may go as one. */
        for (int k = 0;
             k < 100000 && stats_of(&pair.a).sent_bounced_writes == 0; k++) {
            node_turns(&pair.a, 1);
        }
    }
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    assert_int_equal(node_await(&pair.a, 1, T), T | Q);
    expect_pages(&pair, expected, from, to, BLOCKS);
    assert_true(stats_of(&pair.a).sent_bounced_writes > 1);
    close_pair(&pair);
}

/* Both send to each other at once, several at a time: neither arena is large
 * enough, both directions end. [transfer T36 I30] */
static void both_directions_at_once(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    enum { EACH = 4 };
    kv_page_id from[64], to[64];
    for (int i = 0; i < 64; i++) {
        from[i] = i;
        to[i] = 64 + i;
    }
    for (uint64_t i = 0; i < EACH; i++) {
        node_send(&pair.a, 10 + i, (int64_t)(10 + i), from, 64, 0);
        node_send(&pair.b, 20 + i, (int64_t)(20 + i), from, 64, 0);
        node_receive(&pair.b, &pair.a, 30 + i, (int64_t)(10 + i), to, 64, 0);
        node_receive(&pair.a, &pair.b, 40 + i, (int64_t)(20 + i), to, 64, 0);
    }
    for (uint64_t i = 0; i < EACH; i++) {
        assert_int_equal(node_await(&pair.b, 30 + i, T), T | Q);
        assert_int_equal(node_await(&pair.a, 40 + i, T), T | Q);
        assert_int_equal(node_await(&pair.a, 10 + i, T), T | Q);
        assert_int_equal(node_await(&pair.b, 20 + i, T), T | Q);
    }
    close_pair(&pair);
}

/* Either side gives up in mid-stream; both get Q, the arenas are empty, and the
 * next hand-off over the same pages is right. [transfer T53 T68] */
static void a_cancel_in_mid_stream_leaves_nothing(enum node_body body)
{
    for (int turns = 1; turns < 40; turns += 3) {
        struct pair pair;
        open_pair(&pair, body);
        kv_page_id from[BLOCKS], to[BLOCKS];
        struct rng rng = rng_from_seed((uint64_t)turns);
        node_pick(&rng, from, BLOCKS, 0);
        node_pick(&rng, to, BLOCKS, 0);
        /* They know each other: a cancel is told from the first turn on. */
        node_send(&pair.a, 9, 9, from, 1, 0);
        node_receive(&pair.b, &pair.a, 8, 9, to, 1, 0);
        node_await(&pair.a, 9, Q);
        node_await(&pair.b, 8, Q);
        node_send(&pair.a, 1, 1, from, BLOCKS, 0);
        node_receive(&pair.b, &pair.a, 2, 1, to, BLOCKS, 0);
        for (int i = 0; i < turns; i++) {
            io_loop_turn(pair.loop, 0);
        }
        node_cancel(turns % 2 ? &pair.a : &pair.b, turns % 2 ? 1 : 2);
        uint8_t sent = node_await(&pair.a, 1, Q);
        uint8_t got = node_await(&pair.b, 2, Q);
        assert_true(sent & T);
        assert_true(got & T);
        uint8_t *expected = copy_pool(&pair.b);
        node_send(&pair.a, 3, 3, from, BLOCKS, 0);
        node_receive(&pair.b, &pair.a, 4, 3, to, BLOCKS, 0);
        assert_int_equal(node_await(&pair.b, 4, T), T | Q);
        expect_pages(&pair, expected, from, to, BLOCKS);
        node_await(&pair.a, 3, Q);
        close_pair(&pair);
    }
}

/* A byte of what is written lands wrong, in a page or in the list that says
 * where pages go: that receive fails, and nothing but its pages was touched.
 * [transfer I20 I24] */
static void a_wrong_byte_is_seen(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id from[64], to[64];
    for (int i = 0; i < 64; i++) {
        from[i] = i;
        to[i] = 128 + i;
    }
    uint32_t failed = 0;
    for (uint64_t id = 1; id <= 12; id++) {
        pair.a.fault.corrupt_ppm = id % 2 ? 1000000 : 0;
        pair.a.fault.seed = id;
        uint8_t *before = copy_pool(&pair.b);
        node_send(&pair.a, id, (int64_t)id, from, 64, 0);
        node_receive(&pair.b, &pair.a, id, (int64_t)id, to, 64, 0);
        uint8_t word = node_await(&pair.b, id, Q);
        node_await(&pair.a, id, Q);
        assert_int_equal(!(word & F), id % 2 == 0);
        failed += (word & F) != 0;
        assert_memory_equal(pair.b.pool.base, before,
                            128 * pair.b.pool.page_bytes);
        free(before);
    }
    assert_int_equal(failed, 6);
    assert_int_equal(stats_of(&pair.b).integrity_failures, 6);
    close_pair(&pair);
}

/* Who has no arena gets the plain write, and says so. */
static void without_an_arena_there_it_goes_the_plain_way(enum node_body body)
{
    struct pair pair;
    open_pair_with(&pair, (struct node_setup){.body = body}, false);
    kv_page_id from[8] = {0, 1, 2, 3, 4, 5, 6, 7},
               to[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    uint8_t *expected = copy_pool(&pair.b);
    node_send(&pair.a, 1, 1, from, 8, 0);
    node_receive(&pair.b, &pair.a, 2, 1, to, 8, 0);
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    assert_int_equal(node_await(&pair.a, 1, T), T | Q);
    expect_pages(&pair, expected, from, to, 8);
    assert_int_equal(stats_of(&pair.a).sent_bounced_bytes, 0);
    close_pair(&pair);
}

#define FOR_ALL_BODIES(name)                        \
    static void test_##name(void **state)           \
    {                                               \
        (void)state;                                \
        for (int i = 0; i < NODE_BODY_COUNT; i++) { \
            name((enum node_body)i);                \
        }                                           \
    }
FOR_ALL_BODIES(what_arrives_packed_is_what_was_sent)
FOR_ALL_BODIES(slices_go_packed_too)
FOR_ALL_BODIES(both_directions_at_once)
FOR_ALL_BODIES(a_cancel_in_mid_stream_leaves_nothing)
FOR_ALL_BODIES(a_wrong_byte_is_seen)
FOR_ALL_BODIES(without_an_arena_there_it_goes_the_plain_way)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_arrives_packed_is_what_was_sent),
        cmocka_unit_test(test_slices_go_packed_too),
        cmocka_unit_test(test_both_directions_at_once),
        cmocka_unit_test(test_a_cancel_in_mid_stream_leaves_nothing),
        cmocka_unit_test(test_a_wrong_byte_is_seen),
        cmocka_unit_test(test_without_an_arena_there_it_goes_the_plain_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
