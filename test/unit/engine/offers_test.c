/* engine/offers: few sessions, and receivers that ask in another order than
 * prompts were offered. No transfer here knows a timeout. */
#include "unit/engine/stream.h"

#include "base/rng.h"

enum { RIDS = 12, RIG_MAX = 4 };
static const uint64_t STEP_NS = 5000000;

static struct rig *open_rig(uint32_t session_max)
{
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 64;
    options.queue_limit = 2 * RIDS;
    options.session_max = session_max;
    options.is_mixed = true;
    options.kv_transfer_timeout_ns = 100000 * STEP_NS;
    options.enable_block_reuse = false;
    return rig_create(&options);
}

static void assert_answered(const struct rig *to, int64_t rid, uint32_t tokens)
{
    int32_t expected[4];
    rig_expect(to, (int)rid, tokens, 4, expected);
    rig_assert_tokens(to, (uint64_t)rid + STREAM_NEXT, 0, expected, 4,
                      ENGINE_FINISH_LENGTH);
}

/* The sender offers the older request, the receiver has pages for the younger
 * one, and neither has a second session: both are served. */
static void the_last_session_goes_to_who_is_awaited(void **state)
{
    (void)state;
    struct rig *rigs[2] = {open_rig(1), open_rig(1)};
    struct streams streams = {0};
    for (int64_t rid = 1; rid <= 2; rid++) {
        rig_submit(rigs[0],
                   stream_half(ENGINE_CONTEXT_ONLY, rid, (int)rid, 20));
        rig_submit(rigs[1], stream_half(ENGINE_GENERATION_ONLY, 3 - rid,
                                        (int)(3 - rid), 20));
        stream_run(&streams, rigs, 2, 2, STEP_NS);
    }
    stream_run(&streams, rigs, 2, 60, STEP_NS);
    for (int64_t rid = 1; rid <= 2; rid++) {
        assert_answered(rigs[1], rid, 20);
    }
    for (int i = 0; i < 2; i++) {
        rig_assert_idle(rigs[i]);
        rig_destroy(rigs[i]);
    }
}

/* While nobody else wants the session, an offer keeps it. */
static void a_lone_offer_is_left_alone(void **state)
{
    (void)state;
    struct rig *rig = open_rig(1);
    struct transfer_command order = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 1, 1, 20));
    for (int i = 0; i < 40; i++) {
        rig_turn(rig);
        rig->now_ns += STEP_NS;
    }
    assert_true(rig_take_order(rig, &order));
    assert_int_equal(order.kind, TRANSFER_OFFER);
    assert_false(rig_take_order(rig, &order));
    rig_destroy(rig);
}

/* Of three that wait for one session each has it in turn, and the engine asks
 * to be woken for that. */
static void offers_go_round(void **state)
{
    (void)state;
    struct rig *rig = open_rig(1);
    struct streams streams = {0};
    int offers[4] = {0};
    for (int64_t rid = 1; rid <= 3; rid++) {
        rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, rid, (int)rid, 20));
    }
    for (int i = 0; i < 60; i++) {
        rig_turn(rig);
        uint32_t count = 0;
        const struct transfer_command *orders =
            engine_core_orders(rig->core, &count);
        assert_true(count > 0 || engine_core_wake_ns(rig->core) < UINT64_MAX);
        rig->now_ns += STEP_NS;
        for (uint32_t k = 0; k < count; k++) {
            offers[orders[k].rid] += orders[k].kind == TRANSFER_OFFER;
        }
        stream_turn(&streams, rig);
    }
    for (int rid = 1; rid <= 3; rid++) {
        assert_in_range(offers[rid], 2, 6);
        assert_in_range(offers[rid], offers[1] - 1, offers[1] + 1);
    }
    rig_destroy(rig);
}

/* A client leaves while its offer is being taken back: nothing is left. */
static void a_cancel_meets_a_withdrawal(void **state)
{
    (void)state;
    struct rig *rig = open_rig(1);
    struct streams streams = {0};
    struct transfer_command order = {0};
    for (int64_t rid = 1; rid <= 2; rid++) {
        rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, rid, (int)rid, 20));
    }
    rig_turn(rig);
    stream_turn(&streams, rig);
    rig->now_ns += 10 * STEP_NS;
    rig_turn(rig);
    rig_command(rig, ENGINE_ABORT_RID, 1, 0);
    assert_true(rig_take_order(rig, &order));
    assert_int_equal(order.kind, TRANSFER_WITHDRAW);
    stream_withdraw(&streams.of[1]);
    stream_turn(&streams, rig);
    stream_run(&streams, &rig, 1, 4, STEP_NS);
    rig_command(rig, ENGINE_ABORT_RID, 2, 0);
    stream_run(&streams, &rig, 1, 4, STEP_NS);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static void run_world(uint64_t seed)
{
    struct rng rng = rng_from_seed(seed);
    struct rig *rigs[RIG_MAX];
    struct streams streams = {0};
    int to[RIDS + 1];
    uint32_t tokens[RIDS + 1];
    int senders = 1 + (int)rng_below(&rng, 2);
    int count = senders + 1 + (int)rng_below(&rng, 2);
    for (int i = 0; i < count; i++) {
        rigs[i] = open_rig(1 + (uint32_t)rng_below(&rng, 3));
    }
    for (int64_t i = 1; i <= RIDS; i++) {
        to[i] = senders + (int)rng_below(&rng, (uint64_t)(count - senders));
        tokens[i] = 4 + (uint32_t)rng_below(&rng, 40);
    }
    for (int64_t i = 1; i <= RIDS; i++) {
        int64_t rid = seed % 2 == 0 ? i : RIDS + 1 - i; /* the other order */
        rig_submit(rigs[to[rid]], stream_half(ENGINE_GENERATION_ONLY, rid,
                                              (int)rid, tokens[rid]));
        rig_submit(rigs[rng_below(&rng, (uint64_t)senders)],
                   stream_half(ENGINE_CONTEXT_ONLY, i, (int)i, tokens[i]));
        stream_run(&streams, rigs, count, (int)rng_below(&rng, 3), STEP_NS);
    }
    stream_run(&streams, rigs, count, 1500, STEP_NS);
    for (int64_t rid = 1; rid <= RIDS; rid++) {
        assert_answered(rigs[to[rid]], rid, tokens[rid]);
    }
    for (int i = 0; i < count; i++) {
        rig_assert_idle(rigs[i]);
        rig_destroy(rigs[i]);
    }
}

/* Senders and receivers with one to three sessions each, which see the requests
 * in opposite orders: each is answered well. */
static void few_sessions_serve_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        run_world(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_session_goes_to_who_is_awaited),
        cmocka_unit_test(a_lone_offer_is_left_alone),
        cmocka_unit_test(offers_go_round),
        cmocka_unit_test(a_cancel_meets_a_withdrawal),
        cmocka_unit_test(few_sessions_serve_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
