/* transfer/send_side and send_link: what a sender answers to requests and
 * cancels, good and bad, beside a control that only notes it. */
#include "fake_control.h"

#include "base/log.h"
#include "base/mem.h"
#include "transfer/send_side.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET
};
enum { RID = 9, REQUEST = 70 };
static const kv_page_id PAGES[3] = {4, 5, 6};

struct bench {
    struct around around;
    struct send_side *side;
    struct link link;
};

static void open_bench(struct bench *bench)
{
    struct why why = {0};
    memset(bench, 0, sizeof(*bench));
    around_open(&bench->around);
    struct send_side_options options = {.transfer = &bench->around.options,
                                        .stats = &bench->around.stats,
                                        .wake = no_wake};
    bench->side = send_side_create(&options);
    bench->link = (struct link){.is_used = true,
                                .state = PEER_REGISTERED,
                                .incarnation = 0xb,
                                .group_count = 1,
                                .tokens_per_block = FAKE_TOKENS,
                                .groups = {{.page_count = FAKE_PAGES}}};
    bench->link.groups[0].page_bytes = bench->around.pool.page_bytes;
    assert_int_equal(
        transfer_backend_peer_open(bench->around.backend,
                                   buf_span(&bench->around.peer_blob),
                                   bench->around.pool.page_bytes * FAKE_PAGES,
                                   &why, &bench->link.backend_peer),
        OK);
}

static void close_bench(struct bench *bench)
{
    transfer_backend_peer_close(bench->link.backend_peer);
    send_side_destroy(bench->side);
    around_close(&bench->around);
}

static void frame(struct bench *bench, uint16_t type, int64_t rid,
                  uint32_t attempt, struct span body, uint64_t now)
{
    struct wire_header header = {.type = type, .rid = rid, .attempt = attempt};
    send_side_frame(bench->side, &bench->link, &header, body, now);
}

/* Three blocks, to be written to the peer's pages `first`, `first` + 1, .. */
static void add_request(struct buf *body, int64_t rid, uint32_t style,
                        int64_t first)
{
    uint8_t list[3 * 8] = {0};
    for (int i = 0; i < 3; i++) {
        list[8 * i] = (uint8_t)(first + i);
    }
    struct wire_recv_request request = {
        .rid = rid,
        .prompt_tokens = 3 * FAKE_TOKENS,
        .block_count = 3,
        .style = style,
        .capabilities = WIRE_ACCEPTS_SLICES,
        .group_count = 1,
        .reply_endpoint = "tcp://127.0.0.1:8",
        .groups = {span_of(list, sizeof(list))}};
    struct why why = {0};
    assert_int_equal(wire_recv_request_encode(&request, &why, body), OK);
}

static void encode_for(struct buf *body, int64_t rid, uint32_t style,
                       int64_t first)
{
    buf_init(body, WIRE_BODY_SIZE_MAX);
    add_request(body, rid, style, first);
}

static void encode(struct buf *body, uint32_t style, int64_t first)
{
    encode_for(body, RID, style, first);
}

static void request(struct bench *bench, uint32_t style, uint32_t attempt,
                    int64_t first, uint64_t now)
{
    struct buf body;
    encode(&body, style, first);
    frame(bench, WIRE_REQUEST_DATA, RID, attempt, buf_span(&body), now);
    buf_finish(&body);
}

static void cancel(struct bench *bench, uint32_t attempt)
{
    struct wire_cancel cancel = {.reason = AGREE_REASON_CALLER_LEFT};
    struct buf body;
    buf_init(&body, 64);
    wire_cancel_encode(&cancel, &body);
    frame(bench, WIRE_CANCEL_SESSION, RID, attempt, buf_span(&body), 3);
    buf_finish(&body);
}

static struct transfer_aux *new_aux(void)
{
    struct transfer_aux *aux = mem_new(sizeof(*aux));
    aux->choice_count = 1;
    aux->firsts[0].token = 77;
    return aux;
}

