#include "config/worker.h"

#include <stdio.h>
#include <string.h>

#include "base/blockers.h"
#include "base/mem.h"
#include "config/field.h"
#include "config/list.h"
#include "io/allow.h"
#include "io/file.h"

#define AT(member) .offset = offsetof(struct config_worker, member)
#define TEXT_AT(member)              \
    .kind = CONFIG_TEXT, AT(member), \
    .size = sizeof(((struct config_worker *)NULL)->member)

static enum err read_hosts(const struct config_node *node, const char *text,
                           struct why *why, void *config);

static void print_hosts(const void *config, struct buf *out)
{
    const struct config_worker *worker = config;
    const char *hosts = worker->allowed_peer_hosts;
    if (hosts[0] == 0) {
        buf_add_string(out, "all");
    } else {
        buf_printf(out, "[%s]", hosts);
    }
}

static const struct config_field FIELDS[] = {
    {"model", TEXT_AT(model), .default_text = "", .unit = "",
     .help = "path of the GGUF file"},
    {"host", .flag = "hostname", TEXT_AT(host), .default_text = "127.0.0.1",
     .unit = "", .help = "address the HTTP side binds"},
    {"port", .kind = CONFIG_U32, AT(port), .max = 65535, .default_text = "0",
     .unit = "", .help = "HTTP port; 0: any free one"},
    {"transfer_port", .kind = CONFIG_U32, AT(transfer_port), .max = 65535,
     .default_text = "0", .unit = "",
     .help = "control port of KV transfers; 0: any free one"},
    {"advertise", TEXT_AT(advertise), .default_text = "", .unit = "",
     .help = "host that peers connect to; empty: host"},
    {"role", .kind = CONFIG_CHOICE, AT(role),
     .choices = "mixed|context|generation", .default_text = "mixed", .unit = "",
     .help = "phase this worker prefers: mixed, context or generation"},
    {"served_model_name", TEXT_AT(served_model_name), .default_text = "",
     .unit = "", .help = "name clients use; empty: the file's stem"},
    {"chat_template", TEXT_AT(chat_template), .default_text = "", .unit = "",
     .help = "built-in chat template; empty: the file's own"},
    {"threads", .kind = CONFIG_U32, AT(threads), .max = 1024,
     .default_text = "0", .unit = "", .help = "compute threads; 0: all CPUs"},
    {"kv_cache_config.tokens_per_block", .kind = CONFIG_U32,
     AT(tokens_per_block), .min = 1, .max = 512, .default_text = "32",
     .unit = "tokens",
     .help = "size of one KV block; a power of two; peers may differ"},
    {"kv_cache_config.max_tokens", .flag = "kv_tokens", .kind = CONFIG_U64,
     AT(kv_tokens), .max = 1e15, .default_text = "0", .unit = "tokens",
     .help = "KV cache; 0: 8 contexts, at most a quarter of memory"},
    {"kv_cache_config.enable_block_reuse", .kind = CONFIG_BOOL,
     AT(enable_block_reuse), .default_text = "true", .unit = "",
     .help = "keep finished prompts for later ones with the same beginning"},
    {"kv_cache_config.enable_partial_reuse", .flag = "partial_reuse",
     .kind = CONFIG_BOOL, AT(enable_partial_reuse), .default_text = "true",
     .unit = "", .help = "reuse the beginning of a block too, as a copy"},
    {"kv_cache_config.block_reuse_policy", .kind = CONFIG_CHOICE,
     AT(reuse_policy), .choices = "all_reusable|per_request",
     .default_text = "all_reusable", .unit = "",
     .help = "what is kept: every full block, or what the next prompt needs of "
             "a prompt's end"},
    {"kv_cache_config.host_cache_size", .kind = CONFIG_BYTES,
     AT(host_cache_bytes), .max = 1e15, .default_text = "0", .unit = "bytes",
     .help = "second level, for pages the pool has no room for; 0: none"},
    {"kv_cache_config.secondary_offload_min_priority",
     .flag = "offload_min_priority", .kind = CONFIG_U32,
     AT(offload_priority_min), .max = 100, .default_text = "0", .unit = "",
     .help = "pages below it are dropped, not moved to the second level"},
    {"kv_cache_config.event_buffer_max_size", .kind = CONFIG_U32, AT(event_max),
     .max = 1 << 20, .default_text = "0", .unit = "events",
     .help = "events kept for POST /kv_cache_events; 0: none"},
    {"kv_cache_config.kv_cache_hash_algo", .kind = CONFIG_CHOICE, AT(hash_algo),
     .choices = "v1_block_key|v2_sha256|v2_sha256_64",
     .default_text = "v1_block_key", .unit = "",
     .help = "what blocks are called in those events"},
    {"max_batch_size", .flag = "max_batch", .kind = CONFIG_U32, AT(max_batch),
     .min = 1, .max = 4096, .default_text = "32", .unit = "requests",
     .help = "most requests computed together"},
    {"max_seq_len", .flag = "max_seq", .kind = CONFIG_U32, AT(max_seq),
     .max = 1 << 24, .default_text = "0", .unit = "tokens",
     .help = "prompt and answer together; 0: the model's context"},
    {"max_num_tokens", .flag = "chunk_tokens", .kind = CONFIG_U32,
     AT(chunk_tokens), .max = 1 << 20, .default_text = "0", .unit = "tokens",
     .help = "most tokens a turn; 0: follows the measured speed"},
    {"queue_limit", .kind = CONFIG_U32, AT(queue_limit), .min = 1, .max = 65536,
     .default_text = "1024", .unit = "requests",
     .help = "waiting requests; more are answered 429"},
    {"turn_ms_max", .kind = CONFIG_U32, AT(turn_ms_max), .min = 1, .max = 10000,
     .default_text = "100", .unit = "ms",
     .help = "aim for the longest engine turn"},
    {"scheduler_config.capacity_scheduler_policy", .flag = "capacity_policy",
     .kind = CONFIG_CHOICE, AT(policy),
     .choices = "GUARANTEED_NO_EVICT|MAX_UTILIZATION|BOUNDED_OVERCOMMIT",
     .default_text = "BOUNDED_OVERCOMMIT", .unit = "",
     .help = "pages set aside: to each request's end, none, or as many as "
             "answers have been needing"},
    {"scheduler_config.shortest_first", .kind = CONFIG_BOOL, AT(shortest_first),
     .default_text = "true", .unit = "",
     .help = "of waiting prompts the one with least to compute; else by "
             "arrival"},
    {"scheduler_config.prefix_wait", .kind = CONFIG_BOOL, AT(prefix_wait),
     .default_text = "true", .unit = "",
     .help = "let a prompt wait while another computes its beginning"},
    {"disable_overlap_scheduler", .kind = CONFIG_BOOL,
     AT(disable_overlap_scheduler), .default_text = "true", .unit = "",
     .help = "decide a turn only when the one before is computed, not "
             "meanwhile"},
    {"cache_transceiver_config.backend", TEXT_AT(backend),
     .choices = "DEFAULT|UCX|TCP|auto|ucx|tcp|rdma|inproc",
     .default_text = "auto", .unit = "",
     .help = "what moves KV: ucx (one host), tcp, auto (ucx, else tcp), rdma "
             "(ucx, else the adapters of two hosts, which must have some and "
             "the internal key); the same on all workers"},
    {"cache_transceiver_config.port", .flag = "data_port", .kind = CONFIG_U32,
     AT(data_port), .max = 65535, .default_text = "0", .unit = "",
     .help = "port of tcp for pages; 0: any free one"},
    {"cache_transceiver_config.allowed_peer_hosts", .kind = CONFIG_LIST_OF,
     .default_text = "all", .unit = "",
     .help = "hosts KV may come from and go to: addresses, blocks like "
             "10.0.0.0/8 and names, as a list or with commas",
     .read = read_hosts, .print = print_hosts},
    {"cache_transceiver_config.bounce_size", .kind = CONFIG_BYTES,
     AT(bounce_bytes), .max = 1ll << 40, .default_text = "0", .unit = "bytes",
     .help = "memory in which tiny blocks are packed for a NIC; 0: none"},
    {"cache_transceiver_config.bounce_forced", .kind = CONFIG_BOOL,
     AT(bounce_forced), .default_text = "false", .is_hidden = true, .unit = "",
     .help = "for tests: each write goes through that memory"},
    {"cache_transceiver_config.fault_corrupt_ppm", .kind = CONFIG_U32,
     AT(fault_corrupt_ppm), .max = 1000000, .default_text = "0",
     .is_hidden = true, .unit = "writes in a million",
     .help = "for tests: a byte of so many writes lands wrong"},
    {"cache_transceiver_config.fault_link_bytes", .kind = CONFIG_BYTES,
     AT(fault_link_bytes), .max = 1e15, .default_text = "0", .is_hidden = true,
     .unit = "bytes", .help = "for benches: so many a second leave; 0: all"},
    {"cache_transceiver_config.fault_seed", .kind = CONFIG_U64, AT(fault_seed),
     .max = 1e15, .default_text = "0", .is_hidden = true, .unit = "",
     .help = "for tests: what the chances are drawn from"},
    {"cache_transceiver_config.kv_transfer_timeout_ms", .kind = CONFIG_U64,
     AT(kv_transfer_timeout_ms), .min = 1, .max = 86400000,
     .default_text = "60000", .unit = "ms",
     .help = "longest KV transfer; then the receiver computes the prompt"},
    {"request_timeout_ms", .kind = CONFIG_U64, AT(request_timeout_ms), .min = 1,
     .max = 86400000, .default_text = "180000", .unit = "ms",
     .help = "arrival to first token"},
    {"drain_timeout_ms", .kind = CONFIG_U32, AT(drain_timeout_ms),
     .max = 86400000, .default_text = "30000", .unit = "ms",
     .help = "how long open requests may go on at the end"},
    {"max_body_bytes", .kind = CONFIG_BYTES, AT(max_body_bytes), .min = 1024,
     .max = 1ll << 32, .default_text = "64MiB", .unit = "bytes",
     .help = "largest request body"},
    {"auth_key_file", TEXT_AT(auth_key_file), .default_text = "", .unit = "",
     .help =
         "file with the key that signs internal requests; workers prove it to "
         "each other"},
    {"strict_internal_auth", .kind = CONFIG_BOOL, AT(strict_internal_auth),
     .default_text = "true", .unit = "",
     .help = "refuse hand-offs and aborts without a valid signature"},
    {"reference_ops", .kind = CONFIG_BOOL, AT(reference_ops),
     .default_text = "false", .unit = "",
     .help = "compute with the slow, plain kernels"},
    {"worker_count_on_host", .kind = CONFIG_U32, AT(worker_count_on_host),
     .min = 1, .max = 1024, .default_text = "1", .unit = "workers",
     .help = "how many share this host's memory"},
};

