/* Two transfers on one thread hand pages over, over inproc and over ucx: what
 * arrives, what each side reports, and that no page is reported quiet before
 * the backend is. Faults come from the fault decorator. */
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "leaks.h"
#include "node.h"

#include "base/mem.h"
#include "io/clock.h"
#include "io/tcp.h"
#include "wire/frame.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    U = AGREE_UNSAFE
};
#define MS UINT64_C(1000000)

struct pair {
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct node a, b; /* sender, receiver */
};

static void open_pair_with(struct pair *pair, struct node_setup setup)
{
    assert_int_equal(io_loop_create(&pair->loop), OK);
    pair->hub = transfer_inproc_hub_create();
    setup.loop = pair->loop;
    setup.hub = pair->hub;
    setup.incarnation = 0xa;
    node_open(&pair->a, &setup);
    setup.incarnation = 0xb;
    node_open(&pair->b, &setup);
    node_fill(&pair->a, 1);
    node_fill(&pair->b, 2);
}

static void open_pair(struct pair *pair, enum node_body body)
{
    open_pair_with(pair, (struct node_setup){.body = body});
}

static void close_pair(struct pair *pair)
{
    node_close(&pair->a);
    node_close(&pair->b);
    io_loop_destroy(pair->loop);
    transfer_inproc_hub_destroy(pair->hub);
}

static uint8_t *copy_pool(struct node *node)
{
    size_t size = node->pool.page_bytes * NODE_PAGE_COUNT;
    uint8_t *copy = malloc(size);
    memcpy(copy, node->pool.base, size);
    return copy;
}

static void expect_pool(struct node *node, uint8_t *expected)
{
    assert_memory_equal(node->pool.base, expected,
                        node->pool.page_bytes * NODE_PAGE_COUNT);
    free(expected);
}

static void expect_pages(struct pair *pair, uint8_t *expected,
                         const kv_page_id *from, const kv_page_id *to,
                         uint32_t count)
{
    size_t size = pair->a.pool.page_bytes;
    for (uint32_t i = 0; i < count; i++) {
        if (to[i] != KV_PAGE_NONE) {
            memcpy(expected + size * (size_t)to[i],
                   node_page(&pair->a, from[i]), size);
        }
    }
}

/* Thirty random hand-offs with random pages, holes and order of the two
 * commands; after each the whole receiving pool is compared with what it must
 * be, and both sides have said T and Q once. */
static void random_pages_land_on_their_ordinals(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct rng rng = rng_from_seed(77);
    for (uint64_t id = 1; id <= 30; id++) {
        kv_page_id from[64], to[64];
        uint32_t count = 1 + (uint32_t)rng_below(&rng, 64);
        node_pick(&rng, from, count, 0);
        node_pick(&rng, to, count, (uint32_t)rng_below(&rng, 9));
        uint8_t *expected = copy_pool(&pair.b);
        expect_pages(&pair, expected, from, to, count);
        bool is_early = rng_below(&rng, 2);
        if (is_early) {
            node_receive(&pair.b, &pair.a, id, (int64_t)id, to, count, 0);
            node_turns(&pair.b, 3);
        }
        node_send(&pair.a, id, (int64_t)id, from, count, 0);
        if (!is_early) {
            node_turns(&pair.a, 3);
            assert_int_equal(node_word(&pair.a, id), 0);
            node_receive(&pair.b, &pair.a, id, (int64_t)id, to, count, 0);
        }
        assert_int_equal(node_await(&pair.b, id, T), T | Q);
        assert_int_equal(node_await(&pair.a, id, T), T | Q);
        expect_pool(&pair.b, expected);
        pair.a.report_count = pair.b.report_count = 0;
    }
    struct transfer_stats stats;
    transfer_stats_read(pair.b.transfer, &stats);
    assert_int_equal(stats.receives_done, 30);
    assert_int_equal(stats.receives_failed, 0);
    close_pair(&pair);
}

/* All blocks are cached at the receiver: the hand-off still ends on both
 * sides, nothing is written. [transfer T14] */
