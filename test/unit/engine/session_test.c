#include "unit/engine/rig.h"

#include "agree/word.h"

enum { T = AGREE_TERMINAL, F = AGREE_FAILED, Q = AGREE_QUIET };

static struct engine_request *half(enum engine_kind kind, uint64_t id,
                                   int prompt_kind, uint32_t prompt_count)
{
    struct engine_request *request = rig_request(id, prompt_kind, prompt_count);
    request->kind = kind;
    request->sender_incarnation = 77;
    snprintf(request->sender_endpoint, sizeof(request->sender_endpoint),
             "tcp://host:1");
    return request;
}

/* Computes the prompt on `context` and takes the first tokens over. */
static void run_context(struct rig *context, struct engine_request *request,
                        struct engine_request *next,
                        struct transfer_command *send_out)
{
    uint64_t id = request->id;
    uint32_t choices = request->choice_count;
    rig_submit(context, request);
    rig_run(context);
    for (uint32_t i = 0; i < choices; i++) {
        const struct engine_event *event =
            rig_find(context, id, i, ENGINE_EVENT_TOKEN);
        assert_non_null(event);
        next->first_tokens[i] = event->token;
        assert_int_equal(
            rig_find(context, id, i, ENGINE_EVENT_FINISHED)->finish,
            ENGINE_FINISH_HANDOFF);
    }
    assert_true(rig_take_order(context, send_out));
    assert_int_equal(send_out->kind, TRANSFER_SEND);
    assert_true(send_out->is_last);
    assert_int_equal(send_out->rid, (int64_t)id);
}

/* The whole journey on one thread: prompt on one core, pages copied, tokens on
 * the other; they are those of a model that was never interrupted. The sender
 * hears of its end too.
 * [engine T90] */
static void handed_over_request_gives_the_same_tokens(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *context = rig_create(&options);
    struct rig *generation = rig_create(&options);
    struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    struct transfer_command send = {0};
    struct transfer_command receive = {0};
    int32_t expected[8];
    rig_expect(context, 1, 30, 8, expected);
    run_context(context, half(ENGINE_CONTEXT_ONLY, 5, 1, 30), request, &send);
    request->max_new_tokens = 8;
    rig_submit(generation, request);
    assert_false(rig_turn(generation));
    assert_true(rig_take_order(generation, &receive));
    assert_int_equal(receive.kind, TRANSFER_RECEIVE);
    assert_int_equal(receive.block_count, 8);
    assert_int_equal(receive.prompt_tokens, 30);
    assert_int_equal(receive.sender_incarnation, 77);
    assert_string_equal(receive.sender_endpoint, "tcp://host:1");
    rig_move_pages(context, &send, generation, &receive);
    rig_report(context, &send, T | Q, 0, "");
    rig_report(generation, &receive, T | Q, 0, "");
    rig_run(context);
    rig_run(generation);
    rig_assert_tokens(generation, 5, 0, expected, 8, ENGINE_FINISH_LENGTH);
    const struct engine_journey *journey =
        &rig_find(generation, 5, 0, ENGINE_EVENT_FINISHED)->journey;
    assert_int_equal(journey->moved_blocks, 8);
    assert_string_equal(journey->lane, "memcpy");
    const struct engine_event *sent =
        rig_find(context, 5, 0, ENGINE_EVENT_SENT);
    assert_non_null(sent);
    assert_int_equal(sent->error, OK);
    assert_int_equal(sent->journey.moved_bytes, journey->moved_bytes);
    assert_string_equal(sent->journey.lane, "memcpy");
    rig_assert_idle(context);
    rig_assert_idle(generation);
    rig_destroy(context);
    rig_destroy(generation);
}

/* A window of 6: of a received prompt only the last blocks come over. A block that
 * is found in part lies behind the window, its rest never comes, so it must not
 * become findable as a whole: who asks next gets its own tokens. */
