#include "kv/manager_state.h"

static size_t own_bytes(const struct kv_manager *manager)
{
    const struct kv_manager_options *options = &manager->options;
    size_t rows = (size_t)options->seq_count_max * options->life_count *
                  options->block_count_max;
    size_t scratch = options->block_count_max * sizeof(manager->chain[0]) +
                     2 * (size_t)manager->batch_max * sizeof(kv_ref) +
                     manager->victim_max * sizeof(kv_ref);
    size_t seqs = options->seq_count_max *
                  (sizeof(manager->seqs[0]) + sizeof(manager->insides[0]));
    return sizeof(*manager) + scratch + seqs +
           rows * (sizeof(kv_page_id) + sizeof(kv_ref)) +
           manager->page_count * sizeof(manager->sides[0]);
}

void kv_manager_stats(const struct kv_manager *manager,
                      struct kv_manager_stats *stats_out)
{
    *stats_out = manager->totals;
    const struct kv_manager_options *options = &manager->options;
    for (uint32_t group = 0; group < options->group_count; group++) {
        for (uint8_t level = 0; level < options->level_count; level++) {
            stats_out->counts[level][group] =
                kv_store_counts(manager->store, level, group);
        }
        stats_out->promised[group] = manager->promised[group];
    }
    stats_out->totals = kv_store_totals(manager->store);
    stats_out->seqs = manager->seq_count;
    stats_out->suspended = manager->seq_count - manager->active_count;
    stats_out->nodes = kv_tree_count(manager->tree);
    stats_out->tree_epoch = kv_tree_epoch(manager->tree);
    stats_out->metadata_bytes = own_bytes(manager) +
                                kv_store_bytes(manager->store) +
                                kv_tree_bytes(manager->tree);
}

void kv_manager_reset_peaks(struct kv_manager *manager)
{
    kv_store_reset_peaks(manager->store);
}
