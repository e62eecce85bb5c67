/* engine/give_way: workers that compute prompts for each other and lack pages
 * for what they pull. A transfer moves as soon as both sides have ordered it,
 * so whoever waits in the end waits for another worker. */
#include "unit/engine/stream.h"

#include "base/rng.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    RIG_MAX = 3,
    RID_MAX = 16,
    NEXT = 100 /* generation ids: rid + NEXT */
};
static const uint64_t STEP_NS = 50000000;

struct net {
    struct rig *rigs[RIG_MAX];
    int rig_count;
    int from[RID_MAX], to[RID_MAX]; /* rigs, by rid */
    uint32_t tokens[RID_MAX];
    struct transfer_command sends[RID_MAX]; /* request 0: gone */
    int64_t asked[RID_MAX]; /* whose generation half comes next */
    int asked_count;
};

static void open_net(struct net *net, int rig_count)
{
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    options.is_mixed = true;
    options.kv_transfer_timeout_ns = 100 * STEP_NS; /* patience: 5 steps */
    options.enable_block_reuse = false;
    *net = (struct net){.rig_count = rig_count};
    for (int i = 0; i < rig_count; i++) {
        net->rigs[i] = rig_create(&options);
    }
}

static void close_net(struct net *net)
{
    for (int i = 0; i < net->rig_count; i++) {
        rig_assert_idle(net->rigs[i]);
        rig_destroy(net->rigs[i]);
    }
}

static struct engine_request *half(enum engine_kind kind, uint64_t id,
                                   int64_t rid, uint32_t tokens)
{
    struct engine_request *request = rig_request(id, (int)rid, tokens);
    request->kind = kind;
    request->rid = rid;
    request->sender_incarnation = 77;
    snprintf(request->sender_endpoint, sizeof(request->sender_endpoint),
             "tcp://host:1");
    return request;
}

/* A prompt for `from` to compute and `to` to go on with. */
static void ask(struct net *net, int64_t rid, int from, int to, uint32_t tokens)
{
    net->from[rid] = from;
    net->to[rid] = to;
    net->tokens[rid] = tokens;
    rig_submit(net->rigs[from],
               half(ENGINE_CONTEXT_ONLY, (uint64_t)rid, rid, tokens));
}

static void ask_generation(struct net *net, int64_t rid)
{
    struct engine_request *request = half(
        ENGINE_GENERATION_ONLY, (uint64_t)rid + NEXT, rid, net->tokens[rid]);
    request->first_tokens[0] = rig_find(net->rigs[net->from[rid]],
                                        (uint64_t)rid, 0, ENGINE_EVENT_TOKEN)
                                   ->token;
    rig_submit(net->rigs[net->to[rid]], request);
}

static void pull(struct net *net, struct rig *rig,
                 const struct transfer_command *receive)
{
    struct transfer_command *send = &net->sends[receive->rid];
    if (send->request == 0) {
        rig_report(rig, receive, T | F | Q, AGREE_REASON_REFUSED, "");
        return;
    }
    struct rig *source = net->rigs[net->from[receive->rid]];
    rig_move_pages(source, send, rig, receive);
    rig_report(source, send, T | Q, 0, "");
    rig_report(rig, receive, T | Q, 0, "");
    send->request = 0;
}

static void carry_out(struct net *net, struct rig *rig,
                      const struct transfer_command *order)
{
    struct transfer_command *send = &net->sends[order->rid];
    switch (order->kind) {
    case TRANSFER_OFFER:
    case TRANSFER_SEND:
        *send = *order;
        net->asked[net->asked_count++] = order->rid;
        break;
    case TRANSFER_RECEIVE:
        pull(net, rig, order);
        break;
    case TRANSFER_WITHDRAW:
        fail_msg("context-first knows no offers");
        break;
    case TRANSFER_CANCEL:
        assert_int_equal(order->request, send->request);
        rig_report(rig, send, T | F | C | Q, AGREE_REASON_REFUSED, "");
        send->request = 0;
        break;
    }
}

static void run(struct net *net, int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < net->rig_count; i++) {
            struct rig *rig = net->rigs[i];
            struct transfer_command order = {0};
            rig_turn(rig);
            rig->now_ns += STEP_NS;
            while (rig_take_order(rig, &order)) {
                carry_out(net, rig, &order);
            }
        }
        while (net->asked_count > 0) { /* all workers hold what they hand off */
            ask_generation(net, net->asked[--net->asked_count]);
        }
    }
}

