/* transfer/send_pieces: what one write of a session is made of, when its parts
 * are more pieces or bytes than go to the backend at a time, and what the
 * receiver is told of them. */
#include "fake_control.h"

#include "transfer/regrain.h"
#include "transfer/send_side.h"
#include "transfer/send_slot.h"

enum { T = AGREE_TERMINAL, F = AGREE_FAILED, Q = AGREE_QUIET };
enum { RID = 9, PAGES = 200, LAYERS = 8, HEADS = 64, SMALL = 2, LARGE = 4 };

static const struct kv_layout LAYOUT = {.layer_count = LAYERS,
                                        .kv_head_count = HEADS,
                                        .head_dim = 1,
                                        .tokens_per_block = LARGE,
                                        .element_bytes = 2};

/* Blocks of four tokens here, of two at the peer: 1024 pieces a part. */
struct bench {
    struct around around;
    struct transfer_backend *from, *to;
    struct kv_pool_view pool;
    uint8_t *target;
    size_t target_page;
    struct link link;
    struct send_side *side;
    kv_page_id pages[PAGES];
};

static void open_backends(struct bench *bench)
{
    struct why why = {0};
    void *memory = NULL;
    struct buf blob;
    size_t page = kv_layout_page_bytes(&LAYOUT);
    bench->target_page = page / LARGE * SMALL;
    struct transfer_inproc_hub *hub = bench->around.hub;
    assert_int_equal(transfer_backend_inproc_create(hub, 1, &bench->from), OK);
    assert_int_equal(transfer_backend_inproc_create(hub, 2, &bench->to), OK);
    assert_int_equal(
        transfer_backend_alloc(bench->from, page * PAGES, &why, &memory), OK);
    bench->pool = (struct kv_pool_view){memory, page, PAGES, LAYOUT};
    for (size_t i = 0; i < page * PAGES; i++) {
        bench->pool.base[i] = (uint8_t)(i * 7 + i / 251);
    }
    size_t size = bench->target_page * 2 * PAGES;
    assert_int_equal(transfer_backend_alloc(bench->to, size, &why, &memory),
                     OK);
    bench->target = memory;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(
        transfer_backend_export(bench->to, memory, size, &why, &blob), OK);
    assert_int_equal(transfer_backend_peer_open(bench->from, buf_span(&blob),
                                                size, &why,
                                                &bench->link.backend_peer),
                     OK);
    buf_finish(&blob);
}

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    around_open(&bench->around);
    bench->link =
        (struct link){.is_used = true,
                      .state = PEER_REGISTERED,
                      .incarnation = 0xb,
                      .group_count = 1,
                      .tokens_per_block = SMALL,
                      .groups = {{.page_count = 2 * PAGES,
                                  .page_bytes = kv_layout_page_bytes(&LAYOUT) /
                                                LARGE * SMALL}}};
    open_backends(bench);
    struct transfer_options *options = &bench->around.options;
    options->backend = bench->from;
    options->memory = bench->pool.base;
    options->memory_size = bench->pool.page_bytes * PAGES;
    options->groups[0].pool = bench->pool;
    bench->side = send_side_create(&(struct send_side_options){
        .transfer = options, .stats = &bench->around.stats, .wake = no_wake});
    for (int i = 0; i < PAGES; i++) {
        bench->pages[i] = PAGES - 1 - i;
    }
}

/* The peer's blocks are as large as ours: a piece each, of 8 KiB. */
static void make_blocks_equal(struct bench *bench)
{
    bench->target_page *= LARGE / SMALL;
    bench->link.tokens_per_block = LARGE;
    bench->link.groups[0].page_bytes = bench->pool.page_bytes;
    bench->link.groups[0].page_count = PAGES;
}

static void close_bench(struct bench *bench)
{
    transfer_backend_peer_close(bench->link.backend_peer);
    send_side_destroy(bench->side);
    transfer_backend_free(bench->from, bench->pool.base);
    transfer_backend_free(bench->to, bench->target);
    transfer_backend_destroy(bench->from);
    transfer_backend_destroy(bench->to);
    around_close(&bench->around);
}

static void send(struct bench *bench, uint32_t tokens)
{
    struct transfer_command command = {
        .kind = TRANSFER_SEND,
        .request = 70,
        .rid = RID,
        .pages = {bench->pages},
        .group_count = 1,
        .block_count = (tokens + LARGE - 1) / LARGE,
        .prompt_tokens = tokens,
        .end_block = (tokens + LARGE - 1) / LARGE,
        .is_last = true};
    send_side_command(bench->side, &command, 2);
}

