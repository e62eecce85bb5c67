#pragma once
/* A sender's and a receiver's side on one thread, joined by connections whose
 * frames are delivered one by one, with a backend whose writes move a piece at a
 * time, all when the test says so. The functions of control and process stand
 * here in place of the product's.
 *
 *   sends  == to_receiver ==> receives        writes: sender's pages
 *          <== to_sender ====                          -> receiver's pages
 *
 * A page has an owner, the engine's request that leased it, until that request
 * is told to be quiet; who reads or writes a page of another owner fails the
 * test (transfer.md I1). A request's id tells its rid: id >> RID_SHIFT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agree/word.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/mailbox.h"
#include "transfer/receive_side.h"
#include "transfer/receive_slot.h"
#include "transfer/send_side.h"
#include "transfer/send_slot.h"
#include "transfer/slice.h"
#include "wire/aux.h"
#include "wire/result.h"

enum {
    GROUPS = 2,
    PAGE_BYTES = 128,
    HEAD_BYTES = 8, /* K or V of a token */
    PAGE_COUNT = 64, /* of a group */
    WINDOW = 9,
    MESSAGE_MAX = 128,
    BODY_MAX = 1024,
    LINE_MAX = 8,
    RID_SHIFT = 4,
    WRITE_MAX = 32,
    SENDER = 0xa,
    RECEIVER = 0xb
};

struct message {
    uint16_t type;
    int64_t rid;
    uint32_t attempt;
    uint8_t body[BODY_MAX];
    size_t size;
};
struct queue {
    struct message items[MESSAGE_MAX];
    uint32_t count;
};

/* One connection: both ends, and what is on its way. */
struct line {
    struct link at_sender, at_receiver;
    bool is_sender_open, is_receiver_open, is_registered;
    struct queue to_sender, to_receiver;
};

struct control {
    struct line lines[LINE_MAX];
};

struct backend {
    struct transfer_backend base;
    struct transfer_backend_peer peer;
    struct transfer_write *writes[WRITE_MAX];
    uint32_t write_count;
};

struct pages {
    uint8_t bytes[GROUPS][PAGE_COUNT][PAGE_BYTES];
    uint64_t owners[GROUPS][PAGE_COUNT]; /* request; 0: free */
};

struct world {
    struct rng rng;
    uint32_t tokens[2]; /* a block: sender, receiver */
    uint64_t now;
    struct control control;
    struct backend backend;
    struct pages source, target;
    struct transfer_options options[2]; /* sender, receiver */
    struct transfer_stats stats[2];
    struct send_side *sends;
    struct receive_side *receives;
    /* The test's: hears of each frame of the sender before it is on its way. */
    void (*on_said)(const struct message *message);
};
static struct world world;

/* -------- control -------- */

static struct line *line_of(const struct link *link)
{
    for (int i = 0; i < LINE_MAX; i++) {
        struct line *line = &world.control.lines[i];
        if (link == &line->at_sender || link == &line->at_receiver) {
            return line;
        }
    }
    fail_msg("a link of nobody");
    return NULL;
}

enum err control_send(struct link *link, uint16_t type, int64_t rid,
                      uint32_t attempt, struct span body)
{
    struct line *line = line_of(link);
    bool is_sender = link == &line->at_sender;
    struct message message = {
        .type = type, .rid = rid, .attempt = attempt, .size = body.size};
    assert_true(body.size <= BODY_MAX);
    assert_false(link->is_closing);
    memcpy(message.body, body.data, body.size);
    if (is_sender && world.on_said != NULL) {
        world.on_said(&message);
    }
    /* What is said into a connection whose other end is gone is lost. */
    bool is_heard = is_sender ? line->is_receiver_open : line->is_sender_open;
    struct queue *queue = is_sender ? &line->to_receiver : &line->to_sender;
    if (is_heard) {
        assert_true(queue->count < MESSAGE_MAX);
        queue->items[queue->count++] = message;
    }
    return OK;
}

void control_hold(struct link *link, uint16_t type, int64_t rid,
                  uint32_t attempt, struct span body)
{
    assert_int_equal(control_send(link, type, rid, attempt, body), OK);
}

void control_drop(struct link *link, const char *format, ...)
{
    (void)link;
    fail_msg("a link was dropped: %s", format);
}

struct link *control_find_sender(struct control *control, uint64_t incarnation)
{
    for (int i = 0; i < LINE_MAX; i++) {
        struct line *line = &control->lines[i];
        if (line->is_receiver_open && line->is_registered &&
            incarnation == SENDER) {
            return &line->at_receiver;
        }
    }
    return NULL;
}