static void post(struct bench *bench, enum transfer_command_kind kind,
                 uint64_t request, uint32_t index, uint32_t first, uint32_t end)
{
    struct transfer_command command = {.kind = kind,
                                       .request = request,
                                       .rid = RID,
                                       .pages = {PAGES},
                                       .group_count = 1,
                                       .block_count = 3,
                                       .prompt_tokens = 3 * FAKE_TOKENS,
                                       .slice_index = index,
                                       .first_block = first,
                                       .end_block = end,
                                       .is_last = end == 3};
    if (command.is_last) {
        command.aux = new_aux();
    }
    send_side_command(bench->side, &command, 2);
}

static void offer(struct bench *bench)
{
    post(bench, TRANSFER_OFFER, REQUEST, 0, 0, 0);
}

static void slice(struct bench *bench, uint32_t index, uint32_t first,
                  uint32_t end)
{
    post(bench, TRANSFER_SEND, REQUEST, index, first, end);
}

static void send_as(struct bench *bench, uint64_t request)
{
    post(bench, TRANSFER_SEND, request, 0, 0, 3);
}

static void send(struct bench *bench)
{
    send_as(bench, REQUEST);
}

static void finish_writes(struct bench *bench)
{
    bool is_busy = true;
    while (is_busy) {
        struct transfer_write *write =
            transfer_backend_poll(bench->around.backend, &is_busy);
        if (write != NULL) {
            send_side_written(bench->side, write, 4);
        }
    }
}

static uint32_t stored(struct bench *bench)
{
    send_side_tick(bench->side, 3);
    return bench->around.stats.adverts;
}

static void expect_refused(uint32_t attempt)
{
    const struct said *said = &fake_control.said[fake_control.said_count - 1];
    struct wire_result result = last_result();
    assert_int_equal(said->rid, RID);
    assert_int_equal(said->attempt, attempt);
    assert_int_equal(result.prefix.code, WIRE_RESULT_FAILED);
    assert_true(result.prefix.is_last);
    assert_int_equal(result.flags, WIRE_RESULT_DRAINED);
}

/* No session, and the receiver was told of one: FAILED, drained, of its own
 * attempt; nothing is kept. [transfer T28] */
static void context_first_without_a_session_is_refused(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    request(&bench, WIRE_CONTEXT_FIRST, 5, 0, 1);
    assert_int_equal(fake_control.said_count, 1);
    expect_refused(5);
    assert_int_equal(last_result().reason, AGREE_REASON_EXPIRED);
    assert_int_equal(stored(&bench), 0);
    close_bench(&bench);
}

/* Its time is counted to the nanosecond; then it is gone and nothing was said;
 * the session that comes afterwards has nobody. [transfer T28] */
static void generation_first_expires_in_silence(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    request(&bench, WIRE_GENERATION_FIRST, 5, 0, 1);
    assert_int_equal(stored(&bench), 1);
    send_side_tick(bench.side, 501);
    assert_int_equal(bench.around.stats.adverts, 1);
    send_side_tick(bench.side, 502);
    assert_int_equal(bench.around.stats.adverts, 0);
    assert_int_equal(fake_control.said_count, 0);
    send(&bench);
    finish_writes(&bench);
    assert_int_equal(around_report(&bench.around).word, 0);
    send_side_cancel(bench.side, REQUEST, AGREE_REASON_CALLER_LEFT, 600);
    close_bench(&bench);
}

/* A million ask for what never comes to us, as on a worker that is told of all
 * requests and serves few: as many wait as there are places, the others are told
 * at once, time makes room, and memory does not grow. [transfer T108 I21] */