static void block_found_in_part_is_not_published_by_a_receive(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.policy = SCHED_MAX_UTILIZATION; /* keeps stale pages to publish */
    options.lives[0].window = 6;
    options.enable_partial_reuse = true;
    struct rig *context = rig_create(&options);
    struct rig *generation = rig_create(&options);
    struct transfer_command send = {0};
    struct transfer_command receive = {0};
    int32_t expected[4];
    rig_submit(generation, rig_request(1, 1, 18)); /* ends within block 4 */
    rig_run(generation);
    struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    run_context(context, half(ENGINE_CONTEXT_ONLY, 5, 1, 30), request, &send);
    rig_submit(generation, request);
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    rig_move_pages(context, &send, generation, &receive);
    rig_report(context, &send, T | Q, 0, "");
    rig_report(generation, &receive, T | Q, 0, "");
    rig_run(context);
    rig_run(generation);
    for (uint32_t length = 19; length < 30; length++) {
        rig_expect(generation, 1, length, 4, expected);
        rig_submit(generation, rig_request(100 + length, 1, length));
        rig_run(generation);
        rig_assert_tokens(generation, 100 + length, 0, expected, 4,
                          ENGINE_FINISH_LENGTH);
    }
    rig_destroy(context);
    rig_destroy(generation);
}

/* Pages that came in part serve their own prompt and nobody else: the tokens are
 * right, and the same prompt finds nothing, where it finds what came whole. */
static void what_came_with_holes_is_not_published(void **state)
{
    (void)state;
    for (int has_holes = 0; has_holes < 2; has_holes++) {
        struct engine_core_options options = rig_options();
        struct rig *context = rig_create(&options);
        struct rig *generation = rig_create(&options);
        struct transfer_command send = {0};
        struct transfer_command receive = {0};
        int32_t expected[4];
        struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
        rig_expect(generation, 1, 30, 4, expected);
        run_context(context, half(ENGINE_CONTEXT_ONLY, 5, 1, 30), request,
                    &send);
        request->max_new_tokens = 4;
        rig_submit(generation, request);
        rig_turn(generation);
        assert_true(rig_take_order(generation, &receive));
        rig_move_pages(context, &send, generation, &receive);
        rig_report(context, &send, T | Q, 0, "");
        struct transfer_report report = {
            .request = receive.request, .word = T | Q, .has_holes = has_holes};
        engine_core_report(generation->core, generation->now_ns, &report);
        rig_run(context);
        rig_run(generation);
        rig_assert_tokens(generation, 5, 0, expected, 4, ENGINE_FINISH_LENGTH);
        rig_submit(generation, rig_request(6, 1, 30));
        rig_run(generation);
        assert_int_equal(rig_find(generation, 6, 0, ENGINE_EVENT_FINISHED)
                             ->journey.cached_tokens,
                         has_holes ? 0 : 28);
        rig_assert_tokens(generation, 6, 0, expected, 4, ENGINE_FINISH_LENGTH);
        rig_assert_idle(generation);
        rig_destroy(context);
        rig_destroy(generation);
    }
}

/* Until the engine hears Q its pages are leased, whatever else runs: the prompt
 * is found by the next request, but no page of it comes free. Then they are
 * cached. [transfer T77] [engine I50] */
static void pages_stay_until_the_transfer_is_quiet(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *context = rig_create(&options);
    struct engine_request *unused = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    struct transfer_command send = {0};
    struct engine_stats stats;
    run_context(context, half(ENGINE_CONTEXT_ONLY, 5, 1, 30), unused, &send);
    engine_core_stats(context->core, &stats);
    assert_int_equal(stats.pages_leased, 8);
    assert_int_equal(stats.sending, 1);
    rig_submit(context, half(ENGINE_AGGREGATED, 6, 1, 30));
    rig_run(context);
    assert_int_equal(
        rig_find(context, 6, 0, ENGINE_EVENT_FINISHED)->journey.cached_tokens,
        28);
    rig_report(context, &send, T | F, AGREE_REASON_DEADLINE, "nobody came");
    rig_run(context);
    engine_core_stats(context->core, &stats);
    assert_int_equal(stats.pages_leased, 8);
    rig_report(context, &send, Q, 0, "");
    rig_run(context);
    rig_assert_idle(context);
    engine_core_stats(context->core, &stats);
    assert_true(stats.pages_cached >= 7);
    engine_request_free(unused);
    rig_destroy(context);
}

/* The generation side has 6 of 7 full blocks from an earlier request: it asks
 * for the last one and the partial tail only, by dense ordinals, and the tokens
 * are right. */