/* Each is read by itself, so that its line can be told. */
static enum err add_host(void *context, const char *host, size_t size,
                         struct why *why)
{
    struct config_worker *worker = context;
    char *list = worker->allowed_peer_hosts;
    size_t used = strlen(list), size_max = sizeof(worker->allowed_peer_hosts);
    enum err code = io_allow_check(span_of(host, size), why);
    if (code != OK) {
        return code;
    }
    int added = snprintf(list + used, size_max - used, "%s%.*s",
                         used == 0 ? "" : ", ", (int)size, host);
    return used + (size_t)added < size_max
               ? OK
               : why_say(why, ERR_INVALID, "must be shorter than %zu bytes",
                         size_max);
}

/* Nothing could be meant as "nobody": it is not taken for "all", which only a
 * text says that is empty on purpose. */
static enum err read_hosts(const struct config_node *node, const char *text,
                           struct why *why, void *config)
{
    struct config_worker *worker = config;
    bool is_text = node == NULL || node->kind == CONFIG_SCALAR;
    text = node == NULL ? text : node->text;
    bool is_all = is_text && text[0] == 0 && (node == NULL || node->is_quoted);
    worker->allowed_peer_hosts[0] = 0;
    enum err code = is_text ? config_list_read_text(text, add_host, worker, why)
                            : config_list_read(node, "must be a list of hosts",
                                               add_host, worker, why);
    if (code == OK && !is_all && worker->allowed_peer_hosts[0] == 0) {
        return why_say(why, ERR_INVALID,
                       "must name a host; leave the key out to allow all");
    }
    return code;
}

