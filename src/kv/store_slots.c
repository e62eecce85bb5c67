/* Which slots of a shelf are free: two lists of those that came back, and a mark
 * above which nobody has been. */
#include "base/check.h"
#include "base/mem.h"
#include "kv/store_state.h"

void kv_slots_init(struct kv_slots *slots, uint32_t capacity,
                   struct kv_wait *waits)
{
    *slots = (struct kv_slots){
        .waits = waits,
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

/* -- those that are ready ------------------------------------------------- */

static uint32_t pop_ready(struct kv_slots *slots)
{
    uint32_t slot = slots->ready.head;
    slots->ready.head = slots->cells[slot];
    if (slots->ready.head == KV_SLOT_NONE) {
        slots->ready.tail = KV_SLOT_NONE;
    }
    slots->cells[slot] = 0;
    return slot;
}

static void push_ready(struct kv_slots *slots, uint32_t slot)
{
    slots->cells[slot] = KV_SLOT_NONE;
    if (slots->ready.tail == KV_SLOT_NONE) {
        slots->ready.head = slot;
    } else {
        slots->cells[slots->ready.tail] = slot;
    }
    slots->ready.tail = slot;
}

/* -- those that wait ------------------------------------------------------ */

static void link_wait(struct kv_slots *slots, uint32_t slot)
{
    kv_end end = slots->cells[slot] - 1;
    struct kv_fifo *fifo = &slots->waiting;
    slots->waits[end] = (struct kv_wait){
        .prev = fifo->tail,
        .next = KV_SLOT_NONE,
        .slot = slot,
        .is_linked = true,
    };
    *(fifo->tail == KV_SLOT_NONE ? &fifo->head
                                 : &slots->waits[fifo->tail].next) = end;
    fifo->tail = end;
}

/* The slot that waited. */
static uint32_t unlink_wait(struct kv_slots *slots, kv_end end)
{
    struct kv_wait *wait = &slots->waits[end];
    struct kv_fifo *fifo = &slots->waiting;
    *(wait->prev == KV_SLOT_NONE ? &fifo->head
                                 : &slots->waits[wait->prev].next) = wait->next;
    *(wait->next == KV_SLOT_NONE ? &fifo->tail
                                 : &slots->waits[wait->next].prev) = wait->prev;
    wait->is_linked = false;
    return wait->slot;
}

void kv_slots_touch(struct kv_slots *slots, uint32_t slot, kv_end end)
{
    CHECK(kv_slots_is_out(slots, slot));
    slots->cells[slot] = 1 + end;
    slots->waits[end].is_linked = false;
}

void kv_slots_settle(struct kv_slots *slots, uint32_t slot, kv_end end)
{
    if (slots->waits[end].is_linked) {
        push_ready(slots, unlink_wait(slots, end));
    } else if (kv_slots_is_out(slots, slot) && slots->cells[slot] == 1 + end) {
        slots->cells[slot] = 0;
    }
}

/* -- both ----------------------------------------------------------------- */

static uint32_t choose(struct kv_slots *slots)
{
    if (slots->ready.head != KV_SLOT_NONE) {
        return pop_ready(slots);
    }
    if (slots->high_water < slots->capacity) {
        return slots->high_water++;
    }
    return unlink_wait(slots, slots->waiting.head);
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
    if (slots->cells[slot] == 0) {
        push_ready(slots, slot);
    } else {
        link_wait(slots, slot);
    }
}