static void cached_blocks_are_not_asked_for(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *context = rig_create(&options);
    struct rig *generation = rig_create(&options);
    struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    struct transfer_command send = {0};
    struct transfer_command receive = {0};
    int32_t expected[4];
    rig_expect(context, 1, 30, 4, expected);
    rig_submit(generation, half(ENGINE_AGGREGATED, 4, 1, 24));
    rig_run(generation);
    run_context(context, half(ENGINE_CONTEXT_ONLY, 5, 1, 30), request, &send);
    rig_submit(generation, request);
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    assert_int_equal(receive.block_count, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(receive.pages[0][i] == KV_PAGE_NONE, i < 6);
    }
    rig_move_pages(context, &send, generation, &receive);
    rig_report(generation, &receive, T | Q, 0, "");
    rig_run(generation);
    rig_assert_tokens(generation, 5, 0, expected, 4, ENGINE_FINISH_LENGTH);
    rig_assert_idle(generation);
    rig_destroy(context);
    rig_destroy(generation);
}

/* All full blocks of a 30 token prompt are cached: the tail alone is asked
 * for. */
static void the_partial_tail_is_always_asked_for(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *generation = rig_create(&options);
    struct transfer_command receive = {0};
    rig_submit(generation, half(ENGINE_AGGREGATED, 4, 1, 30));
    rig_run(generation);
    rig_submit(generation, half(ENGINE_GENERATION_ONLY, 5, 1, 30));
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(receive.pages[0][i] == KV_PAGE_NONE, i < 7);
    }
    rig_report(generation, &receive, T | F | Q, AGREE_REASON_REFUSED, "gone");
    rig_run(generation);
    rig_assert_failed(generation, 5, ERR_NOT_FOUND, "KV transfer failed: gone");
    /* A sender that has it no more is a clock that ran out: serve may begin
     * anew. */
    rig_submit(generation, half(ENGINE_GENERATION_ONLY, 6, 1, 30));
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    rig_report(generation, &receive, T | F | Q, AGREE_REASON_EXPIRED, "");
    rig_run(generation);
    rig_assert_failed(generation, 6, ERR_TIMEOUT,
                      "KV transfer failed: expired");
    rig_assert_idle(generation);
    rig_destroy(generation);
}

/* Three choices with three first tokens: one session, one set of pages, then
 * three sequences that never disturb each other. */
static void choices_fork_after_one_transfer(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *context = rig_create(&options);
    struct rig *generation = rig_create(&options);
    struct engine_request *first = half(ENGINE_CONTEXT_ONLY, 5, 1, 30);
    struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    struct transfer_command send = {0};
    struct transfer_command receive = {0};
    first->choice_count = request->choice_count = 3;
    run_context(context, first, request, &send);
    int32_t tokens[3][RIG_PROMPT_MAX];
    for (int c = 0; c < 3; c++) {
        request->first_tokens[c] = 100 + c; /* as if drawn differently */
    }
    request->max_new_tokens = 6;
    rig_submit(generation, request);
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    assert_false(rig_take_order(generation, &send));
    assert_int_equal(receive.block_count, 8);
    struct transfer_command again = {0};
    assert_false(rig_take_order(context, &again));
    rig_move_pages(
        context,
        &(struct transfer_command){.pages = {send.pages[0]}, .block_count = 8},
        generation, &receive);
    rig_report(generation, &receive, T | Q, 0, "");
    rig_run(generation);
    for (int c = 0; c < 3; c++) {
        for (uint32_t i = 0; i < 30; i++) {
            tokens[c][i] = rig_prompt_token(1, i);
        }
        tokens[c][30] = 100 + c;
        for (uint32_t i = 31; i < 36; i++) {
            tokens[c][i] = model_hash_next(&generation->hash, tokens[c], i);
        }
        rig_assert_tokens(generation, 5, (uint32_t)c, tokens[c] + 30, 6,
                          ENGINE_FINISH_LENGTH);
    }
    rig_assert_idle(generation);
    rig_destroy(context);
    rig_destroy(generation);
}

/* The replayed first token is an end token, or all that was asked for: nothing
 * more is decoded. */