/* Sizes of a group of ranks: fine as long as they say one. */
static bool is_passed_over(const char *path, const struct config_node *node,
                           struct why *why)
{
    if (strcmp(path, "kv_cache_config.max_attention_window") == 0) {
        why_say(why, ERR_UNSUPPORTED,
                "is not supported: windows are those of the model file");
        return false;
    }
    static const char *const RANKS[] = {"tensor_parallel_size",
                                        "pipeline_parallel_size",
                                        "context_parallel_size"};
    for (size_t i = 0; i < sizeof(RANKS) / sizeof(RANKS[0]); i++) {
        if (strcmp(path, RANKS[i]) != 0) {
            continue;
        }
        if (node->kind == CONFIG_SCALAR && strcmp(node->text, "1") == 0) {
            return true;
        }
        why_say(why, ERR_UNSUPPORTED, "only 1 is supported in the file");
    }
    return false;
}

static const struct config_table TABLE = {
    FIELDS, sizeof(FIELDS) / sizeof(FIELDS[0]), is_passed_over};

void config_worker_init(struct config_worker *config)
{
    memset(config, 0, sizeof(*config));
    config_table_init(&TABLE, config);
}

/* TensorRT-LLM's names in its own spelling, ours in small letters. */
static void settle(struct config_worker *config)
{
    static const char *const names[][2] = {
        {"DEFAULT", "auto"}, {"UCX", "ucx"}, {"TCP", "tcp"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(config->backend, names[i][0]) == 0) {
            snprintf(config->backend, sizeof(config->backend), "%s",
                     names[i][1]);
        }
    }
}

