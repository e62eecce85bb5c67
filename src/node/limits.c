#include "node/limits.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/engine.h"
#include "io/cgroup.h"
#include "kv/life.h"
#include "kv/manager.h"

enum {
    ROWS_DEFAULT = 512,
    ROWS_BEYOND_BATCH = 16,
    EVENTS_A_CHOICE = 4 /* tokens and the end of one choice, twice over */
};

uint64_t node_host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
    uint64_t ours = io_cgroup_read("").memory_bytes;
    return ours < all ? ours : all;
}

static enum err choose_max_seq(const struct config_worker *config,
                               const struct model_info *info, struct why *why,
                               struct node_limits *limits)
{
    limits->max_seq =
        config->max_seq == 0 ? info->context_length : config->max_seq;
    if (limits->max_seq > info->context_length) {
        return why_say(why, ERR_INVALID,
                       "max_seq_len %u is longer than the model's context of "
                       "%u tokens",
                       limits->max_seq, info->context_length);
    }
    return OK;
}

/* A request longer than the pool could never run. */
static enum err fit_max_seq(const struct config_worker *config, struct why *why,
                            struct node_limits *limits)
{
    uint64_t block = config->tokens_per_block;
    uint64_t room = (limits->kv_tokens + block - 1) / block * block;
    if (limits->max_seq <= room) {
        return OK;
    }
    if (config->max_seq != 0) {
        return why_say(why, ERR_INVALID,
                       "max_seq_len %u does not fit into a KV pool of %llu "
                       "tokens (kv_cache_config.max_tokens)",
                       limits->max_seq, (unsigned long long)room);
    }
    limits->max_seq = (uint32_t)room;
    return OK;
}

/* Pages of a windowed life cycle, where one that keeps all has `page_count`:
 * what a full batch sees and writes in a turn, and as much again for prefixes
 * that wait for the next request; never less than one request takes. */
static uint64_t windowed_pages(const struct kv_life *life,
                               const struct config_worker *config,
                               uint32_t max_seq, uint64_t page_count)
{
    uint32_t block = config->tokens_per_block;
    uint32_t rows = node_limits_row_count(config);
    uint32_t step = rows < max_seq ? rows : max_seq;
    uint64_t one = kv_life_blocks_max(life, block, max_seq, step);
    uint64_t seen = kv_life_blocks_max(life, block, max_seq, 1);
    uint64_t all = 2 * config->max_batch * seen + kv_blocks_of(step, block);
    all = all < page_count ? all : page_count;
    return all < one ? one : all;
}

static uint64_t pool_pages(const struct kv_life *life,
                           const struct config_worker *config, uint32_t max_seq,
                           uint64_t page_count)
{
    return life->window == 0
               ? page_count
               : windowed_pages(life, config, max_seq, page_count);
}

/* Of all pools, when a life cycle that keeps all has `page_count` pages. */
static uint64_t bytes_of(const struct config_worker *config,
                         const struct kv_shape *shape, uint32_t max_seq,
                         uint64_t page_count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape->life_count; i++) {
        bytes += kv_layout_page_bytes(&shape->layouts[i]) *
                 pool_pages(&shape->lives[i], config, max_seq, page_count);
    }
    return bytes;
}

/* 8 whole contexts, but at most a quarter of memory for all workers. */
static uint64_t default_pages(const struct config_worker *config,
                              const struct kv_shape *shape, uint32_t max_seq,
                              uint64_t memory_bytes)
{
    uint64_t block = config->tokens_per_block;
    uint32_t workers = config->worker_count_on_host;
    uint64_t share = memory_bytes / 4 / (workers == 0 ? 1 : workers);
    uint64_t low = 0;
    uint64_t high = (8 * (uint64_t)max_seq + block - 1) / block;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2;
        /* Fewer pages hold a shorter sequence: then that is the longest. */
        uint64_t tokens = middle * block;
        uint32_t seq = tokens < max_seq ? (uint32_t)tokens : max_seq;
        bool fits = bytes_of(config, shape, seq, middle) <= share;
        low = fits ? middle : low;
        high = fits ? high : middle - 1;
    }
    return low;
}