static void replayed_first_token_can_be_the_last(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    int32_t end = 42;
    options.end_tokens = &end;
    options.end_token_count = 1;
    struct rig *generation = rig_create(&options);
    for (uint64_t id = 1; id <= 2; id++) {
        struct engine_request *request =
            half(ENGINE_GENERATION_ONLY, id, (int)id, 10);
        struct transfer_command receive = {0};
        request->first_tokens[0] = id == 1 ? end : 7;
        request->max_new_tokens = id == 1 ? 5 : 1;
        rig_submit(generation, request);
        rig_turn(generation);
        assert_true(rig_take_order(generation, &receive));
        rig_report(generation, &receive, T | Q, 0, "");
        assert_false(rig_turn(generation));
        int32_t expected = id == 1 ? end : 7;
        rig_assert_tokens(generation, id, 0, &expected, 1,
                          id == 1 ? ENGINE_FINISH_STOP : ENGINE_FINISH_LENGTH);
    }
    rig_assert_idle(generation);
    rig_destroy(generation);
}

/* A context request whose first token ends it needs no hand-over. */
static void context_that_stops_sends_nothing(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *context = rig_create(&options);
    struct engine_request *request = half(ENGINE_CONTEXT_ONLY, 5, 1, 30);
    struct transfer_command order = {0};
    int32_t expected;
    rig_expect(context, 1, 30, 1, &expected);
    request->stop_token_count = 1;
    request->stop_tokens[0] = expected;
    rig_submit(context, request);
    rig_run(context);
    rig_assert_tokens(context, 5, 0, &expected, 1, ENGINE_FINISH_STOP);
    assert_false(rig_take_order(context, &order));
    rig_assert_idle(context);
    rig_destroy(context);
}

/* First tokens that are missing (-1) or no token fail this request alone.
 * [transfer T76] */
static void bad_first_token_fails_one_request_only(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *generation = rig_create(&options);
    struct engine_request *bad = half(ENGINE_GENERATION_ONLY, 1, 1, 10);
    bad->first_tokens[0] = -1;
    rig_submit(generation, bad);
    struct engine_request *worse = half(ENGINE_GENERATION_ONLY, 2, 1, 10);
    worse->first_tokens[0] = 1000;
    rig_submit(generation, worse);
    rig_submit(generation, half(ENGINE_AGGREGATED, 3, 1, 10));
    rig_run(generation);
    rig_assert_failed(generation, 1, ERR_INVALID, "first token -1");
    rig_assert_failed(generation, 2, ERR_INVALID, "first token 1000");
    assert_int_equal(rig_count(generation, 3, ENGINE_EVENT_TOKEN), 4);
    rig_assert_idle(generation);
    rig_destroy(generation);
}

/* Cancelled while pages arrive: answered at once, the transfer is told, and the
 * pages are nobody's until it is quiet, even if all bytes came. */
static void cancelled_receive_keeps_its_pages_until_quiet(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 8;
    struct rig *generation = rig_create(&options);
    struct transfer_command receive = {0};
    struct transfer_command cancel = {0};
    rig_submit(generation, half(ENGINE_GENERATION_ONLY, 5, 1, 26));
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    rig_command(generation, ENGINE_CANCEL, 5, 0);
    assert_int_equal(rig_find(generation, 5, 0, ENGINE_EVENT_FINISHED)->finish,
                     ENGINE_FINISH_CANCELLED);
    assert_true(rig_take_order(generation, &cancel));
    assert_int_equal(cancel.kind, TRANSFER_CANCEL);
    assert_int_equal(cancel.request, receive.request);
    rig_submit(generation, half(ENGINE_AGGREGATED, 6, 2, 10));
    rig_run(generation);
    assert_null(rig_find(generation, 6, 0, ENGINE_EVENT_TOKEN));
    rig_report(generation, &receive, T | Q, 0, "");
    rig_run(generation);
    assert_int_equal(rig_count(generation, 6, ENGINE_EVENT_TOKEN), 4);
    assert_int_equal(rig_count(generation, 5, ENGINE_EVENT_FINISHED), 1);
    assert_int_equal(rig_count(generation, 5, ENGINE_EVENT_FAILED), 0);
    rig_assert_idle(generation);
    rig_destroy(generation);
}

/* The deadline passes while receiving, with nothing else going on: answered by
 * the time that the core asked to be woken at, the session is told. */
