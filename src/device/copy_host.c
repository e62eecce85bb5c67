#include "device/copy_host.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "device/copy_body.h"
#include "device/copy_graph.h"
#include "device/copy_split.h"
#include "io/mailbox.h"
#include "io/thread.h"

enum { NONE = DEVICE_COPY_SLOT_NONE };

struct host;

struct worker {
    struct host *host;
    struct io_thread *thread;
    struct io_waker *waker;
    struct worker *next_idle;
    bool is_idle; /* on the idle list */
};

/* A submission while its pieces are cut and moved. */
struct progress {
    struct device_copy_cursor cursor;
    uint32_t running; /* pieces cut and not moved yet */
    uint32_t launches;
};

struct host {
    struct device_copier base;
    struct io_waker *owner; /* may be NULL */
    struct io_waker *drained;
    uint32_t worker_count;
    struct worker *workers; /* (worker_count) */
    struct io_lock *lock; /* of all below, held for no copying */
    struct device_copy_graph graph;
    struct progress *progress; /* (submission_count_max) */
    struct worker *idle;
    bool is_draining;
    bool is_stopping;
};

/* Whom to wake once the lock is given. */
struct wakes {
    struct io_waker *worker, *owner, *drained;
};

static struct host *host_of(struct device_copier *copier)
{
    return (struct host *)copier;
}

static void wake_all(const struct wakes *wakes)
{
    if (wakes->worker != NULL) {
        io_waker_wake(wakes->worker);
    }
    if (wakes->owner != NULL) {
        io_waker_wake(wakes->owner);
    }
    if (wakes->drained != NULL) {
        io_waker_wake(wakes->drained);
    }
}

/* ---- under the lock ---- */

/* One more worker while there is more work: each that wakes looks again, so as
 * many get up as there are pieces. */
static void note_work(struct host *host, struct wakes *wakes)
{
    struct worker *worker = host->idle;
    if (host->graph.ready.count > 0 && worker != NULL) {
        host->idle = worker->next_idle;
        worker->is_idle = false;
        wakes->worker = worker->waker;
    }
}

/* The owner takes all that is finished when it wakes, so only the first end
 * after that pays for a wake. */
static void note_ends(struct host *host, uint32_t finished_before,
                      struct wakes *wakes)
{
    if (finished_before == 0 && host->graph.finished.count > 0) {
        wakes->owner = host->owner;
    }
    if (host->is_draining && host->graph.unfinished_count == 0) {
        wakes->drained = host->drained;
    }
}

static bool is_cut(const struct host *host, uint32_t slot)
{
    return host->progress[slot].cursor.copy ==
           host->base.slots[slot].copy_count;
}

/* The next piece of the first ready submission, which leaves the ready list
 * when it has no more. */
static bool take_item(struct host *host, uint32_t *slot_out,
                      struct device_copy_item *item_out)
{
    uint32_t slot = host->graph.ready.first;
    if (host->graph.ready.count == 0) {
        return false;
    }
    struct progress *progress = &host->progress[slot];
    const struct device_copy_slot *order = &host->base.slots[slot];
    bool has_item = device_copy_cursor_next(&progress->cursor, order->copies,
                                            order->copy_count, item_out);
    CHECK(has_item);
    progress->running++;
    progress->launches++;
    if (is_cut(host, slot)) {
        uint32_t first = device_copy_graph_run(&host->graph, 0);
        CHECK(first == slot);
    }
    *slot_out = slot;
    return true;
}

static void end_item(struct host *host, uint32_t slot, struct wakes *wakes)
{
    struct progress *progress = &host->progress[slot];
    CHECK(progress->running > 0);
    progress->running--;
    if (progress->running > 0 || !is_cut(host, slot)) {
        return;
    }
    host->base.slots[slot].launches = progress->launches;
    uint32_t finished_before = host->graph.finished.count;
    device_copy_graph_end(&host->graph, slot);
    note_ends(host, finished_before, wakes);
}

static void go_idle(struct host *host, struct worker *worker)
{
    if (!worker->is_idle) {
        worker->is_idle = true;
        worker->next_idle = host->idle;
        host->idle = worker;
    }
}

/* ---- the workers ---- */

static void move_item(const struct device_copy *copies,
                      const struct device_copy_item *item)
{
    if (item->share.bytes > 0) {
        const struct device_copy *copy = &copies[item->first];
        memcpy((uint8_t *)copy->to.pointer + item->share.offset,
               (const uint8_t *)copy->from.pointer + item->share.offset,
               item->share.bytes);
        return;
    }
    for (uint32_t i = item->first; i < item->first + item->count; i++) {
        if (copies[i].bytes > 0) {
            memcpy(copies[i].to.pointer, copies[i].from.pointer,
                   copies[i].bytes);
        }
    }
}

/* Ends the piece in hand, if any, and takes the next. False: none is left, and
 * the worker is on the idle list. */
