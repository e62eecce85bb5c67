#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/mem.h"
#include "base/rng.h"
#include "node/up_state.h"

static void add(struct up_arguments *list, const char *value)
{
    CHECK(list->count < UP_ARGV_MAX);
    snprintf(list->text[list->count], UP_ARGUMENT_SIZE, "%s", value);
    list->argv[list->count] = list->text[list->count];
    list->count++;
}

static void add_number(struct up_arguments *list, const char *name,
                       uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    add(list, name);
    add(list, text);
}

static void add_fd(struct up_arguments *list, const char *name, int fd)
{
    char text[32];
    snprintf(text, sizeof(text), "/dev/fd/%d", fd);
    add(list, name);
    add(list, text);
}

static void add_common(struct up_arguments *list, const struct up_child *child)
{
    const struct node_up_options *options = child->up->options;
    add(list, "--log-level");
    add(list, options->log_level);
    add(list, "--log-format");
    add(list, options->log_format);
    add(list, "--name");
    add(list, child->name);
}

static void build_worker(const struct up_child *child,
                         struct up_arguments *list)
{
    const struct up *up = child->up;
    add(list, "baton");
    add(list, "serve");
    add(list, "--role");
    add(list, child->role);
    add(list, "--model");
    add(list, up->options->model);
    add_number(list, "--port", child->port);
    add_number(list, "--threads", child->threads);
    add_number(list, "--workers-on-host", up->worker_count);
    add_fd(list, "--auth-key-file", up->key_fd);
    for (uint32_t i = 0; i < up->options->extra_count; i++) {
        add(list, up->options->extra[i]);
    }
    add_common(list, child);
}

static void build_front(const struct up_child *child, struct up_arguments *list)
{
    add(list, "baton");
    add(list, "route");
    add_fd(list, "--config", child->up->config_fd);
    /* Started again, it is where clients know it. */
    add_number(list, "--port", child->port);
    add_common(list, child);
}

struct up_arguments *up_arguments_create(const struct up_child *child)
{
    struct up_arguments *list = mem_new(sizeof(*list));
    if (child->role == NULL) {
        build_front(child, list);
    } else {
        build_worker(child, list);
    }
    return list;
}

static void add_servers(const struct up *up, const char *section,
                        const char *role, struct buf *yaml)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < up->worker_count; i++) {
        count += strcmp(up->workers[i].role, role) == 0;
    }
    buf_printf(yaml, "%s:\n  num_instances: %u\n  urls:\n", section, count);
    for (uint32_t i = 0; i < up->worker_count; i++) {
        if (strcmp(up->workers[i].role, role) == 0) {
            buf_printf(yaml, "    - \"127.0.0.1:%u\"\n", up->workers[i].port);
        }
    }
}

static void add_yaml_text(struct buf *yaml, const char *key, const char *value)
{
    if (value != NULL) {
        buf_printf(yaml, "%s: ", key);
        buf_add_json_string(yaml, span_of_string(value));
        buf_add_byte(yaml, '\n');
    }
}

enum err up_key_file_open(struct up *up)
{
    uint64_t words[4];
    for (int i = 0; i < 4; i++) {
        words[i] = rng_system();
    }
    buf_init(&up->key, 256);
    digest_add_hex(&up->key, span_of(words, sizeof(words)));
    up->key_fd = io_process_memory_file("baton-key", buf_span(&up->key));
    return up->key_fd < 0 ? ERR_IO : OK;
}

enum err up_config_file_open(struct up *up)
{
    struct buf yaml;
    buf_init(&yaml, 65536);
    add_yaml_text(&yaml, "hostname", up->options->host);
    buf_printf(&yaml, "port: %u\n", up->options->port);
    add_servers(up, "context_servers", "context", &yaml);
    add_servers(up, "generation_servers", "generation", &yaml);
    add_yaml_text(&yaml, "internal_request_auth_key", buf_string(&up->key));
    add_yaml_text(&yaml, "api_key", up->options->api_key);
    add_yaml_text(&yaml, "cors_origin", up->options->cors);
    add_yaml_text(&yaml, "schedule_style", up->options->schedule_style);
    up->config_fd = io_process_memory_file("baton-route", buf_span(&yaml));
    buf_finish(&yaml);
    return up->config_fd < 0 ? ERR_IO : OK;
}