static void receive_is_late_even_on_an_idle_engine(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *generation = rig_create(&options);
    struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 26);
    struct transfer_command order = {0};
    request->deadline_ns = 5000000;
    rig_submit(generation, request);
    rig_turn(generation);
    assert_true(rig_take_order(generation, &order));
    assert_int_equal(order.deadline_ns, 5000000);
    assert_int_equal(engine_core_wake_ns(generation->core), 5000000);
    generation->now_ns = 5000000;
    rig_turn(generation);
    rig_assert_failed(generation, 5, ERR_TIMEOUT, "deadline");
    struct transfer_command cancel = {0};
    assert_true(rig_take_order(generation, &cancel));
    assert_int_equal(cancel.kind, TRANSFER_CANCEL);
    rig_report(generation, &order, T | F | Q, AGREE_REASON_DEADLINE, "");
    rig_run(generation);
    assert_int_equal(rig_count(generation, 5, ENGINE_EVENT_FAILED), 1);
    rig_assert_idle(generation);
    rig_destroy(generation);
}

/* A failed receive fails the request at the next turn's head, not before, and
 * its text reaches the client; the pages wait for Q. */
static void failed_receive_fails_at_a_turns_head(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *generation = rig_create(&options);
    struct transfer_command receive = {0};
    struct engine_stats stats;
    rig_submit(generation, half(ENGINE_GENERATION_ONLY, 5, 1, 26));
    rig_turn(generation);
    assert_true(rig_take_order(generation, &receive));
    rig_report(generation, &receive, T | F, AGREE_REASON_INTEGRITY,
               "block 3 differs");
    rig_drain(generation);
    assert_null(rig_find(generation, 5, 0, ENGINE_EVENT_FAILED));
    rig_turn(generation);
    rig_assert_failed(generation, 5, ERR_CORRUPT, "block 3 differs");
    engine_core_stats(generation->core, &stats);
    assert_int_equal(stats.pages_leased, 7);
    rig_report(generation, &receive, Q, 0, "");
    rig_turn(generation);
    rig_assert_idle(generation);
    rig_destroy(generation);
}

/* Both halves of one rid may live on one worker; the same half twice may not,
 * for as long as anything of the first is left. */
static void the_same_half_twice_is_refused(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct engine_request *generation = half(ENGINE_GENERATION_ONLY, 2, 1, 10);
    struct transfer_command send = {0};
    generation->rid = 1;
    run_context(rig, half(ENGINE_CONTEXT_ONLY, 1, 1, 10), generation, &send);
    rig_submit(rig, generation);
    rig_turn(rig);
    struct engine_request *twice = half(ENGINE_CONTEXT_ONLY, 3, 1, 10);
    twice->rid = 1;
    rig_submit(rig, twice);
    rig_drain(rig);
    rig_assert_failed(rig, 3, ERR_EXISTS, "request 1");
    assert_null(rig_find(rig, 2, 0, ENGINE_EVENT_FAILED));
    rig_destroy(rig);
}

/* An abort by rid finds the session that sends, which nobody can cancel by id
 * any more, and says so; an unknown rid is not found. */
static void abort_finds_sessions_by_rid(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *context = rig_create(&options);
    struct engine_request *unused = half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    struct transfer_command send = {0};
    struct transfer_command cancel = {0};
    run_context(context, half(ENGINE_CONTEXT_ONLY, 5, 1, 30), unused, &send);
    rig_command(context, ENGINE_CANCEL, 5, 0);
    assert_false(rig_take_order(context, &cancel));
    rig_command(context, ENGINE_ABORT_RID, 6, 0);
    assert_false(rig_find(context, 6, 0, ENGINE_EVENT_ABORTED)->found);
    rig_command(context, ENGINE_ABORT_RID, 5, 0);
    assert_true(rig_find(context, 5, 0, ENGINE_EVENT_ABORTED)->found);
    assert_true(rig_take_order(context, &cancel));
    assert_int_equal(cancel.kind, TRANSFER_CANCEL);
    rig_command(context, ENGINE_ABORT_RID, 5, 0);
    assert_false(rig_take_order(context, &cancel));
    context->now_ns += 9000000; /* it waited; nothing was decoded */
    rig_report(context, &send, T | F | Q, AGREE_REASON_ABORTED,
               "sending KV: aborted");
    rig_run(context);
    const struct engine_event *sent =
        rig_find(context, 5, 0, ENGINE_EVENT_SENT);
    assert_int_equal(sent->error, ERR_CANCELLED);
    assert_string_equal(sent->reason, "sending KV: aborted");
    assert_true(sent->journey.handoff_ns >= 9000000);
    assert_int_equal(sent->journey.decode_ns, 0);
    rig_assert_idle(context);
    engine_request_free(unused);
    rig_destroy(context);
}

/* Whatever ends a request whose KV is on its way, the transfer is told that and
 * nothing else. */
