/* transfer/receive_parts and receive_verify: in what the blocks of a receive are
 * counted and checked once the sender's blocks are known, beside a control that
 * only notes what is said. */
#include "fake_control.h"

#include "transfer/process.h"
#include "transfer/receive_side.h"
#include "transfer/receive_slot.h"
#include "transfer/regrain.h"

enum { T = AGREE_TERMINAL, F = AGREE_FAILED, Q = AGREE_QUIET };
enum { RID = 9, SENDER = 0xb, BLOCKS = 3, TOKENS = 2 * FAKE_TOKENS + 3 };
static const kv_page_id PAGES[BLOCKS] = {4, KV_PAGE_NONE, 5};

struct bench {
    struct around around;
    struct receive_side *side;
    struct link link;
};

static void open_bench(struct bench *bench, uint32_t sender_tokens,
                       uint32_t window)
{
    memset(bench, 0, sizeof(*bench));
    around_open(&bench->around);
    bench->around.options.groups[0].life.window = window;
    bench->side = receive_side_create(
        &(struct receive_side_options){.transfer = &bench->around.options,
                                       .stats = &bench->around.stats,
                                       .wake = no_wake});
    receive_side_set_control(bench->side, &fake_control);
    bench->link = (struct link){.is_used = true,
                                .is_outgoing = true,
                                .state = PEER_REGISTERED,
                                .incarnation = SENDER,
                                .wanted = SENDER,
                                .endpoint = "tcp://127.0.0.1:9",
                                .tokens_per_block = sender_tokens,
                                .lane = "memory"};
    fake_control.sender = &bench->link;
    struct transfer_command command = {.kind = TRANSFER_RECEIVE,
                                       .request = 70,
                                       .rid = RID,
                                       .pages = {PAGES},
                                       .group_count = 1,
                                       .block_count = BLOCKS,
                                       .prompt_tokens = TOKENS,
                                       .sender_incarnation = SENDER,
                                       .sender_endpoint = "tcp://127.0.0.1:9"};
    receive_side_command(bench->side, &command, 1);
}

static void close_bench(struct bench *bench)
{
    receive_side_destroy(bench->side);
    around_close(&bench->around);
}

static const struct rx_group *group_of(struct bench *bench)
{
    return &receive_side_find(bench->side, SENDER, RID)->session.groups[0];
}

/* `size` tokens of the page of block `at` / FAKE_TOKENS, from token `at` on. */
static uint32_t digest_at(struct bench *bench, uint32_t at, uint32_t size)
{
    const struct kv_pool_view *pool = &bench->around.pool;
    const uint8_t *page =
        pool->base + pool->page_bytes * (size_t)PAGES[at / FAKE_TOKENS];
    return transfer_part_digest(&pool->layout, page, at % FAKE_TOKENS, size);
}

/* The parts [first, end) of `each` tokens, but those of block 1. */
static void deliver(struct bench *bench, uint32_t each, uint32_t first,
                    uint32_t end, uint32_t slice, uint32_t slices,
                    uint32_t flip)
{
    struct buf body;
    struct wire_digest digests[32];
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i++) {
        uint32_t at = i * each, left = TOKENS - at;
        if (at / FAKE_TOKENS != 1) {
            digests[count++] = (struct wire_digest){
                i, digest_at(bench, at, left < each ? left : each) ^ flip};
        }
    }
    struct rx_group group = *group_of(bench);
    struct wire_result result = {
        .prefix = {.rid = RID, .is_last = slices > 0, .bytes = 1},
        .slice_index = slice,
        .slices_total = slices,
        .flags = slices > 0 ? WIRE_RESULT_DRAINED : 0,
        .group_count = 1,
        .bytes_so_far = slice + 1,
        .groups = {{group.seen_count + count, count, {0}}}};
    buf_init(&body, 4096);
    wire_result_encode(&result, &body);
    for (uint32_t i = 0; i < count; i++) {
        wire_result_digest_encode(digests[i], &body);
    }
    struct wire_header header = {
        .type = WIRE_KV_RESULT, .rid = RID, .attempt = 1};
    receive_side_frame(bench->side, &bench->link, &header, buf_span(&body), 2);
    buf_finish(&body);
    while (receive_side_verify(bench->side, 3)) {
    }
}

