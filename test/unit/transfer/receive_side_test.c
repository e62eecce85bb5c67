/* transfer/receive_side, receive_link, receive_verify and mourner: what of a
 * sender's frames has effect, and how long pages stay in doubt, beside a
 * control that only notes what is said. */
#include "fake_control.h"

#include "base/mem.h"
#include "transfer/aux.h"
#include "transfer/process.h"
#include "transfer/receive_side.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET
};
enum { RID = 9, REQUEST = 70, SENDER = 0xb };
static const kv_page_id PAGES[2] = {4, 5};

struct bench {
    struct around around;
    struct receive_side *side;
    struct link link;
};

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    around_open(&bench->around);
    struct receive_side_options options = {.transfer = &bench->around.options,
                                           .stats = &bench->around.stats,
                                           .wake = no_wake};
    bench->side = receive_side_create(&options);
    receive_side_set_control(bench->side, &fake_control);
    bench->link = (struct link){.is_used = true,
                                .is_outgoing = true,
                                .state = PEER_REGISTERED,
                                .incarnation = SENDER,
                                .wanted = SENDER,
                                .endpoint = "tcp://127.0.0.1:9",
                                .tokens_per_block = FAKE_TOKENS,
                                .lane = "memory"};
    fake_control.sender = &bench->link;
}

static void close_bench(struct bench *bench)
{
    receive_side_destroy(bench->side);
    around_close(&bench->around);
}

static struct transfer_command order(void)
{
    return (struct transfer_command){.kind = TRANSFER_RECEIVE,
                                     .request = REQUEST,
                                     .rid = RID,
                                     .pages = {PAGES},
                                     .group_count = 1,
                                     .block_count = 2,
                                     .prompt_tokens = 2 * FAKE_TOKENS,
                                     .sender_incarnation = SENDER,
                                     .sender_endpoint = "tcp://127.0.0.1:9"};
}

static void receive(struct bench *bench)
{
    struct transfer_command command = order();
    receive_side_command(bench->side, &command, 1);
}

/* The attempt that the last advertisement carried. */
static uint32_t attempt_said(void)
{
    return fake_control.said[fake_control.said_count - 1].attempt;
}

static void encode(struct bench *bench, struct buf *body, uint32_t flip)
{
    size_t page = bench->around.pool.page_bytes;
    struct wire_result result = {
        .prefix = {.rid = RID,
                   .is_last = true,
                   .code = WIRE_RESULT_SUCCESS,
                   .bytes = (int64_t)(2 * page)},
        .slices_total = 1,
        .flags = WIRE_RESULT_DRAINED,
        .group_count = 1,
        .bytes_so_far = 2 * page,
        .groups = {{.blocks_so_far = 2, .digest_count = 2}}};
    buf_init(body, 4096);
    wire_result_encode(&result, body);
    for (uint32_t i = 0; i < 2; i++) {
        struct span bytes =
            span_of(bench->around.pool.base + page * (size_t)PAGES[i], page);
        uint32_t crc = digest_crc32c(0, bytes) ^ (i == 1 ? flip : 0);
        wire_result_digest_encode((struct wire_digest){i, crc}, body);
    }
}

static void frame(struct bench *bench, struct link *link, int64_t rid,
                  uint32_t attempt, struct span body)
{
    struct wire_header header = {
        .type = WIRE_KV_RESULT, .rid = rid, .attempt = attempt};
    receive_side_frame(bench->side, link, &header, body, 2);
}

static void verify(struct bench *bench)
{
    while (receive_side_verify(bench->side, 3)) {
    }
}

/* Ends the session that a test left open. */
static void finish(struct bench *bench)
{
    struct buf body;
    encode(bench, &body, 0);
    bench->link.is_closing = false;
    frame(bench, &bench->link, RID, 1, buf_span(&body));
    verify(bench);
    assert_int_equal(around_report(&bench->around).word, T | Q);
    buf_finish(&body);
}