static void a_transfer_is_told_why_it_ends(void **state)
{
    static const struct {
        enum engine_command_kind kind;
        bool is_shutdown, is_late;
        uint8_t reason;
    } CASES[] = {
        {ENGINE_CANCEL, false, false, AGREE_REASON_CALLER_LEFT},
        {ENGINE_CANCEL, true, false, AGREE_REASON_SHUTDOWN},
        {ENGINE_CANCEL_CHOICE, false, false, AGREE_REASON_NOT_NEEDED},
        {ENGINE_ABORT_RID, false, false, AGREE_REASON_ABORTED},
        {ENGINE_STOP, false, false, AGREE_REASON_SHUTDOWN},
        {ENGINE_DRAIN, false, true, AGREE_REASON_DEADLINE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct engine_core_options options = rig_options();
        struct rig *rig = rig_create(&options);
        struct engine_request *request = half(ENGINE_GENERATION_ONLY, 5, 1, 26);
        struct transfer_command order = {0};
        request->deadline_ns = 5000000;
        rig_submit(rig, request);
        rig_turn(rig);
        assert_true(rig_take_order(rig, &order));
        struct engine_command command = {.kind = CASES[i].kind,
                                         .id = 5,
                                         .rid = 5,
                                         .is_shutdown = CASES[i].is_shutdown};
        engine_core_command(rig->core, rig->now_ns, &command);
        rig->now_ns = CASES[i].is_late ? 5000000 : rig->now_ns;
        rig_turn(rig);
        struct transfer_command cancel = {0};
        assert_true(rig_take_order(rig, &cancel));
        assert_int_equal(cancel.kind, TRANSFER_CANCEL);
        assert_int_equal(cancel.reason, CASES[i].reason);
        rig_report(rig, &order, T | F | Q, cancel.reason, "");
        rig_run(rig);
        rig_destroy(rig);
    }
}

/* Four sessions at most: the fifth request waits, though pages abound, and an
 * aggregated one behind it does not. */
static void sessions_are_limited(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct transfer_command orders[4] = {0};
    struct engine_stats stats;
    for (uint64_t id = 1; id <= 5; id++) {
        rig_submit(rig, half(ENGINE_GENERATION_ONLY, id, (int)id, 10));
    }
    rig_submit(rig, half(ENGINE_AGGREGATED, 6, 6, 10));
    rig_run(rig);
    engine_core_stats(rig->core, &stats);
    assert_int_equal(stats.receiving, 4);
    assert_int_equal(stats.waiting, 1);
    assert_int_equal(rig_count(rig, 6, ENGINE_EVENT_TOKEN), 4);
    for (int i = 0; i < 4; i++) {
        assert_true(rig_take_order(rig, &orders[i]));
    }
    rig_report(rig, &orders[2], T | F | Q, AGREE_REASON_TRANSPORT, "");
    rig_run(rig);
    assert_true(rig_take_order(rig, &orders[2]));
    assert_int_equal(orders[2].rid, 5);
    rig_destroy(rig);
}

/* Without a transfer backend both halves are refused by name. */
static void without_transfer_halves_are_refused(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.session_max = 0;
    struct rig *rig = rig_create(&options);
    rig_submit(rig, half(ENGINE_CONTEXT_ONLY, 1, 1, 10));
    rig_submit(rig, half(ENGINE_GENERATION_ONLY, 2, 1, 10));
    rig_run(rig);
    rig_assert_failed(rig, 1, ERR_UNSUPPORTED, "no KV transfer");
    rig_assert_failed(rig, 2, ERR_UNSUPPORTED, "no KV transfer");
    rig_destroy(rig);
}

/* Two workers, each with prompts to compute for the other. */
enum { PAIR_COUNT = 6, NEXT = 100 };

struct duo {
    struct rig *rigs[2];
    struct transfer_command sends[2 * PAIR_COUNT]; /* by rid - 1; 0: none */
    uint32_t done; /* receives */
};

/* Requests whose prompt is computed on r have rids r * PAIR_COUNT + 1.. */
static void ask_contexts(struct duo *duo, int r, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++) {
        int64_t rid = r * PAIR_COUNT + i;
        rig_submit(duo->rigs[r],
                   half(ENGINE_CONTEXT_ONLY, (uint64_t)rid, (int)rid, 16));
    }
}