static void nothing_wanted_still_ends_the_session(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id from[3] = {1, 2, 3}, to[3] = {-1, -1, -1};
    uint8_t *expected = copy_pool(&pair.b);
    node_send(&pair.a, 1, 9, from, 3, 0);
    node_receive(&pair.b, &pair.a, 2, 9, to, 3, 0);
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    assert_int_equal(node_await(&pair.a, 1, T), T | Q);
    assert_int_equal(node_last(&pair.b, 2)->moved_blocks, 0);
    expect_pool(&pair.b, expected);
    close_pair(&pair);
}

/* Three slices, the receiver asks between the first and the second; progress
 * is told, T only after the last one. [transfer T20] */
static void slices_arrive_in_order(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id from[6] = {5, 4, 3, 2, 1, 0}, to[6] = {10, 11, 12, 13, 14, 15};
    uint8_t *expected = copy_pool(&pair.b);
    expect_pages(&pair, expected, from, to, 6);
    for (uint32_t i = 0; i < 3; i++) {
        struct transfer_command slice = {.kind = TRANSFER_SEND,
                                         .request = 1,
                                         .rid = 5,
                                         .pages = {from},
                                         .group_count = 1,
                                         .first_block = 2 * i,
                                         .end_block = 2 * i + 2,
                                         .block_count = 6,
                                         .prompt_tokens = 6 * NODE_TOKENS,
                                         .slice_index = i,
                                         .is_last = i == 2};
        slice.aux = slice.is_last ? node_aux(1) : NULL;
        assert_int_equal(io_mailbox_post(pair.a.port.commands, &slice), OK);
        if (i == 0) {
            node_receive(&pair.b, &pair.a, 2, 5, to, 6, 0);
        }
        node_turns(&pair.a, 20);
        if (i < 2) {
            assert_int_equal(node_word(&pair.a, 1), 0);
            assert_int_equal(node_last(&pair.a, 1)->slice_index, i + 1);
            assert_int_equal(node_word(&pair.b, 2), 0);
        }
    }
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    assert_int_equal(node_await(&pair.a, 1, T), T | Q);
    expect_pool(&pair.b, expected);
    close_pair(&pair);
}

/* The source list misses a block that the receiver needs: the receiver counts
 * and fails instead of decoding garbage; pages are quiet. [transfer T106] */
static void missing_block_fails_the_receive(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id from[3] = {1, -1, 3}, to[3] = {1, 2, 3};
    node_send(&pair.a, 1, 9, from, 3, 0);
    node_receive(&pair.b, &pair.a, 2, 9, to, 3, 0);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    assert_int_equal(node_last(&pair.b, 2)->reason, AGREE_REASON_INTEGRITY);
    node_await(&pair.a, 1, Q);
    close_pair(&pair);
}

/* The sender's digest does not match what lies in the page: integrity. */
static void wrong_digest_fails_the_receive(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    pair.a.fault.flip_count = 1;
    kv_page_id from[3] = {1, 2, 3}, to[3] = {1, 2, 3};
    node_send(&pair.a, 1, 9, from, 3, 0);
    node_receive(&pair.b, &pair.a, 2, 9, to, 3, 0);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    assert_int_equal(node_last(&pair.b, 2)->reason, AGREE_REASON_INTEGRITY);
    node_await(&pair.a, 1, Q);
    close_pair(&pair);
}

/* Nobody pulls: at the deadline the sender gives the pages back, and a later
 * pull is told at once. [transfer T77] */
static void session_nobody_pulls_ends_at_its_deadline(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_send(&pair.a, 1, 9, pages, 2, io_clock_now_ns() + 30 * MS);
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | Q);
    assert_int_equal(node_last(&pair.a, 1)->reason, AGREE_REASON_DEADLINE);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    assert_int_equal(node_last(&pair.b, 2)->reason, AGREE_REASON_EXPIRED);
    close_pair(&pair);
}

/* A session that ended is not created again. */
static void retired_session_is_not_created_again(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_cancel(&pair.a, 1);
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | C | Q);
    node_send(&pair.a, 3, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.a, 3, Q), T | F | Q);
    close_pair(&pair);
}

/* The receiver means a process that is no longer there: another incarnation
 * answers at its endpoint. */