/* Another attempt, another sender, another rid in the header than in the body,
 * a rid that is not awaited, a type of the other direction: counted, and the
 * session goes on to its good end. [transfer T61 I17] */
static void strange_results_have_no_effect(void **state)
{
    (void)state;
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    receive(&bench);
    uint32_t attempt = attempt_said();
    assert_int_equal(attempt, 1);
    struct link other = bench.link;
    other.incarnation = 0xdead;
    encode(&bench, &body, 0);
    frame(&bench, &bench.link, RID, attempt + 1, buf_span(&body));
    frame(&bench, &bench.link, RID, 0, buf_span(&body));
    frame(&bench, &other, RID, attempt, buf_span(&body));
    frame(&bench, &bench.link, RID + 1, attempt, buf_span(&body));
    struct wire_header header = {
        .type = WIRE_REQUEST_DATA, .rid = RID, .attempt = attempt};
    receive_side_frame(bench.side, &bench.link, &header, buf_span(&body), 2);
    assert_int_equal(bench.around.stats.frames_dropped, 5);
    assert_false(receive_side_verify(bench.side, 2));
    assert_int_equal(around_report(&bench.around).word, 0);
    assert_int_equal(fake_control.drop_count, 0);
    finish(&bench);
    buf_finish(&body);
    close_bench(&bench);
}

/* Cut short anywhere, the link ends; the session has seen nothing of it. */
static void truncated_results_end_the_link_only(void **state)
{
    (void)state;
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    receive(&bench);
    encode(&bench, &body, 0);
    for (size_t size = 0; size < body.size; size++) {
        fake_control.drop_count = 0;
        frame(&bench, &bench.link, RID, 1,
              span_slice(buf_span(&body), 0, size));
        assert_int_equal(fake_control.drop_count, 1);
    }
    assert_int_equal(around_report(&bench.around).word, 0);
    finish(&bench);
    buf_finish(&body);
    close_bench(&bench);
}

/* One bit of one digest: integrity, counted, quiet since the sender said so. */
static void wrong_digest_is_an_integrity_failure(void **state)
{
    (void)state;
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    receive(&bench);
    encode(&bench, &body, 1);
    frame(&bench, &bench.link, RID, 1, buf_span(&body));
    assert_int_equal(around_report(&bench.around).word, 0);
    verify(&bench);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | Q);
    assert_int_equal(report.reason, AGREE_REASON_INTEGRITY);
    assert_int_equal(bench.around.stats.integrity_failures, 1);
    buf_finish(&body);
    close_bench(&bench);
}

/* Two commands for one rid: the second is told, the first goes on; and each
 * attempt has a number of its own. */
static void one_rid_is_received_once_at_a_time(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    receive(&bench);
    receive(&bench);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    finish(&bench);
    receive(&bench);
    assert_int_equal(attempt_said(), 2);
    struct buf body;
    encode(&bench, &body, 0);
    frame(&bench, &bench.link, RID, 1, buf_span(&body));
    assert_int_equal(around_report(&bench.around).word, 0);
    frame(&bench, &bench.link, RID, 2, buf_span(&body));
    verify(&bench);
    assert_int_equal(around_report(&bench.around).word, T | Q);
    buf_finish(&body);
    close_bench(&bench);
}

/* Another process serves at that endpoint now: who waits is told and quiet,
 * since no address has left; the link is of no use. */
static void another_incarnation_fails_who_waits(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    bench.link.state = PEER_FETCHING;
    receive(&bench);
    assert_int_equal(fake_control.said_count, 0);
    bench.link.state = PEER_REGISTERED;
    bench.link.incarnation = 0xdead;
    receive_side_registered(bench.side, &bench.link, 2);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | Q);
    assert_int_equal(report.reason, AGREE_REASON_PEER_EPOCH);
    assert_int_equal(fake_control.drop_count, 1);
    assert_int_equal(fake_control.said_count, 0);
    close_bench(&bench);
}

