#include <stdio.h>
#include <string.h>

#include "api/openai_request.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/exit.h"
#include "cli/inspect_gguf.h"
#include "cli/options.h"
#include "config/route.h"
#include "http/server.h"
#include "node/front.h"
#include "node/model_file.h"
#include "node/worker.h"

struct inspect_args {
    struct config_worker config;
    struct config_route route;
    const char *config_path;
    bool has_file; /* FILE was given */
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

static bool is_config_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static enum err set_file(void *target, const char *value, struct why *why)
{
    struct inspect_args *args = target;
    if (args->has_file) {
        return why_say(why, ERR_INVALID, "one FILE at a time, not '%s' too",
                       value);
    }
    args->has_file = true;
    if (is_config_name(value)) {
        args->config_path = value;
        return OK;
    }
    enum err code =
        cli_copy(value, args->config.model, sizeof(args->config.model), why);
    return code == OK ? OK : why_prefix(why, code, "FILE");
}

static const struct cli_option OPTIONS[] = {
    {"model", 'm', "FILE", "GGUF model (models/demo.gguf)", set},
    {"config", 'c', "FILE",
     "config of a worker or a front end: prints settings and limits", set},
    {"tensors", 0, NULL, "list each tensor", set},
    {0},
};

const struct cli_syntax cli_inspect_syntax = {
    .command = "baton inspect",
    .arguments = "[FILE]",
    .about =
        "Says what a model file holds, whether it can be served and if not "
        "why, and what a worker will need in memory. FILE is a model, or "
        "with a name in .yaml a config.",
    .options = OPTIONS,
    .set_argument = set_file,
};

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
    printf("\nserved by baton      yes\n");
    printf("parameters          %.1f million\n",
           (double)info->parameter_count / 1e6);
    printf("token ids           %s, %u of them\n",
           text_tokenizer_kind(file->tokenizer), info->vocab_size);
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
    cli_inspect_gguf(gguf, args->show_tensors);
    gguf_close(gguf);
    struct node_model_file file = {0};
    code = node_model_file_open(&args->config, NULL, NULL, why, &file);
    if (code == OK) {
        code = print_served(&args->config, &file, why);
        node_model_file_close(&file);
    }
    if (code != OK) {
        printf("\nserved by baton      no: %s\n", why->text);
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

/* What `baton serve` asks before it reads the model. */
static enum err check_worker(const struct config_worker *config,
                             struct why *why)
{
    enum err code = config_worker_check(config, why);
    return code == OK ? node_worker_check(config, why) : code;
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
    if (code == OK && args->config_path != NULL) {
        code = check_worker(config, why);
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
    cli_parse(&cli_inspect_syntax, argc, argv, args);
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