/* Page i of the peer for its block i. */
static void request(struct bench *bench, uint32_t tokens)
{
    uint8_t list[8 * 2 * PAGES] = {0};
    uint32_t each = bench->link.tokens_per_block;
    uint32_t count = (tokens + each - 1) / each;
    for (uint32_t i = 0; i < count; i++) {
        list[8 * i] = (uint8_t)i;
    }
    struct wire_recv_request request = {.rid = RID,
                                        .prompt_tokens = tokens,
                                        .block_count = count,
                                        .group_count = 1,
                                        .reply_endpoint = "tcp://127.0.0.1:8",
                                        .groups = {span_of(list, 8 * count)}};
    struct wire_header header = {
        .type = WIRE_REQUEST_DATA, .rid = RID, .attempt = 1};
    struct buf body;
    buf_init(&body, WIRE_BODY_SIZE_MAX);
    assert_int_equal(wire_recv_request_encode(&request, NULL, &body), OK);
    send_side_frame(bench->side, &bench->link, &header, buf_span(&body), 3);
    buf_finish(&body);
}

/* Returns how many writes came back, at most so many. */
static uint32_t run_some_writes(struct bench *bench, uint32_t most)
{
    uint32_t count = 0;
    bool is_busy = true;
    while (is_busy && count < most) {
        struct transfer_write *write =
            transfer_backend_poll(bench->from, &is_busy);
        if (write != NULL) {
            assert_true(write->piece_count <= 16384);
            send_side_written(bench->side, write, 4);
            count++;
            is_busy = true;
        }
    }
    return count;
}

static uint32_t run_writes(struct bench *bench)
{
    return run_some_writes(bench, UINT32_MAX);
}

/* 79 parts of 1024 pieces, the last of one token: five batches, and all the same
 * one result, whose digests are those of the pages that arrived. [transfer I10]
 */
static void many_pieces_go_in_batches(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    const uint32_t tokens = 2 * 79 - 1;
    send(&bench, tokens);
    request(&bench, tokens);
    assert_int_equal(run_writes(&bench), 5);
    assert_int_equal(fake_control.said_count, 1);
    struct wire_result result = last_result();
    assert_int_equal(result.prefix.code, WIRE_RESULT_SUCCESS);
    assert_true(result.prefix.is_last);
    assert_int_equal(result.prefix.bytes, tokens * 2 * LAYERS * HEADS * 2);
    assert_int_equal(result.groups[0].digest_count, 79);
    assert_int_equal(result.groups[0].blocks_so_far, 79);
    struct kv_layout small = LAYOUT;
    small.tokens_per_block = SMALL;
    for (uint32_t i = 0; i < 79; i++) {
        struct wire_digest digest = wire_result_digest(&result, 0, i);
        assert_int_equal(digest.ordinal, i);
        assert_int_equal(
            digest.crc32c,
            transfer_part_digest(&small, bench.target + bench.target_page * i,
                                 0, i == 78 ? 1 : 2));
        assert_int_equal(digest.crc32c,
                         transfer_part_digest(
                             &LAYOUT,
                             bench.pool.base + bench.pool.page_bytes *
                                                   (size_t)bench.pages[i / 2],
                             i % 2 * 2, i == 78 ? 1 : 2));
    }
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | Q);
    assert_int_equal(report.moved_blocks, 79);
    assert_int_equal(report.moved_bytes, result.prefix.bytes);
    close_bench(&bench);
}

/* Cancelled while the first batch is under way: no other follows it, and the
 * receiver is told when it is back. [transfer T53 I1] */
static void a_cancel_ends_with_its_batch(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    send(&bench, 2 * 79);
    request(&bench, 2 * 79);
    send_side_cancel(bench.side, 70, AGREE_REASON_CALLER_LEFT, 4);
    assert_int_equal(fake_control.said_count, 0);
    assert_int_equal(run_writes(&bench), 1);
    struct wire_result result = last_result();
    assert_int_equal(result.prefix.code, WIRE_RESULT_FAILED);
    assert_int_equal(result.flags, WIRE_RESULT_DRAINED);
    assert_int_equal(around_report(&bench.around).word,
                     T | F | AGREE_CANCEL | Q);
    close_bench(&bench);
}

/* 200 blocks of 8 KiB: 1 MiB at first, then the rest; one result, with the digests
 * of both steps. [transfer I10] */
