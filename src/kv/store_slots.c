/* Which slots of a shelf are free: two lists of those that came back, and a mark
 * above which nobody has been. */
#include "base/check.h"
#include "base/mem.h"
#include "kv/store_state.h"

void kv_slots_init(struct kv_slots *slots, uint32_t capacity)
{
    *slots = (struct kv_slots){
        .capacity = capacity,
        .free_count = capacity,
        .free_min = capacity,
        .ready = {KV_SLOT_NONE, KV_SLOT_NONE},
        .waiting = {KV_SLOT_NONE, KV_SLOT_NONE},
    };
    slots->cells = mem_new_array(capacity, sizeof(*slots->cells));
    slots->bits = mem_new_array(capacity / 64 + 1, sizeof(*slots->bits));
}

void kv_slots_finish(struct kv_slots *slots)
{
    mem_free(slots->cells);
    mem_free(slots->bits);
}

bool kv_slots_is_out(const struct kv_slots *slots, uint32_t slot)
{
    return (slots->bits[slot / 64] >> slot % 64 & 1) != 0;
}

static uint32_t pop(struct kv_slots *slots, struct kv_fifo *fifo)
{
    uint32_t slot = fifo->head;
    fifo->head = slots->cells[slot].next;
    if (fifo->head == KV_SLOT_NONE) {
        fifo->tail = KV_SLOT_NONE;
    }
    return slot;
}

static void push(struct kv_slots *slots, struct kv_fifo *fifo, uint32_t slot)
{
    slots->cells[slot].next = KV_SLOT_NONE;
    if (fifo->tail == KV_SLOT_NONE) {
        fifo->head = slot;
    } else {
        slots->cells[fifo->tail].next = slot;
    }
    fifo->tail = slot;
}

static uint32_t choose(struct kv_slots *slots)
{
    if (slots->ready.head != KV_SLOT_NONE) {
        return pop(slots, &slots->ready);
    }
    uint32_t head = slots->waiting.head;
    if (head != KV_SLOT_NONE && slots->cells[head].order == 0) {
        return pop(slots, &slots->waiting);
    }
    if (slots->high_water < slots->capacity) {
        return slots->high_water++;
    }
    return pop(slots, &slots->waiting);
}

uint32_t kv_slots_take(struct kv_slots *slots)
{
    CHECK(slots->free_count > 0);
    uint32_t slot = choose(slots);
    slots->free_count--;
    if (slots->free_count < slots->free_min) {
        slots->free_min = slots->free_count;
    }
    slots->bits[slot / 64] |= UINT64_C(1) << slot % 64;
    return slot;
}

void kv_slots_give(struct kv_slots *slots, uint32_t slot)
{
    CHECK(slot < slots->capacity);
    CHECK(kv_slots_is_out(slots, slot));
    slots->bits[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    slots->free_count++;
    bool is_ready = slots->cells[slot].order == 0;
    push(slots, is_ready ? &slots->ready : &slots->waiting, slot);
}
