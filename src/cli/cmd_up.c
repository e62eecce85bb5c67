#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/exit.h"
#include "cli/key_file.h"
#include "cli/options.h"
#include "config/route.h"
#include "config/worker.h"
#include "io/file.h"
#include "node/up.h"

struct up_args {
    struct node_up_options options;
    struct config_worker scratch; /* to check a worker's option at once */
    uint32_t port;
    const char *api_key_file;
    char api_key[256];
};

static enum err set_text(void *target, const char *name, const char *value,
                         struct why *why)
{
    struct node_up_options *options = &((struct up_args *)target)->options;
    if (strcmp(name, "model") == 0) {
        options->model = value;
    } else if (strcmp(name, "host") == 0) {
        options->host = value;
    } else if (strcmp(name, "prompt") == 0) {
        options->prompt = value;
    } else if (strcmp(name, "api-key") == 0) {
        options->api_key = value;
    } else if (strcmp(name, "api-key-file") == 0) {
        ((struct up_args *)target)->api_key_file = value;
    } else if (strcmp(name, "cors") == 0) {
        options->cors = value;
    } else if (strcmp(name, "log-level") == 0) {
        options->log_level = value;
        return cli_set_log(target, name, value, why);
    } else {
        options->log_format = value;
        return cli_set_log(target, name, value, why);
    }
    return OK;
}

static enum err set_number(void *target, const char *name, const char *value,
                           struct why *why)
{
    struct up_args *args = target;
    if (strcmp(name, "context") == 0) {
        return cli_read_u32(value, 1, 16, why, &args->options.context_count);
    }
    if (strcmp(name, "generation") == 0) {
        return cli_read_u32(value, 1, 16, why, &args->options.generation_count);
    }
    if (strcmp(name, "threads") == 0) {
        return cli_read_u32(value, 1, 1024, why, &args->options.threads);
    }
    if (strcmp(name, "max-tokens") == 0) {
        return cli_read_u32(value, 1, 1 << 20, why, &args->options.max_tokens);
    }
    return cli_read_u32(value, 0, 65535, why, &args->port);
}

/* An option of the front end, checked as it will check it. */
static enum err set_style(void *target, const char *name, const char *value,
                          struct why *why)
{
    static struct config_route scratch;
    struct node_up_options *options = &((struct up_args *)target)->options;
    config_route_init(&scratch);
    options->schedule_style = value;
    return config_route_set(&scratch, name, value, why);
}

/* Options that every worker gets as they are. */
static enum err set_extra(void *target, const char *name, const char *value,
                          struct why *why)
{
    static char flags[NODE_UP_EXTRA_MAX][40];
    struct node_up_options *options = &((struct up_args *)target)->options;
    if (options->extra_count + 2 > NODE_UP_EXTRA_MAX) {
        return why_say(why, ERR_FULL, "too many options for the workers");
    }
    bool is_ops = strcmp(name, "ops") == 0;
    if (is_ops && strcmp(value, "ref") != 0 && strcmp(value, "fast") != 0) {
        return why_say(why, ERR_INVALID, "'%s' is neither fast nor ref", value);
    }
    struct config_worker *scratch = &((struct up_args *)target)->scratch;
    enum err code = is_ops ? OK : config_worker_set(scratch, name, value, why);
    if (code != OK) {
        return code;
    }
    char *flag = flags[options->extra_count];
    snprintf(flag, sizeof(flags[0]), "--%s", name);
    options->extra[options->extra_count++] = flag;
    options->extra[options->extra_count++] = value;
    return OK;
}

