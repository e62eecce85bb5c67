#include "unit/engine/stream.h"

enum { T = AGREE_TERMINAL, F = AGREE_FAILED, Q = AGREE_QUIET, CHUNK = 8 };

static struct engine_core_options chunked(void)
{
    struct engine_core_options options = rig_options();
    options.chunk_tokens = CHUNK; /* two blocks a turn */
    return options;
}

/* A receiver that says where the pages go, at once. */
static struct transfer_command await_offer(struct rig *rig)
{
    struct transfer_command offer = {0};
    rig_turn(rig);
    assert_true(rig_take_order(rig, &offer));
    assert_int_equal(offer.kind, TRANSFER_OFFER);
    stream_report(rig, &offer, &(struct transfer_report){.is_awaited = true});
    return offer;
}

static uint32_t leased(const struct rig *rig)
{
    struct engine_stats stats;
    engine_core_stats(rig->core, &stats);
    return stats.pages_leased;
}

static void drained(struct rig *rig, const struct transfer_command *offer,
                    uint32_t count)
{
    stream_report(
        rig, offer,
        &(struct transfer_report){.is_awaited = true, .slice_index = count});
}

/* Both halves at once, five chunks: the tokens are those of a model that was
 * never interrupted, and slices end where blocks are full. [transfer T19]
 * [engine T90] */
static void streamed_request_gives_the_same_tokens(void **state)
{
    (void)state;
    struct stream_pair pair;
    struct engine_core_options options = chunked();
    int32_t expected[8];
    stream_pair_open(&pair, &options);
    rig_expect(pair.context, 1, 37, 8, expected);
    struct engine_request *request =
        stream_half(ENGINE_GENERATION_ONLY, 5, 1, 37);
    request->max_new_tokens = 8;
    rig_submit(pair.generation, request);
    rig_submit(pair.context, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 37));
    stream_pair_run(&pair, 60);
    rig_assert_tokens(pair.generation, 5 + STREAM_NEXT, 0, expected, 8,
                      ENGINE_FINISH_LENGTH);
    rig_assert_tokens(pair.context, 5, 0, expected, 1, ENGINE_FINISH_HANDOFF);
    stream_pair_close(&pair);
}

/* Without a receiver nothing is computed, however free the worker is; others
 * are served meanwhile. When the receiver comes the prompt starts in that turn. */
static void nothing_is_computed_before_the_receiver_is_known(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command offer = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 20));
    assert_false(rig_turn(rig));
    assert_true(rig_take_order(rig, &offer));
    assert_int_equal(offer.kind, TRANSFER_OFFER);
    assert_int_equal(offer.block_count, 5);
    assert_int_equal(offer.prompt_tokens, 20);
    rig_submit(rig, rig_request(6, 2, 12));
    rig_run(rig);
    assert_non_null(rig_find(rig, 6, 0, ENGINE_EVENT_FINISHED));
    assert_null(rig_find(rig, 5, 0, ENGINE_EVENT_TOKEN));
    stream_report(rig, &offer, &(struct transfer_report){.is_awaited = true});
    assert_true(rig_turn(rig));
    rig_command(rig, ENGINE_CANCEL, 5, 0);
    stream_report(rig, &offer,
                  &(struct transfer_report){
                      .word = T | F | Q, .reason = AGREE_REASON_CALLER_LEFT});
    rig_run(rig);
    rig_destroy(rig);
}

/* Nobody comes: at the deadline the transfer says so, and the request fails
 * without ever having had a page. */
static void an_offer_that_nobody_takes_fails(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command offer = {0};
    struct engine_request *request = stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 20);
    rig_submit(rig, request);
    rig_turn(rig);
    assert_true(rig_take_order(rig, &offer));
    assert_int_equal(offer.deadline_ns,
                     rig->now_ns + options.kv_transfer_timeout_ns);
    stream_report(rig, &offer,
                  &(struct transfer_report){.word = T | F | Q,
                                            .reason = AGREE_REASON_DEADLINE});
    rig_run(rig);
    rig_assert_failed(rig, 5, ERR_TIMEOUT, "KV transfer failed");
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Chunks of 6 tokens into blocks of 4: a block that is not full waits for the
 * next chunk, the first slice begins at 0, the last one takes the rest and the
 * first token. [transfer T3] */
