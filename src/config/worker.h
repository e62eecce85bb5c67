#pragma once
/* config/worker: all a worker can be told, with its defaults. Filled by the
 * YAML of `baton serve --config` (TensorRT-LLM's names where it has them) and
 * by flags, which win. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum config_role {
    CONFIG_ROLE_MIXED,
    CONFIG_ROLE_CONTEXT,
    CONFIG_ROLE_GENERATION
};

/* What admission reserves, and who gives way (engine.md 3.5). */
enum config_policy {
    CONFIG_POLICY_NO_EVICT,
    CONFIG_POLICY_MAX_UTILIZATION,
    CONFIG_POLICY_OVERCOMMIT
};

/* What blocks are called towards routers (prefix/digests.h, in its order). */
enum config_reuse_policy { CONFIG_REUSE_ALL, CONFIG_REUSE_PER_REQUEST };

enum config_hash_algo {
    CONFIG_HASH_V1_BLOCK_KEY,
    CONFIG_HASH_V2_SHA256,
    CONFIG_HASH_V2_SHA256_64
};

struct config_worker {
    char model[1024];
    char host[256]; /* 127.0.0.1 */
    uint32_t port; /* 0: any free one */
    uint32_t transfer_port; /* 0: any free one */
    char advertise[256]; /* what peers connect to; "": host */
    enum config_role role; /* mixed */
    char served_model_name[256]; /* "": file stem */
    char chat_template[32]; /* "": from the file */
    uint32_t threads; /* 0: all CPUs */
    uint32_t tokens_per_block; /* kv_cache_config.tokens_per_block: 32 */
    uint64_t kv_tokens; /* kv_cache_config.max_tokens; 0: derived */
    bool enable_block_reuse; /* kv_cache_config.enable_block_reuse: true */
    bool enable_partial_reuse; /* kv_cache_config...: true */
    enum config_reuse_policy reuse_policy; /* ...block_reuse_policy: all */
    uint64_t host_cache_bytes; /* kv_cache_config.host_cache_size; 0: none */
    /* kv_cache_config.secondary_offload_min_priority: 0 .. 100, 0 */
    uint32_t offload_priority_min;
    uint32_t event_max; /* kv_cache_config.event_buffer_max_size; 0: none */
    enum config_hash_algo hash_algo; /* kv_cache_config.kv_cache_hash_algo */
    uint32_t max_batch; /* max_batch_size: 32 */
    uint32_t max_seq; /* max_seq_len; 0: the model's */
    uint32_t chunk_tokens; /* max_num_tokens; 0: adapts. Tokens a turn */
    uint32_t queue_limit; /* waiting requests: 1024 */
    uint32_t turn_ms_max; /* 100 */
    /* scheduler_config.capacity_scheduler_policy: BOUNDED_OVERCOMMIT */
    enum config_policy policy;
    bool shortest_first; /* scheduler_config.shortest_first: true */
    bool prefix_wait; /* scheduler_config.prefix_wait: true */
    bool disable_overlap_scheduler; /* true */
    /* cache_transceiver_config.backend: "auto" (DEFAULT: shared memory where it
     * reaches, else TCP), "ucx", "tcp", "rdma" (shared memory, else RDMA) or
     * "inproc" */
    char backend[16];
    uint32_t data_port; /* cache_transceiver_config.port; 0: any free one */
    char allowed_peer_hosts[1024]; /* cache_transceiver_config...: all */
    uint64_t bounce_bytes; /* cache_transceiver_config.bounce_size; 0: none */
    bool bounce_forced; /* hidden, for tests: each write goes through it */
    /* Hidden, for tests and benches: transfer/backend_fault.h. */
    uint32_t fault_corrupt_ppm;
    uint64_t fault_link_bytes; /* a second; 0: as fast as it is */
    uint64_t fault_seed;
    uint64_t kv_transfer_timeout_ms; /* cache_transceiver_config...: 60000 */
    uint64_t request_timeout_ms; /* 180000: arrival to first token */
    uint32_t drain_timeout_ms; /* 30000 */
    uint64_t max_body_bytes; /* 64 MiB */
    char auth_key_file[1024]; /* HMAC key of internal requests */
    bool strict_internal_auth; /* true */
    bool reference_ops; /* --ops ref */
    uint32_t worker_count_on_host; /* for derived memory: 1 */
};
void config_worker_init(struct config_worker *config);
/* ERR_INVALID: `why` names file, line and key. `config` is changed only on
 * success. */
MUST_USE enum err config_worker_read(const char *path, struct why *why,
                                     struct config_worker *config);
MUST_USE enum err config_worker_read_text(struct span yaml, const char *name,
                                          struct why *why,
                                          struct config_worker *config);
/* One `key=value` as a flag gives it: the key's path, its last part, or the
 * field's name here; '-' may stand for '_'. `why` does not name the key. */
MUST_USE enum err config_worker_set(struct config_worker *config,
                                    const char *key, const char *value,
                                    struct why *why);
/* The whole path of what `key` means there; NULL: nothing. */
const char *config_worker_path(const char *key);
/* Contradictions between fields. */
MUST_USE enum err config_worker_check(const struct config_worker *config,
                                      struct why *why);
/* Every key with its value, default, unit and help line: inspect, manual. */
void config_worker_describe(const struct config_worker *config,
                            struct buf *out);
