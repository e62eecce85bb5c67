/* The receiver's half by hand: one chunk's way, what a sender must not say, and
 * who may end a grant with what proof. Random worlds stand in
 * test/prop/transfer/bounce_test.c. */
#include "unit/base/test.h"

#include "transfer/bounce_receive.h"

enum { KIB = 1024, FLOWS = 3, CHUNK_MAX = 8 * KIB };

static struct transfer_arena *arena;
static struct bounce_receive role;
static struct bounce_receive_actions actions;
static const struct bounce_key KEY = {7, 5, 1};

static int set_up(void **state)
{
    (void)state;
    arena = transfer_arena_create(16 * KIB, KIB);
    bounce_receive_init(&role,
                        &(struct bounce_receive_options){.arena = arena,
                                                         .flow_max = FLOWS,
                                                         .chunk_max = CHUNK_MAX,
                                                         .lease_ns = 1000});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bounce_receive_finish(&role);
    transfer_arena_destroy(arena);
    return 0;
}

static void feed(struct bounce_receive_event event)
{
    bounce_receive_step(&role, &event, &actions);
    assert_true(bounce_receive_is_valid(&role));
}

static void expect_only(int kind)
{
    assert_false(actions.is_odd);
    assert_int_equal(actions.count, kind >= 0);
    assert_true(kind < 0 || (int)actions.items[0].kind == kind);
}

static void want(uint32_t write, uint32_t chunk_count, uint32_t first,
                 uint32_t count, const uint32_t *sizes, bool is_revocable)
{
    feed((struct bounce_receive_event){.kind = BOUNCE_RECEIVE_WANT,
                                       .now = 1,
                                       .key = KEY,
                                       .write = write,
                                       .chunk_count = chunk_count,
                                       .first = first,
                                       .count = count,
                                       .sizes = sizes,
                                       .is_revocable = is_revocable});
}

static void data(uint32_t write, uint32_t chunk, uint64_t handle)
{
    feed((struct bounce_receive_event){.kind = BOUNCE_RECEIVE_DATA,
                                       .now = 2,
                                       .key = KEY,
                                       .write = write,
                                       .chunk = chunk,
                                       .handle = handle});
}

static void on_flow(enum bounce_receive_event_kind kind, uint64_t now)
{
    feed((struct bounce_receive_event){.kind = kind, .now = now});
}

static uint32_t quarantined(void)
{
    return transfer_arena_counts(arena).quarantined_count;
}

/* GRANT, then with the data REVOKE and SCATTER, then ACK; the flow is gone
 * after its last. DATA of another handle or once more has no effect.
 * [transfer T36] */
static void one_chunk_goes_its_way(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {2 * KIB};
    want(0, 1, 0, 1, sizes, true);
    expect_only(BOUNCE_GRANT);
    uint64_t handle = role.flows[0].chunks[0].handle;
    data(0, 0, handle + 1);
    expect_only(-1);
    data(0, 1, handle);
    expect_only(-1);
    data(0, 0, handle);
    assert_int_equal(actions.count, 2);
    assert_int_equal(actions.items[0].kind, BOUNCE_REVOKE);
    assert_int_equal(actions.items[0].handle, handle);
    assert_int_equal(actions.items[1].kind, BOUNCE_SCATTER);
    data(0, 0, handle);
    expect_only(-1);
    on_flow(BOUNCE_RECEIVE_SCATTERED, 3);
    expect_only(BOUNCE_ACK);
    assert_int_equal(actions.items[0].handle, handle);
    assert_int_equal(transfer_arena_counts(arena).live, 0);
    assert_int_equal(bounce_receive_find(&role, &KEY, 0), BOUNCE_NOBODY);
}

/* Chunks out of order, more than the window, too large, another total, a
 * second write beside the first: odd, and nothing changes. One that goes on
 * after we closed it is only late. [transfer I20] */
static void what_a_sender_must_not_say_has_no_effect(void **state)
{
    (void)state;
    uint32_t sizes[BOUNCE_WINDOW + 1];
    for (int i = 0; i <= BOUNCE_WINDOW; i++) {
        sizes[i] = KIB;
    }
    const uint32_t large[1] = {CHUNK_MAX + 1};
    want(0, 1, 0, 1, large, true);
    assert_true(actions.is_odd);
    want(0, 20, 0, BOUNCE_WINDOW + 1, sizes, true);
    assert_true(actions.is_odd);
    assert_int_equal(role.flow_count, 0);
    want(0, 20, 3, 1, sizes, true);
    expect_only(-1);
    assert_int_equal(role.flow_count, 0);
    want(0, 20, 0, 2, sizes, true);
    expect_only(BOUNCE_GRANT);
    want(0, 20, 4, 1, sizes, true);
    assert_true(actions.is_odd);
    want(0, 21, 2, 1, sizes, true);
    assert_true(actions.is_odd);
    want(0, 20, 2, BOUNCE_WINDOW, sizes, true);
    assert_true(actions.is_odd);
    want(1, 20, 0, 1, sizes, true);
    assert_true(actions.is_odd);
    assert_int_equal(role.flows[0].wanted_count, 2);
    on_flow(BOUNCE_RECEIVE_RECLAIM, 2);
    assert_int_equal(role.flow_count, 0);
}