static void slices_follow_full_blocks(void **state)
{
    (void)state;
    static const uint32_t ENDS[] = {1, 3, 4, 5};
    struct engine_core_options options = chunked();
    options.chunk_unit = 2;
    options.chunk_tokens = 6;
    struct rig *rig = rig_create(&options);
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 20));
    struct transfer_command offer = await_offer(rig);
    struct transfer_command slice = {0};
    uint32_t first = 0;
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(rig_turn(rig));
        assert_true(rig_take_order(rig, &slice));
        assert_int_equal(slice.kind, TRANSFER_SEND);
        assert_int_equal(slice.slice_index, i);
        assert_int_equal(slice.first_block, first);
        assert_int_equal(slice.end_block, ENDS[i]);
        assert_int_equal(slice.is_last, i == 3);
        assert_int_equal(slice.aux != NULL, i == 3);
        first = slice.end_block;
    }
    assert_int_equal(slice.aux->choice_count, 1);
    assert_int_equal(slice.aux->firsts[0].token,
                     rig_find(rig, 5, 0, ENGINE_EVENT_TOKEN)->token);
    mem_free(slice.aux);
    stream_report(rig, &offer,
                  &(struct transfer_report){.word = T | Q, .slice_index = 4});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

struct row {
    const char *name;
    uint32_t prompt, block, cached, chunk;
    uint32_t ends[24]; /* of the slices; 0: no more */
};

/* transfer.md 3.3, those whose chunks are of one size. */
static const struct row ROWS[] = {
    {"C1", 1000, 32, 0, 256, {8, 16, 24, 32}},
    {"C2", 1000, 64, 0, 300, {4, 9, 14, 16}},
    {"C3", 1000, 32, 416, 256, {21, 29, 32}},
    {"C6", 200, 64, 0, 16, {1, 2, 3, 4}},
    {"C8", 8192, 32, 0, 2048, {64, 128, 192, 256}},
    {"C9", 8191, 128, 0, 1000, {7, 15, 23, 31, 39, 46, 54, 62, 64}},
    {"C10", 33, 32, 0, 32, {1, 2}},
    {"C11", 1, 64, 0, 4, {1}},
};

static void check_row(const struct row *row)
{
    struct engine_core_options options = rig_options();
    options.tokens_per_block = row->block;
    options.max_seq = 8200;
    options.page_counts[0] = 600;
    options.chunk_tokens = row->chunk;
    options.row_count_max = row->chunk + 16;
    struct rig *rig = rig_create(&options);
    struct transfer_command slice = {0};
    if (row->cached > 0) {
        rig_submit(rig, rig_request(1, 1, row->cached + 1));
        rig_run(rig);
    }
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, row->prompt));
    struct transfer_command offer = await_offer(rig);
    uint32_t first = 0;
    uint32_t count = 0;
    while (!slice.is_last) {
        assert_true(rig_turn(rig));
        if (rig_take_order(rig, &slice)) {
            assert_int_equal(slice.first_block, first);
            assert_int_equal(slice.end_block, row->ends[count]);
            first = slice.end_block;
            count++;
        }
    }
    assert_int_equal(row->ends[count], 0);
    mem_free(slice.aux);
    stream_report(
        rig, &offer,
        &(struct transfer_report){.word = T | Q, .slice_index = count});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The table as it stands, row by row, with the scheduler that cuts the chunks.
 * [transfer T2] */
static void slices_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        check_row(&ROWS[i]);
    }
}

/* One chunk does all that is not cached: one slice of the whole prompt, as
 * context-first sends it. [transfer T5] */
static void one_chunk_is_one_slice(void **state)
{
    (void)state;
    static const struct row C12 = {"C12", 2047, 64, 1984, 2048, {32}};
    check_row(&C12);
}