static void other_incarnation_is_told_at_once(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_receive_from(&pair.b, transfer_endpoint(pair.a.transfer), 0xdead, 2, 9,
                      pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    assert_int_equal(node_last(&pair.b, 2)->reason, AGREE_REASON_PEER_EPOCH);
    node_send(&pair.a, 1, 10, pages, 2, 0);
    node_receive(&pair.b, &pair.a, 3, 10, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 3, T), T | Q);
    node_await(&pair.a, 1, Q);
    close_pair(&pair);
}

/* Nobody listens there: no registration, no wait. [transfer T63] */
static void unreachable_endpoint_fails_and_is_quiet(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_receive_from(&pair.b, "tcp://127.0.0.1:1", 0xa, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    node_receive_from(&pair.b, "nonsense", 0xa, 3, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 3, Q), T | F | Q);
    close_pair(&pair);
}

static void receive_context_first(struct pair *pair, uint64_t id, int64_t rid,
                                  const kv_page_id *pages, uint32_t count)
{
    struct transfer_command command = {
        .kind = TRANSFER_RECEIVE,
        .request = id,
        .rid = rid,
        .pages = {pages},
        .group_count = 1,
        .block_count = count,
        .prompt_tokens = count * NODE_TOKENS,
        .sender_incarnation = pair->a.incarnation,
    };
    snprintf(command.sender_endpoint, sizeof(command.sender_endpoint), "%.279s",
             transfer_endpoint(pair->a.transfer));
    assert_int_equal(io_mailbox_post(pair->b.port.commands, &command), OK);
}

/* A context-first receiver of a rid that was never here has no deadline and
 * ends all the same; the sender keeps nothing of it, and the session that comes
 * late is not a cancelled one. [transfer T28] */
static void context_first_without_a_session_fails_at_once(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    receive_context_first(&pair, 2, 9, pages, 2);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    assert_int_equal(node_last(&pair.b, 2)->reason, AGREE_REASON_EXPIRED);
    struct transfer_stats stats;
    transfer_stats_read(pair.a.transfer, &stats);
    assert_int_equal(stats.adverts, 0);
    node_send(&pair.a, 1, 9, pages, 2, 0);
    receive_context_first(&pair, 3, 9, pages, 2);
    assert_int_equal(node_await(&pair.b, 3, Q), T | Q);
    node_await(&pair.a, 1, Q);
    close_pair(&pair);
}

/* Each send is posted in the turn in which its receiver asks: whichever the
 * sender's loop hears of first, it takes what was posted before it says no.
 * Fifty in a row. */
static void posted_send_is_found_before_it_was_taken(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    for (uint64_t id = 1; id <= 50; id++) {
        receive_context_first(&pair, id, (int64_t)id, pages, 2);
        node_send(&pair.a, id, (int64_t)id, pages, 2, 0);
        assert_int_equal(node_await(&pair.b, id, Q), T | Q);
        node_await(&pair.a, id, Q);
        pair.a.report_count = pair.b.report_count = 0;
    }
    close_pair(&pair);
}

/* -------- cancel, by phase (transfer.md 6.3) -------- */

/* Not pulled yet: quiet at once; the receiver that comes is told. */
static void sender_cancel_before_the_pull(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_turns(&pair.a, 2);
    node_cancel(&pair.a, 1);
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | C | Q);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    close_pair(&pair);
}

/* Advertised, no session yet: the sender answers, the receiver is quiet, and
 * the session that comes afterwards starts cancelled. [transfer T66] */
static void receiver_cancel_before_the_session(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    node_turns(&pair.b, 10);
    node_cancel(&pair.b, 2);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | C | Q);
    node_send(&pair.a, 1, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | C | Q);
    assert_int_equal(node_last(&pair.a, 1)->reason, AGREE_REASON_PEER_CANCEL);
    close_pair(&pair);
}

/* Before it is connected nothing has left: quiet in the same turn. */
static void receiver_cancel_before_the_hello(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    node_cancel(&pair.b, 2);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | C | Q);
    assert_int_equal(pair.b.report_count, 1);
    close_pair(&pair);
}

static void start_held(struct pair *pair, const kv_page_id *pages)
{
    pair->a.fault.hold_writes = true;
    node_send(&pair->a, 1, 9, pages, 2, 0);
    node_receive(&pair->b, &pair->a, 2, 9, pages, 2, 0);
    for (int i = 0; i < 1000 && pair->a.fault.held == 0; i++) {
        node_turns(&pair->a, 1);
    }
    assert_int_equal(pair->a.fault.held, 1);
}

