/* transfer/control and control_hello: what a stranger's or a peer's bytes do to
 * a sender's listener. The peer is a bare socket that writes what it likes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/allow.h"
#include "io/loop.h"
#include "io/tcp.h"
#include "transfer/backend_inproc.h"
#include "transfer/control.h"
#include "transfer/hello.h"
#include "wire/refusal.h"

enum { PAGES = 16, US = 0xa, PEER = 0xb };

struct bench {
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct transfer_backend *backend, *peer_backend;
    void *peer_pool;
    struct transfer_options options;
    struct transfer_stats stats;
    struct control *control;
    struct hello peer; /* what the other end says of itself */
    int fd;
    uint32_t registered_count, frame_count, end_count;
    struct wire_header last;
    struct link *link; /* that registered last */
};

static void on_registered(void *context, struct link *link)
{
    struct bench *bench = context;
    bench->registered_count++;
    bench->link = link;
}

static void on_frame(void *context, struct link *link,
                     const struct wire_header *header, struct span body)
{
    (void)link, (void)body;
    struct bench *bench = context;
    bench->frame_count++;
    bench->last = *header;
}

static void on_end(void *context, struct link *link)
{
    (void)link;
    ((struct bench *)context)->end_count++;
}

static const struct control_handler handler = {
    .on_registered = on_registered, .on_frame = on_frame, .on_end = on_end};

static void give_pool(struct transfer_options *options,
                      struct transfer_backend *backend)
{
    struct kv_layout layout = {.layer_count = 1,
                               .kv_head_count = 1,
                               .head_dim = 16,
                               .tokens_per_block = 8,
                               .element_bytes = 2};
    size_t page = kv_layout_page_bytes(&layout);
    void *base = NULL;
    struct why why = {0};
    assert_int_equal(transfer_backend_alloc(backend, page * PAGES, &why, &base),
                     OK);
    options->memory = base;
    options->memory_size = page * PAGES;
    options->group_count = 1;
    options->groups[0].pool = (struct kv_pool_view){base, page, PAGES, layout};
}

static void connect_to(struct bench *bench)
{
    struct io_address at;
    assert_int_equal(
        io_address_parse(span_of_string(control_endpoint(bench->control)), NULL,
                         &at),
        OK);
    bench->fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(at.port)};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    assert_int_equal(connect(bench->fd, (struct sockaddr *)&to, sizeof(to)), 0);
}

static void open_bench(struct bench *bench)
{
    struct why why = {0};
    memset(bench, 0, sizeof(*bench));
    assert_int_equal(io_loop_create(&bench->loop), OK);
    bench->hub = transfer_inproc_hub_create();
    assert_int_equal(
        transfer_backend_inproc_create(bench->hub, US, &bench->backend), OK);
    assert_int_equal(
        transfer_backend_inproc_create(bench->hub, PEER, &bench->peer_backend),
        OK);
    bench->options = (struct transfer_options){.loop = bench->loop,
                                               .backend = bench->backend,
                                               .incarnation = US,
                                               .host = "127.0.0.1",
                                               .peer_count_max = 4,
                                               .heartbeat_ns = 1000000000u};
    struct transfer_options theirs = bench->options;
    give_pool(&bench->options, bench->backend);
    theirs.backend = bench->peer_backend;
    give_pool(&theirs, bench->peer_backend);
    theirs.incarnation = PEER;
    bench->peer_pool = theirs.memory;
    assert_int_equal(
        hello_init(&bench->peer, &theirs, "tcp://127.0.0.1:1", &why), OK);
    struct control_options options = {.loop = bench->loop,
                                      .backend = bench->backend,
                                      .transfer = &bench->options,
                                      .stats = &bench->stats,
                                      .handler = &handler,
                                      .context = bench};
    assert_int_equal(control_open(&options, &why, &bench->control), OK);
    connect_to(bench);
}

static void turns(struct bench *bench)
{
    for (int i = 0; i < 20; i++) {
        io_loop_turn(bench->loop, 2000000);
    }
}

static void close_bench(struct bench *bench)
{
    close(bench->fd);
    control_shut(bench->control);
    while (!control_is_closed(bench->control)) {
        io_loop_turn(bench->loop, 1000000);
    }
    control_destroy(bench->control);
    hello_finish(&bench->peer);
    transfer_backend_free(bench->backend, bench->options.memory);
    transfer_backend_free(bench->peer_backend, bench->peer_pool);
    transfer_backend_destroy(bench->backend);
    transfer_backend_destroy(bench->peer_backend);
    transfer_inproc_hub_destroy(bench->hub);
    io_loop_destroy(bench->loop);
}