static void who_asks_in_vain_costs_no_memory(void **state)
{
    (void)state;
    enum { COUNT = 1000000, TICK = 64 };
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    log_setup(&(struct log_options){.level = LOG_ERROR});
    uint32_t places = 2 * bench.around.options.send_count_max;
    uint64_t allocations = 0;
    encode_for(&body, 1, WIRE_GENERATION_FIRST, 0);
    for (uint32_t i = 1; i <= COUNT; i++) {
        buf_reset(&body);
        add_request(&body, i, WIRE_GENERATION_FIRST, 0);
        fake_control.said_count = 0;
        frame(&bench, WIRE_REQUEST_DATA, i, 1, buf_span(&body), i);
        if (i % TICK == 0) {
            send_side_tick(bench.side, i);
            assert_true(bench.around.stats.adverts <= places);
        }
        allocations = i == COUNT / 2 ? mem_allocation_count() : allocations;
    }
    assert_int_equal(mem_allocation_count(), allocations);
    send_side_tick(bench.side, 2 * COUNT);
    assert_int_equal(bench.around.stats.adverts, 0);
    buf_finish(&body);
    close_bench(&bench);
}

/* The session comes when all of that time but nothing more has passed: it finds
 * who waits. [transfer T28] */
static void session_in_the_last_moment_finds_who_waits(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    request(&bench, WIRE_GENERATION_FIRST, 5, 0, 1);
    send_side_tick(bench.side, 501);
    struct transfer_command late = {.kind = TRANSFER_OFFER,
                                    .request = REQUEST,
                                    .rid = RID,
                                    .prompt_tokens = 3 * FAKE_TOKENS};
    send_side_command(bench.side, &late, 501);
    assert_true(around_report(&bench.around).is_awaited);
    send_side_tick(bench.side, 5000);
    assert_int_equal(fake_control.said_count, 0);
    slice(&bench, 0, 0, 3);
    finish_writes(&bench);
    assert_int_equal(around_report(&bench.around).word, T | Q);
    close_bench(&bench);
}

/* A request cut short anywhere is answered once and kept nowhere. */
static void truncated_requests_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    encode(&body, WIRE_GENERATION_FIRST, 0);
    for (size_t size = 0; size < body.size; size++) {
        fake_control.said_count = 0;
        frame(&bench, WIRE_REQUEST_DATA, RID, 6,
              span_slice(buf_span(&body), 0, size), 1);
        assert_int_equal(fake_control.said_count, 1);
        expect_refused(6);
        assert_int_equal(stored(&bench), 0);
    }
    assert_int_equal(fake_control.drop_count, 0);
    buf_finish(&body);
    close_bench(&bench);
}

/* The header names another request than the body, or none: the link ends. A
 * page outside the receiver's pool: refused. */
static void wrong_rids_and_pages_have_no_effect(void **state)
{
    (void)state;
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    encode(&body, WIRE_GENERATION_FIRST, 0);
    frame(&bench, WIRE_REQUEST_DATA, RID + 1, 1, buf_span(&body), 1);
    assert_int_equal(fake_control.drop_count, 1);
    frame(&bench, WIRE_REQUEST_DATA, -1, 1, buf_span(&body), 1);
    frame(&bench, WIRE_CANCEL_SESSION, -1, 1, buf_span(&body), 1);
    assert_int_equal(fake_control.drop_count, 3);
    assert_int_equal(fake_control.said_count, 0);
    request(&bench, WIRE_GENERATION_FIRST, 2, FAKE_PAGES - 2, 1);
    expect_refused(2);
    assert_int_equal(stored(&bench), 0);
    frame(&bench, WIRE_KV_RESULT, RID, 1, buf_span(&body), 1);
    assert_int_equal(bench.around.stats.frames_dropped, 1);
    buf_finish(&body);
    close_bench(&bench);
}