static const struct cli_option OPTIONS[] = {
    {"model", 'm', "FILE", "GGUF model (models/demo.gguf)", set_text},
    {"context", 0, "N", "context (prefill) workers (1)", set_number},
    {"generation", 0, "N", "generation (decode) workers (1)", set_number},
    {"host", 0, "ADDRESS", "address of the front end (127.0.0.1)", set_text},
    {"port", 'p', "PORT", "port of the front end (8000)", set_number},
    {"threads", 't', "N", "compute threads of all workers together (all CPUs)",
     set_number},
    {"prompt", 0, "TEXT", "send one prompt, print text and journey, end",
     set_text},
    {"max-tokens", 0, "N", "length of the answer to --prompt (64)", set_number},
    {"api-key", 0, "KEY", "bearer token clients must send; seen in ps",
     set_text},
    {"api-key-file", 0, "FILE", "file with that key, one line", set_text},
    {"cors", 0, "ORIGIN", "allow browsers of this origin, or *", set_text},
    {"schedule-style", 0, "STYLE",
     "context_first or generation_first (context_first)", set_style},
    {"kv-tokens", 0, "N", "tokens each worker's KV pool holds", set_extra},
    {"max-batch", 0, "N", "sequences a worker runs together", set_extra},
    {"max-seq", 0, "N", "longest prompt and answer together", set_extra},
    {"chunk-tokens", 0, "N", "tokens of one turn (adapts)", set_extra},
    {"tokens-per-block", 0, "N", "tokens of a KV block (32)", set_extra},
    {"host-cache-size", 0, "BYTES", "second KV level of each worker (0: none)",
     set_extra},
    {"capacity-policy", 0, "NAME",
     "GUARANTEED_NO_EVICT, MAX_UTILIZATION or BOUNDED_OVERCOMMIT", set_extra},
    {"event-buffer-max-size", 0, "N",
     "cache events a worker keeps for routers (0: none)", set_extra},
    {"backend", 0, "NAME", "auto, ucx, tcp or rdma (auto)", set_extra},
    {"chat-template", 0, "NAME", "chat form, instead of the file's", set_extra},
    {"served-model-name", 0, "NAME", "name that requests use", set_extra},
    {"ops", 0, "BODY", "fast or ref", set_extra},
    {"log-level", 0, "LEVEL", "debug, info, warn or error (info)", set_text},
    {"log-format", 0, "FORMAT", "text or json (text)", set_text},
    {0},
};

const struct cli_syntax cli_up_syntax = {
    .command = "baton up",
    .arguments = "",
    .about = "Starts context workers, generation workers and a front end as "
             "processes of this host, prints 'ready URL', restarts what dies, "
             "and drains on Ctrl-C.",
    .options = OPTIONS,
};

static bool model_is_there(const char *path)
{
    if (access(path, R_OK) == 0) {
        return true;
    }
    fprintf(stderr, "baton up: model %s: no such file, or not readable\n",
            path);
    return false;
}

static enum err read_key(struct up_args *args, struct why *why)
{
    struct node_up_options *options = &args->options;
    if (args->api_key_file == NULL) {
        return OK;
    }
    enum err code = cli_key_file_read("--api-key-file", args->api_key_file, why,
                                      args->api_key, sizeof(args->api_key));
    if (code == OK) {
        options->api_key = args->api_key;
    }
    return code;
}

int cli_up(int argc, char **argv)
{
    struct up_args args = {
        .options =
            {
                .model = cli_default_model(),
                .context_count = 1,
                .generation_count = 1,
                .host = "127.0.0.1",
                .max_tokens = 64,
                .log_level = "info",
                .log_format = "text",
                .show_progress = isatty(STDERR_FILENO),
            },
        .port = 8000,
    };
    config_worker_init(&args.scratch);
    cli_parse(&cli_up_syntax, argc, argv, &args);
    args.options.port = (uint16_t)args.port;
    cli_start_log("up");
    if (args.api_key_file != NULL && args.options.api_key != NULL) {
        fprintf(stderr,
                "baton up: --api-key and --api-key-file exclude each other\n");
        return CLI_USAGE;
    }
    if (!model_is_there(args.options.model)) {
        return CLI_BAD_INPUT;
    }
    struct why why = {{0}};
    enum err code = read_key(&args, &why);
    if (code == OK) {
        code = node_up_run(&args.options, &why);
    }
    if (code != OK) {
        fprintf(stderr, "baton up: %s\n", why.text);
    }
    return cli_exit_of(code);
}