/* Three of eight blocks are cached, chunks are (3, 6) and (6, 8): the first slice
 * reaches back to block 0 and so delivers them, the second does not.
 * [transfer T4] */
static void a_prefix_hit_is_delivered_with_the_first_slice(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    options.chunk_tokens = 12;
    struct rig *rig = rig_create(&options);
    rig_submit(rig, rig_request(1, 1, 13));
    rig_run(rig);
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 32));
    struct transfer_command offer = await_offer(rig);
    struct transfer_command slice = {0};
    assert_true(rig_turn(rig));
    assert_true(rig_take_order(rig, &slice));
    assert_int_equal(slice.first_block, 0);
    assert_int_equal(slice.end_block, 6);
    assert_true(rig_turn(rig));
    assert_true(rig_take_order(rig, &slice));
    assert_int_equal(slice.first_block, 6);
    assert_int_equal(slice.end_block, 8);
    assert_true(slice.is_last);
    assert_int_equal(slice.aux->cached_tokens, 12);
    mem_free(slice.aux);
    stream_report(rig, &offer,
                  &(struct transfer_report){.word = T | Q, .slice_index = 2});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A slice's pages stay leased until a report says that it has drained; others
 * are not touched by that. After the answer the last one is under lease still. */
static void a_lease_ends_with_its_slice(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command slice = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 24));
    struct transfer_command offer = await_offer(rig);
    rig_turn(rig);
    assert_int_equal(leased(rig), 2);
    rig_turn(rig);
    assert_int_equal(leased(rig), 4);
    drained(rig, &offer, 0);
    rig_plan(rig);
    assert_int_equal(leased(rig), 4);
    engine_core_abort(rig->core);
    while (rig_take_order(rig, &slice)) {
        assert_int_equal(slice.end_block, 4); /* nobody had posted the first */
    }
    drained(rig, &offer, 1);
    rig_turn(rig);
    assert_int_equal(leased(rig), 2); /* the last */
    assert_true(rig_take_order(rig, &slice));
    assert_true(slice.is_last);
    mem_free(slice.aux);
    stream_report(rig, &offer,
                  &(struct transfer_report){.word = T | Q, .slice_index = 2});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Cancel after the first of three chunks: no slice follows, also not the one
 * that nobody had posted, and the pages come free when the transfer is quiet,
 * not before. [engine T88] */
static void a_cancel_between_chunks_ends_the_slices(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command order = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 24));
    struct transfer_command offer = await_offer(rig);
    rig_turn(rig);
    assert_true(rig_take_order(rig, &order));
    assert_int_equal(order.end_block, 2);
    rig_turn(rig); /* [2, 4) is in the outbox */
    rig_command(rig, ENGINE_CANCEL, 5, 0);
    assert_int_equal(rig_find(rig, 5, 0, ENGINE_EVENT_FINISHED)->finish,
                     ENGINE_FINISH_CANCELLED);
    assert_true(rig_take_order(rig, &order));
    assert_int_equal(order.kind, TRANSFER_CANCEL);
    assert_int_equal(order.request, offer.request);
    assert_false(rig_turn(rig));
    assert_false(rig_take_order(rig, &order));
    assert_int_equal(leased(rig), 4);
    stream_report(rig, &offer,
                  &(struct transfer_report){
                      .word = T | F, .reason = AGREE_REASON_CALLER_LEFT});
    rig_turn(rig);
    assert_int_equal(leased(rig), 4);
    stream_report(rig, &offer, &(struct transfer_report){.word = Q});
    rig_turn(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* The offer itself has not been posted: it goes first, then the cancel, so that
 * the transfer has a session to report on. */
static void a_cancel_does_not_overtake_its_offer(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command offer = {0};
    struct transfer_command cancel = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 24));
    rig_turn(rig);
    rig_command(rig, ENGINE_ABORT_RID, 5, 0);
    assert_true(rig_take_order(rig, &offer));
    assert_int_equal(offer.kind, TRANSFER_OFFER);
    assert_true(rig_take_order(rig, &cancel));
    assert_int_equal(cancel.kind, TRANSFER_CANCEL);
    stream_report(rig, &offer,
                  &(struct transfer_report){
                      .word = T | F | Q, .reason = AGREE_REASON_CALLER_LEFT});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A send fails while chunk 2 is computed: nothing changes in the middle of the
 * turn, at the head of the next the request fails and is not in its batch.
 * [engine T89] */