/* We give up. Where a revoke is proof the grant is free at once; else it stays
 * apart whatever the time, until the sender says that it has drained, that the
 * write is over, or its session is quiet. [transfer T68 I1] */
static void only_proof_ends_a_quarantine(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {KIB};
    want(0, 2, 0, 1, sizes, true);
    on_flow(BOUNCE_RECEIVE_RECLAIM, 2);
    expect_only(BOUNCE_REVOKE);
    assert_int_equal(transfer_arena_counts(arena).free, 16 * KIB);
    for (int way = 0; way < 3; way++) {
        want(0, 2, 0, 1, sizes, false);
        expect_only(BOUNCE_GRANT);
        uint64_t handle = role.flows[0].chunks[0].handle;
        on_flow(BOUNCE_RECEIVE_RECLAIM, 2);
        expect_only(BOUNCE_REVOKE);
        assert_int_equal(quarantined(), 1);
        on_flow(BOUNCE_RECEIVE_TIME, UINT64_C(1) << 60);
        on_flow(BOUNCE_RECEIVE_RECLAIM, UINT64_C(1) << 60);
        expect_only(-1);
        assert_int_equal(quarantined(), 1);
        if (way == 0) {
            want(0, 0, 0, 0, NULL, false);
        } else if (way == 1) {
            data(0, 0, handle);
        } else {
            on_flow(BOUNCE_RECEIVE_QUIET, 3);
        }
        expect_only(-1);
        assert_int_equal(quarantined(), 0);
        assert_false(role.flows[0].is_used);
    }
}

/* The sender says it has drained: free at once, whoever writes.
 * [transfer T68] */
static void a_senders_cancel_frees_at_once(void **state)
{
    (void)state;
    const uint32_t sizes[2] = {KIB, KIB};
    want(0, 2, 0, 2, sizes, false);
    expect_only(BOUNCE_GRANT);
    on_flow(BOUNCE_RECEIVE_TURN, 1);
    expect_only(BOUNCE_GRANT);
    want(0, 0, 0, 0, NULL, false);
    assert_int_equal(actions.count, 2);
    assert_int_equal(actions.items[1].kind, BOUNCE_REVOKE);
    assert_int_equal(transfer_arena_counts(arena).free, 16 * KIB);
    assert_false(role.flows[0].is_used);
}

/* What is being scattered when nobody wants it any more is an orphan: freed
 * when that is over, and not acknowledged. [transfer T68] */
static void an_orphan_goes_when_it_is_scattered(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {KIB};
    want(0, 1, 0, 1, sizes, true);
    data(0, 0, role.flows[0].chunks[0].handle);
    on_flow(BOUNCE_RECEIVE_RECLAIM, 3);
    expect_only(-1);
    assert_int_equal(role.flows[0].chunks[0].state, BOUNCE_IN_ORPHAN);
    assert_int_equal(transfer_arena_counts(arena).live_count, 1);
    on_flow(BOUNCE_RECEIVE_SCATTERED, 4);
    expect_only(-1);
    assert_int_equal(transfer_arena_counts(arena).live_count, 0);
}

/* A flow with grants that does not move for its lease is reclaimed.
 * [transfer T68] */
static void a_lease_runs_out(void **state)
{
    (void)state;
    const uint32_t sizes[1] = {KIB};
    want(0, 2, 0, 1, sizes, true);
    on_flow(BOUNCE_RECEIVE_TIME, 1000);
    expect_only(-1);
    on_flow(BOUNCE_RECEIVE_TIME, 1001);
    assert_int_equal(actions.count, 2);
    assert_int_equal(actions.items[0].kind, BOUNCE_EXPIRED);
    assert_int_equal(transfer_arena_counts(arena).live, 0);
    want(0, 2, 1, 1, sizes, true);
    expect_only(-1);
}

/* The lower half is lent only while nobody waits there; a refused grant goes
 * back and is tried again in the next turn. */
static void grants_keep_out_of_the_lower_half(void **state)
{
    (void)state;
    const uint32_t sizes[2] = {8 * KIB, 8 * KIB};
    want(0, 2, 0, 2, sizes, true);
    expect_only(BOUNCE_GRANT);
    assert_int_equal(role.flows[0].chunks[0].offset, 8 * KIB);
    feed((struct bounce_receive_event){
        .kind = BOUNCE_RECEIVE_TURN, .now = 1, .is_lower_closed = true});
    expect_only(-1);
    on_flow(BOUNCE_RECEIVE_TURN, 1);
    expect_only(BOUNCE_GRANT);
    assert_int_equal(role.flows[0].chunks[1].offset, 0);
    feed((struct bounce_receive_event){
        .kind = BOUNCE_RECEIVE_REFUSED, .now = 1, .slot = 1});
    expect_only(-1);
    on_flow(BOUNCE_RECEIVE_TURN, 1);
    expect_only(BOUNCE_GRANT);
    bounce_receive_abandon(&role);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_chunk_goes_its_way, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            what_a_sender_must_not_say_has_no_effect, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_proof_ends_a_quarantine, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_senders_cancel_frees_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_orphan_goes_when_it_is_scattered,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lease_runs_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(grants_keep_out_of_the_lower_half,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
