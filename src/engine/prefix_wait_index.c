#include "base/check.h"
#include "engine/prefix_wait_state.h"

enum { OWNERS_ASKED = 8, NO_TAG = UINT32_MAX };

static uint32_t take_tag(struct prefix_wait *waits,
                         const struct prefix_key *key)
{
    uint32_t tag = prefix_table_find(waits->table, key);
    if (tag != PREFIX_TABLE_NONE) {
        return tag;
    }
    tag = waits->free_tag;
    CHECK(tag != NO_TAG); /* as many tags as entries */
    waits->free_tag = waits->tags[tag].next_free;
    waits->tags[tag] = (struct prefix_wait_tag){.key = *key};
    CHECK(prefix_table_insert(waits->table, tag) == OK);
    return tag;
}

static void give_tag(struct prefix_wait *waits, uint32_t tag)
{
    prefix_table_remove(waits->table, tag);
    waits->tags[tag].next_free = waits->free_tag;
    waits->free_tag = tag;
}

static uint32_t arrival_before(const struct prefix_wait *waits, uint32_t entry,
                               const struct prefix_wait_request *request)
{
    while (entry != 0 && waits->entries[entry].request->unit->arrival >
                             request->unit->arrival) {
        entry = waits->entries[entry].older;
    }
    return entry;
}

/* Oldest first; who arrives is the youngest, save after a pause. */
static void link_entry(struct prefix_wait *waits, uint32_t index)
{
    struct prefix_wait_entry *entry = &waits->entries[index];
    struct prefix_wait_tag *tag = &waits->tags[entry->tag];
    entry->older = arrival_before(waits, tag->youngest, entry->request);
    entry->younger =
        entry->older == 0 ? tag->oldest : waits->entries[entry->older].younger;
    *(entry->older == 0 ? &tag->oldest
                        : &waits->entries[entry->older].younger) = index;
    *(entry->younger == 0 ? &tag->youngest
                          : &waits->entries[entry->younger].older) = index;
}

static void unlink_entry(struct prefix_wait *waits, uint32_t index)
{
    struct prefix_wait_entry *entry = &waits->entries[index];
    struct prefix_wait_tag *tag = &waits->tags[entry->tag];
    *(entry->older == 0 ? &tag->oldest
                        : &waits->entries[entry->older].younger) =
        entry->younger;
    *(entry->younger == 0 ? &tag->youngest
                          : &waits->entries[entry->younger].older) =
        entry->older;
    if (tag->oldest == 0) {
        give_tag(waits, entry->tag);
    }
}

void prefix_wait_insert(struct prefix_wait *waits,
                        struct prefix_wait_request *request)
{
    uint32_t count = request->key_count / PREFIX_WAIT_STRIDE;
    if (!waits->options.is_enabled || !request->can_publish ||
        request->unit->is_multimodal || request->entry_first != 0) {
        return;
    }
    if (waits->stats.entries + count > waits->options.entry_max) {
        waits->stats.unindexed++;
        return;
    }
    uint32_t *link = &request->entry_first;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t index = waits->free_entry;
        struct prefix_wait_entry *entry = &waits->entries[index];
        waits->free_entry = entry->deeper;
        *entry = (struct prefix_wait_entry){.request = request};
        entry->tag =
            take_tag(waits, &request->keys[i * PREFIX_WAIT_STRIDE - 1]);
        link_entry(waits, index);
        *link = index;
        link = &entry->deeper;
    }
    waits->stats.entries += count;
    waits->stats.requests += count > 0;
}

void prefix_wait_remove(struct prefix_wait *waits,
                        struct prefix_wait_request *request)
{
    uint32_t index = request->entry_first;
    waits->stats.requests -= index != 0;
    while (index != 0) {
        uint32_t deeper = waits->entries[index].deeper;
        unlink_entry(waits, index);
        waits->entries[index] =
            (struct prefix_wait_entry){.deeper = waits->free_entry};
        waits->free_entry = index;
        waits->stats.entries--;
        index = deeper;
    }
    request->entry_first = 0;
    request->owner = NULL;
    request->point_count = 0;
}

struct prefix_wait_request *prefix_wait_find_owner(
    const struct prefix_wait *waits, const struct prefix_key *key,
    const struct prefix_wait_request *request)
{
    uint32_t tag = prefix_table_find(waits->table, key);
    uint32_t index = tag == PREFIX_TABLE_NONE ? 0 : waits->tags[tag].oldest;
    for (uint32_t i = 0; i < OWNERS_ASKED && index != 0; i++) {
        const struct prefix_wait_entry *entry = &waits->entries[index];
        if (entry->request != request &&
            prefix_wait_may_own(waits, entry->request)) {
            return entry->request;
        }
        index = entry->younger;
    }
    return NULL;
}

static bool list_is_valid(const struct prefix_wait *waits, uint32_t tag,
                          uint32_t *count)
{
    const struct prefix_wait_tag *list = &waits->tags[tag];
    uint32_t older = 0;
    for (uint32_t i = list->oldest; i != 0; i = waits->entries[i].younger) {
        const struct prefix_wait_entry *entry = &waits->entries[i];
        bool is_ordered =
            older == 0 || waits->entries[older].request->unit->arrival <=
                              entry->request->unit->arrival;
        if (entry->tag != tag || entry->older != older || !is_ordered) {
            return false;
        }
        older = i;
        (*count)++;
    }
    return list->youngest == older;
}

bool prefix_wait_is_valid(const struct prefix_wait *waits)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= waits->options.entry_max; i++) {
        const struct prefix_wait_entry *entry = &waits->entries[i];
        if (entry->request == NULL) {
            continue;
        }
        if (entry->older == 0 && !list_is_valid(waits, entry->tag, &count)) {
            return false;
        }
    }
    return count == waits->stats.entries && prefix_table_is_valid(waits->table);
}
