#pragma once
/* config/route: the front end's YAML (serve.md 1.2, 1.3), TensorRT-LLM's keys. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/tcp.h"

enum { CONFIG_SERVER_COUNT_MAX = 64, CONFIG_MODEL_NAME_COUNT_MAX = 16 };

struct config_servers {
    uint32_t count;
    struct io_address servers[CONFIG_SERVER_COUNT_MAX];
    char router[32]; /* round_robin */
};

enum config_schedule_style {
    CONFIG_ROUTE_CONTEXT_FIRST,
    CONFIG_ROUTE_GENERATION_FIRST
};

struct config_route {
    char hostname[256];
    uint32_t port;
    int32_t max_retries;
    struct config_servers context;
    struct config_servers generation;
    int32_t node_id; /* 0..255 */
    int schedule_style; /* enum config_schedule_style */
    bool allow_request_chat_template;
    bool gen_strip_message_history;
    bool gen_tokids_ctxbytes;
    char internal_auth_key[256];
    char api_key[256]; /* --api-key: clients must send it as a bearer token */
    char cors_origin[256]; /* "": no CORS headers; "*" or one origin */
    uint64_t max_body_bytes;
    uint32_t max_header_bytes;
    uint32_t max_inflight; /* 0: derived from open files */
    double connect_timeout_s, request_timeout_s, stream_idle_timeout_s,
        drain_timeout_s, server_start_timeout_s;
    uint32_t server_keep_alive_timeout_s;
    uint32_t model_name_count;
    char model_names[CONFIG_MODEL_NAME_COUNT_MAX][256];
};
void config_route_init(struct config_route *config);
MUST_USE enum err config_route_read(const char *path, struct why *why,
                                    struct config_route *config);
MUST_USE enum err config_route_read_text(struct span yaml, const char *name,
                                         struct why *why,
                                         struct config_route *config);
/* `why` does not name the key: the caller knows what its user calls it. */
MUST_USE enum err config_route_set(struct config_route *config, const char *key,
                                   const char *value, struct why *why);
/* The whole path of what `key` means there; NULL: nothing. */
const char *config_route_path(const char *key);
MUST_USE enum err config_route_check(const struct config_route *config,
                                     struct why *why);
/* Whether the file is a front end's: it lists servers. False also when it
 * cannot be read. */
bool config_route_is_one(const char *path);
void config_route_describe(const struct config_route *config, struct buf *out);
