#include "device/copy.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "device/copy_body.h"

enum { NONE = DEVICE_COPY_SLOT_NONE, LIMIT_MAX = 1 << 20 };

struct device_address device_address_host(const void *pointer)
{
    return (struct device_address){DEVICE_KIND_HOST, (void *)pointer};
}

struct device_address device_address_after(struct device_address address,
                                           size_t bytes)
{
    address.pointer = (uint8_t *)address.pointer + bytes;
    return address;
}

/* ---- slots and tickets ---- */

static uint32_t bucket_count_for(uint32_t slot_count)
{
    uint32_t count = 1;
    while (count < slot_count) {
        count *= 2;
    }
    return count;
}

/* Tickets count up, so their low bits spread as well as any hash. */
static uint32_t *bucket_of(const struct device_copier *copier,
                           device_ticket ticket)
{
    return &copier->buckets[ticket & copier->bucket_mask];
}

static uint32_t find(const struct device_copier *copier, device_ticket ticket)
{
    uint32_t slot = *bucket_of(copier, ticket);
    while (slot != NONE && copier->slots[slot].ticket != ticket) {
        slot = copier->slots[slot].next;
    }
    return slot;
}

static uint32_t take_slot(struct device_copier *copier)
{
    uint32_t index = copier->free_first;
    struct device_copy_slot *slot = &copier->slots[index];
    CHECK(slot->ticket == 0);
    copier->free_first = slot->next;
    copier->free_count--;
    slot->ticket = ++copier->last_ticket;
    uint32_t *bucket = bucket_of(copier, slot->ticket);
    slot->next = *bucket;
    *bucket = index;
    return index;
}

static void give_slot(struct device_copier *copier, uint32_t index)
{
    struct device_copy_slot *slot = &copier->slots[index];
    CHECK(slot->ticket != 0);
    uint32_t *link = bucket_of(copier, slot->ticket);
    while (*link != index) {
        CHECK(*link != NONE);
        link = &copier->slots[*link].next;
    }
    *link = slot->next;
    slot->ticket = 0;
    slot->next = copier->free_first;
    copier->free_first = index;
    copier->free_count++;
}

static void check_limits(const struct device_copier_limits *limits)
{
    CHECK(limits->submission_count_max > 0);
    CHECK(limits->submission_count_max <= LIMIT_MAX);
    CHECK(limits->copy_count_max > 0);
    CHECK(limits->copy_count_max <= LIMIT_MAX);
    CHECK(limits->wait_count_max <= LIMIT_MAX / limits->submission_count_max);
}

static void set_slots(struct device_copier *copier)
{
    uint32_t count = copier->limits.submission_count_max;
    for (uint32_t i = 0; i < count; i++) {
        copier->slots[i].copies =
            copier->copies + (size_t)i * copier->limits.copy_count_max;
        copier->slots[i].next = i + 1 < count ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i <= copier->bucket_mask; i++) {
        copier->buckets[i] = NONE;
    }
    copier->free_first = 0;
    copier->free_count = count;
}

enum err device_copier_init(struct device_copier *copier,
                            const struct device_copier_ops *ops,
                            const struct device_copier_limits *limits)
{
    check_limits(limits);
    uint32_t count = limits->submission_count_max;
    uint32_t bucket_count = bucket_count_for(count);
    *copier = (struct device_copier){
        .ops = ops,
        .limits = *limits,
        .slots = mem_try_array(count, sizeof(*copier->slots)),
        .copies = mem_try_array((size_t)count * limits->copy_count_max,
                                sizeof(*copier->copies)),
        .wait_slots = mem_try_array((size_t)limits->wait_count_max + 1,
                                    sizeof(*copier->wait_slots)),
        .buckets = mem_try_array(bucket_count, sizeof(*copier->buckets)),
        .bucket_mask = bucket_count - 1,
    };
    if (copier->slots == NULL || copier->copies == NULL ||
        copier->wait_slots == NULL || copier->buckets == NULL) {
        device_copier_finish(copier);
        return ERR_NO_MEMORY;
    }
    set_slots(copier);
    return OK;
}

