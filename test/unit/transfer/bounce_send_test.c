/* The sender's half by hand: one chunk's way, the window, and each way to stop.
 * Random worlds stand in test/prop/transfer/bounce_test.c. */
#include "unit/base/test.h"

#include "transfer/bounce_send.h"

enum { KIB = 1024, FLOWS = 3 };

static struct transfer_arena *arena;
static struct bounce_send role;
static struct bounce_send_actions actions;

static int set_up(void **state)
{
    (void)state;
    arena = transfer_arena_create(32 * KIB, KIB);
    bounce_send_init(&role, &(struct bounce_send_options){.arena = arena,
                                                          .flow_max = FLOWS,
                                                          .silence_ns = 1000,
                                                          .patience_ns = 100});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bounce_send_finish(&role);
    transfer_arena_destroy(arena);
    return 0;
}

static void feed(struct bounce_send_event event)
{
    bounce_send_step(&role, &event, &actions);
    assert_true(bounce_send_is_valid(&role));
}

/* The only action is that one; or there is none (-1). */
static void expect_only(int kind)
{
    assert_int_equal(actions.count, kind >= 0);
    assert_true(kind < 0 || (int)actions.items[0].kind == kind);
}

static uint32_t open_flow(const uint32_t *sizes, uint32_t count)
{
    uint32_t flow;
    assert_int_equal(bounce_send_open(&role, sizes, count, 1, &flow), OK);
    return flow;
}

static void gather_all(void)
{
    feed((struct bounce_send_event){.kind = BOUNCE_SEND_TURN, .now = 1});
    while (actions.count > 0 &&
           actions.items[actions.count - 1].kind == BOUNCE_GATHER) {
        const struct bounce_send_action *gather =
            &actions.items[actions.count - 1];
        feed((struct bounce_send_event){.kind = BOUNCE_SEND_GATHERED,
                                        .now = 1,
                                        .flow = gather->flow,
                                        .slot = gather->slot});
    }
}

static void grant(uint32_t flow, uint32_t chunk, uint32_t size)
{
    feed((struct bounce_send_event){.kind = BOUNCE_SEND_GRANT,
                                    .now = 2,
                                    .flow = flow,
                                    .chunk = chunk,
                                    .size = size,
                                    .target = 4096,
                                    .handle = 70 + chunk});
}

static void written(uint32_t flow, enum transfer_outcome outcome)
{
    feed((struct bounce_send_event){.kind = BOUNCE_SEND_WRITTEN,
                                    .now = 3,
                                    .flow = flow,
                                    .slot = 0,
                                    .outcome = outcome});
}

/* GATHER, WANT, WRITE, DATA, END, and the staging is free once it is sent. What
 * the peer says too early, too late or of another handle changes nothing.
 * [transfer T36] */
static void one_chunk_goes_its_way(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {3 * KIB};
    uint32_t flow = open_flow(sizes, 1);
    feed((struct bounce_send_event){.kind = BOUNCE_SEND_TURN, .now = 1});
    expect_only(BOUNCE_GATHER);
    grant(flow, 0, 3 * KIB);
    expect_only(-1);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_GATHERED, .now = 1, .flow = flow});
    expect_only(BOUNCE_WANT);
    grant(flow, 1, 3 * KIB);
    expect_only(-1);
    grant(flow, 0, 3 * KIB - 1);
    expect_only(-1);
    grant(flow, 0, 3 * KIB);
    expect_only(BOUNCE_WRITE);
    assert_int_equal(role.flows[flow].chunks[0].target, 4096);
    grant(flow, 0, 3 * KIB);
    expect_only(-1);
    written(flow, TRANSFER_DONE);
    expect_only(BOUNCE_DATA);
    assert_int_equal(transfer_arena_counts(arena).live, 0);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_ACK, .now = 4, .flow = flow, .handle = 71});
    expect_only(-1);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_ACK, .now = 4, .flow = flow, .handle = 70});
    expect_only(BOUNCE_END);
    assert_int_equal(actions.items[0].outcome, BOUNCE_DONE);
}

/* Of a long flow BOUNCE_WINDOW chunks are under way at most; all flows together
 * stage in the lower half only, and the next in turn waits there. */