/* After Q the pages belong to somebody else: canaries stay as they are. */
static void expect_canaries_live(struct pair *pair, const kv_page_id *pages)
{
    size_t size = pair->b.pool.page_bytes;
    memset(node_page(&pair->b, pages[0]), 0x5a, size);
    memset(node_page(&pair->b, pages[1]), 0x5a, size);
    node_turns(&pair->b, 30);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(node_page(&pair->b, pages[0])[i], 0x5a);
        assert_int_equal(node_page(&pair->b, pages[1])[i], 0x5a);
    }
}

/* The write is held in the backend beyond the receiver's cancel: both sides
 * say T at once and Q only after the release, but for a receiver that writes by
 * itself, whose revoke is its proof; no late byte comes.
 * [transfer T53 T70] */
static void receiver_cancel_during_the_write(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    start_held(&pair, pages);
    node_cancel(&pair.b, 2);
    uint8_t now = body == NODE_TCP ? Q : 0;
    assert_int_equal(node_await(&pair.b, 2, T), T | F | C | now);
    assert_int_equal(node_await(&pair.a, 1, T), T | F | C);
    node_turns(&pair.b, 30);
    assert_int_equal(node_word(&pair.b, 2) & Q, now);
    assert_false(node_word(&pair.a, 1) & Q);
    if (!now) {
        assert_int_equal(transfer_destroy(pair.b.transfer), ERR_BUSY);
    }
    pair.a.fault.hold_writes = false;
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | C | Q);
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | C | Q);
    expect_canaries_live(&pair, pages);
    close_pair(&pair);
}

/* The same with the sender's cancel. */
static void sender_cancel_during_the_write(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    start_held(&pair, pages);
    node_cancel(&pair.a, 1);
    assert_int_equal(node_await(&pair.a, 1, T), T | F | C);
    node_turns(&pair.a, 30);
    assert_false(node_word(&pair.a, 1) & Q);
    assert_false(node_word(&pair.b, 2) & Q);
    pair.a.fault.hold_writes = false;
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | C | Q);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | C | Q);
    expect_canaries_live(&pair, pages);
    close_pair(&pair);
}

/* The receiver's deadline passes while the completion is held: T|F now, U
 * after the grace time, Q when the sender has drained. [transfer T60] */
static void receiver_deadline_waits_for_proof(enum node_body body)
{
    struct pair pair;
    if (body == NODE_TCP) {
        return; /* needs none: revoke is its own */
    }
    open_pair_with(&pair,
                   (struct node_setup){.body = body, .grace_ns = 50 * MS});
    kv_page_id pages[2] = {1, 2};
    pair.a.fault.hold_done = true;
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, io_clock_now_ns() + 50 * MS);
    assert_int_equal(node_await(&pair.b, 2, T), T | F);
    assert_int_equal(node_last(&pair.b, 2)->reason, AGREE_REASON_DEADLINE);
    assert_int_equal(node_await(&pair.b, 2, U), T | F | U);
    assert_int_equal(node_await(&pair.a, 1, U) & Q, 0);
    pair.a.fault.hold_done = false;
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | U | Q);
    node_await(&pair.a, 1, Q);
    close_pair(&pair);
}

/* A cancel that comes after the end changes nothing. */
static void cancel_after_the_end_is_ignored(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    kv_page_id pages[2] = {1, 2};
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    node_await(&pair.b, 2, Q);
    node_await(&pair.a, 1, Q);
    node_cancel(&pair.a, 1);
    node_cancel(&pair.b, 2);
    node_turns(&pair.a, 10);
    assert_int_equal(node_word(&pair.a, 1), T | Q);
    assert_int_equal(node_word(&pair.b, 2), T | Q);
    close_pair(&pair);
}

/* -------- faults -------- */

/* The backend says the write stopped: both sides fail and are quiet. */
static void stopped_write_fails_both_sides(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    pair.a.fault.stop_count = 1;
    kv_page_id pages[2] = {1, 2};
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.a, 1, Q), T | F | Q);
    assert_int_equal(node_await(&pair.b, 2, Q), T | F | Q);
    close_pair(&pair);
}

/* A different block size: the request fails with the field and both values,
 * and the other transfers of the worker go on. [transfer T63 T64] */