/* Blocks of eight here and two there: four parts a block, the prompt's last part
 * of one token; they come in three results, of which the second fills a block in
 * part. [transfer I6] */
static void a_block_fills_in_parts(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 2, 0);
    assert_int_equal(group_of(&bench)->block_parts, 4);
    assert_int_equal(group_of(&bench)->part_count, 10);
    assert_int_equal(group_of(&bench)->want_count, 6);
    assert_int_equal(group_of(&bench)->need_count, 6);
    deliver(&bench, 2, 0, 3, 0, 0, 0);
    deliver(&bench, 2, 3, 9, 1, 0, 0);
    assert_int_equal(around_report(&bench.around).word, 0);
    deliver(&bench, 2, 9, 10, 2, 3, 0);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | Q);
    assert_int_equal(report.moved_blocks, 6);
    assert_false(report.has_holes);
    close_bench(&bench);
}

/* Larger blocks there: a part is a block here. */
static void a_part_may_be_a_block(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 32, 0);
    assert_int_equal(group_of(&bench)->block_parts, 1);
    assert_int_equal(group_of(&bench)->part_count, 3);
    deliver(&bench, FAKE_TOKENS, 0, 3, 0, 1, 0);
    assert_int_equal(around_report(&bench.around).word, T | Q);
    close_bench(&bench);
}

/* One part less is not enough, one that was there before or beyond the prompt is
 * too much, one with another digest is not taken. [transfer T106 I2] */
static void parts_are_counted_and_checked(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct bench bench;
        open_bench(&bench, 2, 0);
        if (what == 0) {
            deliver(&bench, 2, 0, 9, 0, 1, 0);
        } else if (what == 1) {
            deliver(&bench, 2, 0, 9, 0, 0, 0);
            deliver(&bench, 2, 8, 10, 1, 2, 0);
        } else if (what == 2) {
            deliver(&bench, 2, 0, 11, 0, 1, 0);
        } else {
            deliver(&bench, 2, 0, 10, 0, 1, 1);
        }
        struct transfer_report report = around_report(&bench.around);
        if (!(report.word & Q)) {
            receive_side_step(bench.side,
                              receive_side_find(bench.side, SENDER, RID),
                              &(struct rx_event){.kind = RX_GONE, .now = 5});
            report = around_report(&bench.around);
        }
        assert_int_equal(report.word, T | F | Q);
        assert_int_equal(report.reason, AGREE_REASON_INTEGRITY);
        close_bench(&bench);
    }
}

/* A window of six: decoding reads from token 14 on. Block 0, which was asked for
 * all the same, may stay away, and the receiver says that it did. */
static void what_has_left_the_window_may_stay_away(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 2, 6);
    assert_int_equal(group_of(&bench)->stale_end, 7);
    assert_int_equal(group_of(&bench)->need_count, 2);
    assert_int_equal(group_of(&bench)->want_count, 6);
    deliver(&bench, 2, 8, 10, 0, 1, 0);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | Q);
    assert_true(report.has_holes);
    close_bench(&bench);
}

/* Sizes that the hello would have refused, and more parts than a message names:
 * the receive fails, with words, and nothing was asked for. */
static void what_cannot_be_counted_fails(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 3, 0);
    struct transfer_report report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | Q);
    assert_non_null(strstr(report.text, "blocks of 3 tokens"));
    assert_int_equal(fake_control.said_count, 0);
    bench.link.tokens_per_block = 1;
    struct transfer_command command = {.kind = TRANSFER_RECEIVE,
                                       .request = 71,
                                       .rid = RID + 1,
                                       .pages = {PAGES},
                                       .group_count = 1,
                                       .block_count = 1,
                                       .prompt_tokens =
                                           WIRE_BLOCK_COUNT_MAX + 1,
                                       .sender_incarnation = SENDER,
                                       .sender_endpoint = "tcp://127.0.0.1:9"};
    receive_side_command(bench.side, &command, 1);
    report = around_report(&bench.around);
    assert_int_equal(report.word, T | F | Q);
    assert_non_null(strstr(report.text, "too many blocks of 1 tokens"));
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_fills_in_parts),
        cmocka_unit_test(a_part_may_be_a_block),
        cmocka_unit_test(parts_are_counted_and_checked),
        cmocka_unit_test(what_has_left_the_window_may_stay_away),
        cmocka_unit_test(what_cannot_be_counted_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