void device_copier_finish(struct device_copier *copier)
{
    mem_free(copier->slots);
    mem_free(copier->copies);
    mem_free(copier->wait_slots);
    mem_free(copier->buckets);
}

/* ---- the table, for its users ---- */

static void check_address(const struct device_copier *copier,
                          struct device_address address)
{
    CHECK(address.kind < DEVICE_KIND_COUNT);
    CHECK(copier->ops->kinds >> address.kind & 1);
    CHECK((uintptr_t)address.pointer % DEVICE_COPY_UNIT == 0);
}

static void check_order(const struct device_copier *copier,
                        const struct device_copy_order *order)
{
    CHECK(order->copy_count <= copier->limits.copy_count_max);
    CHECK(order->wait_count <= copier->limits.wait_count_max);
    for (uint32_t i = 0; i < order->copy_count; i++) {
        const struct device_copy *copy = &order->copies[i];
        CHECK(copy->bytes % DEVICE_COPY_UNIT == 0);
        if (copy->bytes > 0) {
            check_address(copier, copy->to);
            check_address(copier, copy->from);
        }
    }
    for (uint32_t i = 0; i < order->wait_count; i++) {
        CHECK(order->waits[i] <= copier->last_ticket);
    }
}

/* Those that are not polled yet, as slots. */
static uint32_t find_waits(struct device_copier *copier,
                           const struct device_copy_order *order)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < order->wait_count; i++) {
        uint32_t slot = find(copier, order->waits[i]);
        if (order->waits[i] != 0 && slot != NONE) {
            copier->wait_slots[count++] = slot;
        }
    }
    return count;
}

static void count_order(struct device_copier_stats *stats,
                        const struct device_copy_order *order)
{
    stats->submissions++;
    stats->copies += order->copy_count;
    for (uint32_t i = 0; i < order->copy_count; i++) {
        stats->bytes += order->copies[i].bytes;
    }
}

enum err device_copier_submit(struct device_copier *copier,
                              const struct device_copy_order *order,
                              device_ticket *ticket_out)
{
    check_order(copier, order);
    if (copier->free_count == 0) {
        return ERR_FULL;
    }
    uint32_t wait_count = find_waits(copier, order);
    uint32_t index = take_slot(copier);
    struct device_copy_slot *slot = &copier->slots[index];
    if (order->copy_count > 0) {
        memcpy(slot->copies, order->copies,
               order->copy_count * sizeof(*order->copies));
    }
    slot->copy_count = order->copy_count;
    slot->err = OK;
    slot->launches = 0;
    count_order(&copier->stats, order);
    device_ticket ticket = slot->ticket;
    copier->ops->submit(copier, index, copier->wait_slots, wait_count);
    *ticket_out = ticket;
    return OK;
}

bool device_copier_poll(struct device_copier *copier,
                        struct device_copy_done *done_out)
{
    uint32_t index = copier->ops->poll(copier);
    if (index == NONE) {
        return false;
    }
    CHECK(index < copier->limits.submission_count_max);
    const struct device_copy_slot *slot = &copier->slots[index];
    copier->stats.done++;
    copier->stats.failures += slot->err != OK;
    copier->stats.launches += slot->launches;
    *done_out = (struct device_copy_done){
        .ticket = slot->ticket,
        .err = slot->err,
        .launches = slot->launches,
    };
    give_slot(copier, index);
    return true;
}

bool device_copier_is_done(const struct device_copier *copier,
                           device_ticket ticket)
{
    CHECK(ticket <= copier->last_ticket);
    return ticket == 0 || find(copier, ticket) == NONE;
}

uint32_t device_copier_room(const struct device_copier *copier)
{
    return copier->free_count;
}

void device_copier_drain(struct device_copier *copier)
{
    copier->ops->drain(copier);
}

void device_copier_destroy(struct device_copier *copier)
{
    if (copier != NULL) {
        copier->ops->drain(copier);
        copier->ops->destroy(copier);
    }
}

const char *device_copier_name(const struct device_copier *copier)
{
    return copier->ops->name;
}

struct device_copier_limits device_copier_limits(
    const struct device_copier *copier)
{
    return copier->limits;
}

struct device_copier_stats device_copier_stats(
    const struct device_copier *copier)
{
    return copier->stats;
}