static void layout_mismatch_names_the_field(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct node other;
    node_open(&other, &(struct node_setup){.body = body,
                                           .loop = pair.loop,
                                           .hub = pair.hub,
                                           .incarnation = 0xc,
                                           .tokens_per_block = 12});
    kv_page_id pages[2] = {1, 2};
    node_receive(&other, &pair.a, 7, 9, pages, 2, 0);
    assert_int_equal(node_await(&other, 7, Q), T | F | Q);
    const struct transfer_report *report = node_last(&other, 7);
    assert_int_equal(report->reason, AGREE_REASON_REFUSED);
    assert_non_null(strstr(
        report->text, "tokens_per_block: 8 at the sender, 12 at the receiver"));
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    node_await(&pair.a, 1, Q);
    struct transfer_stats stats;
    transfer_stats_read(pair.a.transfer, &stats);
    assert_int_equal(stats.peers_refused, 1);
    node_close(&other);
    close_pair(&pair);
}

/* The second receiver of one rid is refused, the first one is served. */
static void only_one_receiver_pulls_a_session(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct node other;
    node_open(&other, &(struct node_setup){.body = body,
                                           .loop = pair.loop,
                                           .hub = pair.hub,
                                           .incarnation = 0xc});
    kv_page_id pages[2] = {1, 2};
    start_held(&pair, pages);
    node_receive(&other, &pair.a, 7, 9, pages, 2, 0);
    assert_int_equal(node_await(&other, 7, Q), T | F | Q);
    pair.a.fault.hold_writes = false;
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    node_await(&pair.a, 1, Q);
    node_close(&other);
    close_pair(&pair);
}