static enum err check_memory(const struct config_worker *config,
                             const struct node_limits *limits,
                             uint64_t memory_bytes, struct why *why)
{
    if (limits->pool_bytes > memory_bytes) {
        return why_say(why, ERR_INVALID,
                       "kv_cache_config.max_tokens %llu needs %llu MiB; the "
                       "host has %llu",
                       (unsigned long long)limits->kv_tokens,
                       (unsigned long long)(limits->pool_bytes >> 20),
                       (unsigned long long)(memory_bytes >> 20));
    }
    if (config->bounce_bytes > memory_bytes - limits->pool_bytes) {
        return why_say(why, ERR_INVALID,
                       "cache_transceiver_config.bounce_size takes %llu MiB "
                       "beside the %llu of the KV pool; the host has %llu",
                       (unsigned long long)(config->bounce_bytes >> 20),
                       (unsigned long long)(limits->pool_bytes >> 20),
                       (unsigned long long)(memory_bytes >> 20));
    }
    if (limits->host_bytes > memory_bytes - limits->pool_bytes) {
        return why_say(
            why, ERR_INVALID,
            "kv_cache_config.host_cache_size takes %llu MiB beside the %llu of "
            "the KV pool; the host has %llu",
            (unsigned long long)(limits->host_bytes >> 20),
            (unsigned long long)(limits->pool_bytes >> 20),
            (unsigned long long)(memory_bytes >> 20));
    }
    return OK;
}

static enum err choose_pages(const struct config_worker *config,
                             const struct kv_shape *shape,
                             uint64_t memory_bytes, struct why *why,
                             struct node_limits *limits)
{
    uint64_t block = config->tokens_per_block;
    uint64_t pages =
        config->kv_tokens != 0
            ? (config->kv_tokens + block - 1) / block
            : default_pages(config, shape, limits->max_seq, memory_bytes);
    limits->kv_tokens =
        config->kv_tokens != 0 ? config->kv_tokens : pages * block;
    if (pages < 2 || pages > INT32_MAX) {
        return why_say(why, ERR_INVALID,
                       "kv_cache_config.max_tokens %llu makes %llu blocks of "
                       "%llu tokens; 2 to %d are possible",
                       (unsigned long long)limits->kv_tokens,
                       (unsigned long long)pages, (unsigned long long)block,
                       INT32_MAX);
    }
    enum err code = fit_max_seq(config, why, limits);
    for (uint32_t i = 0; code == OK && i < shape->life_count; i++) {
        struct node_pool *pool = &limits->pools[i];
        pool->window = shape->lives[i].window;
        pool->page_bytes = kv_layout_page_bytes(&shape->layouts[i]);
        pool->page_count = (uint32_t)pool_pages(&shape->lives[i], config,
                                                limits->max_seq, pages);
        limits->pool_bytes += pool->page_count * pool->page_bytes;
    }
    limits->life_count = shape->life_count;
    return code;
}

/* The second level is divided as the first is. */
static enum err choose_host_pages(const struct config_worker *config,
                                  struct why *why, struct node_limits *limits)
{
    for (uint32_t i = 0; i < limits->life_count; i++) {
        struct node_pool *pool = &limits->pools[i];
        uint64_t pages =
            (uint64_t)((unsigned __int128)config->host_cache_bytes *
                       pool->page_count / limits->pool_bytes);
        if (config->host_cache_bytes > 0 && pages == 0) {
            return why_say(
                why, ERR_INVALID,
                "kv_cache_config.host_cache_size %llu holds no page of pool "
                "%u: it is divided as the %llu bytes of the first level are, "
                "and a page takes %llu",
                (unsigned long long)config->host_cache_bytes, i,
                (unsigned long long)limits->pool_bytes,
                (unsigned long long)pool->page_bytes);
        }
        pool->host_page_count =
            (uint32_t)(pages < INT32_MAX ? pages : INT32_MAX);
        limits->host_bytes += pool->host_page_count * pool->page_bytes;
    }
    return OK;
}

uint32_t node_limits_row_count(const struct config_worker *config)
{
    uint32_t rows =
        config->chunk_tokens != 0 ? config->chunk_tokens : ROWS_DEFAULT;
    uint32_t least = config->max_batch + ROWS_BEYOND_BATCH;
    return rows < least ? least : rows;
}

