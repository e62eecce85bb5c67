#include "transfer/backend_fault.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/poller.h"
#include "transfer/decorate.h"
#include "transfer/fault_held.h"

struct body {
    struct transfer_decorator base;
    struct transfer_fault *fault;
    struct rng rng;
    struct io_poller *poller; /* NULL when next cannot sleep */
    const uint8_t *pool;
    size_t pool_size;
    /* Held before the copy, and after it, in order; told STOPPED and still to
     * be written; never to be told. */
    struct held_list waiting, done, late, lost;
    uint32_t inside_count; /* with next */
    uint64_t link_free_ns;
};

/* The caller's peer is ours, `next` knows its own. */
struct fault_peer {
    struct transfer_backend_peer base;
    struct transfer_backend_peer *next; /* NULL once closed */
    uint32_t held_count;
};

static struct body *body_of(const struct transfer_backend *backend)
{
    return (struct body *)backend;
}

/* -------- chance -------- */

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

static bool draw(struct body *body, const _Atomic uint32_t *ppm)
{
    uint32_t chance = atomic_load(ppm);
    return chance > 0 && rng_below(&body->rng, 1000000) < chance;
}

static struct held *pop_by_chance(struct body *body, struct held_list *list)
{
    if (list->first->after != NULL && draw(body, &body->fault->reorder_ppm)) {
        atomic_fetch_add(&body->fault->reordered, 1);
        return fault_pop_second(list);
    }
    return fault_pop(list);
}

/* -------- life -------- */

static void free_held(struct held *held)
{
    struct fault_peer *peer = held->peer;
    mem_free(held->plan.pieces);
    mem_free(held);
    if (--peer->held_count == 0 && peer->next == NULL) {
        mem_free(peer);
    }
}

static void take_back(struct body *body, struct transfer_write *inner);

/* Writes that nobody waits for any more may still be with `next`. */
static void destroy(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    CHECK(body->waiting.first == NULL);
    CHECK(body->lost.first == NULL);
    while (body->inside_count > 0) {
        bool is_busy;
        struct transfer_write *inner =
            transfer_backend_poll(body->base.next, &is_busy);
        if (inner != NULL) {
            take_back(body, inner);
        }
    }
    CHECK(body->done.first == NULL);
    while (body->late.first != NULL) {
        free_held(fault_pop(&body->late));
    }
    io_poller_destroy(body->poller);
    transfer_backend_destroy(body->base.next);
    mem_free(body);
}

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct body *body = body_of(backend);
    enum err err =
        transfer_backend_alloc(body->base.next, size, why, memory_out);
    if (!err) {
        body->pool = *memory_out;
        body->pool_size = size;
    }
    return err;
}

static enum err adopt(struct transfer_backend *backend, void *memory,
                      size_t size, struct why *why)
{
    struct body *body = body_of(backend);
    enum err err = transfer_backend_adopt(body->base.next, memory, size, why);
    if (!err) {
        body->pool = memory;
        body->pool_size = size;
    }
    return err;
}

static void free_pool(struct transfer_backend *backend, void *memory)
{
    struct body *body = body_of(backend);
    body->pool = NULL;
    transfer_backend_free(body->base.next, memory);
}

/* -------- peers -------- */

static enum err peer_open(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct transfer_backend_peer *next;
    enum err err = transfer_backend_peer_open(body_of(backend)->base.next, blob,
                                              pool_size, why, &next);
    if (err) {
        return err;
    }
    struct fault_peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->base.owner = next->owner;
    peer->next = next;
    *peer_out = &peer->base;
    return OK;
}

static void tell_lost(struct body *body, const struct fault_peer *peer)
{
    struct held_list others = {NULL, NULL};
    while (body->lost.first != NULL) {
        struct held *held = fault_pop(&body->lost);
        bool is_its = held->peer == peer;
        held->outcome = TRANSFER_IN_DOUBT;
        fault_push(is_its ? &body->done : &others, held);
    }
    body->lost = others;
}

static void peer_close(struct transfer_backend_peer *base)
{
    struct fault_peer *peer = (struct fault_peer *)base;
    transfer_backend_peer_close(peer->next);
    peer->next = NULL;
    tell_lost(body_of(base->backend), peer);
    if (peer->held_count == 0) {
        mem_free(peer);
    }
}

static const char *peer_lane(const struct transfer_backend_peer *base)
{
    return transfer_backend_peer_lane(((const struct fault_peer *)base)->next);
}