static int raw_connect(struct node *node)
{
    struct io_address at;
    assert_int_equal(
        io_address_parse(span_of_string(transfer_endpoint(node->transfer)),
                         NULL, &at),
        OK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(at.port)};
    inet_pton(AF_INET, at.host, &to.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Bytes of strangers end their connection and nothing else: noise, a frame
 * that is cut, a hello that is no map, a request before the hello. */
static void strangers_bytes_end_their_connection_only(enum node_body body)
{
    struct pair pair;
    open_pair(&pair, body);
    for (int kind = 0; kind < 4; kind++) {
        int fd = raw_connect(&pair.a);
        struct buf frame;
        buf_init(&frame, 65536);
        struct wire_header header = {.type = kind == 3 ? WIRE_REQUEST_DATA
                                                       : WIRE_REGISTER,
                                     .source_incarnation = 5};
        if (kind == 0) {
            buf_add_string(&frame, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        } else {
            IGNORE(
                wire_frame_encode(&header, span_of_string("\xc1junk"), &frame));
        }
        size_t size = kind == 1 ? 20 : frame.size;
        assert_int_equal(send(fd, frame.data, size, 0), (ssize_t)size);
        node_turns(&pair.a, 10);
        close(fd);
        node_turns(&pair.a, 5);
        buf_finish(&frame);
    }
    kv_page_id pages[2] = {1, 2};
    node_send(&pair.a, 1, 9, pages, 2, 0);
    node_receive(&pair.b, &pair.a, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair.b, 2, T), T | Q);
    node_await(&pair.a, 1, Q);
    close_pair(&pair);
}

/* A sender that cannot say what became of the bytes: T|F on both sides, never
 * Q, U after the grace time. The process ends with it, as a worker would. */
static void doubt_never_drains(enum node_body body)
{
    if (body == NODE_TCP) {
        return; /* at the receiver it does, by revoke */
    }
    struct pair *pair = malloc(sizeof(*pair));
    open_pair_with(pair,
                   (struct node_setup){.body = body, .grace_ns = 40 * MS});
    pair->a.fault.doubt_count = 1;
    kv_page_id pages[2] = {1, 2};
    node_send(&pair->a, 1, 9, pages, 2, 0);
    node_receive(&pair->b, &pair->a, 2, 9, pages, 2, 0);
    assert_int_equal(node_await(&pair->a, 1, U), T | F | U);
    assert_int_equal(node_await(&pair->b, 2, U), T | F | U);
    node_turns(&pair->a, 30);
    assert_false((node_word(&pair->a, 1) | node_word(&pair->b, 2)) & Q);
    assert_int_equal(transfer_destroy(pair->a.transfer), ERR_BUSY);
    static struct pair *kept[NODE_BODY_COUNT];
    kept[body] = pair; /* its pages can never be given back */
    assert_non_null(kept[body]);
}

/* Ten times as many sessions as there are places: each is answered. */
static void too_many_sessions_are_refused_not_lost(enum node_body body)
{
    struct pair pair;
    open_pair_with(&pair,
                   (struct node_setup){.body = body, .send_count_max = 2});
    kv_page_id pages[1] = {1};
    for (uint64_t id = 1; id <= 20; id++) {
        node_send(&pair.a, id, (int64_t)id, pages, 1, 0);
    }
    node_turns(&pair.a, 5);
    for (uint64_t id = 3; id <= 20; id++) {
        assert_int_equal(node_word(&pair.a, id), T | F | Q);
    }
    node_cancel(&pair.a, 1);
    node_cancel(&pair.a, 2);
    node_await(&pair.a, 1, Q);
    node_await(&pair.a, 2, Q);
    close_pair(&pair);
}

/* After the first hand-offs have warmed the buffers, more of them allocate
 * nothing in this layer. */
static void steady_state_allocates_nothing(enum node_body body)
{
    if (body != NODE_INPROC) {
        return;
    }
    struct pair pair;
    open_pair(&pair, body);
    /* What allocates is the decorator, for each write it passes on, and
     * node_aux. */
    kv_page_id pages[4] = {1, 2, 3, 4};
    uint64_t before = 0;
    for (uint64_t id = 1; id <= 40; id++) {
        before = id == 21 ? mem_allocation_count() : before;
        node_send(&pair.a, id, (int64_t)id, pages, 4, 0);
        receive_context_first(&pair, id, (int64_t)id, pages, 4);
        node_await(&pair.a, id, Q);
        node_await(&pair.b, id, Q);
        pair.a.report_count = pair.b.report_count = 0;
    }
    assert_int_equal(mem_allocation_count() - before, 40);
    close_pair(&pair);
}

#define CASES(X)                                                \
    X(random_pages_land_on_their_ordinals, NODE_ALL)            \
    X(nothing_wanted_still_ends_the_session, NODE_MOST)         \
    X(slices_arrive_in_order, NODE_MOST)                        \
    X(missing_block_fails_the_receive, NODE_ALL)                \
    X(wrong_digest_fails_the_receive, NODE_ALL)                 \
    X(session_nobody_pulls_ends_at_its_deadline, NODE_MOST)     \
    X(retired_session_is_not_created_again, NODE_MOST)          \
    X(other_incarnation_is_told_at_once, NODE_MOST)             \
    X(unreachable_endpoint_fails_and_is_quiet, NODE_MOST)       \
    X(context_first_without_a_session_fails_at_once, NODE_MOST) \
    X(posted_send_is_found_before_it_was_taken, NODE_MOST)      \
    X(sender_cancel_before_the_pull, NODE_MOST)                 \
    X(receiver_cancel_before_the_session, NODE_MOST)            \
    X(receiver_cancel_before_the_hello, NODE_MOST)              \
    X(receiver_cancel_during_the_write, NODE_ALL)               \
    X(sender_cancel_during_the_write, NODE_ALL)                 \
    X(receiver_deadline_waits_for_proof, NODE_ALL)              \
    X(cancel_after_the_end_is_ignored, NODE_MOST)               \
    X(stopped_write_fails_both_sides, NODE_ALL)                 \
    X(layout_mismatch_names_the_field, NODE_MOST)               \
    X(only_one_receiver_pulls_a_session, NODE_MOST)             \
    X(strangers_bytes_end_their_connection_only, NODE_MOST)     \
    X(doubt_never_drains, NODE_ALL)                             \
    X(too_many_sessions_are_refused_not_lost, NODE_MOST)        \
    X(steady_state_allocates_nothing, NODE_MOST)
#define DEFINE(name, end)                        \
    static void test_##name(void **state)        \
    {                                            \
        (void)state;                             \
        for (int body = 0; body < end; body++) { \
            name((enum node_body)body);          \
        }                                        \
    }
CASES(DEFINE)
#define LIST(name, end) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {CASES(LIST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