static void a_failed_slice_ends_the_request_at_a_boundary(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command order = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 24));
    struct transfer_command offer = await_offer(rig);
    rig_turn(rig);
    rig_turn(
        rig); /* chunk 2; what the transfer says of it waits for the head */
    rig_submit(rig, rig_request(6, 2, 8));
    stream_report(rig, &offer,
                  &(struct transfer_report){.word = T | F,
                                            .reason = AGREE_REASON_TRANSPORT});
    assert_null(rig_find(rig, 5, 0, ENGINE_EVENT_FAILED));
    rig_turn(rig);
    rig_assert_failed(rig, 5, ERR_IO, "KV transfer failed");
    assert_int_equal(rig->run_count, 1);
    assert_int_equal(rig->row_count, 8);
    assert_int_equal(leased(rig), 4);
    while (rig_take_order(rig, &order)) {
        assert_int_not_equal(order.kind, TRANSFER_SEND);
    }
    stream_report(rig, &offer, &(struct transfer_report){.word = Q});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* Pages for one prompt and a bit: under MAX_UTILIZATION a decode that grows would
 * have the younger prompt give way, but not one that streams. All of its pages
 * were set aside when it started, so it ends, and the other after it, with the
 * right tokens. [transfer T69] */
static void a_stream_is_never_rewound(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    options.policy = SCHED_MAX_UTILIZATION;
    options.page_counts[0] = 12;
    options.max_seq = 48;
    options.enable_block_reuse = false;
    struct stream_pair pair;
    int32_t expected[30];
    stream_pair_open(&pair, &options);
    struct engine_request *old = rig_request(1, 2, 12);
    old->max_new_tokens = 30;
    rig_expect(pair.context, 2, 12, 30, expected);
    rig_submit(pair.context, old);
    rig_turn(pair.context);
    rig_turn(pair.context);
    rig_submit(pair.generation, stream_half(ENGINE_GENERATION_ONLY, 5, 1, 28));
    rig_submit(pair.context, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 28));
    stream_pair_run(&pair, 60);
    rig_assert_tokens(pair.context, 1, 0, expected, 30, ENGINE_FINISH_LENGTH);
    rig_expect(pair.context, 1, 28, 4, expected);
    rig_assert_tokens(pair.generation, 5 + STREAM_NEXT, 0, expected, 4,
                      ENGINE_FINISH_LENGTH);
    stream_pair_close(&pair);
}

/* Full attention and a window of 6 tokens: slices name the first alone, the last
 * one has what is left of the window, whole. The answer is right, so all that is
 * seen has come. [transfer T8] */
static void a_window_travels_whole_with_the_last_slice(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    options.life_count = options.group_count = 2;
    options.lives[1].window = 6;
    options.group_of[1] = 1;
    options.page_counts[1] = 64;
    struct stream_pair pair;
    int32_t expected[6];
    stream_pair_open(&pair, &options);
    rig_expect(pair.context, 1, 30, 6, expected);
    struct engine_request *request =
        stream_half(ENGINE_GENERATION_ONLY, 5, 1, 30);
    request->max_new_tokens = 6;
    rig_submit(pair.generation, request);
    rig_turn(pair.generation);
    stream_turn(&pair.streams, pair.generation);
    const struct transfer_command *receive = &pair.streams.of[5].receive;
    assert_int_equal(receive->group_count, 2);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_not_equal(receive->pages[0][i], KV_PAGE_NONE);
        /* floor((30 + 1 - 6) / 4) = 6 are stale */
        assert_int_equal(receive->pages[1][i] == KV_PAGE_NONE, i < 6);
    }
    rig_submit(pair.context, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 30));
    rig_turn(pair.context);
    stream_turn(&pair.streams, pair.context);
    rig_turn(pair.context);
    assert_int_equal(leased(pair.context), 2); /* of full attention alone */
    stream_turn(&pair.streams, pair.context);
    stream_pair_run(&pair, 60);
    rig_assert_tokens(pair.generation, 5 + STREAM_NEXT, 0, expected, 6,
                      ENGINE_FINISH_LENGTH);
    stream_pair_close(&pair);
}