static void open_line(struct line *line, const char *endpoint, uint64_t wanted)
{
    memset(line, 0, sizeof(*line));
    line->is_sender_open = line->is_receiver_open = true;
    line->at_receiver = (struct link){.is_used = true,
                                      .is_outgoing = true,
                                      .state = PEER_FETCHING,
                                      .wanted = wanted,
                                      .tokens_per_block = world.tokens[0],
                                      .lane = "memory"};
    snprintf(line->at_receiver.endpoint, sizeof(line->at_receiver.endpoint),
             "%.200s", endpoint);
    line->at_sender = (struct link){.is_used = true,
                                    .state = PEER_REGISTERED,
                                    .incarnation = RECEIVER,
                                    .backend_peer = &world.backend.peer,
                                    .lane = "memory",
                                    .tokens_per_block = world.tokens[1],
                                    .group_count = GROUPS};
    for (uint32_t i = 0; i < GROUPS; i++) {
        line->at_sender.groups[i] = (struct link_group){
            .base_offset = i * sizeof(world.target.bytes[0]),
            .page_bytes = PAGE_BYTES,
            .page_count = PAGE_COUNT,
            .index = i};
    }
}

enum err control_connect(struct control *control, const char *endpoint,
                         uint64_t wanted, struct why *why,
                         struct link **link_out)
{
    struct line *fresh = NULL;
    for (int i = 0; i < LINE_MAX; i++) {
        struct line *line = &control->lines[i];
        if (line->is_receiver_open) {
            *link_out = &line->at_receiver;
            return OK;
        }
        fresh = line->is_sender_open ? fresh : line;
    }
    if (fresh == NULL) {
        return why_say(why, ERR_FULL, "connected too often");
    }
    open_line(fresh, endpoint, wanted);
    *link_out = &fresh->at_receiver;
    return OK;
}

const char *control_endpoint(const struct control *control)
{
    (void)control;
    return "tcp://127.0.0.1:7";
}

void transfer_process_close(struct transfer_process *process)
{
    (void)process;
}

bool transfer_process_is_gone(struct transfer_process *process)
{
    (void)process;
    return false;
}

/* -------- what may happen to a connection -------- */

static void world_register(struct line *line)
{
    line->is_registered = true;
    line->at_receiver.state = PEER_REGISTERED;
    line->at_receiver.incarnation = line->at_receiver.wanted = SENDER;
    receive_side_registered(world.receives, &line->at_receiver, world.now);
}

static void world_close_receiver(struct line *line)
{
    line->is_receiver_open = false;
    line->to_receiver.count = 0;
    line->at_receiver.is_closing = true;
    receive_side_lost(world.receives, &line->at_receiver, world.now);
}

static void world_close_sender(struct line *line)
{
    line->is_sender_open = false;
    line->to_sender.count = 0;
    send_side_lost(world.sends, &line->at_sender, world.now);
}

static struct message take(struct queue *queue)
{
    struct message message = queue->items[0];
    queue->count--;
    memmove(&queue->items[0], &queue->items[1],
            queue->count * sizeof(queue->items[0]));
    return message;
}

static void hear(struct line *line, const struct message *message,
                 bool is_sender)
{
    struct wire_header header = {.type = message->type,
                                 .rid = message->rid,
                                 .attempt = message->attempt};
    struct span body = span_of(message->body, message->size);
    if (is_sender) {
        send_side_frame(world.sends, &line->at_sender, &header, body,
                        world.now);
    } else {
        receive_side_frame(world.receives, &line->at_receiver, &header, body,
                           world.now);
    }
}

static void world_deliver(struct line *line, bool is_sender)
{
    struct queue *queue = is_sender ? &line->to_sender : &line->to_receiver;
    struct message message = take(queue);
    hear(line, &message, is_sender);
}

/* -------- backend -------- */

static void no_destroy(struct transfer_backend *backend)
{
    (void)backend;
}
static enum err no_alloc(struct transfer_backend *backend, size_t size,
                         struct why *why, void **memory_out)
{
    (void)backend, (void)size, (void)why, (void)memory_out;
    return ERR_UNSUPPORTED;
}
static void no_free(struct transfer_backend *backend, void *memory)
{
    (void)backend, (void)memory;
}
static const char *no_config(const struct transfer_backend *backend)
{
    (void)backend;
    return "";
}
static enum err no_export(struct transfer_backend *backend, void *memory,
                          size_t size, struct why *why, struct buf *blob_out)
{
    (void)backend, (void)memory, (void)size, (void)why, (void)blob_out;
    return ERR_UNSUPPORTED;
}
static enum err no_open(struct transfer_backend *backend, struct span blob,
                        size_t pool_size, struct why *why,
                        struct transfer_backend_peer **peer_out)
{
    (void)backend, (void)blob, (void)pool_size, (void)why, (void)peer_out;
    return ERR_UNSUPPORTED;
}
static void no_close(struct transfer_backend_peer *peer)
{
    (void)peer;
}
static const char *lane(const struct transfer_backend_peer *peer)
{
    (void)peer;
    return "memory";
}
static void take_write(struct transfer_backend *base,
                       struct transfer_write *write)
{
    struct backend *backend = (struct backend *)base;
    assert_true(backend->write_count < WRITE_MAX);
    write->cursor = 0;
    backend->writes[backend->write_count++] = write;
}
static struct transfer_write *no_poll(struct transfer_backend *backend,
                                      bool *is_busy_out)
{
    (void)backend;
    *is_busy_out = false;
    return NULL;
}