/* What is said of the pages is what lies in them, on both sides. */
static void result_carries_the_digests_of_the_pages(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    size_t page = bench.around.pool.page_bytes;
    send(&bench);
    request(&bench, WIRE_CONTEXT_FIRST, 1, 7, 3);
    finish_writes(&bench);
    struct wire_result result = last_result();
    assert_int_equal(result.prefix.code, WIRE_RESULT_SUCCESS);
    assert_int_equal(result.group_count, 1);
    assert_int_equal(result.groups[0].digest_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const uint8_t *source =
            bench.around.pool.base + page * (size_t)PAGES[i];
        struct wire_digest digest = wire_result_digest(&result, 0, i);
        assert_int_equal(digest.ordinal, i);
        assert_int_equal(digest.crc32c,
                         digest_crc32c(0, span_of(source, page)));
        assert_memory_equal(source, bench.around.peer_pool + page * (7 + i),
                            page);
    }
    assert_int_equal(around_report(&bench.around).word, T | Q);
    close_bench(&bench);
}

/* The later attempt of one receiver counts: a cancel of the earlier one is
 * answered and leaves it alone. [transfer T66] */
static void cancel_of_another_attempt_cancels_nothing(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    request(&bench, WIRE_GENERATION_FIRST, 1, 0, 1);
    request(&bench, WIRE_GENERATION_FIRST, 2, 3, 1);
    send(&bench);
    cancel(&bench, 1);
    expect_refused(1);
    finish_writes(&bench);
    assert_int_equal(last_result().prefix.code, WIRE_RESULT_SUCCESS);
    assert_int_equal(fake_control.said[fake_control.said_count - 1].attempt, 2);
    assert_int_equal(around_report(&bench.around).word, T | Q);
    close_bench(&bench);
}

/* Cancelled before its session: the session starts dead, once. */
static void session_of_a_cancelled_rid_starts_cancelled(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    request(&bench, WIRE_GENERATION_FIRST, 1, 0, 1);
    cancel(&bench, 1);
    expect_refused(1);
    assert_int_equal(stored(&bench), 0);
    send(&bench);
    assert_int_equal(around_report(&bench.around).word, T | F | C | Q);
    send_as(&bench, REQUEST + 1);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    close_bench(&bench);
}

/* The receiver's connection ends during the write: told to the engine at once,
 * quiet only when the backend gave the write back; nothing more is said. */
static void lost_receiver_is_quiet_after_the_write(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    send(&bench);
    request(&bench, WIRE_CONTEXT_FIRST, 1, 0, 3);
    send_side_lost(bench.side, &bench.link, 3);
    assert_int_equal(around_report(&bench.around).word, T | F);
    finish_writes(&bench);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    assert_int_equal(fake_control.said_count, 0);
    close_bench(&bench);
}

/* Offered before anybody asked, or after: the engine hears that it is awaited,
 * with no slice there yet. [transfer T41] */
static void offer_and_request_find_each_other(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        struct bench bench;
        open_bench(&bench);
        if (is_late) {
            offer(&bench);
            assert_false(around_report(&bench.around).is_awaited);
        }
        request(&bench, WIRE_GENERATION_FIRST, 1, 7, 1);
        if (!is_late) {
            assert_int_equal(stored(&bench), 1);
            offer(&bench);
        }
        struct transfer_report report = around_report(&bench.around);
        assert_true(report.is_awaited);
        assert_int_equal(report.word, 0);
        assert_int_equal(report.request, REQUEST);
        assert_int_equal(stored(&bench), 0);
        assert_int_equal(fake_control.said_count, 0);
        slice(&bench, 0, 0, 3);
        finish_writes(&bench);
        assert_int_equal(around_report(&bench.around).word, T | Q);
        assert_int_equal(fake_control.said[0].type, WIRE_AUX_RESULT);
        assert_int_equal(fake_control.said[1].type, WIRE_KV_RESULT);
        assert_int_equal(fake_control.said_count, 2);
        close_bench(&bench);
    }
}

/* Each slice after its write: where the receiver said, counted, and told to the
 * engine, which gets its lease back; is_awaited stays. [transfer I4] */
