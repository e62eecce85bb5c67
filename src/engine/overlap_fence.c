#include "base/mem.h"
#include "engine/overlap_state.h"
#include "engine/state.h"

/* A bit a batch of the ring for pages it uses, and one for those it writes. */
enum { USED = 1 << 0, WRITTEN = 1 << BATCH_DEPTH_MAX };

void fence_init(struct engine_core *core)
{
    for (uint32_t i = 0;
         core->options.is_overlapped && i < core->options.group_count; i++) {
        core->page_marks[i] = mem_new_array(core->options.page_counts[i],
                                            sizeof(core->page_marks[i][0]));
    }
}

void fence_finish(struct engine_core *core)
{
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        mem_free(core->page_marks[i]);
    }
}

static uint32_t slot_of(const struct engine_core *core,
                        const struct batch *batch)
{
    return (uint32_t)(batch - core->batches);
}

/* Sets or clears this batch's bits. */
static void mark_run(struct engine_core *core, const struct model_run *run,
                     uint32_t slot, bool is_set)
{
    uint32_t size = core->options.tokens_per_block;
    uint32_t blocks = kv_blocks_of(run->position + run->token_count, size);
    uint8_t both = (uint8_t)((USED | WRITTEN) << slot);
    for (uint32_t life = 0; life < core->options.life_count; life++) {
        uint8_t *marks = core->page_marks[core->options.group_of[life]];
        for (uint32_t i = 0; i < blocks; i++) {
            kv_page_id page = run->pages[life][i];
            if (page == KV_PAGE_NONE) {
                continue;
            }
            if (!is_set) {
                marks[page] &= (uint8_t)~both;
            } else if (i >= run->position / size) {
                marks[page] |= both;
            } else {
                marks[page] |= (uint8_t)(USED << slot);
            }
        }
    }
}

static void mark(struct engine_core *core, const struct batch *batch,
                 bool is_set)
{
    for (uint32_t i = 0;
         core->options.is_overlapped && i < batch->plan.run_count; i++) {
        mark_run(core, &batch->runs[i], slot_of(core, batch), is_set);
    }
}

void fence_raise(struct engine_core *core, const struct batch *batch)
{
    mark(core, batch, true);
    kv_manager_orders(core->cache, &core->copies_before);
}

void fence_lower(struct engine_core *core, const struct batch *batch)
{
    mark(core, batch, false);
    if (overlap_newest(core) == batch) {
        core->copies_before = 0; /* the one before it has all it waited for */
    }
}

/* The bits that bar an order: of batches under way when it was made. Those made
 * before the newest batch are what that one waits for. */
static uint8_t bars_of(const struct engine_core *core, bool is_before)
{
    uint32_t count = core->batch_count - is_before;
    uint8_t bars = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (core->batch_first + i) % BATCH_DEPTH_MAX;
        bars |= (uint8_t)((USED | WRITTEN) << slot);
    }
    return bars;
}

static bool is_barred(const struct engine_core *core,
                      const struct kv_order *order, uint8_t bars)
{
    const uint8_t written = (WRITTEN << BATCH_DEPTH_MAX) - WRITTEN;
    const uint8_t *marks = core->page_marks[order->group];
    return (order->to_level == 0 && (marks[order->to_slot] & bars)) ||
           (order->from_level == 0 &&
            (marks[order->from_slot] & bars & written));
}

uint32_t overlap_free_copies(const struct engine_core *core,
                             const struct kv_order *orders, uint32_t count)
{
    if (!core->options.is_overlapped || core->batch_count == 0) {
        return count;
    }
    uint32_t before = core->copies_before;
    uint8_t bars = bars_of(core, true);
    for (uint32_t i = 0; i < count; i++) {
        bars = i == before ? bars_of(core, false) : bars;
        if (is_barred(core, &orders[i], bars)) {
            return i;
        }
    }
    return count;
}

void overlap_copies_taken(struct engine_core *core, uint32_t count)
{
    uint32_t before = core->copies_before;
    core->copies_before = before > count ? before - count : 0;
}

static bool is_list_barred(const uint8_t *marks, const kv_page_id *pages,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (pages[i] != KV_PAGE_NONE && marks[pages[i]] != 0) {
            return true;
        }
    }
    return false;
}

/* A receive: the peer writes as soon as it knows of it. */
static bool is_order_barred(const struct engine_core *core,
                            const struct transfer_command *order)
{
    for (uint32_t life = 0;
         order->kind == TRANSFER_RECEIVE && life < order->group_count; life++) {
        if (is_list_barred(core->page_marks[core->options.group_of[life]],
                           order->pages[life], order->block_count)) {
            return true;
        }
    }
    return false;
}

/* Copies go first: those kept back keep back all commands. */
uint32_t overlap_free_orders(const struct engine_core *core)
{
    uint32_t copies = 0;
    if (!core->options.is_overlapped || core->batch_count == 0) {
        return core->order_count;
    }
    const struct kv_order *orders = kv_manager_orders(core->cache, &copies);
    if (overlap_free_copies(core, orders, copies) < copies) {
        return 0;
    }
    for (uint32_t i = 0; i < core->order_count; i++) {
        if (is_order_barred(core, &core->orders[i])) {
            return i;
        }
    }
    return core->order_count;
}
