#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "cli/overrides.h"
#include "node/worker.h"

struct serve_args {
    struct config_worker config;
    struct config_worker scratch;
    struct cli_overrides overrides;
    const char *path;
    const char *name;
};

static enum err set_own(void *target, const char *name, const char *value,
                        struct why *why)
{
    (void)why;
    struct serve_args *args = target;
    if (strcmp(name, "config") == 0) {
        args->path = value;
    } else {
        args->name = value;
    }
    return OK;
}

static const struct cli_flag_key KEYS[] = {
    {"backend", "cache_transceiver_config.backend"},
    {"data-port", "cache_transceiver_config.port"},
    {"tokens-per-block", "kv_cache_config.tokens_per_block"},
    {"kv-tokens", "kv_cache_config.max_tokens"},
    {"block-reuse", "kv_cache_config.enable_block_reuse"},
    {"partial-reuse", "kv_cache_config.enable_partial_reuse"},
    {"block-reuse-policy", "kv_cache_config.block_reuse_policy"},
    {"host-cache-size", "kv_cache_config.host_cache_size"},
    {"offload-min-priority", "kv_cache_config.secondary_offload_min_priority"},
    {"event-buffer-max-size", "kv_cache_config.event_buffer_max_size"},
    {"kv-cache-hash-algo", "kv_cache_config.kv_cache_hash_algo"},
    {"capacity-policy", "scheduler_config.capacity_scheduler_policy"},
    {"shortest-first", "scheduler_config.shortest_first"},
    {"prefix-wait", "scheduler_config.prefix_wait"},
    {"disable-overlap-scheduler", "disable_overlap_scheduler"},
    {"max-batch", "max_batch_size"},
    {"max-seq", "max_seq_len"},
    {"chunk-tokens", "max_num_tokens"},
    {"kv-transfer-timeout-ms",
     "cache_transceiver_config.kv_transfer_timeout_ms"},
    {"workers-on-host", "worker_count_on_host"},
    {"ops", "reference_ops"},
    {0},
};

static enum err set_config(void *config, const char *key, const char *value,
                           struct why *why)
{
    return config_worker_set(config, key, value, why);
}

static enum err set(void *target, const char *name, const char *value,
                    struct why *why)
{
    struct serve_args *args = target;
    if (strcmp(name, "ops") == 0) {
        if (strcmp(value, "ref") != 0 && strcmp(value, "fast") != 0) {
            return why_say(why, ERR_INVALID, "'%s' is neither fast nor ref",
                           value);
        }
        value = strcmp(value, "ref") == 0 ? "true" : "false";
    }
    return cli_overrides_add(&args->overrides, name, value, why);
}