/* Nothing but windows: nothing leaves before the last chunk. [transfer T9] */
static void a_model_of_windows_sends_one_slice(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    options.lives[0].window = 6;
    struct rig *rig = rig_create(&options);
    struct transfer_command slice = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 30));
    struct transfer_command offer = await_offer(rig);
    for (int i = 0; i < 3; i++) {
        assert_true(rig_turn(rig));
        assert_false(rig_take_order(rig, &slice));
    }
    assert_true(rig_turn(rig));
    assert_true(rig_take_order(rig, &slice));
    assert_int_equal(slice.slice_index, 0);
    assert_int_equal(slice.first_block, 0);
    assert_int_equal(slice.end_block, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(slice.pages[0][i] == KV_PAGE_NONE, i < 6);
    }
    mem_free(slice.aux);
    stream_report(rig, &offer,
                  &(struct transfer_report){.word = T | Q, .slice_index = 1});
    rig_run(rig);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A model whose prompt is inside its window streams like full attention. */
static void a_window_that_is_not_full_streams(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    options.lives[0].window = 40;
    struct rig *rig = rig_create(&options);
    struct transfer_command slice = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 20));
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 6, 2, 60));
    struct transfer_command offer = await_offer(rig);
    assert_true(rig_turn(rig));
    assert_true(rig_take_order(rig, &slice)); /* the other's offer */
    assert_int_equal(slice.kind, TRANSFER_OFFER);
    assert_true(rig_take_order(rig, &slice));
    assert_int_equal(slice.request, offer.request);
    assert_int_equal(slice.end_block, 2);
    assert_false(slice.is_last);
    rig_destroy(rig);
}

/* 300 blocks in chunks of one: slices of several, at most 64 of them. */
static void a_long_prompt_has_a_bounded_number_of_slices(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    options.page_counts[0] = 400;
    options.max_seq = 1300;
    options.chunk_tokens = 4;
    struct stream_pair pair;
    stream_pair_open(&pair, &options);
    struct engine_request *prompt =
        stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 1200);
    rig_submit(pair.generation,
               stream_half(ENGINE_GENERATION_ONLY, 5, 1, 1200));
    rig_submit(pair.context, prompt);
    uint32_t slices = 0;
    for (int i = 0; i < 400; i++) {
        rig_turn(pair.generation);
        stream_turn(&pair.streams, pair.generation);
        rig_turn(pair.context);
        stream_turn(&pair.streams, pair.context);
        if (pair.streams.of[5].slice_count > slices) {
            slices = pair.streams.of[5].slice_count;
        }
    }
    assert_in_range(slices, 50, 63); /* and the last */
    assert_int_equal(
        rig_find(pair.generation, 5 + STREAM_NEXT, 0, ENGINE_EVENT_FINISHED)
            ->finish,
        ENGINE_FINISH_LENGTH);
    stream_pair_close(&pair);
}

/* Three choices, drawn differently, with alternatives: all of it comes over and
 * is said like our own; each goes on alone. */
