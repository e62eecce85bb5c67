#include "node/limits.h"

#include <unistd.h>

enum {
    ROWS_DEFAULT = 512,
    ROWS_BEYOND_BATCH = 16,
    EVENTS_A_CHOICE = 4 /* tokens and the end of one choice, twice over */
};

uint64_t node_host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
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
    uint64_t room = (uint64_t)limits->page_count * config->tokens_per_block;
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

/* 8 whole contexts, but at most a quarter of memory for all workers. */
static uint64_t default_tokens(const struct config_worker *config,
                               const struct node_limits *limits,
                               uint64_t memory_bytes)
{
    uint64_t wanted = 8 * (uint64_t)limits->max_seq;
    uint32_t workers = config->worker_count_on_host;
    uint64_t share = memory_bytes / 4 / (workers == 0 ? 1 : workers);
    uint64_t room = share / limits->page_bytes * config->tokens_per_block;
    return wanted < room ? wanted : room;
}

static enum err choose_pages(const struct config_worker *config,
                             uint64_t memory_bytes, struct why *why,
                             struct node_limits *limits)
{
    uint64_t tokens = config->kv_tokens != 0
                          ? config->kv_tokens
                          : default_tokens(config, limits, memory_bytes);
    uint64_t block = config->tokens_per_block;
    uint64_t pages = (tokens + block - 1) / block;
    if (pages < 2 || pages > INT32_MAX) {
        return why_say(why, ERR_INVALID,
                       "kv_cache_config.max_tokens %llu makes %llu blocks of "
                       "%llu tokens; 2 to %d are possible",
                       (unsigned long long)tokens, (unsigned long long)pages,
                       (unsigned long long)block, INT32_MAX);
    }
    limits->page_count = (uint32_t)pages;
    limits->pool_bytes = pages * limits->page_bytes;
    if (limits->pool_bytes > memory_bytes) {
        return why_say(why, ERR_INVALID,
                       "kv_cache_config.max_tokens %llu needs %llu MiB; the "
                       "host has %llu",
                       (unsigned long long)tokens,
                       (unsigned long long)(limits->pool_bytes >> 20),
                       (unsigned long long)(memory_bytes >> 20));
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
    struct node_limits limits = {
        .page_bytes = kv_layout_page_bytes(&info->layout),
    };
    enum err code = choose_max_seq(config, info, why, &limits);
    if (code == OK) {
        code = choose_pages(config, memory_bytes, why, &limits);
    }
    if (code == OK) {
        code = fit_max_seq(config, why, &limits);
    }
    if (code != OK) {
        return code;
    }
    limits.row_count_max = node_limits_row_count(config);
    limits.logit_bytes = (uint64_t)config->max_batch * info->vocab_size * 4;
    limits.history_bytes = (uint64_t)config->max_batch * limits.max_seq * 4;
    limits.request_count_max = config->queue_limit + config->max_batch;
    limits.event_count_max =
        EVENTS_A_CHOICE * config->max_batch + 2 * config->queue_limit + 1024;
    *limits_out = limits;
    return OK;
}

void node_limits_describe(const struct node_limits *limits, struct buf *out)
{
    buf_printf(out, "max sequence        %u tokens\n", limits->max_seq);
    buf_printf(out, "KV pool             %u blocks of %llu bytes, %.1f MiB\n",
               limits->page_count, (unsigned long long)limits->page_bytes,
               (double)limits->pool_bytes / 1048576.0);
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