static const struct cli_option OPTIONS[] = {
    {"config", 'c', "FILE", "YAML with any setting; flags win", set_own},
    {"model", 'm', "FILE", "GGUF model (required here or in the config)", set},
    {"role", 0, "ROLE", "context, generation or mixed (mixed)", set},
    {"host", 0, "ADDRESS", "address of the HTTP side (127.0.0.1)", set},
    {"port", 'p', "PORT", "HTTP port; 0: any free one (0)", set},
    {"transfer-port", 0, "PORT", "control port of KV transfers (any)", set},
    {"advertise", 0, "HOST", "host that peers connect to (--host)", set},
    {"threads", 't', "N", "compute threads (all CPUs)", set},
    {"kv-tokens", 0, "N", "tokens the KV pool holds (8 contexts)", set},
    {"tokens-per-block", 0, "N", "tokens of a KV block (32)", set},
    {"block-reuse", 0, "BOOL", "reuse KV of equal prefixes (true)", set},
    {"partial-reuse", 0, "BOOL", "reuse the beginning of a block too (true)",
     set},
    {"block-reuse-policy", 0, "NAME", "all_reusable or per_request", set},
    {"host-cache-size", 0, "BYTES", "second KV level, e.g. 4GiB (0: none)",
     set},
    {"offload-min-priority", 0, "N", "what goes to that level (0: all)", set},
    {"event-buffer-max-size", 0, "N", "cache events kept for routers (0: none)",
     set},
    {"kv-cache-hash-algo", 0, "NAME",
     "v1_block_key, v2_sha256 or v2_sha256_64 (v1_block_key)", set},
    {"max-batch", 0, "N", "sequences that run together (32)", set},
    {"max-seq", 0, "N", "longest prompt and answer together", set},
    {"chunk-tokens", 0, "N", "tokens of one turn (adapts)", set},
    {"queue-limit", 0, "N", "requests that wait (1024)", set},
    {"capacity-policy", 0, "NAME",
     "GUARANTEED_NO_EVICT, MAX_UTILIZATION or BOUNDED_OVERCOMMIT", set},
    {"shortest-first", 0, "BOOL", "shortest waiting prompt first (true)", set},
    {"prefix-wait", 0, "BOOL", "wait for a prefix being computed (true)", set},
    {"disable-overlap-scheduler", 0, "BOOL",
     "decide a turn only after the last one (true)", set},
    {"turn-ms-max", 0, "MS", "longest turn to aim at (100)", set},
    {"backend", 0, "NAME", "what moves KV: auto, ucx, tcp or rdma (auto)", set},
    {"data-port", 0, "PORT", "port of tcp for pages (0: any)", set},
    {"kv-transfer-timeout-ms", 0, "MS", "longest hand-off (60000)", set},
    {"request-timeout-ms", 0, "MS", "arrival to first token (180000)", set},
    {"drain-timeout-ms", 0, "MS", "wait at the end (30000)", set},
    {"chat-template", 0, "NAME", "chat form, instead of the file's", set},
    {"served-model-name", 0, "NAME", "name that requests use", set},
    {"auth-key-file", 0, "FILE", "key of internal requests", set},
    {"strict-internal-auth", 0, "BOOL", "refuse unsigned hand-offs (true)",
     set},
    {"ops", 0, "BODY", "arithmetic: fast or ref (fast)", set},
    {"workers-on-host", 0, "N", "workers that share this memory (1)", set},
    {"name", 0, "NAME", "name in log lines", set_own},
    CLI_LOG_OPTIONS,
    {0},
};

const struct cli_syntax cli_serve_syntax = {
    .command = "baton serve",
    .arguments = "",
    .about = "Runs one worker. A context worker prefers prompts, a generation "
             "worker prefers decoding; each can do both.",
    .options = OPTIONS,
    .keys = KEYS,
};

static enum err read_config(struct serve_args *args, struct why *why)
{
    enum err code = OK;
    if (args->path != NULL) {
        code = config_worker_read(args->path, why, &args->config);
    }
    if (code == OK) {
        code = cli_overrides_apply(&args->overrides, why, &args->config);
    }
    return code == OK ? config_worker_check(&args->config, why) : code;
}

/* A file may name the model too; that is seen when it is read. */
static bool has_model(const struct serve_args *args)
{
    return args->path != NULL || cli_overrides_has(&args->overrides, "model");
}

int cli_serve(int argc, char **argv)
{
    struct serve_args *args = mem_new(sizeof(*args));
    config_worker_init(&args->config);
    config_worker_init(&args->scratch);
    args->overrides.keys = cli_serve_syntax.keys;
    args->overrides.set = set_config;
    args->overrides.scratch = &args->scratch;
    cli_parse(&cli_serve_syntax, argc, argv, args);
    cli_start_log(args->name == NULL ? "worker" : args->name);
    if (!has_model(args)) {
        fprintf(stderr, "baton serve: --model FILE is required\n");
        mem_free(args);
        return CLI_USAGE;
    }
    struct why why = {{0}};
    enum err code = read_config(args, &why);
    if (code == OK) {
        code = node_worker_run(&args->config, &why);
    }
    if (code != OK) {
        cli_overrides_name(&args->overrides, &why);
        fprintf(stderr, "baton serve: %s\n", why.text);
    }
    mem_free(args);
    return cli_exit_of(code);
}
