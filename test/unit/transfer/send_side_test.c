/* transfer/send_side and send_link: what a sender answers to requests and
 * cancels, good and bad, beside a control that only notes it. */
#include "fake_control.h"

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
                                .page_count = FAKE_PAGES};
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
static void encode(struct buf *body, uint32_t style, int64_t first)
{
    uint8_t list[3 * 8] = {0};
    for (int i = 0; i < 3; i++) {
        list[8 * i] = (uint8_t)(first + i);
    }
    struct wire_recv_request request = {
        .rid = RID,
        .prompt_tokens = 3 * FAKE_TOKENS,
        .block_count = 3,
        .style = style,
        .capabilities = WIRE_ACCEPTS_SLICES,
        .group_count = 1,
        .reply_endpoint = "tcp://127.0.0.1:8",
        .groups = {span_of(list, sizeof(list))}};
    struct why why = {0};
    buf_init(body, WIRE_BODY_SIZE_MAX);
    assert_int_equal(wire_recv_request_encode(&request, &why, body), OK);
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
    struct wire_cancel cancel = {.reason = AGREE_REASON_USER_CANCEL};
    struct buf body;
    buf_init(&body, 64);
    wire_cancel_encode(&cancel, &body);
    frame(bench, WIRE_CANCEL_SESSION, RID, attempt, buf_span(&body), 3);
    buf_finish(&body);
}

static void send(struct bench *bench)
{
    struct transfer_command command = {.kind = TRANSFER_SEND,
                                       .request = REQUEST,
                                       .rid = RID,
                                       .pages = PAGES,
                                       .block_count = 3,
                                       .prompt_tokens = 3 * FAKE_TOKENS,
                                       .is_last = true};
    send_side_command(bench->side, &command, 2);
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
    send_side_cancel(bench.side, REQUEST, 600);
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
    assert_int_equal(result.digest_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const uint8_t *source =
            bench.around.pool.base + page * (size_t)PAGES[i];
        struct wire_digest digest = wire_result_digest(&result, i);
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
    send(&bench);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_first_without_a_session_is_refused),
        cmocka_unit_test(generation_first_expires_in_silence),
        cmocka_unit_test(truncated_requests_are_refused),
        cmocka_unit_test(wrong_rids_and_pages_have_no_effect),
        cmocka_unit_test(result_carries_the_digests_of_the_pages),
        cmocka_unit_test(cancel_of_another_attempt_cancels_nothing),
        cmocka_unit_test(session_of_a_cancelled_rid_starts_cancelled),
        cmocka_unit_test(lost_receiver_is_quiet_after_the_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
