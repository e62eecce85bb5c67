#include "engine/copies.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/copy_host.h"

enum { RUNNING_MAX = 256, WAITS_MAX = 2 };

/* The ticket of the cache in this place of the ring, and the copier's for it. */
struct running {
    kv_ticket order; /* 0: nobody */
    device_ticket copy;
};

struct engine_copies {
    struct engine_copies_options options;
    struct device_copier *copier; /* NULL: one level */
    struct running running[RUNNING_MAX]; /* by order % RUNNING_MAX */
    uint32_t running_count;
};

enum err engine_copies_create(const struct engine_copies_options *options,
                              struct engine_copies **copies_out)
{
    struct engine_copies *copies = mem_new(sizeof(*copies));
    copies->options = *options;
    struct device_copier_host_options host = {
        .limits = {.submission_count_max = RUNNING_MAX,
                   .copy_count_max = 1,
                   .wait_count_max = WAITS_MAX},
        .thread_count = 1,
        .waker = options->waker};
    if (options->levels[1] != NULL) {
        enum err err = device_copier_host_create(&host, &copies->copier);
        if (err != OK) {
            mem_free(copies);
            return err;
        }
    }
    *copies_out = copies;
    return OK;
}

void engine_copies_destroy(struct engine_copies *copies)
{
    if (copies == NULL) {
        return;
    }
    device_copier_destroy(copies->copier);
    mem_free(copies);
}

static uint8_t *page_of(const struct engine_copies *copies, uint8_t level,
                        uint8_t group, int32_t slot)
{
    const struct kv_pool_view *pool = &copies->options.levels[level][group];
    CHECK(slot >= 0);
    CHECK((uint32_t)slot < pool->page_count);
    return pool->base + pool->page_bytes * (size_t)slot;
}

static struct device_copy copy_of(const struct engine_copies *copies,
                                  const struct kv_order *order)
{
    return (struct device_copy){
        .to = device_address_host(
            page_of(copies, order->to_level, order->group, order->to_slot)),
        .from = device_address_host(
            page_of(copies, order->from_level, order->group, order->from_slot)),
        .bytes = copies->options.levels[0][order->group].page_bytes};
}

static struct running *place_of(struct engine_copies *copies, kv_ticket order)
{
    return &copies->running[order % RUNNING_MAX];
}

/* The copier's ticket for one of the cache's; 0: it is done. */
static device_ticket copy_ticket(struct engine_copies *copies, kv_ticket order)
{
    const struct running *place = place_of(copies, order);
    return order != 0 && place->order == order ? place->copy : 0;
}

static bool try_submit(struct engine_copies *copies,
                       const struct kv_order *order)
{
    struct running *place = place_of(copies, order->ticket);
    struct device_copy copy = copy_of(copies, order);
    device_ticket waits[WAITS_MAX] = {copy_ticket(copies, order->after[0]),
                                      copy_ticket(copies, order->after[1])};
    struct device_copy_order submission = {.copies = &copy,
                                           .copy_count = 1,
                                           .waits = waits,
                                           .wait_count = WAITS_MAX};
    if (place->order != 0 ||
        device_copier_submit(copies->copier, &submission, &place->copy) != OK) {
        return false;
    }
    place->order = order->ticket;
    copies->running_count++;
    return true;
}

/* Nothing runs that it could wait for: at once. */
static void copy_now(const struct engine_copies *copies,
                     const struct kv_order *order)
{
    struct device_copy copy = copy_of(copies, order);
    memcpy(copy.to.pointer, copy.from.pointer, copy.bytes);
}

static void start(struct engine_copies *copies, struct engine_core *core)
{
    uint32_t count = 0;
    const struct kv_order *orders = engine_core_copies(core, &count);
    while (count > 0) {
        struct kv_order order = orders[0];
        bool is_plain = order.from_level == 0 && order.to_level == 0;
        bool is_now =
            copies->copier == NULL || (is_plain && copies->running_count == 0);
        if (!is_now && !try_submit(copies, &order)) {
            return; /* full: with the next turn */
        }
        engine_core_copies_taken(core, 1);
        if (is_now) {
            copy_now(copies, &order);
            engine_core_copy_done(core, order.ticket, true);
        }
        orders = engine_core_copies(core, &count);
    }
}

static void tell(struct engine_copies *copies, struct engine_core *core,
                 const struct device_copy_done *done)
{
    for (uint32_t i = 0; i < RUNNING_MAX; i++) {
        struct running *place = &copies->running[i];
        if (place->order != 0 && place->copy == done->ticket) {
            kv_ticket order = place->order;
            *place = (struct running){0};
            copies->running_count--;
            if (done->err != OK) {
                log_warn("engine", "a page was lost on its way between levels");
            }
            engine_core_copy_done(core, order, done->err == OK);
            return;
        }
    }
    CHECK_UNREACHABLE();
}

static void finish(struct engine_copies *copies, struct engine_core *core)
{
    struct device_copy_done done;
    while (copies->copier != NULL &&
           device_copier_poll(copies->copier, &done)) {
        tell(copies, core, &done);
    }
}

void engine_copies_run(struct engine_copies *copies, struct engine_core *core)
{
    finish(copies, core);
    start(copies, core);
}

bool engine_copies_are_pending(const struct engine_copies *copies,
                               const struct engine_core *core)
{
    uint32_t count = 0;
    engine_core_copies(core, &count);
    return count > 0 || copies->running_count > 0;
}
