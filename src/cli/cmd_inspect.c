#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/openai_request.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "config/route.h"
#include "http/server.h"
#include "node/front.h"
#include "node/model_file.h"

struct inspect_args {
    struct config_worker config;
    struct config_route route;
    const char *config_path;
    bool show_tensors;
};

static enum err set(void *target, const char *name, const char *value,
                    struct why *why)
{
    struct inspect_args *args = target;
    if (strcmp(name, "config") == 0) {
        args->config_path = value;
        return OK;
    }
    if (strcmp(name, "tensors") == 0) {
        args->show_tensors = true;
        return OK;
    }
    return cli_copy(value, args->config.model, sizeof(args->config.model), why);
}

static const struct cli_option OPTIONS[] = {
    {"model", 'm', "FILE", "GGUF model (models/demo.gguf)", set},
    {"config", 'c', "FILE",
     "config of a worker or a front end: prints settings and limits", set},
    {"tensors", 0, NULL, "list each tensor", set},
    {0},
};

static const struct cli_syntax SYNTAX = {
    .command = "baton inspect",
    .arguments = "",
    .about = "Says what a model file holds, whether it can be served, and what "
             "a worker will need in memory.",
    .options = OPTIONS,
};

static void print_value(struct gguf_value value)
{
    enum { SHOWN_MAX = 60 };
    switch (value.kind) {
    case GGUF_UINT:
        printf("%" PRIu64, value.unsigned_value);
        break;
    case GGUF_INT:
        printf("%" PRId64, value.signed_value);
        break;
    case GGUF_FLOAT:
        printf("%g", value.float_value);
        break;
    case GGUF_BOOL:
        printf("%s", value.bool_value ? "true" : "false");
        break;
    case GGUF_STRING: {
        struct buf text;
        buf_init(&text, 4096);
        buf_add_json_string(&text, span_slice(value.string, 0, SHOWN_MAX));
        printf("%s%s", buf_string(&text),
               value.string.size > SHOWN_MAX ? "..." : "");
        buf_finish(&text);
        break;
    }
    case GGUF_ARRAY:
        printf("(%" PRIu64 " elements)", value.array.count);
        break;
    }
}

/* Without what would drive the terminal. */
static const char *plain(struct span name, struct why *text)
{
    IGNORE(why_say(text, OK, "%.*s", (int)name.size, (const char *)name.data));
    return text->text;
}

static void print_keys(const struct gguf *gguf)
{
    struct why text;
    for (uint32_t i = 0; i < gguf_key_count(gguf); i++) {
        struct span name;
        struct gguf_value value;
        gguf_key_at(gguf, i, &name, &value);
        printf("  %-44s ", plain(name, &text));
        print_value(value);
        printf("\n");
    }
}

static void print_tensors(const struct gguf *gguf)
{
    struct why text;
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(gguf, i);
        printf("  %-36s %-5s %6" PRIu64 " x %" PRIu64 "\n",
               plain(tensor->name, &text), gguf_type_info(tensor->type)->name,
               tensor->dimensions[1], tensor->dimensions[0]);
    }
}

static void print_types(const struct gguf *gguf)
{
    uint32_t counts[GGUF_TYPE_COUNT] = {0};
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        counts[gguf_tensor_at(gguf, i)->type]++;
    }
    printf("tensors             %u, %.1f MiB:", gguf_tensor_count(gguf),
           (double)gguf_tensor_bytes(gguf) / 1048576.0);
    for (uint32_t type = 0; type < GGUF_TYPE_COUNT; type++) {
        if (counts[type] > 0) {
            printf(" %u %s", counts[type], gguf_type_info(type)->name);
        }
    }
    printf("\n");
}

static void print_file(const struct gguf *gguf, bool show_tensors)
{
    printf("keys\n");
    print_keys(gguf);
    print_types(gguf);
    if (show_tensors) {
        print_tensors(gguf);
    }
}

