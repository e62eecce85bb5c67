/* Planned drops (engine.md 1.8): what the next turn of a conversation replaces. */
#include "kv/manager_state.h"

static struct kv_plan_record *record_of(struct kv_manager *manager,
                                        kv_plan plan)
{
    CHECK(plan != KV_PLAN_NONE);
    CHECK(plan <= manager->plan_count);
    struct kv_plan_record *record = &manager->plans[plan - 1];
    CHECK(record->entry_count > 0);
    return record;
}

/* Writes the pages of one life cycle's window into the record; false: one is not
 * in the tree, or in too many plans. */
static bool add_window(struct kv_manager *manager, const struct kv_seq *seq,
                       uint32_t life, struct kv_plan_record *record)
{
    uint32_t end = kv_blocks_of(seq->committed, kv_block_tokens(manager));
    for (uint32_t block = seq->inside->stale[life].end; block < end; block++) {
        kv_ref page = seq->inside->refs[life][block];
        if (page == KV_REF_NONE ||
            !kv_is_in_tree(kv_manager_page(manager, page)) ||
            kv_side_of(manager, page)->plans == UINT8_MAX ||
            record->entry_count == manager->plan_entry_max) {
            return false;
        }
        record->entries[record->entry_count++] = (struct kv_plan_entry){
            .page = page,
            .generation = kv_side_of(manager, page)->generation,
        };
    }
    return true;
}

static bool fill(struct kv_manager *manager, const struct kv_seq *seq,
                 struct kv_plan_record *record)
{
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        if (manager->options.lives[life].window > 0 &&
            !add_window(manager, seq, life, record)) {
            return false;
        }
    }
    return record->entry_count > 0;
}

kv_plan kv_seq_plan_drop(struct kv_manager *manager, const struct kv_seq *seq)
{
    kv_plan plan = manager->free_plan;
    if (plan == KV_PLAN_NONE) {
        return KV_PLAN_NONE;
    }
    struct kv_plan_record *record = &manager->plans[plan - 1];
    if (!fill(manager, seq, record)) {
        record->entry_count = 0;
        return KV_PLAN_NONE;
    }
    for (uint32_t i = 0; i < record->entry_count; i++) {
        kv_side_of(manager, record->entries[i].page)->plans++;
    }
    manager->free_plan = record->next_free;
    return plan;
}

/* The page is in this plan no more; whether it is the same and in none. */
static bool release(struct kv_manager *manager,
                    const struct kv_plan_entry *entry)
{
    struct kv_side *side = kv_side_of(manager, entry->page);
    if (side->generation != entry->generation || side->plans == 0) {
        return false;
    }
    side->plans--;
    return side->plans == 0;
}

static void finish(struct kv_manager *manager, kv_plan plan, bool is_drop)
{
    struct kv_plan_record *record = record_of(manager, plan);
    for (uint32_t i = record->entry_count; i > 0; i--) {
        const struct kv_plan_entry *entry = &record->entries[i - 1];
        if (!release(manager, entry) || !is_drop) {
            continue;
        }
        const struct kv_page *page = kv_manager_page(manager, entry->page);
        if (page->locks == 0 && page->holds == 0) {
            kv_watch_forget(manager, entry->page);
        }
    }
    record->entry_count = 0;
    record->next_free = manager->free_plan;
    manager->free_plan = plan;
}

void kv_plan_apply(struct kv_manager *manager, kv_plan plan)
{
    finish(manager, plan, true);
}

void kv_plan_forget(struct kv_manager *manager, kv_plan plan)
{
    finish(manager, plan, false);
}
