/* transfer/bounce_sweep: grants go round the flows, one a step, and scatters
 * too. What a grant and a scatter are stands in bounce_receive_test.c. */
#include "unit/base/test.h"

#include "transfer/bounce_receive_part.h"

enum { KIB = 1024, FLOWS = 4 };

static struct transfer_arena *arena;
static struct bounce_receive role;
static struct bounce_receive_actions actions;

static int set_up(void **state)
{
    (void)state;
    arena = transfer_arena_create(64 * KIB, KIB);
    bounce_receive_init(&role,
                        &(struct bounce_receive_options){.arena = arena,
                                                         .flow_max = FLOWS,
                                                         .chunk_max = 32 * KIB,
                                                         .lease_ns = 1000});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bounce_receive_abandon(&role);
    bounce_receive_finish(&role);
    transfer_arena_destroy(arena);
    return 0;
}

static struct bounce_key key_of(uint32_t flow)
{
    return (struct bounce_key){7, flow, 1};
}

static void want(uint32_t flow, uint32_t count, uint32_t size)
{
    uint32_t sizes[BOUNCE_WINDOW];
    for (uint32_t i = 0; i < count; i++) {
        sizes[i] = size;
    }
    bounce_receive_step(
        &role,
        &(struct bounce_receive_event){.kind = BOUNCE_RECEIVE_WANT,
                                       .now = 1,
                                       .key = key_of(flow),
                                       .chunk_count = count,
                                       .count = count,
                                       .sizes = sizes,
                                       .is_lower_closed = true},
        &actions);
    assert_false(actions.is_odd);
}

/* The flow that is granted something in this turn, or BOUNCE_NOBODY. */
static uint32_t turn(void)
{
    bounce_receive_step(
        &role,
        &(struct bounce_receive_event){
            .kind = BOUNCE_RECEIVE_TURN, .now = 1, .is_lower_closed = true},
        &actions);
    assert_true(actions.count <= 1);
    return actions.count == 0 ? BOUNCE_NOBODY : actions.items[0].flow;
}

/* Four flows that all want the same: none is two grants ahead of another, and
 * chunks of a flow are granted in their order. [transfer T36] */
static void grants_go_round(void **state)
{
    (void)state;
    uint32_t counts[FLOWS] = {0}, next[FLOWS] = {0};
    for (uint32_t i = 0; i < FLOWS; i++) {
        want(i, BOUNCE_WINDOW, KIB);
        counts[actions.items[0].flow]++;
        next[actions.items[0].flow]++;
    }
    for (uint32_t flow = turn(); flow != BOUNCE_NOBODY; flow = turn()) {
        const struct bounce_in_chunk *chunk =
            &role.flows[flow].chunks[actions.items[0].slot];
        assert_int_equal(chunk->index, next[flow]++);
        counts[flow]++;
        for (uint32_t i = 0; i < FLOWS; i++) {
            assert_true(counts[flow] <= counts[i] + 1);
        }
    }
    for (uint32_t i = 0; i < FLOWS; i++) {
        assert_int_equal(counts[i], BOUNCE_WINDOW);
    }
}

/* A large head finds no room while small ones are served; after eight of them
 * nobody is served until it is. [transfer T36] */
static void a_large_head_is_waited_for(void **state)
{
    (void)state;
    want(0, 1, KIB);
    want(1, 1, 32 * KIB);
    assert_int_equal(actions.count, 0);
    want(2, BOUNCE_WINDOW, KIB);
    want(3, BOUNCE_WINDOW, KIB);
    uint32_t others = 2; /* those that the two wants brought */
    while (turn() != BOUNCE_NOBODY) {
        others++;
    }
    assert_int_equal(others, 8);
    for (uint32_t i = 0; i < FLOWS; i++) {
        if (i != 1) {
            bounce_receive_step(
                &role,
                &(struct bounce_receive_event){.kind = BOUNCE_RECEIVE_QUIET,
                                               .now = 2,
                                               .flow = i,
                                               .is_lower_closed = true},
                &actions);
        }
    }
    assert_int_equal(actions.items[actions.count - 1].kind, BOUNCE_GRANT);
    assert_int_equal(actions.items[actions.count - 1].flow, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grants_go_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_large_head_is_waited_for, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