static void slices_are_written_and_told_one_by_one(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    size_t page = bench.around.pool.page_bytes;
    request(&bench, WIRE_GENERATION_FIRST, 1, 7, 1);
    offer(&bench);
    for (uint32_t i = 0; i < 3; i++) {
        slice(&bench, i, i, i + 1);
        finish_writes(&bench);
        struct wire_result result = last_result();
        assert_int_equal(result.slice_index, i);
        assert_int_equal(result.prefix.is_last, i == 2);
        assert_int_equal(result.slices_total, i == 2 ? 3 : 0);
        assert_int_equal(result.groups[0].digest_count, 1);
        assert_int_equal(result.groups[0].blocks_so_far, i + 1);
        struct transfer_report report = around_report(&bench.around);
        assert_int_equal(report.slice_index, i + 1);
        assert_true(report.is_awaited);
        assert_memory_equal(bench.around.pool.base + page * (size_t)PAGES[i],
                            bench.around.peer_pool + page * (7 + i), page);
    }
    assert_int_equal(bench.around.stats.sent_slices, 3);
    close_bench(&bench);
}

/* Slices that the engine posted before it heard that the session had ended get
 * no second report with Q, nor do they open a session; their tokens are freed.
 * [transfer I14] */
static void slices_after_the_end_are_not_answered(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    offer(&bench);
    send_side_cancel(bench.side, REQUEST, AGREE_REASON_CALLER_LEFT, 3);
    assert_int_equal(around_report(&bench.around).word, T | F | C | Q);
    slice(&bench, 0, 0, 1);
    slice(&bench, 1, 1, 3);
    assert_int_equal(around_report(&bench.around).word, 0);
    assert_int_equal(send_side_count(bench.side), 0);
    request(&bench, WIRE_GENERATION_FIRST, 4, 0, 5);
    expect_refused(4);
    assert_int_equal(fake_control.said_count, 1);
    assert_int_equal(stored(&bench), 0);
    close_bench(&bench);
}

/* Blocks that were sent are not sent again: the session fails, the receiver is
 * told. [transfer I4] */
static void rewound_request_fails_its_session(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    offer(&bench);
    request(&bench, WIRE_GENERATION_FIRST, 1, 7, 1);
    slice(&bench, 0, 0, 2);
    finish_writes(&bench);
    slice(&bench, 1, 1, 2);
    expect_refused(1);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | Q);
    assert_int_equal(report.reason, AGREE_REASON_INTERNAL);
    close_bench(&bench);
}

/* An offer that does not know the prompt takes whoever asks; the first slice
 * shows that it is another prompt. */
static void misfit_shows_with_the_first_slice(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    struct transfer_command unknown = {
        .kind = TRANSFER_OFFER, .request = REQUEST, .rid = RID};
    send_side_command(bench.side, &unknown, 1);
    request(&bench, WIRE_GENERATION_FIRST, 1, 7, 1);
    assert_true(around_report(&bench.around).is_awaited);
    static const kv_page_id one[1] = {1};
    struct transfer_command first = {.kind = TRANSFER_SEND,
                                     .request = REQUEST,
                                     .rid = RID,
                                     .pages = {one},
                                     .group_count = 1,
                                     .block_count = 1,
                                     .prompt_tokens = FAKE_TOKENS,
                                     .end_block = 1,
                                     .is_last = true};
    send_side_command(bench.side, &first, 1);
    expect_refused(1);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    close_bench(&bench);
}

/* An offer that is taken back before anybody asked leaves no trace: who asks
 * then is remembered, and the next offer of the rid is awaited at once. */