enum err node_limits_of(const struct config_worker *config,
                        const struct model_info *info, uint64_t memory_bytes,
                        struct why *why, struct node_limits *limits_out)
{
    struct node_limits limits = {0};
    enum err code = choose_max_seq(config, info, why, &limits);
    if (code == OK) {
        code = choose_pages(config, &info->shape, memory_bytes, why, &limits);
    }
    if (code == OK) {
        code = choose_host_pages(config, why, &limits);
    }
    if (code == OK) {
        code = check_memory(config, &limits, memory_bytes, why);
    }
    if (code != OK) {
        return code;
    }
    limits.bounce_bytes = config->bounce_bytes;
    limits.row_count_max = node_limits_row_count(config);
    limits.logit_bytes = (uint64_t)config->max_batch * info->vocab_size * 4;
    limits.history_bytes = (uint64_t)config->max_batch * limits.max_seq * 4;
    limits.request_count_max = config->queue_limit + config->max_batch;
    limits.event_count_max =
        EVENTS_A_CHOICE * config->max_batch + 2 * config->queue_limit + 1024;
    *limits_out = limits;
    return OK;
}

/* As the engine makes it, for a moment: memory nobody touches costs nothing. */
enum err node_limits_measure(const struct config_worker *config,
                             const struct kv_shape *shape, struct why *why,
                             struct node_limits *limits)
{
    struct kv_manager *manager = NULL;
    struct kv_manager_stats stats;
    struct kv_manager_options options = {
        .tokens_per_block = config->tokens_per_block,
        .life_count = limits->life_count,
        .group_count = limits->life_count,
        .level_count = limits->host_bytes > 0 ? 2 : 1,
        .seq_count_max = config->max_batch + ENGINE_SESSION_COUNT_MAX,
        .block_count_max =
            kv_blocks_of(limits->max_seq, config->tokens_per_block),
        .step_max =
            limits->row_count_max * (config->disable_overlap_scheduler ? 1 : 2),
        .enable_reuse = config->enable_block_reuse,
        .enable_partial = config->enable_partial_reuse,
        .event_max = config->event_max,
    };
    for (uint32_t i = 0; i < limits->life_count; i++) {
        options.lives[i] = shape->lives[i];
        options.group_of[i] = (uint8_t)i;
        options.slot_counts[0][i] = limits->pools[i].page_count;
        options.slot_counts[1][i] = limits->pools[i].host_page_count;
    }
    enum err code = kv_manager_create(&options, why, &manager);
    if (code != OK) {
        return code;
    }
    kv_manager_stats(manager, &stats);
    limits->metadata_bytes = stats.metadata_bytes;
    if (config->event_max > 0) {
        limits->metadata_bytes += kv_events_bytes(kv_manager_events(manager));
    }
    kv_manager_destroy(manager);
    return OK;
}

static void describe_pool(const struct node_limits *limits, uint32_t index,
                          struct buf *out)
{
    const struct node_pool *pool = &limits->pools[index];
    char name[32] = "KV pool";
    char window[48] = "";
    if (limits->life_count > 1) {
        snprintf(name, sizeof(name), "KV pool %u", index);
    }
    if (pool->window > 0) {
        snprintf(window, sizeof(window), ", window of %u tokens", pool->window);
    }
    buf_printf(out, "%-19s %u blocks of %llu bytes, %.1f MiB%s\n", name,
               pool->page_count, (unsigned long long)pool->page_bytes,
               (double)(pool->page_count * pool->page_bytes) / 1048576.0,
               window);
    if (pool->host_page_count > 0) {
        buf_printf(out, "  second level      %u blocks, %.1f MiB\n",
                   pool->host_page_count,
                   (double)(pool->host_page_count * pool->page_bytes) /
                       1048576.0);
    }
}

void node_limits_describe(const struct node_limits *limits, struct buf *out)
{
    buf_printf(out, "max sequence        %u tokens\n", limits->max_seq);
    for (uint32_t i = 0; i < limits->life_count; i++) {
        describe_pool(limits, i, out);
    }
    if (limits->bounce_bytes > 0) {
        buf_printf(out, "packed transfers    %.1f MiB\n",
                   (double)limits->bounce_bytes / 1048576.0);
    }
    if (limits->metadata_bytes > 0) {
        buf_printf(out, "cache metadata      %.1f MiB\n",
                   (double)limits->metadata_bytes / 1048576.0);
    }
    buf_printf(out, "batch               %u tokens at most\n",
               limits->row_count_max);
    buf_printf(out, "logits of a batch   %.1f MiB\n",
               (double)limits->logit_bytes / 1048576.0);
    buf_printf(out, "token histories     %.1f MiB\n",
               (double)limits->history_bytes / 1048576.0);
    buf_printf(out, "requests            %u at most\n",
               limits->request_count_max);
    buf_printf(out, "events to serve     %u at most\n",
               limits->event_count_max);
}