static enum err print_served(const struct config_worker *config,
                             struct node_model_file *file, struct why *why)
{
    const struct model_info *info = &file->model->info;
    struct buf limits;
    enum err code =
        node_limits_measure(config, &info->shape, why, &file->limits);
    if (code != OK) {
        return code;
    }
    buf_init(&limits, 65536);
    node_limits_describe(&file->limits, &limits);
    printf("\narchitecture        %s, %.1f million parameters\n",
           info->architecture, (double)info->parameter_count / 1e6);
    printf("context             %u tokens, vocabulary %u\n",
           info->context_length, info->vocab_size);
    printf("tokenizer           %s\n", text_tokenizer_kind(file->tokenizer));
    printf("chat form           %s\n",
           file->chat == NULL ? file->chat_why : text_chat_name(file->chat));
    printf("\nwhat a worker holds\n");
    printf("weights             %.1f MiB, mapped and shared by all workers\n",
           (double)info->weight_bytes / 1048576.0);
    openai_request_describe_limits(&limits);
    buf_printf(&limits,
               "bodies held at once %.1f MiB at most, of all clients\n",
               (double)http_server_held_max(config->max_body_bytes) / 1048576);
    printf("%s", buf_string(&limits));
    /* 64 MiB: program, libraries, buffers of requests and activations. */
    const struct node_limits *limit = &file->limits;
    uint64_t bytes = limit->pool_bytes + limit->host_bytes +
                     limit->metadata_bytes + limit->logit_bytes +
                     limit->history_bytes;
    double own = (double)bytes / 1048576.0 + 64;
    printf("together            at most %.0f MiB of its own, beside the shared "
           "weights\n",
           own);
    buf_finish(&limits);
    return OK;
}

static enum err inspect(struct inspect_args *args, struct why *why)
{
    struct gguf *gguf = NULL;
    enum err code = gguf_open(args->config.model, why, &gguf);
    if (code != OK) {
        return code;
    }
    printf("%s\n", args->config.model);
    print_file(gguf, args->show_tensors);
    gguf_close(gguf);
    struct node_model_file file = {0};
    code = node_model_file_open(&args->config, NULL, NULL, why, &file);
    if (code == OK) {
        code = print_served(&args->config, &file, why);
        node_model_file_close(&file);
    }
    return code;
}

static void print_config(const struct config_worker *config)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    config_worker_describe(config, &text);
    printf("\nsettings\n%s", buf_string(&text));
    buf_finish(&text);
}

/* A front end's file: it needs no model. */
static enum err inspect_front(struct inspect_args *args, struct why *why)
{
    struct buf text;
    config_route_init(&args->route);
    enum err code = config_route_read(args->config_path, why, &args->route);
    if (code == OK) {
        code = config_route_check(&args->route, why);
    }
    if (code != OK) {
        return code;
    }
    buf_init(&text, 1 << 20);
    printf("%s: a front end\n\nwhat it holds\n", args->config_path);
    node_front_describe_limits(&args->route, &text);
    buf_add_string(&text, "\nsettings\n");
    config_route_describe(&args->route, &text);
    printf("%s", buf_string(&text));
    buf_finish(&text);
    return OK;
}

/* A model on the command line wins over the file's. */
static enum err inspect_worker(struct inspect_args *args, struct why *why)
{
    struct config_worker *config = &args->config;
    char model[sizeof(config->model)];
    snprintf(model, sizeof(model), "%s", config->model);
    enum err code = OK;
    if (args->config_path != NULL) {
        code = config_worker_read(args->config_path, why, config);
    }
    if (model[0] != 0) {
        snprintf(config->model, sizeof(config->model), "%s", model);
    } else if (config->model[0] == 0) {
        snprintf(config->model, sizeof(config->model), "%s",
                 cli_default_model());
    }
    if (code == OK) {
        code = inspect(args, why);
    }
    if (code == OK && args->config_path != NULL) {
        print_config(config);
    }
    return code;
}

int cli_inspect(int argc, char **argv)
{
    struct inspect_args *args = mem_new(sizeof(*args));
    config_worker_init(&args->config);
    cli_parse(&SYNTAX, argc, argv, args);
    cli_start_log("inspect");
    struct why why = {{0}};
    bool is_front =
        args->config_path != NULL && config_route_is_one(args->config_path);
    enum err code =
        is_front ? inspect_front(args, &why) : inspect_worker(args, &why);
    if (code != OK) {
        fflush(stdout);
        fprintf(stderr, "baton inspect: %s\n", why.text);
    }
    mem_free(args);
    return cli_exit_of(code);
}