/* A sender whose connection ended may still write: failed at once, not quiet;
 * it is asked again each half second; its process's end is the proof. */
static void lost_sender_is_mourned_until_proof(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    struct transfer_identity us;
    struct io_loop *loop = NULL;
    open_bench(&bench);
    assert_int_equal(io_loop_create(&loop), OK);
    assert_int_equal(transfer_identity_read(&why, &us), OK);
    assert_int_equal(transfer_instance_begin(SENDER), OK);
    bench.link.process = transfer_process_open(loop, &us, &us, SENDER);
    receive(&bench);
    bench.link.is_closing = true;
    receive_side_lost(bench.side, &bench.link, 10);
    assert_null(bench.link.process);
    assert_int_equal(around_report(&bench.around).word, T | F);
    bench.link.state = PEER_FETCHING;
    uint32_t before = fake_control.connect_count;
    receive_side_tick(bench.side, 11);
    receive_side_tick(bench.side, 12);
    assert_int_equal(fake_control.connect_count, before + 1);
    receive_side_tick(bench.side, 11 + 500000000u);
    assert_int_equal(fake_control.connect_count, before + 2);
    assert_int_equal(around_report(&bench.around).word & Q, 0);
    transfer_instance_end(SENDER);
    receive_side_tick(bench.side, 12 + 500000000u);
    assert_true(around_report(&bench.around).word & Q);
    assert_int_equal(receive_side_count(bench.side), 0);
    close_bench(&bench);
    io_loop_destroy(loop);
}

/* The sender's last word: it has stopped. */
static void frame_abort(struct bench *bench)
{
    struct wire_result result = wire_result_abort(
        0, RID, 0, AGREE_REASON_PEER_CANCEL, WIRE_RESULT_DRAINED);
    struct buf body;
    buf_init(&body, 128);
    wire_result_encode(&result, &body);
    frame(bench, &bench->link, RID, 1, buf_span(&body));
    buf_finish(&body);
}

/* It answers again by a new connection: asked to cancel with the old attempt,
 * and its last word ends the doubt. */
static void returning_sender_is_asked_what_became_of_it(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    receive(&bench);
    receive_side_cancel(bench.side, REQUEST, AGREE_REASON_CALLER_LEFT, 2);
    assert_int_equal(around_report(&bench.around).word, T | F | C);
    receive_side_registered(bench.side, &bench.link, 3);
    const struct said *said = &fake_control.said[fake_control.said_count - 1];
    assert_int_equal(said->type, WIRE_CANCEL_SESSION);
    assert_int_equal(said->attempt, 1);
    frame_abort(&bench);
    assert_int_equal(around_report(&bench.around).word, T | F | C | Q);
    close_bench(&bench);
}

/* There were two connections to the sender and one has ended: it is asked by the
 * one that is left, whose registration nobody will hear of again. */
static void the_link_that_is_left_is_asked(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    struct transfer_identity us;
    struct io_loop *loop = NULL;
    open_bench(&bench);
    assert_int_equal(io_loop_create(&loop), OK);
    assert_int_equal(transfer_identity_read(&why, &us), OK);
    assert_int_equal(transfer_instance_begin(SENDER), OK);
    receive(&bench);
    struct link second = bench.link;
    second.is_closing = true;
    second.process = transfer_process_open(loop, &us, &us, SENDER);
    receive_side_lost(bench.side, &second, 10);
    assert_int_equal(around_report(&bench.around).word, T | F);
    uint32_t before = fake_control.said_count;
    receive_side_tick(bench.side, 11);
    assert_int_equal(fake_control.said_count, before + 1);
    const struct said *said = &fake_control.said[before];
    assert_int_equal(said->type, WIRE_CANCEL_SESSION);
    assert_ptr_equal(said->link, &bench.link);
    frame_abort(&bench);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    receive_side_tick(bench.side, 12);
    transfer_instance_end(SENDER);
    close_bench(&bench);
    io_loop_destroy(loop);
}