/* -------- before the copy -------- */

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct body *body = body_of(backend);
    struct held *held = mem_new(sizeof(*held));
    held->outer = write;
    held->peer = (struct fault_peer *)write->peer;
    held->peer->held_count++;
    atomic_fetch_add(&body->fault->held, 1);
    fault_push(&body->waiting, held);
}

static void submit(struct body *body, struct held *held)
{
    struct transfer_token token = held->inner.token;
    bool is_as_told = held->plan.pieces == NULL;
    held->inner = (struct transfer_write){
        .peer = held->peer->next,
        .pieces = is_as_told ? held->outer->pieces : held->plan.pieces,
        .piece_count = is_as_told ? held->outer->piece_count : held->plan.count,
        .token = token,
        .without_digest = held->outer != NULL && held->outer->without_digest,
        .context = held,
    };
    body->inside_count++;
    transfer_backend_write(body->base.next, &held->inner);
}

/* Draws what goes wrong in the copy. */
static void plan(struct body *body, struct held *held)
{
    struct transfer_fault *fault = body->fault;
    struct fault_plan *its = &held->plan;
    if (atomic_load(&fault->reorder_ppm) == 0 &&
        atomic_load(&fault->drop_ppm) == 0 &&
        atomic_load(&fault->corrupt_ppm) == 0 &&
        atomic_load(&fault->duplicate_ppm) == 0) {
        return;
    }
    fault_plan_copy(its, held->outer);
    if (draw(body, &fault->reorder_ppm)) {
        fault_plan_reverse(its);
        atomic_fetch_add(&fault->reordered, 1);
    }
    if (draw(body, &fault->drop_ppm) && fault_plan_drop(its, &body->rng)) {
        atomic_fetch_add(&fault->dropped, 1);
    }
    if (draw(body, &fault->corrupt_ppm) &&
        fault_plan_corrupt(its, &body->rng, body->pool, body->pool_size)) {
        atomic_fetch_add(&fault->corrupted, 1);
    }
    if (draw(body, &fault->duplicate_ppm)) {
        held->is_twice = true;
        atomic_fetch_add(&fault->duplicated, 1);
    }
}

/* Told that it is over, while it has not begun. */
static void promise_late(struct body *body, struct held *held)
{
    struct held *early = mem_new(sizeof(*early));
    early->outer = held->outer;
    early->peer = held->peer;
    early->peer->held_count++;
    early->outcome = TRANSFER_STOPPED;
    fault_push(&body->done, early);
    fault_plan_copy(&held->plan, held->outer);
    held->outer = NULL;
    held->polls_left = atomic_load(&body->fault->late_polls);
    fault_push(&body->late, held);
}

static void pass_on(struct body *body, struct held *held)
{
    held->inner.token = held->outer->token;
    if (held->peer->next == NULL || use_one(&body->fault->stop_count)) {
        held->outcome = TRANSFER_STOPPED;
        fault_push(&body->done, held);
        return;
    }
    plan(body, held);
    if (use_one(&body->fault->late_count)) {
        promise_late(body, held);
        return;
    }
    submit(body, held);
}

static void carry_out_late(struct body *body)
{
    struct held_list still = {NULL, NULL};
    while (body->late.first != NULL) {
        struct held *held = fault_pop(&body->late);
        if (held->peer->next == NULL) {
            free_held(held);
        } else if (held->polls_left > 0) {
            held->polls_left--;
            fault_push(&still, held);
        } else {
            submit(body, held);
        }
    }
    body->late = still;
}

/* -------- after the copy -------- */

/* A link of some speed carries one write after the other. */
static uint64_t link_time(struct body *body, const struct transfer_write *write)
{
    uint64_t speed = atomic_load(&body->fault->link_bytes_per_second);
    if (speed == 0) {
        return 0;
    }
    double bytes = 0;
    for (size_t i = 0; i < write->piece_count; i++) {
        bytes += (double)write->pieces[i].size;
    }
    uint64_t now = io_clock_now_ns();
    uint64_t begin = body->link_free_ns > now ? body->link_free_ns : now;
    body->link_free_ns = begin + (uint64_t)(bytes * 1e9 / (double)speed);
    return body->link_free_ns;
}

static void tell_digests(struct body *body, struct held *held)
{
    struct transfer_write *outer = held->outer;
    if (held->plan.pieces != NULL) {
        fault_plan_digest(outer, body->pool);
    }
    if (outer->piece_count > 0 && use_one(&body->fault->flip_count)) {
        outer->pieces[0].crc32c ^= 1;
    }
    if (use_one(&body->fault->doubt_count)) {
        held->outcome = TRANSFER_IN_DOUBT;
    }
}