static bool turn(struct worker *worker, uint32_t *slot,
                 struct device_copy_item *item, bool *is_over_out)
{
    struct host *host = worker->host;
    struct wakes wakes = {0};
    io_lock_take(host->lock);
    if (*slot != NONE) {
        end_item(host, *slot, &wakes);
        *slot = NONE;
    }
    bool has_item = take_item(host, slot, item);
    if (has_item) {
        note_work(host, &wakes);
    } else {
        go_idle(host, worker);
    }
    *is_over_out = !has_item && host->is_stopping;
    io_lock_give(host->lock);
    wake_all(&wakes);
    return has_item;
}

static void run_worker(void *context)
{
    struct worker *worker = context;
    uint32_t slot = NONE;
    struct device_copy_item item;
    bool is_over = false;
    while (!is_over) {
        if (turn(worker, &slot, &item, &is_over)) {
            move_item(worker->host->base.slots[slot].copies, &item);
        } else if (!is_over) {
            io_waker_wait(worker->waker, UINT64_MAX);
        }
    }
}

/* ---- the table ---- */

static void host_submit(struct device_copier *copier, uint32_t slot,
                        const uint32_t *waits, uint32_t wait_count)
{
    struct host *host = host_of(copier);
    struct wakes wakes = {0};
    const struct device_copy_slot *order = &copier->slots[slot];
    struct device_copy_cursor cursor =
        device_copy_cursor_first(order->copies, order->copy_count);
    bool is_empty = cursor.copy == order->copy_count;
    io_lock_take(host->lock);
    host->progress[slot] = (struct progress){.cursor = cursor};
    uint32_t finished_before = host->graph.finished.count;
    device_copy_graph_add(&host->graph, slot, is_empty, waits, wait_count);
    note_ends(host, finished_before, &wakes);
    note_work(host, &wakes);
    io_lock_give(host->lock);
    wake_all(&wakes);
}

static uint32_t host_poll(struct device_copier *copier)
{
    struct host *host = host_of(copier);
    io_lock_take(host->lock);
    uint32_t slot = device_copy_graph_take(&host->graph);
    io_lock_give(host->lock);
    return slot;
}

static void host_drain(struct device_copier *copier)
{
    struct host *host = host_of(copier);
    for (;;) {
        io_lock_take(host->lock);
        bool is_drained = host->graph.unfinished_count == 0;
        host->is_draining = !is_drained;
        io_lock_give(host->lock);
        if (is_drained) {
            return;
        }
        io_waker_wait(host->drained, UINT64_MAX);
    }
}

static void stop_workers(struct host *host)
{
    io_lock_take(host->lock);
    host->is_stopping = true;
    io_lock_give(host->lock);
    for (uint32_t i = 0; i < host->worker_count; i++) {
        struct worker *worker = &host->workers[i];
        if (worker->thread != NULL) {
            io_waker_wake(worker->waker);
            io_thread_join(worker->thread);
        }
    }
}

static void host_free(struct host *host)
{
    for (uint32_t i = 0; i < host->worker_count; i++) {
        io_waker_destroy(host->workers[i].waker);
    }
    mem_free(host->workers);
    mem_free(host->progress);
    io_waker_destroy(host->drained);
    device_copy_graph_finish(&host->graph);
    io_lock_destroy(host->lock);
    device_copier_finish(&host->base);
    mem_free(host);
}

static void host_destroy(struct device_copier *copier)
{
    struct host *host = host_of(copier);
    stop_workers(host);
    host_free(host);
}

static const struct device_copier_ops HOST_OPS = {
    .name = "host",
    .kinds = 1u << DEVICE_KIND_HOST,
    .submit = host_submit,
    .poll = host_poll,
    .drain = host_drain,
    .destroy = host_destroy,
};

/* ---- create ---- */

static enum err start_workers(struct host *host)
{
    for (uint32_t i = 0; i < host->worker_count; i++) {
        struct worker *worker = &host->workers[i];
        worker->host = host;
        enum err err = io_waker_create(&worker->waker);
        if (!err) {
            err = io_thread_start("copy", run_worker, worker, &worker->thread);
        }
        if (err) {
            return err;
        }
    }
    return OK;
}

static enum err take_memory(struct host *host, uint32_t thread_count)
{
    const struct device_copier_limits *limits = &host->base.limits;
    enum err err = device_copy_graph_init(
        &host->graph, limits->submission_count_max, limits->wait_count_max);
    host->progress =
        mem_try_array(limits->submission_count_max, sizeof(*host->progress));
    host->workers = mem_try_array(thread_count, sizeof(*host->workers));
    if (err || host->progress == NULL || host->workers == NULL) {
        return ERR_NO_MEMORY;
    }
    host->worker_count = thread_count;
    return io_waker_create(&host->drained);
}

enum err device_copier_host_create(
    const struct device_copier_host_options *options,
    struct device_copier **copier_out)
{
    CHECK(options->thread_count > 0);
    struct host *host = mem_new(sizeof(*host));
    enum err err = device_copier_init(&host->base, &HOST_OPS, &options->limits);
    if (err) {
        mem_free(host);
        return err;
    }
    host->owner = options->waker;
    host->lock = io_lock_create();
    err = take_memory(host, options->thread_count);
    if (!err) {
        err = start_workers(host);
    }
    if (err) {
        host_destroy(&host->base);
        return err;
    }
    *copier_out = &host->base;
    return OK;
}
