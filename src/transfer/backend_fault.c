#include "transfer/backend_fault.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/mem.h"
#include "transfer/write_queue.h"

struct body {
    struct transfer_backend base;
    struct transfer_backend *next;
    struct transfer_fault *fault;
    /* Held before the copy, and after it; in order. */
    struct transfer_write_queue waiting, done;
};

/* The caller's peer is ours, `next` knows its own. */
struct peer {
    struct transfer_backend_peer base;
    struct transfer_backend_peer *next; /* NULL once closed */
    uint32_t write_count;
};

static struct body *body_of(const struct transfer_backend *backend)
{
    return (struct body *)backend;
}

static void destroy(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    CHECK(body->waiting.first == NULL);
    CHECK(body->done.first == NULL);
    transfer_backend_destroy(body->next);
    mem_free((void *)body->base.ops);
    mem_free(body);
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    return transfer_backend_alloc(body_of(backend)->next, size, why,
                                  memory_out);
}

static void free_pool(struct transfer_backend *backend, void *memory)
{
    transfer_backend_free(body_of(backend)->next, memory);
}

static const char *config(const struct transfer_backend *backend)
{
    return transfer_backend_config(body_of(backend)->next);
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    return transfer_backend_export(body_of(backend)->next, memory, size, why,
                                   blob_out);
}

static enum err peer_open(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct transfer_backend_peer *next;
    enum err err = transfer_backend_peer_open(body_of(backend)->next, blob,
                                              pool_size, why, &next);
    if (err) {
        return err;
    }
    struct peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->next = next;
    *peer_out = &peer->base;
    return OK;
}

static void peer_close(struct transfer_backend_peer *base)
{
    struct peer *peer = (struct peer *)base;
    transfer_backend_peer_close(peer->next);
    peer->next = NULL;
    if (peer->write_count == 0) {
        mem_free(peer);
    }
}

static const char *peer_lane(const struct transfer_backend_peer *base)
{
    return transfer_backend_peer_lane(((const struct peer *)base)->next);
}

/* Uses up one of `count`; false when there is none. */
static bool use_one(_Atomic uint32_t *count)
{
    uint32_t left = atomic_load(count);
    while (left > 0) {
        if (atomic_compare_exchange_weak(count, &left, left - 1)) {
            return true;
        }
    }
    return false;
}

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct body *body = body_of(backend);
    ((struct peer *)write->peer)->write_count++;
    atomic_fetch_add(&body->fault->held, 1);
    transfer_write_queue_push(&body->waiting, write);
}

/* A write of the caller's, told to `next` in the terms of `next`. */
struct passed {
    struct transfer_write write;
    struct transfer_write *outer;
    uint32_t polls_left;
};

static void pass_on(struct body *body, struct transfer_write *outer)
{
    struct peer *peer = (struct peer *)outer->peer;
    bool is_stopped = use_one(&body->fault->stop_count);
    if (peer->next == NULL || is_stopped) {
        outer->outcome = TRANSFER_STOPPED;
        transfer_write_queue_push(&body->done, outer);
        return;
    }
    struct passed *passed = mem_new(sizeof(*passed));
    passed->outer = outer;
    passed->write.peer = peer->next;
    passed->write.pieces = outer->pieces;
    passed->write.piece_count = outer->piece_count;
    passed->write.context = passed;
    transfer_backend_write(body->next, &passed->write);
}

static void take_back(struct body *body, struct transfer_write *inner)
{
    struct passed *passed = inner->context;
    struct transfer_write *outer = passed->outer;
    outer->outcome = inner->outcome;
    outer->cursor = atomic_load(&body->fault->delay_polls);
    bool is_done = inner->outcome == TRANSFER_DONE;
    if (is_done && use_one(&body->fault->doubt_count)) {
        outer->outcome = TRANSFER_IN_DOUBT;
    }
    if (is_done && outer->piece_count > 0 &&
        use_one(&body->fault->flip_count)) {
        outer->pieces[0].crc32c ^= 1;
    }
    mem_free(passed);
    transfer_write_queue_push(&body->done, outer);
}

static struct transfer_write *give_back(struct body *body)
{
    struct transfer_write *first = body->done.first;
    if (first == NULL || atomic_load(&body->fault->hold_done)) {
        return NULL;
    }
    if (first->cursor > 0) {
        first->cursor--;
        return NULL;
    }
    struct transfer_write *write = transfer_write_queue_pop(&body->done);
    struct peer *peer = (struct peer *)write->peer;
    atomic_fetch_sub(&body->fault->held, 1);
    if (--peer->write_count == 0 && peer->next == NULL) {
        mem_free(peer);
    }
    return write;
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct body *body = body_of(backend);
    while (body->waiting.first != NULL &&
           !atomic_load(&body->fault->hold_writes)) {
        pass_on(body, transfer_write_queue_pop(&body->waiting));
    }
    bool is_busy;
    struct transfer_write *inner = transfer_backend_poll(body->next, &is_busy);
    if (inner != NULL) {
        take_back(body, inner);
    }
    struct transfer_write *write = give_back(body);
    bool is_due =
        body->done.first != NULL && !atomic_load(&body->fault->hold_done);
    *is_busy_out = is_busy || is_due;
    return write;
}

static int fd(const struct transfer_backend *backend)
{
    return transfer_backend_fd(body_of(backend)->next);
}

static enum err arm(struct transfer_backend *backend)
{
    return transfer_backend_arm(body_of(backend)->next);
}

static const struct transfer_backend_ops common = {
    .destroy = destroy,
    .alloc = alloc,
    .free = free_pool,
    .config = config,
    .export_pool = export_pool,
    .peer_open = peer_open,
    .peer_close = peer_close,
    .peer_lane = peer_lane,
    .write = start_write,
    .poll = poll_once,
    .fd = fd,
    .arm = arm,
};

struct transfer_backend *transfer_backend_fault_create(
    struct transfer_backend *next, struct transfer_fault *fault)
{
    struct body *body = mem_new(sizeof(*body));
    struct transfer_backend_ops *ops = mem_copy(&common, sizeof(common));
    ops->name = next->ops->name;
    ops->toucher = next->ops->toucher;
    ops->capabilities = next->ops->capabilities;
    transfer_backend_init(&body->base, ops);
    body->next = next;
    body->fault = fault;
    return &body->base;
}