static void aux_frame(struct bench *bench, uint32_t attempt, int32_t token)
{
    struct transfer_aux aux = {.choice_count = 1};
    aux.firsts[0].token = token;
    struct buf body;
    buf_init(&body, 4096);
    transfer_aux_encode(&aux, &body);
    struct wire_header header = {
        .type = WIRE_AUX_RESULT, .rid = RID, .attempt = attempt};
    receive_side_frame(bench->side, &bench->link, &header, buf_span(&body), 2);
    buf_finish(&body);
}

/* The engine gets the tokens of its own attempt, the first that came, with T;
 * of another attempt, a second time or after a failure they go nowhere.
 * [transfer I25 T48] */
static void first_tokens_reach_the_engine_once(void **state)
{
    (void)state;
    struct bench bench;
    struct buf body;
    open_bench(&bench);
    aux_frame(&bench, 1, 3); /* nobody waits */
    struct transfer_command command = order();
    command.is_generation_first = true;
    receive_side_command(bench.side, &command, 1);
    aux_frame(&bench, 2, 4);
    aux_frame(&bench, 1, 5);
    aux_frame(&bench, 1, 6);
    assert_int_equal(bench.around.stats.frames_dropped, 3);
    encode(&bench, &body, 0);
    frame(&bench, &bench.link, RID, 1, buf_span(&body));
    verify(&bench);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | Q);
    assert_non_null(report.aux);
    assert_int_equal(report.aux->firsts[0].token, 5);
    mem_free(report.aux);
    receive_side_command(bench.side, &command, 1);
    aux_frame(&bench, 2, 8);
    receive_side_cancel(bench.side, REQUEST, AGREE_REASON_CALLER_LEFT, 2);
    buf_finish(&body);
    struct wire_result result = wire_result_abort(
        0, RID, 0, AGREE_REASON_PEER_CANCEL, WIRE_RESULT_DRAINED);
    buf_init(&body, 128);
    wire_result_encode(&result, &body);
    frame(&bench, &bench.link, RID, 2, buf_span(&body));
    report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | C | Q);
    assert_null(report.aux);
    struct wire_header header = {.type = WIRE_AUX_RESULT, .rid = RID};
    receive_side_frame(bench.side, &bench.link, &header, span_of_string("junk"),
                       2);
    assert_int_equal(fake_control.drop_count, 1);
    buf_finish(&body);
    close_bench(&bench);
}

/* Only the endpoint is known: whoever registers there is the sender; one rid is
 * not received from it twice, by whichever name. */
static void unnamed_sender_is_whoever_answers(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    bench.link.state = PEER_FETCHING;
    bench.link.wanted = bench.link.incarnation = 0;
    struct transfer_command command = order();
    command.sender_incarnation = 0;
    receive_side_command(bench.side, &command, 1);
    assert_int_equal(fake_control.said_count, 0);
    receive_side_command(bench.side, &command, 1);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    receive(&bench); /* by name: the same endpoint */
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    bench.link.state = PEER_REGISTERED;
    bench.link.wanted = bench.link.incarnation = SENDER;
    receive_side_registered(bench.side, &bench.link, 2);
    assert_int_equal(fake_control.said_count, 1);
    assert_int_equal(fake_control.said[0].type, WIRE_REQUEST_DATA);
    finish(&bench);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strange_results_have_no_effect),
        cmocka_unit_test(truncated_results_end_the_link_only),
        cmocka_unit_test(wrong_digest_is_an_integrity_failure),
        cmocka_unit_test(one_rid_is_received_once_at_a_time),
        cmocka_unit_test(another_incarnation_fails_who_waits),
        cmocka_unit_test(lost_sender_is_mourned_until_proof),
        cmocka_unit_test(first_tokens_reach_the_engine_once),
        cmocka_unit_test(unnamed_sender_is_whoever_answers),
        cmocka_unit_test(returning_sender_is_asked_what_became_of_it),
        cmocka_unit_test(the_link_that_is_left_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