/* 1: all tokens came; -1: it failed; 0: it waits. */
static int outcome(const struct net *net, int64_t rid)
{
    const struct rig *rig = net->rigs[net->to[rid]];
    uint64_t id = (uint64_t)rid + NEXT;
    if (rig_find(rig, id, 0, ENGINE_EVENT_FAILED) != NULL) {
        return -1;
    }
    if (rig_find(rig, id, 0, ENGINE_EVENT_FINISHED) == NULL) {
        return 0;
    }
    int32_t tokens[4];
    rig_expect(rig, (int)rid, net->tokens[rid], 4, tokens);
    rig_assert_tokens(rig, id, 0, tokens, 4, ENGINE_FINISH_LENGTH);
    return 1;
}

/* Each of two workers holds a hand-off of more than half of its pages for the
 * other, so that neither can take one. The older request is served, the younger
 * one told; no transfer here knows a timeout. */
static void the_older_of_two_large_handoffs_is_served(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct net net;
        open_net(&net, 2);
        ask(&net, 1, first, 1 - first, 40);
        ask(&net, 2, 1 - first, first, 40);
        run(&net, 40);
        assert_int_equal(outcome(&net, 1), 1);
        assert_int_equal(outcome(&net, 2), -1);
        rig_assert_failed(net.rigs[first], 2 + NEXT, ERR_NOT_FOUND, "KV");
        close_net(&net);
    }
}

/* A worker's own hand-off, to itself, that does not fit twice: told. */
static void a_receive_does_not_wait_for_its_own_source(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, 1);
    ask(&net, 1, 0, 0, 40);
    run(&net, 40);
    assert_int_equal(outcome(&net, 1), -1);
    close_net(&net);
}

/* One hand-off that nobody pulls. A younger receive waits for it; an older one
 * that comes behind that has it end, and both are admitted. */
static void the_oldest_receive_lends_its_age(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, 1);
    struct rig *rig = net.rigs[0];
    struct transfer_command send = {0};
    rig_submit(rig, half(ENGINE_CONTEXT_ONLY, 5, 5, 40));
    rig_run(rig);
    assert_true(rig_take_order(rig, &send));
    net.sends[5] = send;
    rig_submit(rig, half(ENGINE_GENERATION_ONLY, 7 + NEXT, 7, 24));
    run(&net, 40);
    assert_int_equal(net.sends[5].request, send.request);
    rig_submit(rig, half(ENGINE_GENERATION_ONLY, 3 + NEXT, 3, 24));
    run(&net, 3);
    assert_int_equal(net.sends[5].request, send.request); /* patience */
    run(&net, 20);
    assert_int_equal(net.sends[5].request, 0);
    rig_assert_failed(rig, 7 + NEXT, ERR_NOT_FOUND, "KV");
    rig_assert_failed(rig, 3 + NEXT, ERR_NOT_FOUND, "KV");
    close_net(&net);
}

/* While an answer is being generated its pages will come back: the hand-off
 * stays for all that time, although the receive is older. When it is the only
 * one that holds pages, it gives way. */
static void nobody_gives_way_while_others_end_by_themselves(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, 1);
    struct rig *rig = net.rigs[0];
    struct transfer_command send = {0};
    struct engine_request *answer = rig_request(1, 1, 4);
    answer->max_new_tokens = 20;
    rig_submit(rig, half(ENGINE_CONTEXT_ONLY, 5, 5, 24));
    rig_run(rig);
    assert_true(rig_take_order(rig, &send));
    net.sends[5] = send;
    rig_submit(rig, answer);
    rig_submit(rig, half(ENGINE_GENERATION_ONLY, 3 + NEXT, 3, 50));
    while (rig_find(rig, 1, 0, ENGINE_EVENT_FINISHED) == NULL) {
        assert_int_equal(net.sends[5].request, send.request);
        run(&net, 1);
    }
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_TOKEN), 20);
    run(&net, 20);
    assert_int_equal(net.sends[5].request, 0);
    rig_assert_failed(rig, 3 + NEXT, ERR_NOT_FOUND, "KV");
    close_net(&net);
}

/* Rings of two and three workers, requests of all sizes in random directions:
 * each is answered although no transfer here knows a timeout, most of them
 * well, and nothing is held in the end. */
