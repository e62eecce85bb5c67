#include "transfer/advert.h"

#include "base/check.h"
#include "base/mem.h"

struct transfer_adverts {
    uint32_t capacity;
    struct transfer_advert *entries; /* (capacity) */
};

struct transfer_adverts *transfer_adverts_create(uint32_t capacity)
{
    struct transfer_adverts *adverts = mem_new(sizeof(*adverts));
    adverts->capacity = capacity;
    adverts->entries = mem_new_array(capacity, sizeof(adverts->entries[0]));
    return adverts;
}

void transfer_adverts_destroy(struct transfer_adverts *adverts)
{
    if (adverts == NULL) {
        return;
    }
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        mem_free(adverts->entries[i].pages);
    }
    mem_free(adverts->entries);
    mem_free(adverts);
}

static enum err reserve(struct transfer_advert *advert, uint32_t count)
{
    if (count <= advert->page_capacity) {
        return OK;
    }
    void *pages =
        mem_try_resize(advert->pages, (size_t)count * sizeof(kv_page_id));
    if (pages == NULL) {
        return ERR_NO_MEMORY;
    }
    advert->pages = pages;
    advert->page_capacity = count;
    return OK;
}

static enum err check_pages(const struct wire_recv_request *request,
                            const uint32_t *page_counts, uint32_t group_count)
{
    if (request->group_count != group_count ||
        (uint64_t)group_count * request->block_count > WIRE_BLOCK_COUNT_MAX) {
        return ERR_INVALID;
    }
    for (uint32_t group = 0; group < group_count; group++) {
        for (uint32_t i = 0; i < request->block_count; i++) {
            int64_t page = wire_recv_request_page(request, group, i);
            if (page < KV_PAGE_NONE || page >= (int64_t)page_counts[group]) {
                return ERR_INVALID;
            }
        }
    }
    return OK;
}

static bool is_same(const struct transfer_advert *advert, uint32_t attempt,
                    const struct wire_recv_request *request)
{
    uint32_t count = request->block_count;
    if (advert->attempt != attempt || advert->blocks[0].count != count ||
        advert->group_count != request->group_count ||
        advert->receiver_slice != request->slice_id) {
        return false;
    }
    for (uint32_t i = 0; i < request->group_count * count; i++) {
        if (advert->pages[i] !=
            wire_recv_request_page(request, i / count, i % count)) {
            return false;
        }
    }
    return true;
}

/* Who asks for what never comes fills his half and no more. */
static bool has_its_share(const struct transfer_adverts *adverts,
                          uint64_t receiver)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        const struct transfer_advert *advert = &adverts->entries[i];
        count += advert->state == ADVERT_STORED && advert->receiver == receiver;
    }
    return count >= (adverts->capacity + 1) / 2;
}

static struct transfer_advert *find_absent(struct transfer_adverts *adverts)
{
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        if (adverts->entries[i].state == ADVERT_ABSENT) {
            return &adverts->entries[i];
        }
    }
    return NULL;
}

static void fill(struct transfer_advert *advert, uint64_t receiver,
                 uint32_t attempt, const struct wire_recv_request *request,
                 uint64_t arrived_ns)
{
    advert->rid = request->rid;
    advert->receiver = receiver;
    advert->attempt = attempt;
    advert->receiver_slice = request->slice_id;
    advert->prompt_tokens = request->prompt_tokens;
    advert->style = request->style;
    advert->arrived_ns = arrived_ns;
    advert->owner = NULL;
    advert->group_count = request->group_count;
    uint32_t count = request->block_count;
    for (uint32_t i = 0; i < request->group_count * count; i++) {
        advert->pages[i] =
            (kv_page_id)wire_recv_request_page(request, i / count, i % count);
    }
    for (uint32_t group = 0; group < request->group_count; group++) {
        advert->blocks[group] = (struct transfer_blocks){
            .pages = advert->pages + (size_t)group * count, .count = count};
    }
}

enum err transfer_adverts_store(struct transfer_adverts *adverts,
                                uint64_t receiver, uint32_t attempt,
                                const struct wire_recv_request *request,
                                const uint32_t *page_counts,
                                uint32_t group_count, uint64_t now,
                                struct transfer_advert **advert_out)
{
    enum err err = check_pages(request, page_counts, group_count);
    if (err) {
        return err;
    }
    struct transfer_advert *advert =
        transfer_adverts_find(adverts, request->rid, receiver);
    if (advert != NULL) {
        *advert_out = advert;
        return is_same(advert, attempt, request) ? OK : ERR_EXISTS;
    }
    advert = has_its_share(adverts, receiver) ? NULL : find_absent(adverts);
    err = advert == NULL ? ERR_FULL
                         : reserve(advert, group_count * request->block_count);
    if (err) {
        return err;
    }
    const struct transfer_advert *first =
        transfer_adverts_find_stored(adverts, request->rid);
    fill(advert, receiver, attempt, request,
         first != NULL ? first->arrived_ns : now);
    transfer_advert_move(advert, ADVERT_ARRIVE);
    *advert_out = advert;
    return OK;
}

struct transfer_advert *transfer_adverts_find(struct transfer_adverts *adverts,
                                              int64_t rid, uint64_t receiver)
{
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        struct transfer_advert *advert = &adverts->entries[i];
        if (advert->state != ADVERT_ABSENT && advert->rid == rid &&
            advert->receiver == receiver) {
            return advert;
        }
    }
    return NULL;
}

struct transfer_advert *transfer_adverts_find_stored(
    struct transfer_adverts *adverts, int64_t rid)
{
    struct transfer_advert *oldest = NULL;
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        struct transfer_advert *advert = &adverts->entries[i];
        if (advert->state == ADVERT_STORED && advert->rid == rid &&
            (oldest == NULL || advert->arrived_ns < oldest->arrived_ns)) {
            oldest = advert;
        }
    }
    return oldest;
}

void transfer_advert_move(struct transfer_advert *advert,
                          enum advert_event event)
{
    advert->state = transfer_state_next(&transfer_advert_moves, advert->state,
                                        (uint8_t)event);
}

struct transfer_advert *transfer_adverts_find_expired(
    struct transfer_adverts *adverts, uint64_t now, uint64_t ttl_ns)
{
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        struct transfer_advert *advert = &adverts->entries[i];
        if (advert->state == ADVERT_STORED &&
            now - advert->arrived_ns > ttl_ns) {
            return advert;
        }
    }
    return NULL;
}

struct transfer_advert *transfer_adverts_find_of(
    struct transfer_adverts *adverts, const void *owner)
{
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        struct transfer_advert *advert = &adverts->entries[i];
        if (advert->state == ADVERT_STORED && advert->owner == owner) {
            return advert;
        }
    }
    return NULL;
}

uint32_t transfer_adverts_stored(const struct transfer_adverts *adverts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < adverts->capacity; i++) {
        count += adverts->entries[i].state == ADVERT_STORED;
    }
    return count;
}
