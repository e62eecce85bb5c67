#include "config/route.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "config/field.h"
#include "config/list.h"
#include "config/servers.h"
#include "io/file.h"

#define AT(member) .offset = offsetof(struct config_route, member)
#define TEXT_AT(member)              \
    .kind = CONFIG_TEXT, AT(member), \
    .size = sizeof(((struct config_route *)NULL)->member)

static enum err read_context(const struct config_node *node, const char *text,
                             struct why *why, void *config);
static enum err read_generation(const struct config_node *node,
                                const char *text, struct why *why,
                                void *config);

static void print_context(const void *config, struct buf *out)
{
    config_servers_print(&((const struct config_route *)config)->context, out);
}

static void print_generation(const void *config, struct buf *out)
{
    config_servers_print(&((const struct config_route *)config)->generation,
                         out);
}

static enum err add_model_name(void *context, const char *name, size_t size,
                               struct why *why)
{
    struct config_route *route = context;
    if (route->model_name_count == CONFIG_MODEL_NAME_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "more than %d names",
                       CONFIG_MODEL_NAME_COUNT_MAX);
    }
    char *place = route->model_names[route->model_name_count];
    if (size == 0 || size >= sizeof(route->model_names[0])) {
        return why_say(why, ERR_INVALID, "a name must have 1 to 255 bytes");
    }
    memcpy(place, name, size);
    place[size] = 0;
    route->model_name_count++;
    return OK;
}

static enum err read_model_names(const struct config_node *node,
                                 const char *text, struct why *why,
                                 void *config)
{
    struct config_route *route = config;
    route->model_name_count = 0;
    return node == NULL
               ? config_list_read_text(text, add_model_name, route, why)
               : config_list_read(node, "must be a list of names",
                                  add_model_name, route, why);
}

static void print_model_names(const void *config, struct buf *out)
{
    const struct config_route *route = config;
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < route->model_name_count; i++) {
        buf_add_string(out, i == 0 ? "" : ", ");
        buf_add_json_string(out, span_of_string(route->model_names[i]));
    }
    buf_add_byte(out, ']');
}

static const struct config_field FIELDS[] = {
    {"hostname", .flag = "host", TEXT_AT(hostname), .default_text = "localhost",
     .unit = "", .help = "address to bind"},
    {"port", .kind = CONFIG_U32, AT(port), .max = 65535, .default_text = "8000",
     .unit = "", .help = "public port; 0: any free"},
    {"max_retries", .kind = CONFIG_I32, AT(max_retries), .max = 100,
     .default_text = "1", .unit = "", .help = "budget of retries a leg"},
    {"context_servers", .kind = CONFIG_LIST_OF, .default_text = "[]",
     .unit = "", .help = "workers that compute prompts", .read = read_context,
     .print = print_context},
    {"generation_servers", .kind = CONFIG_LIST_OF, .default_text = "[]",
     .unit = "", .help = "workers that decode", .read = read_generation,
     .print = print_generation},
    {"node_id", .kind = CONFIG_I32, AT(node_id), .max = 255,
     .default_text = "0", .unit = "",
     .help = "part of request ids; differs between front ends of one pool"},
    {"schedule_style", .kind = CONFIG_CHOICE, AT(schedule_style),
     .choices = "context_first|generation_first",
     .default_text = "context_first", .unit = "",
     .help = "context_first: one leg after the other; generation_first: both "
             "at once"},
    {"allow_request_chat_template", .kind = CONFIG_BOOL,
     AT(allow_request_chat_template), .default_text = "false", .unit = "",
     .help = "let a request bring its own chat template"},
    {"gen_strip_message_history", .kind = CONFIG_BOOL,
     AT(gen_strip_message_history), .default_text = "false", .unit = "",
     .help = "generation legs carry only the last message"},
    {"gen_tokids_ctxbytes", .kind = CONFIG_BOOL, AT(gen_tokids_ctxbytes),
     .default_text = "true", .unit = "",
     .help = "prompt ids of chat requests travel as base64"},
    {"internal_request_auth_key", .flag = "internal_auth_key",
     TEXT_AT(internal_auth_key), .is_secret = true, .default_text = "",
     .unit = "", .help = "key that signs legs and aborts"},
    {"api_key", TEXT_AT(api_key), .is_secret = true, .default_text = "",
     .unit = "", .help = "bearer token clients must send; empty: none"},
    {"cors_origin", TEXT_AT(cors_origin), .default_text = "", .unit = "",
     .help = "origin browsers may call from, or *; empty: none"},
    {"max_body_bytes", .kind = CONFIG_BYTES, AT(max_body_bytes), .min = 1024,
     .max = 1ll << 32, .default_text = "64MiB", .unit = "bytes",
     .help = "largest request body; more is answered 413"},
    {"max_header_bytes", .kind = CONFIG_U32, AT(max_header_bytes), .min = 1024,
     .max = 1 << 20, .default_text = "65536", .unit = "bytes",
     .help = "largest request head; more is answered 431"},
    {"max_inflight", .kind = CONFIG_U32, AT(max_inflight), .max = 1 << 20,
     .default_text = "0", .unit = "requests",
     .help = "open requests; more are answered 429; 0: from open files"},
    {"connect_timeout", .flag = "connect_timeout_s", .kind = CONFIG_DOUBLE,
     AT(connect_timeout_s), .min = 0.01, .max = 3600, .default_text = "5",
     .unit = "s", .help = "connecting to a worker"},
    {"request_timeout", .flag = "request_timeout_s", .kind = CONFIG_DOUBLE,
     AT(request_timeout_s), .min = 0.01, .max = 86400, .default_text = "180",
     .unit = "s", .help = "arrival to first token, or to the whole answer"},
    {"stream_idle_timeout", .flag = "stream_idle_timeout_s",
     .kind = CONFIG_DOUBLE, AT(stream_idle_timeout_s), .max = 86400,
     .default_text = "0", .unit = "s",
     .help = "longest silence of a stream; 0: request_timeout"},
    {"drain_timeout", .flag = "drain_timeout_s", .kind = CONFIG_DOUBLE,
     AT(drain_timeout_s), .max = 86400, .default_text = "30", .unit = "s",
     .help = "how long open requests may go on at the end"},
    {"server_start_timeout", .flag = "server_start_timeout_s",
     .kind = CONFIG_DOUBLE, AT(server_start_timeout_s), .max = 86400,
     .default_text = "180", .unit = "s",
     .help = "how long the workers may take to become ready"},
    {"server_keep_alive_timeout", .flag = "server_keep_alive_timeout_s",
     .kind = CONFIG_U32, AT(server_keep_alive_timeout_s), .min = 1,
     .max = 86400, .default_text = "10", .unit = "s",
     .help = "how long an idle client connection stays open"},
    {"served_model_names", .flag = "model_names", .kind = CONFIG_LIST_OF,
     .default_text = "[]", .unit = "",
     .help = "models to accept; empty: the workers decide",
     .read = read_model_names, .print = print_model_names},
};