static void no_ring_of_workers_waits_for_ever(void **state)
{
    (void)state;
    int served = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng rng = rng_from_seed(seed);
        struct net net;
        int rigs = 2 + (int)rng_below(&rng, 2);
        open_net(&net, rigs);
        for (int64_t rid = 1; rid < RID_MAX; rid++) {
            ask(&net, rid, (int)rng_below(&rng, (uint64_t)rigs),
                (int)rng_below(&rng, (uint64_t)rigs),
                4 + (uint32_t)rng_below(&rng, 56));
            run(&net, (int)rng_below(&rng, 3));
        }
        run(&net, 300);
        for (int64_t rid = 1; rid < RID_MAX; rid++) {
            assert_int_not_equal(outcome(&net, rid), 0);
            served += outcome(&net, rid) == 1;
        }
        close_net(&net);
    }
    assert_true(served > 60 * (RID_MAX - 1) / 2);
}

/* ---- generation-first ---- */

enum { STREAM_RIGS = 3, STREAM_RIDS = 15 };

static void open_streams(struct rig **rigs, int count)
{
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 16;
    options.queue_limit = 2 * STREAM_RIDS;
    options.session_max = 2 * STREAM_RIDS;
    options.is_mixed = true;
    options.kv_transfer_timeout_ns = 100 * STEP_NS; /* patience: 5 steps */
    options.enable_block_reuse = false;
    for (int i = 0; i < count; i++) {
        rigs[i] = rig_create(&options);
    }
}

/* 1: its tokens came; -1: it failed; 0: it waits. */
static int stream_outcome(const struct rig *to, int64_t rid, uint32_t tokens)
{
    uint64_t id = (uint64_t)rid + STREAM_NEXT;
    int32_t expected[4];
    if (rig_find(to, id, 0, ENGINE_EVENT_FAILED) != NULL) {
        return -1;
    }
    if (rig_find(to, id, 0, ENGINE_EVENT_FINISHED) == NULL) {
        return 0;
    }
    rig_expect(to, (int)rid, tokens, 4, expected);
    rig_assert_tokens(to, id, 0, expected, 4, ENGINE_FINISH_LENGTH);
    return 1;
}

/* Each of two workers holds more than half of its pages for a prompt that the
 * other is to compute, so that neither can compute one. The older request is
 * served, the younger one told. */
static void the_older_of_two_large_receives_is_served(void **state)
{
    (void)state;
    struct rig *rigs[2];
    struct streams streams = {0};
    open_streams(rigs, 2);
    for (int64_t rid = 1; rid <= 2; rid++) {
        rig_submit(rigs[rid - 1],
                   stream_half(ENGINE_GENERATION_ONLY, rid, (int)rid, 40));
    }
    stream_run(&streams, rigs, 2, 1, STEP_NS);
    for (int64_t rid = 1; rid <= 2; rid++) {
        rig_submit(rigs[2 - rid],
                   stream_half(ENGINE_CONTEXT_ONLY, rid, (int)rid, 40));
    }
    stream_run(&streams, rigs, 2, 40, STEP_NS);
    assert_int_equal(stream_outcome(rigs[0], 1, 40), 1);
    assert_int_equal(stream_outcome(rigs[1], 2, 40), -1);
    for (int i = 0; i < 2; i++) {
        rig_assert_idle(rigs[i]);
        rig_destroy(rigs[i]);
    }
}

/* A receive that waits for its prompt is left in peace by older receives behind
 * it, however long it takes: no prefill waits for us. */