static void the_window_and_the_half_are_limits(void **state)
{
    (void)state;
    uint32_t sizes[20];
    for (int i = 0; i < 20; i++) {
        sizes[i] = KIB;
    }
    uint32_t flow = open_flow(sizes, 20);
    gather_all();
    assert_int_equal(transfer_arena_counts(arena).live_count, BOUNCE_WINDOW);
    assert_false(bounce_send_is_hungry(&role));
    const uint32_t large[1] = {16 * KIB};
    uint32_t other = open_flow(large, 1);
    gather_all();
    assert_true(bounce_send_is_hungry(&role));
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_STOP, .now = 1, .flow = flow});
    assert_int_equal(actions.items[0].kind, BOUNCE_CANCEL);
    assert_int_equal(actions.items[1].kind, BOUNCE_END);
    assert_int_equal(actions.items[1].outcome, BOUNCE_STOPPED);
    assert_int_equal(actions.items[2].kind, BOUNCE_GATHER);
    assert_int_equal(actions.items[2].flow, other);
    assert_false(bounce_send_is_hungry(&role));
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_STOP, .now = 1, .flow = other});
    expect_only(-1);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_GATHERED, .now = 1, .flow = other});
    assert_int_equal(actions.items[actions.count - 1].kind, BOUNCE_END);
}

/* Stopped while a write is under way: END only when the backend has given it
 * back; one in doubt keeps its staging for good. [transfer I1 T68] */
static void a_stop_waits_for_the_write(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {KIB};
    for (int is_doubt = 0; is_doubt < 2; is_doubt++) {
        uint32_t flow = open_flow(sizes, 1);
        gather_all();
        grant(flow, 0, KIB);
        feed((struct bounce_send_event){
            .kind = BOUNCE_SEND_STOP, .now = 3, .flow = flow});
        expect_only(-1);
        written(flow, is_doubt ? TRANSFER_IN_DOUBT : TRANSFER_DONE);
        assert_int_equal(actions.count, 2);
        assert_int_equal(actions.items[0].kind, BOUNCE_CANCEL);
        assert_int_equal(actions.items[1].outcome,
                         is_doubt ? BOUNCE_IN_DOUBT : BOUNCE_STOPPED);
        assert_int_equal(transfer_arena_counts(arena).quarantined_count,
                         is_doubt);
    }
}

/* Nothing granted in time: the write may go the plain way, nothing has left.
 * Once something was granted, silence for longer stops it. */
static void time_tells_unserved_from_silent(void **state)
{
    (void)state;
    const uint32_t sizes[2] = {KIB, KIB};
    uint32_t flow = open_flow(sizes, 2);
    gather_all();
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_TIME, .now = 100, .flow = flow});
    expect_only(-1);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_TIME, .now = 101, .flow = flow});
    assert_int_equal(actions.items[1].outcome, BOUNCE_UNSERVED);
    flow = open_flow(sizes, 2);
    gather_all();
    grant(flow, 0, KIB);
    written(flow, TRANSFER_DONE);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_TIME, .now = 1002, .flow = flow});
    expect_only(-1);
    feed((struct bounce_send_event){
        .kind = BOUNCE_SEND_TIME, .now = 1003, .flow = flow});
    assert_int_equal(actions.items[0].kind, BOUNCE_CANCEL);
    assert_int_equal(actions.items[1].outcome, BOUNCE_STOPPED);
}

/* There is a place for so many flows and no more; forgotten ones leave it. */
static void flows_are_bounded(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {KIB};
    uint32_t flow;
    for (int i = 0; i < FLOWS; i++) {
        open_flow(sizes, 1);
    }
    assert_int_equal(bounce_send_open(&role, sizes, 1, 1, &flow), ERR_FULL);
    bounce_send_abandon(&role);
    assert_int_equal(bounce_send_open(&role, sizes, 1, 1, &flow), OK);
    bounce_send_abandon(&role);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_chunk_goes_its_way, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_window_and_the_half_are_limits,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_waits_for_the_write, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(time_tells_unserved_from_silent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(flows_are_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