static void take_back(struct body *body, struct transfer_write *inner)
{
    struct held *held = inner->context;
    body->inside_count--;
    if (held->outer == NULL) {
        free_held(held);
        return;
    }
    if (held->is_twice && held->peer->next != NULL) {
        held->is_twice = false;
        submit(body, held);
        return;
    }
    held->outcome = inner->outcome;
    if (inner->outcome == TRANSFER_DONE) {
        tell_digests(body, held);
    }
    held->due_ns = link_time(body, held->outer);
    held->polls_left = atomic_load(&body->fault->delay_polls);
    uint32_t max = atomic_load(&body->fault->delay_polls_max);
    if (max > 0 && draw(body, &body->fault->delay_ppm)) {
        held->polls_left += 1 + (uint32_t)rng_below(&body->rng, max);
    }
    bool is_lost =
        held->peer->next != NULL && use_one(&body->fault->lose_count);
    fault_push(is_lost ? &body->lost : &body->done, held);
}

static struct transfer_write *give_back(struct body *body)
{
    struct held *first = body->done.first;
    if (first == NULL || atomic_load(&body->fault->hold_done)) {
        return NULL;
    }
    if (first->polls_left > 0) {
        first->polls_left--;
        return NULL;
    }
    if (first->due_ns > 0 && io_clock_now_ns() < first->due_ns) {
        if (body->poller != NULL) {
            io_poller_set_alarm(body->poller, first->due_ns);
        }
        return NULL;
    }
    struct held *held = pop_by_chance(body, &body->done);
    struct transfer_write *write = held->outer;
    write->outcome = held->outcome;
    atomic_fetch_sub(&body->fault->held, 1);
    free_held(held);
    return write;
}

/* Something of ours that another poll now would move. */
static bool is_due(const struct body *body)
{
    const struct held *first = body->done.first;
    bool is_waiting_for_time = first != NULL && first->polls_left == 0 &&
                               first->due_ns > io_clock_now_ns();
    return body->late.first != NULL ||
           (first != NULL && !atomic_load(&body->fault->hold_done) &&
            (!is_waiting_for_time || body->poller == NULL));
}

static void hear_alarm(struct body *body)
{
    struct io_ready ready[2]; /* next's own is told by its poll */
    if (body->poller != NULL) {
        IGNORE(io_poller_take(body->poller, ready, 2) > 0);
    }
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct body *body = body_of(backend);
    hear_alarm(body);
    while (body->waiting.first != NULL &&
           !atomic_load(&body->fault->hold_writes)) {
        pass_on(body, pop_by_chance(body, &body->waiting));
    }
    carry_out_late(body);
    bool is_busy;
    struct transfer_write *inner =
        transfer_backend_poll(body->base.next, &is_busy);
    if (inner != NULL) {
        take_back(body, inner);
    }
    struct transfer_write *write = give_back(body);
    *is_busy_out = is_busy || is_due(body);
    return write;
}

static int fd(const struct transfer_backend *backend)
{
    return io_poller_fd(body_of(backend)->poller);
}

/* A body that cannot sleep, or whose poller the system refuses, is polled. */
static void open_poller(struct body *body)
{
    int next_fd = transfer_backend_fd(body->base.next);
    if (next_fd < 0) {
        return;
    }
    if (io_poller_create(&body->poller) == OK &&
        io_poller_add(body->poller, next_fd, false, body) == OK) {
        return;
    }
    io_poller_destroy(body->poller);
    body->poller = NULL;
    body->base.ops.capabilities &= ~(uint32_t)TRANSFER_CAN_SLEEP;
}

struct transfer_backend *transfer_backend_fault_create(
    struct transfer_backend *next, struct transfer_fault *fault)
{
    struct body *body = mem_new(sizeof(*body));
    transfer_decorator_init(&body->base, next);
    body->fault = fault;
    body->rng = rng_from_seed(fault->seed);
    open_poller(body);
    struct transfer_backend_ops *ops = &body->base.ops;
    ops->destroy = destroy;
    ops->alloc = alloc;
    ops->free = free_pool;
    ops->adopt = adopt;
    ops->peer_open = peer_open;
    ops->peer_close = peer_close;
    ops->peer_lane = peer_lane;
    ops->write = start_write;
    ops->poll = poll_once;
    ops->fd = fd;
    transfer_decorator_begin(&body->base);
    return &body->base.base;
}