static void many_bytes_go_in_steps(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    make_blocks_equal(&bench);
    send(&bench, LARGE * PAGES);
    request(&bench, LARGE * PAGES);
    assert_int_equal(run_writes(&bench), 2);
    assert_int_equal(fake_control.said_count, 1);
    struct wire_result result = last_result();
    assert_int_equal(result.prefix.code, WIRE_RESULT_SUCCESS);
    assert_int_equal(result.groups[0].digest_count, PAGES);
    assert_int_equal(result.prefix.bytes, bench.pool.page_bytes * PAGES);
    for (uint32_t i = 0; i < PAGES; i++) {
        struct wire_digest digest = wire_result_digest(&result, 0, i);
        struct span page =
            span_of(bench.target + bench.target_page * i, bench.target_page);
        assert_int_equal(digest.ordinal, i);
        assert_int_equal(digest.crc32c, digest_crc32c(0, page));
    }
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | Q);
    assert_int_equal(report.moved_bytes, result.prefix.bytes);
    close_bench(&bench);
}

/* Cancelled while the first step is under way: the second, which would be as long
 * as it takes, is not begun, and what the first wrote is all that moved. Whoever
 * waits for the pages waits for a step. [transfer T25 T53 I1] */
static void a_cancel_ends_with_its_step(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    make_blocks_equal(&bench);
    memset(bench.target, 0xee, bench.target_page * PAGES);
    send(&bench, LARGE * PAGES);
    request(&bench, LARGE * PAGES);
    send_side_cancel(bench.side, 70, AGREE_REASON_CALLER_LEFT, 4);
    assert_int_equal(run_writes(&bench), 1);
    assert_int_equal(bench.target[bench.target_page * (PAGES - 1)], 0xee);
    assert_int_equal(last_result().prefix.code, WIRE_RESULT_FAILED);
    assert_int_equal(last_result().flags, WIRE_RESULT_DRAINED);
    assert_int_equal(around_report(&bench.around).word,
                     T | F | AGREE_CANCEL | Q);
    close_bench(&bench);
}

/* The same between two steps: the second is on its way, then the end. */
static void a_cancel_in_the_second_step_is_heard(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    make_blocks_equal(&bench);
    send(&bench, LARGE * PAGES);
    request(&bench, LARGE * PAGES);
    assert_int_equal(run_some_writes(&bench, 1), 1);
    send_side_cancel(bench.side, 70, AGREE_REASON_CALLER_LEFT, 4);
    assert_int_equal(fake_control.said_count, 0);
    assert_int_equal(run_writes(&bench), 1);
    assert_int_equal(last_result().prefix.code, WIRE_RESULT_FAILED);
    assert_int_equal(around_report(&bench.around).word,
                     T | F | AGREE_CANCEL | Q);
    close_bench(&bench);
}

/* The link closes between two batches: the next is not begun on it. */
static void a_closing_link_gets_no_more_batches(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    send(&bench, 2 * 79);
    request(&bench, 2 * 79);
    bench.link.is_closing = true;
    assert_int_equal(run_writes(&bench), 1);
    assert_int_equal(around_report(&bench.around).word, T | F | Q);
    close_bench(&bench);
}

/* So many tokens that the parts of the smaller blocks are more than a message
 * names, in few blocks of the receiver: the plan fails while the request is read,
 * and the receiver is told at once. [transfer T62] */
static void too_many_parts_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    bench.link.tokens_per_block = 1 << 20;
    struct wire_recv_request request = {
        .rid = RID,
        .prompt_tokens = (WIRE_BLOCK_COUNT_MAX + 1) * LARGE,
        .block_count = 1,
        .group_count = 1,
        .style = WIRE_GENERATION_FIRST,
        .reply_endpoint = "tcp://127.0.0.1:8",
        .groups = {span_of("\0\0\0\0\0\0\0\0", 8)}};
    struct wire_header header = {
        .type = WIRE_REQUEST_DATA, .rid = RID, .attempt = 1};
    struct buf body;
    buf_init(&body, WIRE_BODY_SIZE_MAX);
    assert_int_equal(wire_recv_request_encode(&request, NULL, &body), OK);
    send_side_frame(bench.side, &bench.link, &header, buf_span(&body), 3);
    assert_int_equal(last_result().prefix.code, WIRE_RESULT_FAILED);
    buf_finish(&body);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_pieces_go_in_batches),
        cmocka_unit_test(a_cancel_ends_with_its_batch),
        cmocka_unit_test(many_bytes_go_in_steps),
        cmocka_unit_test(a_cancel_ends_with_its_step),
        cmocka_unit_test(a_cancel_in_the_second_step_is_heard),
        cmocka_unit_test(a_closing_link_gets_no_more_batches),
        cmocka_unit_test(too_many_parts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