static void a_receive_does_not_end_for_a_receive(void **state)
{
    (void)state;
    struct rig *rig;
    struct streams streams = {0};
    open_streams(&rig, 1);
    rig_submit(rig, stream_half(ENGINE_GENERATION_ONLY, 9, 9, 40));
    stream_run(&streams, &rig, 1, 1, STEP_NS);
    rig_submit(rig, stream_half(ENGINE_GENERATION_ONLY, 2, 2, 40));
    stream_run(&streams, &rig, 1, 60, STEP_NS);
    assert_int_equal(stream_outcome(rig, 9, 40), 0);
    rig_command(rig, ENGINE_CANCEL, 9 + STREAM_NEXT, 0);
    stream_run(&streams, &rig, 1, 2, STEP_NS);
    rig_command(rig, ENGINE_CANCEL, 2 + STREAM_NEXT, 0);
    stream_run(&streams, &rig, 1, 2, STEP_NS);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* What a sender holds for an older request, context-first, keeps others from
 * their turn there: a receive that waits for one of those gives way. */
static void a_receive_ends_for_what_its_sender_holds(void **state)
{
    (void)state;
    struct rig *rig;
    struct streams streams = {0};
    open_streams(&rig, 1);
    rig_submit(rig, stream_half(ENGINE_GENERATION_ONLY, 9, 9, 40));
    stream_run(&streams, &rig, 1, 1, STEP_NS);
    rig_submit(rig, half(ENGINE_GENERATION_ONLY, 2 + STREAM_NEXT, 2, 40));
    stream_run(&streams, &rig, 1, 3, STEP_NS);
    assert_int_equal(stream_outcome(rig, 9, 40), 0); /* patience */
    struct transfer_command order = {0};
    for (int i = 0; i < 20; i++) {
        rig_turn(rig);
        rig->now_ns += STEP_NS;
        if (rig_take_order(rig, &order) && order.kind == TRANSFER_CANCEL) {
            rig_report(rig, &order, T | F | C | Q, AGREE_REASON_REFUSED, "");
        }
    }
    assert_int_equal(stream_outcome(rig, 9, 40), -1);
    assert_int_equal(order.kind, TRANSFER_RECEIVE);
    assert_int_equal(order.rid, 2);
    rig_report(rig, &order, T | F | Q, AGREE_REASON_REFUSED, "");
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

static int run_stream_world(uint64_t seed)
{
    struct rng rng = rng_from_seed(seed);
    struct rig *rigs[STREAM_RIGS];
    struct streams streams = {0};
    int to[STREAM_RIDS + 1];
    uint32_t tokens[STREAM_RIDS + 1];
    int served = 0;
    int count = 2 + (int)rng_below(&rng, STREAM_RIGS - 1);
    open_streams(rigs, count);
    for (int64_t rid = 1; rid <= STREAM_RIDS; rid++) {
        int from = (int)rng_below(&rng, (uint64_t)count);
        to[rid] = (int)rng_below(&rng, (uint64_t)count);
        tokens[rid] = 4 + (uint32_t)rng_below(&rng, 56);
        rig_submit(rigs[to[rid]], stream_half(ENGINE_GENERATION_ONLY, rid,
                                              (int)rid, tokens[rid]));
        stream_run(&streams, rigs, count, (int)rng_below(&rng, 2), STEP_NS);
        rig_submit(rigs[from], stream_half(ENGINE_CONTEXT_ONLY, rid, (int)rid,
                                           tokens[rid]));
        stream_run(&streams, rigs, count, (int)rng_below(&rng, 2), STEP_NS);
    }
    stream_run(&streams, rigs, count, 400, STEP_NS);
    for (int64_t rid = 1; rid <= STREAM_RIDS; rid++) {
        int outcome = stream_outcome(rigs[to[rid]], rid, tokens[rid]);
        if (outcome == 0) {
            fail_msg("seed %d: request %d waits", (int)seed, (int)rid);
        }
        served += outcome == 1;
    }
    for (int i = 0; i < count; i++) {
        rig_assert_idle(rigs[i]);
        rig_destroy(rigs[i]);
    }
    return served;
}

/* The same rings of workers when KV is sent while it is computed: each request is
 * answered although no transfer here knows a timeout, most of them well. */
static void no_ring_of_streams_waits_for_ever(void **state)
{
    (void)state;
    int served = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        served += run_stream_world(seed);
    }
    assert_true(served > 20 * STREAM_RIDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_older_of_two_large_handoffs_is_served),
        cmocka_unit_test(a_receive_does_not_wait_for_its_own_source),
        cmocka_unit_test(the_oldest_receive_lends_its_age),
        cmocka_unit_test(nobody_gives_way_while_others_end_by_themselves),
        cmocka_unit_test(no_ring_of_workers_waits_for_ever),
        cmocka_unit_test(the_older_of_two_large_receives_is_served),
        cmocka_unit_test(a_receive_does_not_end_for_a_receive),
        cmocka_unit_test(a_receive_ends_for_what_its_sender_holds),
        cmocka_unit_test(no_ring_of_streams_waits_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