static void encode(struct buf *out, uint16_t type, uint64_t source,
                   uint64_t target, struct span body)
{
    struct wire_header header = {.type = type,
                                 .source_incarnation = source,
                                 .target_incarnation = target,
                                 .rid = 9,
                                 .attempt = 1};
    buf_init(out, 65536);
    assert_int_equal(wire_frame_encode(&header, body, out), OK);
}

static void say(struct bench *bench, uint16_t type, uint64_t source,
                uint64_t target, struct span body)
{
    struct buf out;
    encode(&out, type, source, target, body);
    assert_int_equal(write(bench->fd, out.data, out.size), out.size);
    buf_finish(&out);
    turns(bench);
}

static void say_hello(struct bench *bench)
{
    struct wire_rank_info info = bench->peer.info;
    info.backend_blob = buf_span(&bench->peer.blob);
    struct buf body;
    buf_init(&body, 65536);
    wire_rank_info_encode(&info, &body);
    say(bench, WIRE_REGISTER, PEER, 0, buf_span(&body));
    buf_finish(&body);
}

/* The type of the one frame that lies there, 0 when none does. */
static uint16_t answer(struct bench *bench, struct why *why_out)
{
    uint8_t bytes[32768];
    ssize_t size = recv(bench->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    struct wire_header header;
    struct span body;
    size_t used;
    struct why why;
    if (size <= 0 || wire_frame_decode(span_of(bytes, (size_t)size), &why,
                                       &header, &body, &used)) {
        return 0;
    }
    if (header.type == WIRE_REFUSED) {
        wire_refusal_decode(body, why_out);
    }
    return header.type;
}

/* After the hello, frames of another life of the peer, or for another life of
 * ours, are counted and that is all; the right one is passed on. */
static void other_incarnations_have_no_effect(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    open_bench(&bench);
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
    assert_int_equal(bench.registered_count, 1);
    struct span none = span_of(NULL, 0);
    say(&bench, WIRE_CANCEL_SESSION, PEER + 1, US, none);
    say(&bench, WIRE_CANCEL_SESSION, PEER, US + 1, none);
    say(&bench, WIRE_CANCEL_SESSION, PEER, 0, none);
    assert_int_equal(bench.frame_count, 0);
    assert_int_equal(bench.stats.frames_dropped, 3);
    say(&bench, WIRE_CANCEL_SESSION, PEER, US, none);
    assert_int_equal(bench.frame_count, 1);
    assert_int_equal(bench.last.rid, 9);
    assert_int_equal(bench.end_count, 0);
    close_bench(&bench);
}

/* Anything before the hello, and a second hello, end the link. */
static void frames_out_of_turn_end_the_link(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        struct bench bench;
        struct why why = {0};
        open_bench(&bench);
        if (after) {
            say_hello(&bench);
            assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
            say_hello(&bench);
        } else {
            say(&bench, WIRE_REQUEST_DATA, PEER, US, span_of(NULL, 0));
        }
        assert_int_equal(bench.end_count, 1);
        assert_int_equal(bench.frame_count, 0);
        assert_int_equal(bench.stats.connections_dropped, 1);
        assert_int_equal(control_link_count(bench.control), 0);
        close_bench(&bench);
    }
}

/* A hello that differs, or whose pool cannot be mapped, is answered with the
 * field before the connection ends. */
static void bad_hellos_are_refused_by_name(void **state)
{
    (void)state;
    for (int is_unmapped = 0; is_unmapped < 2; is_unmapped++) {
        struct bench bench;
        struct why why = {0};
        open_bench(&bench);
        if (is_unmapped) {
            buf_reset(&bench.peer.blob);
            buf_add_string(&bench.peer.blob, "nobody's memory");
        } else {
            bench.peer.info.groups[0].head_dim = 77;
        }
        say_hello(&bench);
        assert_int_equal(answer(&bench, &why), WIRE_REFUSED);
        assert_true(is_unmapped || strstr(why.text, "head_dim") != NULL);
        assert_int_equal(bench.stats.peers_refused, 1);
        assert_int_equal(bench.registered_count, 0);
        shutdown(bench.fd, SHUT_WR);
        turns(&bench);
        assert_int_equal(bench.end_count, 1);
        close_bench(&bench);
    }
}

/* One wrong bit anywhere in a registered peer's frame ends its link; a frame
 * that is cut short by the end of the connection is never heard of. */
static void broken_frames_are_never_passed_on(void **state)
{
    (void)state;
    for (int at = 0; at <= WIRE_HEADER_SIZE; at += 4) {
        struct bench bench;
        struct why why = {0};
        struct buf out;
        open_bench(&bench);
        say_hello(&bench);
        assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
        encode(&out, WIRE_CANCEL_SESSION, PEER, US, span_of_string("x"));
        size_t size = out.size;
        if (at == WIRE_HEADER_SIZE) {
            size--;
        } else {
            ((uint8_t *)out.data)[at] ^= 0x10;
        }
        assert_int_equal(write(bench.fd, out.data, size), size);
        turns(&bench);
        shutdown(bench.fd, SHUT_WR);
        turns(&bench);
        assert_int_equal(bench.frame_count, 0);
        assert_int_equal(bench.end_count, 1);
        buf_finish(&out);
        close_bench(&bench);
    }
}