static void ask_generation(struct duo *duo, int to,
                           const struct transfer_command *send)
{
    uint64_t id = (uint64_t)send->rid;
    struct engine_request *request =
        half(ENGINE_GENERATION_ONLY, id + NEXT, (int)id, 16);
    request->rid = send->rid;
    request->first_tokens[0] =
        rig_find(duo->rigs[1 - to], id, 0, ENGINE_EVENT_TOKEN)->token;
    rig_submit(duo->rigs[to], request);
    duo->sends[send->rid - 1] = *send;
}

static void pull(struct duo *duo, int to,
                 const struct transfer_command *receive)
{
    const struct transfer_command *send = &duo->sends[receive->rid - 1];
    rig_move_pages(duo->rigs[1 - to], send, duo->rigs[to], receive);
    rig_report(duo->rigs[1 - to], send, T | Q, 0, "");
    rig_report(duo->rigs[to], receive, T | Q, 0, "");
    duo->done++;
}

/* A finished prompt is asked for at once, what both sides have ordered moves at
 * once: if anything still waits in the end, it waits for ever. */
static void run_duo(struct duo *duo)
{
    for (int turn = 0; turn < 200; turn++) {
        int r = turn % 2;
        struct transfer_command order = {0};
        rig_turn(duo->rigs[r]);
        while (rig_take_order(duo->rigs[r], &order)) {
            if (order.kind == TRANSFER_SEND) {
                ask_generation(duo, 1 - r, &order);
            } else {
                pull(duo, r, &order);
            }
        }
    }
}

/* 16 pages each, 4 a prompt: four hand-offs would lease them all, on both sides,
 * and no receive would find any. All end, without a timeout: where both kinds
 * are expected from the start, and where they show after a first pair. */
static void two_workers_do_not_wait_for_each_other(void **state)
{
    (void)state;
    for (int expected = 0; expected < 2; expected++) {
        struct engine_core_options options = rig_options();
        options.page_counts[0] = 16;
        options.session_max = 8;
        options.is_mixed = expected == 1;
        struct duo duo = {.rigs = {rig_create(&options), rig_create(&options)}};
        for (int r = 0; r < 2 && expected == 0; r++) {
            ask_contexts(&duo, r, 1, 1);
            run_duo(&duo);
        }
        for (int r = 0; r < 2; r++) {
            ask_contexts(&duo, r, 2 - expected, PAIR_COUNT);
        }
        run_duo(&duo);
        assert_int_equal(duo.done, 2 * PAIR_COUNT);
        for (int rid = 1; rid <= 2 * PAIR_COUNT; rid++) {
            int32_t tokens[4];
            struct rig *rig = duo.rigs[rid <= PAIR_COUNT];
            rig_expect(rig, rid, 16, 4, tokens);
            rig_assert_tokens(rig, (uint64_t)rid + NEXT, 0, tokens, 4,
                              ENGINE_FINISH_LENGTH);
        }
        for (int r = 0; r < 2; r++) {
            rig_assert_idle(duo.rigs[r]);
            rig_destroy(duo.rigs[r]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handed_over_request_gives_the_same_tokens),
        cmocka_unit_test(block_found_in_part_is_not_published_by_a_receive),
        cmocka_unit_test(what_came_with_holes_is_not_published),
        cmocka_unit_test(pages_stay_until_the_transfer_is_quiet),
        cmocka_unit_test(cached_blocks_are_not_asked_for),
        cmocka_unit_test(the_partial_tail_is_always_asked_for),
        cmocka_unit_test(choices_fork_after_one_transfer),
        cmocka_unit_test(replayed_first_token_can_be_the_last),
        cmocka_unit_test(context_that_stops_sends_nothing),
        cmocka_unit_test(bad_first_token_fails_one_request_only),
        cmocka_unit_test(cancelled_receive_keeps_its_pages_until_quiet),
        cmocka_unit_test(receive_is_late_even_on_an_idle_engine),
        cmocka_unit_test(failed_receive_fails_at_a_turns_head),
        cmocka_unit_test(the_same_half_twice_is_refused),
        cmocka_unit_test(abort_finds_sessions_by_rid),
        cmocka_unit_test(a_transfer_is_told_why_it_ends),
        cmocka_unit_test(sessions_are_limited),
        cmocka_unit_test(without_transfer_halves_are_refused),
        cmocka_unit_test(two_workers_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