static const struct transfer_backend_ops backend_ops = {
    .name = "script",
    .toucher = TRANSFER_PEER_MAPPED,
    .destroy = no_destroy,
    .alloc = no_alloc,
    .free = no_free,
    .config = no_config,
    .export_pool = no_export,
    .peer_open = no_open,
    .peer_close = no_close,
    .peer_lane = lane,
    .write = take_write,
    .poll = no_poll,
};

/* Moves one piece. Both pages must still be leased, for one rid (I1). */
static void world_move_piece(struct transfer_write *write, size_t index)
{
    struct transfer_piece *piece = &write->pieces[index];
    const uint8_t *from = &world.source.bytes[0][0][0] + piece->source_offset;
    uint8_t *to = &world.target.bytes[0][0][0] + piece->target_offset;
    uint64_t source =
        *(&world.source.owners[0][0] + piece->source_offset / PAGE_BYTES);
    uint64_t target =
        *(&world.target.owners[0][0] + piece->target_offset / PAGE_BYTES);
    const struct send_slot *slot = write->context;
    assert_int_equal(source, slot->session.request);
    assert_int_not_equal(target, 0);
    assert_int_equal(source >> RID_SHIFT, target >> RID_SHIFT);
    piece->crc32c = digest_crc32c(0, span_of(from, piece->size));
    memcpy(to, from, piece->size);
}

/* -------- life -------- */

static void no_wake(void *context)
{
    (void)context;
}

static struct io_mailbox *new_mailbox(void)
{
    struct io_mailbox_options options = {sizeof(struct transfer_report), 256,
                                         NULL};
    struct io_mailbox *mailbox = NULL;
    assert_int_equal(io_mailbox_create(&options, &mailbox), OK);
    return mailbox;
}

static void set_options(struct transfer_options *options, struct pages *pages,
                        uint32_t tokens, uint64_t incarnation)
{
    *options = (struct transfer_options){
        .backend = &world.backend.base,
        .memory = &pages->bytes[0][0][0],
        .memory_size = sizeof(pages->bytes),
        .group_count = GROUPS,
        .incarnation = incarnation,
        .port.reports = new_mailbox(),
        .send_count_max = 64,
        .receive_count_max = 64,
        .peer_count_max = 4,
        .grace_ns = 1000,
        .advert_ttl_ns = 500,
    };
    for (uint32_t i = 0; i < GROUPS; i++) {
        options->groups[i] =
            (struct transfer_group){.pool = {pages->bytes[i][0],
                                             PAGE_BYTES,
                                             PAGE_COUNT,
                                             {1, 1, HEAD_BYTES / 2, tokens, 2}},
                                    .life = {.window = i == 0 ? 0 : WINDOW}};
    }
}

static void world_open(uint64_t seed, uint32_t source_tokens,
                       uint32_t target_tokens)
{
    log_setup(&(struct log_options){.level = LOG_ERROR});
    memset(&world, 0, sizeof(world));
    world.rng = rng_from_seed(seed);
    world.now = 1;
    world.tokens[0] = source_tokens;
    world.tokens[1] = target_tokens;
    transfer_backend_init(&world.backend.base, &backend_ops);
    world.backend.peer.backend = &world.backend.base;
    set_options(&world.options[0], &world.source, source_tokens, SENDER);
    set_options(&world.options[1], &world.target, target_tokens, RECEIVER);
    world.sends = send_side_create(&(struct send_side_options){
        &world.options[0], &world.stats[0], no_wake, NULL});
    world.receives = receive_side_create(&(struct receive_side_options){
        &world.options[1], &world.stats[1], no_wake, NULL});
    receive_side_set_control(world.receives, &world.control);
}

static void world_close(void)
{
    send_side_destroy(world.sends);
    receive_side_destroy(world.receives);
    io_mailbox_destroy(world.options[0].port.reports);
    io_mailbox_destroy(world.options[1].port.reports);
}