static void withdrawn_offer_comes_again(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    offer(&bench);
    send_side_withdraw(bench.side, REQUEST + 9, 2); /* of nobody: no effect */
    assert_int_equal(send_side_count(bench.side), 1);
    send_side_withdraw(bench.side, REQUEST, 2);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | Q);
    assert_true(report.is_withdrawn);
    assert_false(report.is_awaited);
    assert_int_equal(send_side_count(bench.side), 0);
    send_side_withdraw(bench.side, REQUEST, 2);
    request(&bench, WIRE_GENERATION_FIRST, 1, 7, 1);
    assert_int_equal(stored(&bench), 1);
    post(&bench, TRANSFER_OFFER, REQUEST + 1, 0, 0, 0);
    report = around_report(&bench.around);
    assert_true(report.is_awaited);
    assert_int_equal(report.word, 0);
    send_side_withdraw(bench.side, REQUEST + 1, 2); /* too late: no effect */
    post(&bench, TRANSFER_SEND, REQUEST + 1, 0, 0, 3);
    finish_writes(&bench);
    assert_int_equal(around_report(&bench.around).word, T | Q);
    close_bench(&bench);
}

/* Two receivers wait, one of them gives up before the session comes: the other
 * is told when it does, and nothing of either is left. [transfer T66] */
static void precancelled_session_answers_who_waits(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    struct link other = bench.link;
    other.incarnation = 0xc;
    struct buf body;
    encode(&body, WIRE_GENERATION_FIRST, 3);
    struct wire_header header = {
        .type = WIRE_REQUEST_DATA, .rid = RID, .attempt = 8};
    send_side_frame(bench.side, &other, &header, buf_span(&body), 1);
    request(&bench, WIRE_GENERATION_FIRST, 1, 0, 1);
    cancel(&bench, 1);
    assert_int_equal(stored(&bench), 1);
    uint32_t before = fake_control.said_count;
    offer(&bench);
    assert_int_equal(fake_control.said_count, before + 1);
    assert_ptr_equal(fake_control.said[before].link, &other);
    expect_refused(8);
    assert_int_equal(stored(&bench), 0);
    assert_int_equal(around_report(&bench.around).word, T | F | C | Q);
    buf_finish(&body);
    close_bench(&bench);
}

/* The cancel came by a new connection and overtook the request, which the old
 * one still brings: the answer said that nobody will write, so the session must
 * not serve it any more. [transfer I1] */
static void cancel_that_overtakes_its_request_ends_the_session(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    offer(&bench);
    cancel(&bench, 1);
    expect_refused(1);
    assert_int_equal(around_report(&bench.around).word, T | F | C | Q);
    request(&bench, WIRE_GENERATION_FIRST, 1, 0, 3);
    expect_refused(1);
    slice(&bench, 0, 0, 3);
    finish_writes(&bench);
    assert_int_equal(fake_control.said_count, 2);
    assert_int_equal(stored(&bench), 0);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_first_without_a_session_is_refused),
        cmocka_unit_test(generation_first_expires_in_silence),
        cmocka_unit_test(who_asks_in_vain_costs_no_memory),
        cmocka_unit_test(session_in_the_last_moment_finds_who_waits),
        cmocka_unit_test(truncated_requests_are_refused),
        cmocka_unit_test(wrong_rids_and_pages_have_no_effect),
        cmocka_unit_test(result_carries_the_digests_of_the_pages),
        cmocka_unit_test(cancel_of_another_attempt_cancels_nothing),
        cmocka_unit_test(session_of_a_cancelled_rid_starts_cancelled),
        cmocka_unit_test(offer_and_request_find_each_other),
        cmocka_unit_test(slices_are_written_and_told_one_by_one),
        cmocka_unit_test(slices_after_the_end_are_not_answered),
        cmocka_unit_test(rewound_request_fails_its_session),
        cmocka_unit_test(misfit_shows_with_the_first_slice),
        cmocka_unit_test(cancel_that_overtakes_its_request_ends_the_session),
        cmocka_unit_test(withdrawn_offer_comes_again),
        cmocka_unit_test(precancelled_session_answers_who_waits),
        cmocka_unit_test(lost_receiver_is_quiet_after_the_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