static void choices_and_logprobs_come_with_the_pages(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct stream_pair pair;
    stream_pair_open(&pair, &options);
    for (int half = 0; half < 2; half++) {
        bool is_context = half == 1;
        struct engine_request *request = stream_half(
            is_context ? ENGINE_CONTEXT_ONLY : ENGINE_GENERATION_ONLY, 5, 1,
            22);
        request->choice_count = 3;
        request->logprob_count = 2;
        rig_submit(is_context ? pair.context : pair.generation, request);
    }
    stream_pair_run(&pair, 60);
    for (uint32_t i = 0; i < 3; i++) {
        const struct engine_event *said =
            rig_find(pair.context, 5, i, ENGINE_EVENT_TOKEN);
        bool has_seen = false;
        for (uint32_t e = 0; e < pair.generation->event_count; e++) {
            const struct engine_event *event = &pair.generation->events[e];
            if (event->kind == ENGINE_EVENT_TOKEN && event->choice == i &&
                event->index == 0) {
                has_seen = true;
                assert_int_equal(event->token, said->token);
                assert_true(event->logprob == said->logprob);
                assert_int_equal(event->top_count, 2);
                assert_memory_equal(event->top, said->top,
                                    2 * sizeof(said->top[0]));
            }
        }
        assert_true(has_seen);
        assert_int_equal(
            rig_find(pair.generation, 5 + STREAM_NEXT, i, ENGINE_EVENT_FINISHED)
                ->finish,
            ENGINE_FINISH_LENGTH);
    }
    stream_pair_close(&pair);
}

/* The first token ends the answer, as an end token or because one was all that
 * was asked for: it is said, and nothing is decoded. The sender sends all the
 * same, the receiver's answer is what the client gets. */
static void a_first_token_can_be_the_last(void **state)
{
    (void)state;
    for (int is_end = 0; is_end < 2; is_end++) {
        struct engine_core_options options = chunked();
        struct stream_pair pair;
        int32_t expected[1];
        stream_pair_open(&pair, &options);
        rig_expect(pair.context, 1, 22, 1, expected);
        for (int half = 0; half < 2; half++) {
            bool is_context = half == 1;
            struct engine_request *request = stream_half(
                is_context ? ENGINE_CONTEXT_ONLY : ENGINE_GENERATION_ONLY, 5, 1,
                22);
            request->stop_token_count = is_end ? 1 : 0;
            request->stop_tokens[0] = expected[0];
            request->max_new_tokens = is_end ? 9 : 1;
            rig_submit(is_context ? pair.context : pair.generation, request);
        }
        stream_pair_run(&pair, 60);
        rig_assert_tokens(pair.generation, 5 + STREAM_NEXT, 0, expected, 1,
                          is_end ? ENGINE_FINISH_STOP : ENGINE_FINISH_LENGTH);
        stream_pair_close(&pair);
    }
}

/* What a peer says is input: of these each fails its request, says no token and
 * leaves the worker as it was. */
static void first_tokens_that_cannot_be_fail_the_request(void **state)
{
    (void)state;
    for (int fault = 0; fault < 6; fault++) {
        struct engine_core_options options = rig_options();
        struct rig *rig = rig_create(&options);
        struct transfer_command receive = {0};
        rig_submit(rig, stream_half(ENGINE_GENERATION_ONLY, 5, 1, 20));
        rig_turn(rig);
        assert_true(rig_take_order(rig, &receive));
        struct transfer_aux *aux = mem_new(sizeof(*aux));
        *aux = (struct transfer_aux){.prompt_tokens = fault == 0 ? 19 : 20,
                                     .cached_tokens = fault == 1 ? 21 : 0,
                                     .choice_count = fault == 2 ? 2 : 1};
        aux->firsts[0].token = fault == 3 ? 1000 : 7;
        aux->firsts[0].top_count = fault == 4 ? TRANSFER_TOP_COUNT_MAX + 1 : 1;
        aux->firsts[0].tops[0].token = -1;
        if (fault == 5) {
            mem_free(aux);
            aux = NULL;
        }
        stream_report(rig, &receive,
                      &(struct transfer_report){.word = T | Q, .aux = aux});
        rig_run(rig);
        assert_non_null(rig_find(rig, 5 + STREAM_NEXT, 0, ENGINE_EVENT_FAILED));
        assert_null(rig_find(rig, 5 + STREAM_NEXT, 0, ENGINE_EVENT_TOKEN));
        rig_assert_idle(rig);
        rig_submit(rig, rig_request(6, 2, 8));
        rig_run(rig);
        assert_non_null(rig_find(rig, 6, 0, ENGINE_EVENT_FINISHED));
        rig_destroy(rig);
    }
}

