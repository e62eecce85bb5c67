#include "gguf/index.h"

#include "base/check.h"
#include "base/mem.h"

static uint64_t mix(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static uint64_t hash_name(struct span name)
{
    uint64_t hash = 0x9e3779b97f4a7c15u * (name.size + 1);
    size_t at = 0;
    for (; at + 8 <= name.size; at += 8) {
        uint64_t word;
        memcpy(&word, name.data + at, 8);
        hash = mix(hash ^ word) * 0x9fb21c651e98df25u;
    }
    uint64_t tail = 0;
    for (; at < name.size; at++) {
        tail = tail << 8 | name.data[at];
    }
    return mix(mix(hash ^ tail) * 0x9fb21c651e98df25u);
}

enum err gguf_index_init(struct gguf_index *index, uint32_t count_max,
                         gguf_name_at_fn name_at, const void *owner)
{
    if (count_max > GGUF_INDEX_COUNT_MAX) {
        return ERR_FULL;
    }
    uint32_t number_bits = 1;
    while ((1u << number_bits) < count_max + 1) {
        number_bits++;
    }
    uint32_t slot_count = 2u << number_bits;
    uint32_t *slots = mem_try_array(slot_count, sizeof(*slots));
    if (slots == NULL) {
        return ERR_NO_MEMORY;
    }
    *index = (struct gguf_index){.slots = slots,
                                 .slot_mask = slot_count - 1,
                                 .number_bits = number_bits,
                                 .name_at = name_at,
                                 .owner = owner};
    return OK;
}

void gguf_index_finish(struct gguf_index *index)
{
    mem_free(index->slots);
    *index = (struct gguf_index){0};
}

/* The slot that holds `name`, or the free one where it would go. */
static uint32_t find_slot(const struct gguf_index *index, struct span name,
                          uint32_t *tag_out)
{
    uint64_t hash = hash_name(name);
    uint32_t tag = (uint32_t)(hash >> 32) >> index->number_bits
                                                 << index->number_bits;
    uint32_t at = (uint32_t)hash & index->slot_mask;
    uint32_t number_mask = (1u << index->number_bits) - 1;
    *tag_out = tag;
    for (;; at = (at + 1) & index->slot_mask) {
        uint32_t slot = index->slots[at];
        if (slot == 0) {
            return at;
        }
        if ((slot & ~number_mask) == tag &&
            span_equals(index->name_at(index->owner, (slot & number_mask) - 1),
                        name)) {
            return at;
        }
    }
}

int64_t gguf_index_add(struct gguf_index *index, uint32_t number)
{
    uint32_t number_mask = (1u << index->number_bits) - 1;
    CHECK(number < number_mask);
    uint32_t tag;
    uint32_t at = find_slot(index, index->name_at(index->owner, number), &tag);
    if (index->slots[at] != 0) {
        return (int64_t)(index->slots[at] & number_mask) - 1;
    }
    index->slots[at] = tag | (number + 1);
    return GGUF_INDEX_NONE;
}

int64_t gguf_index_find(const struct gguf_index *index, struct span name)
{
    if (index->slots == NULL) {
        return GGUF_INDEX_NONE;
    }
    uint32_t tag;
    uint32_t slot = index->slots[find_slot(index, name, &tag)];
    uint32_t number_mask = (1u << index->number_bits) - 1;
    return slot == 0 ? GGUF_INDEX_NONE : (int64_t)(slot & number_mask) - 1;
}