/* A list of hosts counts for who comes and for where we go, by host alone.
 * [transfer T29] */
static void hosts_that_are_not_allowed_are_not_met(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    struct link *link = NULL;
    struct io_allow *others = NULL, *local = NULL;
    assert_int_equal(
        io_allow_create(span_of_string("10.0.0.0/8,::1"), &why, &others), OK);
    assert_int_equal(
        io_allow_create(span_of_string("::ffff:127.0.0.1"), &why, &local), OK);
    open_bench(&bench);
    bench.options.allow = others;
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), 0);
    assert_int_equal(bench.stats.peers_refused, 1);
    assert_int_equal(control_link_count(bench.control), 0);
    assert_int_equal(
        control_connect(bench.control, "tcp://127.0.0.1:9", PEER, &why, &link),
        ERR_DENIED);
    assert_non_null(strstr(why.text, "127.0.0.1"));
    assert_int_equal(
        control_connect(bench.control, "tcp://localhost:9", PEER, &why, &link),
        ERR_DENIED);
    bench.options.allow = local;
    close(bench.fd);
    connect_to(&bench);
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
    assert_int_equal(
        control_connect(bench.control, "tcp://127.0.0.1:9", PEER, &why, &link),
        OK);
    close_bench(&bench);
    io_allow_destroy(others);
    io_allow_destroy(local);
}

/* What follows an endpoint, or goes before it, is no endpoint.
 * [transfer T29] */
static void endpoints_are_taken_to_the_letter(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"tcp://127.0.0.1:9\n",
                                        "tcp://127.0.0.1:9 ",
                                        " tcp://127.0.0.1:9",
                                        "tcp://0.0.0.0;127.0.0.1:9",
                                        "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:",
                                        "tcp://127.0.0.1:0",
                                        "tcp://127.0.0.1:99999",
                                        "tcp://:9",
                                        "ipc://127.0.0.1:9",
                                        "tcp://[::1:9",
                                        "tcp://::1:9"};
    struct bench bench;
    open_bench(&bench);
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        struct why why = {0};
        struct link *link = NULL;
        if (control_connect(bench.control, WRONG[i], PEER, &why, &link) !=
            ERR_INVALID) {
            fail_msg("%s is taken", WRONG[i]);
        }
        assert_non_null(strstr(why.text, "endpoint"));
    }
    close_bench(&bench);
}

/* What is held waits for the frame that follows, and comes before it; after that
 * frames go alone again. */
static void a_held_frame_leaves_with_the_next(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    uint8_t bytes[1024];
    struct wire_header header;
    struct span body, text = span_of_string("first");
    size_t used = 0;
    open_bench(&bench);
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
    control_hold(bench.link, WIRE_AUX_RESULT, 5, 2, text);
    turns(&bench);
    assert_int_equal(answer(&bench, &why), 0);
    assert_int_equal(
        control_send(bench.link, WIRE_KV_RESULT, 5, 2, span_of(NULL, 0)), OK);
    turns(&bench);
    ssize_t size = recv(bench.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    assert_true(size > 0);
    struct span all = span_of(bytes, (size_t)size);
    assert_int_equal(wire_frame_decode(all, &why, &header, &body, &used), OK);
    assert_int_equal(header.type, WIRE_AUX_RESULT);
    assert_int_equal(header.target_incarnation, PEER);
    assert_int_equal(body.size, text.size);
    all = span_of(bytes + used, (size_t)size - used);
    assert_int_equal(wire_frame_decode(all, &why, &header, &body, &used), OK);
    assert_int_equal(header.type, WIRE_KV_RESULT);
    assert_int_equal(header.rid, 5);
    assert_int_equal(used, all.size);
    assert_int_equal(
        control_send(bench.link, WIRE_KV_RESULT, 6, 2, span_of(NULL, 0)), OK);
    turns(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_KV_RESULT);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_incarnations_have_no_effect),
        cmocka_unit_test(frames_out_of_turn_end_the_link),
        cmocka_unit_test(bad_hellos_are_refused_by_name),
        cmocka_unit_test(broken_frames_are_never_passed_on),
        cmocka_unit_test(hosts_that_are_not_allowed_are_not_met),
        cmocka_unit_test(endpoints_are_taken_to_the_letter),
        cmocka_unit_test(a_held_frame_leaves_with_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