/* What the file format knows and this front end does without. Where one value
 * asks for nothing, that value is taken. */
static const struct {
    const char *key;
    const char *harmless; /* NULL: none */
    const char *advice;
} WITHOUT[] = {
    {"conditional_disagg_config", NULL, "is not supported yet"},
    {"otlp_config", NULL, "is not supported"},
    {"disagg_cluster", NULL, "is not supported yet; list `urls` instead"},
    {"num_workers", "1", "only 1 is supported"},
    {"disagg_coordinator_url", NULL, "is not supported yet"},
    {"perf_metrics_max_requests", "0", "is not supported; see /metrics"},
    {"return_perf_metrics", "false", "is not supported; see /metrics"},
    {"perf_metrics_output_dir", NULL, "is not supported; see /metrics"},
    {"conversation_affinity_header_for_subagents", NULL,
     "is not supported yet"},
    {"max_inflight_per_conversation", "0", "is not supported yet"},
    {"queue_limit", "0", "is not supported; see max_inflight"},
    {"retry_other_server", "true", "is always true"},
};

static bool is_without(const char *key)
{
    for (size_t i = 0; i < sizeof(WITHOUT) / sizeof(WITHOUT[0]); i++) {
        if (strcmp(key, WITHOUT[i].key) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_passed_over(const char *path, const struct config_node *node,
                           struct why *why)
{
    for (size_t i = 0; i < sizeof(WITHOUT) / sizeof(WITHOUT[0]); i++) {
        if (strcmp(path, WITHOUT[i].key) != 0) {
            continue;
        }
        if (WITHOUT[i].harmless != NULL && node->kind == CONFIG_SCALAR &&
            strcasecmp(node->text, WITHOUT[i].harmless) == 0) {
            return true;
        }
        why_say(why, ERR_UNSUPPORTED, "%s", WITHOUT[i].advice);
        return false;
    }
    if (config_servers_is_own_key(path)) {
        why_say(why, ERR_INVALID,
                "is in the wrong place: it belongs under `context_servers` or "
                "`generation_servers`");
        return false;
    }
    return config_servers_is_engine_key(path);
}

static const struct config_table TABLE = {
    FIELDS, sizeof(FIELDS) / sizeof(FIELDS[0]), is_passed_over};

/* Keys of the front end itself that stand among those of its servers. */
static enum err check_places(const struct config_node *section, struct why *why)
{
    char place[CONFIG_PLACE_SIZE];
    if (section == NULL || section->kind != CONFIG_MAP) {
        return OK;
    }
    for (const struct config_node *at = section->first; at; at = at->next) {
        if (config_servers_is_own_key(at->key) ||
            config_servers_is_engine_key(at->key)) {
            continue;
        }
        if (is_without(at->key) ||
            config_table_find_place(&TABLE, at->key, place)) {
            return why_say(why, ERR_INVALID,
                           "`%s` is in the wrong place (line %u): it belongs "
                           "at the top level",
                           at->key, at->line);
        }
    }
    return OK;
}

static enum err read_servers(const struct config_node *node, const char *text,
                             struct why *why, struct config_servers *servers)
{
    enum err code = check_places(node, why);
    return code == OK ? config_servers_read(node, text, why, servers) : code;
}

static enum err read_context(const struct config_node *node, const char *text,
                             struct why *why, void *config)
{
    struct config_route *route = config;
    return read_servers(node, text, why, &route->context);
}

static enum err read_generation(const struct config_node *node,
                                const char *text, struct why *why, void *config)
{
    struct config_route *route = config;
    return read_servers(node, text, why, &route->generation);
}

void config_route_init(struct config_route *config)
{
    memset(config, 0, sizeof(*config));
    config_table_init(&TABLE, config);
    snprintf(config->context.router, sizeof(config->context.router),
             "round_robin");
    snprintf(config->generation.router, sizeof(config->generation.router),
             "round_robin");
}

static enum err read_root(const struct config_node *root, const char *name,
                          struct why *why, struct config_route *config)
{
    enum err code = config_table_read(&TABLE, root, name, why, config);
    return code == OK ? config_servers_check_inherited(root, name, why) : code;
}

enum err config_route_read_text(struct span yaml, const char *name,
                                struct why *why, struct config_route *config)
{
    struct config_tree *tree;
    enum err code = config_tree_read(yaml, name, why, &tree);
    if (code != OK) {
        return code;
    }
    struct config_route *copy = mem_copy(config, sizeof(*config));
    code = read_root(config_tree_root(tree), name, why, copy);
    if (code == OK) {
        *config = *copy;
    }
    mem_free(copy);
    config_tree_destroy(tree);
    return code;
}

static enum err read_file(const char *path, struct why *why, struct buf *text)
{
    enum err code = io_file_read(path, why, text);
    return code == ERR_FULL
               ? why_say(why, ERR_INVALID, "%s: longer than %d bytes", path,
                         CONFIG_TEXT_SIZE_MAX)
               : code;
}

bool config_route_is_one(const char *path)
{
    struct buf text;
    struct config_tree *tree = NULL;
    bool is_one = false;
    buf_init(&text, CONFIG_TEXT_SIZE_MAX);
    if (read_file(path, NULL, &text) == OK &&
        config_tree_read(buf_span(&text), path, NULL, &tree) == OK) {
        const struct config_node *root = config_tree_root(tree);
        is_one = config_node_find(root, "context_servers") != NULL ||
                 config_node_find(root, "generation_servers") != NULL;
        config_tree_destroy(tree);
    }
    buf_finish(&text);
    return is_one;
}

enum err config_route_read(const char *path, struct why *why,
                           struct config_route *config)
{
    struct buf text;
    buf_init(&text, CONFIG_TEXT_SIZE_MAX);
    enum err code = read_file(path, why, &text);
    if (code == OK) {
        code = config_route_read_text(buf_span(&text), path, why, config);
    }
    buf_finish(&text);
    return code;
}

enum err config_route_set(struct config_route *config, const char *key,
                          const char *value, struct why *why)
{
    return config_table_set(&TABLE, key, value, why, config);
}

const char *config_route_path(const char *key)
{
    return config_table_path(&TABLE, key);
}

enum err config_route_check(const struct config_route *config, struct why *why)
{
    if (config->hostname[0] == 0) {
        return why_say(why, ERR_INVALID, "`hostname` must not be empty");
    }
    if (config->node_id < 0 || config->node_id > 255) {
        return why_say(why, ERR_INVALID, "`node_id` must be from 0 to 255");
    }
    enum err code =
        config_servers_check(&config->context, "context_servers", why);
    return code == OK ? config_servers_check(&config->generation,
                                             "generation_servers", why)
                      : code;
}

void config_route_describe(const struct config_route *config, struct buf *out)
{
    config_table_describe(&TABLE, config, out);
}