/* A worker that lets nobody wait for an offer: six streams, four sessions. The
 * fifth offers when one ends, and all are served. */
static void offers_wait_for_sessions(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct stream_pair pair;
    stream_pair_open(&pair, &options);
    for (int64_t rid = 1; rid <= 6; rid++) {
        rig_submit(pair.context,
                   stream_half(ENGINE_CONTEXT_ONLY, rid, (int)rid, 24));
    }
    rig_turn(pair.context);
    uint32_t count = 0;
    engine_core_orders(pair.context->core, &count);
    assert_int_equal(count, 4);
    for (int64_t rid = 1; rid <= 6; rid++) {
        rig_submit(pair.generation,
                   stream_half(ENGINE_GENERATION_ONLY, rid, (int)rid, 24));
    }
    stream_pair_run(&pair, 60);
    for (int64_t rid = 1; rid <= 6; rid++) {
        int32_t expected[4];
        rig_expect(pair.context, (int)rid, 24, 4, expected);
        rig_assert_tokens(pair.generation, (uint64_t)rid + STREAM_NEXT, 0,
                          expected, 4, ENGINE_FINISH_LENGTH);
    }
    stream_pair_close(&pair);
}

/* A core that ends with a slice in its outbox and an answer in a session frees
 * what they own (leaks show under the sanitizer). */
static void what_is_under_way_ends_with_the_core(void **state)
{
    (void)state;
    struct engine_core_options options = chunked();
    struct rig *rig = rig_create(&options);
    struct transfer_command order = {0};
    rig_submit(rig, stream_half(ENGINE_CONTEXT_ONLY, 5, 1, 8));
    await_offer(rig);
    rig_turn(rig);
    rig_submit(rig, stream_half(ENGINE_GENERATION_ONLY, 6, 2, 8));
    rig_turn(rig);
    uint32_t count = 0;
    const struct transfer_command *orders =
        engine_core_orders(rig->core, &count);
    assert_int_equal(count, 2);
    assert_non_null(orders[0].aux);
    order = orders[1];
    stream_report(
        rig, &order,
        &(struct transfer_report){.word = T | Q,
                                  .aux = mem_new(sizeof(struct transfer_aux))});
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_request_gives_the_same_tokens),
        cmocka_unit_test(nothing_is_computed_before_the_receiver_is_known),
        cmocka_unit_test(an_offer_that_nobody_takes_fails),
        cmocka_unit_test(slices_follow_full_blocks),
        cmocka_unit_test(slices_are_those_of_the_table),
        cmocka_unit_test(one_chunk_is_one_slice),
        cmocka_unit_test(a_prefix_hit_is_delivered_with_the_first_slice),
        cmocka_unit_test(a_lease_ends_with_its_slice),
        cmocka_unit_test(a_cancel_between_chunks_ends_the_slices),
        cmocka_unit_test(a_cancel_does_not_overtake_its_offer),
        cmocka_unit_test(a_failed_slice_ends_the_request_at_a_boundary),
        cmocka_unit_test(a_stream_is_never_rewound),
        cmocka_unit_test(a_window_travels_whole_with_the_last_slice),
        cmocka_unit_test(a_model_of_windows_sends_one_slice),
        cmocka_unit_test(a_window_that_is_not_full_streams),
        cmocka_unit_test(a_long_prompt_has_a_bounded_number_of_slices),
        cmocka_unit_test(choices_and_logprobs_come_with_the_pages),
        cmocka_unit_test(a_first_token_can_be_the_last),
        cmocka_unit_test(first_tokens_that_cannot_be_fail_the_request),
        cmocka_unit_test(offers_wait_for_sessions),
        cmocka_unit_test(what_is_under_way_ends_with_the_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
