#pragma once
/* A worker's control, and what stands at the other end of its connections: bare
 * sockets that write what they like. */
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

#include "io/loop.h"
#include "io/tcp.h"
#include "transfer/backend_inproc.h"
#include "transfer/control.h"
#include "transfer/hello.h"
#include "wire/greeting.h"
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

static inline void on_registered(void *context, struct link *link)
{
    struct bench *bench = context;
    bench->registered_count++;
    bench->link = link;
}

static inline void on_frame(void *context, struct link *link,
                            const struct wire_header *header, struct span body)
{
    (void)link, (void)body;
    struct bench *bench = context;
    bench->frame_count++;
    bench->last = *header;
}

static inline void on_end(void *context, struct link *link)
{
    (void)link;
    ((struct bench *)context)->end_count++;
}

static const struct control_handler handler = {
    .on_registered = on_registered, .on_frame = on_frame, .on_end = on_end};

static inline void give_pool(struct transfer_options *options,
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

static inline void connect_to(struct bench *bench)
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

static inline void open_bench(struct bench *bench)
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

static inline void turns(struct bench *bench)
{
    for (int i = 0; i < 20; i++) {
        io_loop_turn(bench->loop, 2000000);
    }
}

static inline void close_bench(struct bench *bench)
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

static inline void encode(struct buf *out, uint16_t type, uint64_t source,
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

static inline void say(struct bench *bench, uint16_t type, uint64_t source,
                       uint64_t target, struct span body)
{
    struct buf out;
    encode(&out, type, source, target, body);
    assert_int_equal(write(bench->fd, out.data, out.size), out.size);
    buf_finish(&out);
    turns(bench);
}

/* Both ends without a key; what comes back is the answer to our nonce. */
static inline void greet(struct bench *bench)
{
    struct wire_greeting greeting = {.opener = PEER, .opener_nonce = {1}};
    struct wire_greet first = {.nonce = {1}};
    struct wire_greeted answer;
    uint8_t bytes[1024], proof[WIRE_PROOF_SIZE];
    struct wire_header header;
    struct span body;
    size_t used;
    struct buf out;
    buf_init(&out, 256);
    wire_greet_encode(&first, &out);
    say(bench, WIRE_GREET, PEER, 0, buf_span(&out));
    ssize_t size = recv(bench->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    assert_true(size > 0);
    assert_int_equal(wire_frame_decode(span_of(bytes, (size_t)size), NULL,
                                       &header, &body, &used),
                     OK);
    assert_int_equal(header.type, WIRE_GREETED);
    assert_int_equal(wire_greeted_decode(body, NULL, &answer), OK);
    greeting.server = header.source_incarnation;
    memcpy(greeting.server_nonce, answer.nonce, WIRE_NONCE_SIZE);
    assert_true(wire_greeting_is_proof(span_of(NULL, 0), &greeting, false,
                                       answer.proof));
    wire_greeting_prove(span_of(NULL, 0), &greeting, true, proof);
    buf_reset(&out);
    wire_proof_encode(proof, &out);
    say(bench, WIRE_PROOF, PEER, US, buf_span(&out));
    buf_finish(&out);
}

static inline void say_info(struct bench *bench)
{
    struct wire_rank_info info = bench->peer.info;
    info.backend_blob = buf_span(&bench->peer.blob);
    struct buf body;
    buf_init(&body, 65536);
    wire_rank_info_encode(&info, &body);
    say(bench, WIRE_REGISTER, PEER, 0, buf_span(&body));
    buf_finish(&body);
}

static inline void say_hello(struct bench *bench)
{
    greet(bench);
    say_info(bench);
}

/* The type of the one frame that lies there, 0 when none does. */
static inline uint16_t answer(struct bench *bench, struct why *why_out)
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