static enum err read_text(struct span yaml, const char *name, struct why *why,
                          struct config_worker *config)
{
    struct config_tree *tree;
    enum err code = config_tree_read(yaml, name, why, &tree);
    if (code != OK) {
        return code;
    }
    struct config_worker *copy = mem_copy(config, sizeof(*config));
    code = config_table_read(&TABLE, config_tree_root(tree), name, why, copy);
    if (code == OK) {
        settle(copy);
        *config = *copy;
    }
    mem_free(copy);
    config_tree_destroy(tree);
    return code;
}

enum err config_worker_read(const char *path, struct why *why,
                            struct config_worker *config)
{
    struct buf text;
    buf_init(&text, CONFIG_TEXT_SIZE_MAX);
    enum err code = io_file_read(path, why, &text);
    if (code == ERR_FULL) {
        code = why_say(why, ERR_INVALID, "%s: longer than %d bytes", path,
                       CONFIG_TEXT_SIZE_MAX);
    }
    if (code == OK) {
        code = read_text(buf_span(&text), path, why, config);
    }
    buf_finish(&text);
    return code;
}

enum err config_worker_read_text(struct span yaml, const char *name,
                                 struct why *why, struct config_worker *config)
{
    return read_text(yaml, name, why, config);
}

enum err config_worker_set(struct config_worker *config, const char *key,
                           const char *value, struct why *why)
{
    enum err code = config_table_set(&TABLE, key, value, why, config);
    if (code == OK) {
        settle(config);
    }
    return code;
}

const char *config_worker_path(const char *key)
{
    return config_table_path(&TABLE, key);
}

static void check_ports(const struct config_worker *config,
                        struct blockers *blockers)
{
    uint32_t data = config->data_port;
    if (config->port != 0 && config->port == config->transfer_port) {
        blockers_add(blockers, "`port` and `transfer_port` must differ");
    }
    if (data != 0 && (data == config->port || data == config->transfer_port)) {
        blockers_add(blockers,
                     "`cache_transceiver_config.port` is %u, as `%s` is", data,
                     data == config->port ? "port" : "transfer_port");
    }
}

/* Two portions of a MiB, one for each direction, are the least. */
static void check_bounce(const struct config_worker *config,
                         struct blockers *blockers)
{
    if (config->bounce_bytes > 0 && config->bounce_bytes < 2u << 20) {
        blockers_add(blockers,
                     "`cache_transceiver_config.bounce_size` is %llu bytes, at "
                     "least 2 MiB are needed",
                     (unsigned long long)config->bounce_bytes);
    }
}

static void check_tokens(const struct config_worker *config,
                         struct blockers *blockers)
{
    uint32_t block = config->tokens_per_block;
    if (block == 0 || (block & (block - 1)) != 0) {
        blockers_add(blockers,
                     "`kv_cache_config.tokens_per_block` is %u, not a power of "
                     "two",
                     block);
    }
    if (config->kv_tokens != 0 && config->kv_tokens < 2ull * block) {
        blockers_add(blockers,
                     "`kv_cache_config.max_tokens` must hold at least two "
                     "blocks of %u tokens",
                     block);
    } else if (config->kv_tokens != 0 && config->max_seq > config->kv_tokens) {
        blockers_add(blockers, "`max_seq_len` must not exceed "
                               "`kv_cache_config.max_tokens`");
    }
}

static void check_cache(const struct config_worker *config,
                        struct blockers *blockers)
{
    if (config->event_max > 0 && !config->enable_block_reuse) {
        blockers_add(blockers,
                     "`kv_cache_config.event_buffer_max_size` is %u, but "
                     "without `kv_cache_config.enable_block_reuse` no block is "
                     "ever announced",
                     config->event_max);
    }
    if (config->host_cache_bytes > 0 && !config->enable_block_reuse &&
        config->policy == CONFIG_POLICY_NO_EVICT) {
        blockers_add(blockers,
                     "`kv_cache_config.host_cache_size` would stay empty: "
                     "nothing is cached without "
                     "`kv_cache_config.enable_block_reuse`, and "
                     "GUARANTEED_NO_EVICT suspends nobody");
    }
}

/* All at once: who mends one should not meet the next at the next start. */
enum err config_worker_check(const struct config_worker *config,
                             struct why *why)
{
    struct blockers blockers = {.count = 0};
    if (config->model[0] == 0) {
        blockers_add(&blockers, "`model` is missing");
    }
    check_tokens(config, &blockers);
    check_cache(config, &blockers);
    check_bounce(config, &blockers);
    check_ports(config, &blockers);
    return blockers_say(&blockers, ERR_INVALID, why);
}

void config_worker_describe(const struct config_worker *config, struct buf *out)
{
    config_table_describe(&TABLE, config, out);
}
