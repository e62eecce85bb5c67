#include "config/servers.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/list.h"

static const char *const ENGINE_KEYS[] = {
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "context_parallel_size",
    "moe_expert_parallel_size",
    "max_batch_size",
    "max_num_tokens",
    "max_seq_len",
    "max_input_len",
    "kv_cache_config",
    "cache_transceiver_config",
    "scheduler_config",
    "enable_chunked_prefill",
    "enable_attention_dp",
    "disable_overlap_scheduler",
    "cuda_graph_config",
    "speculative_config",
    "backend",
    "model",
    "dtype",
};

bool config_servers_is_engine_key(const char *key)
{
    for (size_t i = 0; i < sizeof(ENGINE_KEYS) / sizeof(ENGINE_KEYS[0]); i++) {
        if (strcmp(key, ENGINE_KEYS[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool config_servers_is_own_key(const char *key)
{
    return strcmp(key, "urls") == 0 || strcmp(key, "num_instances") == 0 ||
           strcmp(key, "router") == 0;
}

static enum err add_server(void *context, const char *text, size_t size,
                           struct why *why)
{
    struct config_servers *servers = context;
    if (servers->count == CONFIG_SERVER_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "more than %d servers",
                       CONFIG_SERVER_COUNT_MAX);
    }
    struct io_address *place = &servers->servers[servers->count];
    enum err code = io_address_parse(span_of(text, size), why, place);
    if (code != OK) {
        return why_prefix(why, ERR_INVALID, "urls");
    }
    servers->count++;
    return OK;
}

static enum err read_urls(const struct config_node *node, struct why *why,
                          struct config_servers *servers)
{
    return config_list_read(node, "`urls` must be a list of host:port",
                            add_server, servers, why);
}

static enum err read_router_type(const char *type, struct why *why,
                                 struct config_servers *servers)
{
    static const char *const KNOWN[] = {"load_balancing", "kv_cache_aware",
                                        "conversation"};
    if (strcasecmp(type, "round_robin") == 0) {
        snprintf(servers->router, sizeof(servers->router), "round_robin");
        return OK;
    }
    for (size_t i = 0; i < sizeof(KNOWN) / sizeof(KNOWN[0]); i++) {
        if (strcasecmp(type, KNOWN[i]) == 0) {
            return why_say(why, ERR_INVALID,
                           "`router.type` %s is not supported yet; use "
                           "round_robin",
                           KNOWN[i]);
        }
    }
    return why_say(why, ERR_INVALID,
                   "`router.type` must be one of round_robin, load_balancing, "
                   "kv_cache_aware, conversation");
}

static enum err read_router(const struct config_node *node, struct why *why,
                            struct config_servers *servers)
{
    if (node->kind != CONFIG_MAP) {
        return why_say(why, ERR_INVALID, "`router` must be a map");
    }
    for (const struct config_node *at = node->first; at; at = at->next) {
        if (strcmp(at->key, "type") != 0) {
            return why_say(why, ERR_INVALID,
                           "`router.%s` means nothing to round_robin", at->key);
        }
        if (at->kind != CONFIG_SCALAR) {
            return why_say(why, ERR_INVALID, "`router.type` must be a name");
        }
        enum err code = read_router_type(at->text, why, servers);
        if (code != OK) {
            return code;
        }
    }
    return OK;
}

/* *count_out stays as it is when the key says nothing. */
static enum err read_instances(const struct config_node *node, struct why *why,
                               uint32_t *count_out)
{
    char *end = NULL;
    long count = 0;
    if (node->kind == CONFIG_SCALAR && !node->is_quoted) {
        count = strtol(node->text, &end, 10);
    }
    if (end == NULL || end == node->text || *end != 0 || count < 0 ||
        count > CONFIG_SERVER_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "`num_instances` must be from 0 to %d",
                       CONFIG_SERVER_COUNT_MAX);
    }
    *count_out = (uint32_t)count;
    return OK;
}

static enum err read_member(const struct config_node *node, struct why *why,
                            uint32_t *instances, struct config_servers *servers)
{
    if (strcmp(node->key, "urls") == 0) {
        return read_urls(node, why, servers);
    }
    if (strcmp(node->key, "router") == 0) {
        return read_router(node, why, servers);
    }
    if (strcmp(node->key, "num_instances") == 0) {
        return read_instances(node, why, instances);
    }
    if (config_servers_is_engine_key(node->key)) {
        return OK;
    }
    return why_say(why, ERR_INVALID,
                   "`%s` is not a known key (line %u); known are urls, "
                   "num_instances, router and engine options",
                   node->key, node->line);
}

static enum err read_section(const struct config_node *node, struct why *why,
                             struct config_servers *servers)
{
    uint32_t instances = UINT32_MAX;
    for (const struct config_node *at = node->first; at; at = at->next) {
        enum err code = read_member(at, why, &instances, servers);
        if (code != OK) {
            return code;
        }
    }
    if (instances != UINT32_MAX && servers->count != instances &&
        config_node_find(node, "urls") != NULL) {
        return why_say(why, ERR_INVALID,
                       "`urls` has %u entries but `num_instances` is %u",
                       servers->count, instances);
    }
    return OK;
}

enum err config_servers_read(const struct config_node *node, const char *text,
                             struct why *why, struct config_servers *servers)
{
    servers->count = 0;
    if (node == NULL) {
        return config_list_read_text(text, add_server, servers, why);
    }
    if (node->kind != CONFIG_MAP) {
        return why_say(why, ERR_INVALID, "must be a map with `urls`");
    }
    return read_section(node, why, servers);
}

static bool same_server(const struct io_address *a, const struct io_address *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

enum err config_servers_check(const struct config_servers *servers,
                              const char *role, struct why *why)
{
    if (servers->count == 0) {
        return why_say(why, ERR_INVALID, "`%s.urls` names no server", role);
    }
    for (uint32_t i = 0; i < servers->count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (same_server(&servers->servers[i], &servers->servers[j])) {
                return why_say(why, ERR_INVALID, "`%s.urls` has %s:%u twice",
                               role, servers->servers[i].host,
                               servers->servers[i].port);
            }
        }
    }
    return OK;
}

void config_servers_print(const struct config_servers *servers, struct buf *out)
{
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < servers->count; i++) {
        buf_printf(out, "%s%s:%u", i == 0 ? "" : ", ", servers->servers[i].host,
                   servers->servers[i].port);
    }
    buf_add_byte(out, ']');
}

enum err config_servers_check_inherited(const struct config_node *root,
                                        const char *name, struct why *why)
{
    static const char *const SECTIONS[] = {"context_servers",
                                           "generation_servers"};
    for (const struct config_node *at = root->first; at; at = at->next) {
        for (size_t i = 0; i < 2; i++) {
            const struct config_node *section =
                config_node_find(root, SECTIONS[i]);
            const struct config_node *other =
                section == NULL ? NULL : config_node_find(section, at->key);
            if (config_servers_is_engine_key(at->key) && other != NULL &&
                !config_node_equals(at, other)) {
                return why_say(why, ERR_INVALID,
                               "%s:%u: `%s.%s` differs from the same key at "
                               "the top (line %u)",
                               name, other->line, SECTIONS[i], at->key,
                               at->line);
            }
        }
    }
    return OK;
}
