#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "node/front.h"

/* Flags win over the file whatever their order: they are kept and applied
 * after it. */
enum { OVERRIDE_COUNT_MAX = 32 };

struct route_args {
    struct config_route config;
    struct config_route scratch; /* to check a flag's value on its own */
    const char *path;
    const char *name;
    uint32_t override_count;
    const char *keys[OVERRIDE_COUNT_MAX];
    const char *values[OVERRIDE_COUNT_MAX];
};

static enum err set_path(void *target, const char *name, const char *value,
                         struct why *why)
{
    (void)name, (void)why;
    ((struct route_args *)target)->path = value;
    return OK;
}

static enum err set_name(void *target, const char *name, const char *value,
                         struct why *why)
{
    (void)name, (void)why;
    ((struct route_args *)target)->name = value;
    return OK;
}

static const char *key_of(const char *flag)
{
    static const char *const NAMES[][2] = {
        {"host", "hostname"},
        {"port", "port"},
        {"api-key", "api_key"},
        {"cors", "cors_origin"},
        {"server_start_timeout", "server_start_timeout"},
        {"request_timeout", "request_timeout"},
    };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (strcmp(NAMES[i][0], flag) == 0) {
            return NAMES[i][1];
        }
    }
    return flag;
}

static enum err set_override(void *target, const char *name, const char *value,
                             struct why *why)
{
    struct route_args *args = target;
    if (args->override_count == OVERRIDE_COUNT_MAX) {
        return why_say(why, ERR_FULL, "given too often");
    }
    const char *key = key_of(name);
    enum err code = config_route_set(&args->scratch, key, value, why);
    if (code == OK) {
        args->keys[args->override_count] = key;
        args->values[args->override_count++] = value;
    }
    return code;
}

static const struct cli_option OPTIONS[] = {
    {"config", 'c', "FILE", "YAML file with the servers (required)", set_path},
    {"host", 0, "ADDRESS", "address to listen on", set_override},
    {"port", 'p', "PORT", "port to listen on (8000)", set_override},
    {"api-key", 0, "KEY", "clients must send it as a bearer token",
     set_override},
    {"cors", 0, "ORIGIN", "allow browsers of this origin, or *", set_override},
    {"server_start_timeout", 't', "SECONDS", "wait for the workers (180)",
     set_override},
    {"request_timeout", 'r', "SECONDS", "longest wait for a worker (180)",
     set_override},
    {"name", 0, "NAME", "name in log lines", set_name},
    CLI_LOG_OPTIONS,
    {0},
};

static const struct cli_syntax SYNTAX = {
    .command = "baton route",
    .arguments = "",
    .about = "Runs a front end: takes OpenAI requests, sends each first to a "
             "context server and then to a generation server, and relays the "
             "answer.",
    .options = OPTIONS,
};

static enum err read_config(struct route_args *args, struct why *why)
{
    config_route_init(&args->config);
    enum err code = config_route_read(args->path, why, &args->config);
    for (uint32_t i = 0; code == OK && i < args->override_count; i++) {
        code = config_route_set(&args->config, args->keys[i], args->values[i],
                                why);
    }
    return code == OK ? config_route_check(&args->config, why) : code;
}

int cli_route(int argc, char **argv)
{
    struct route_args *args = mem_new(sizeof(*args));
    args->name = "front";
    config_route_init(&args->scratch);
    cli_parse(&SYNTAX, argc, argv, args);
    cli_start_log(args->name);
    struct why why = {{0}};
    enum err code = OK;
    if (args->path == NULL) {
        fprintf(stderr, "baton route: --config FILE is required\n");
        mem_free(args);
        return CLI_USAGE;
    }
    code = read_config(args, &why);
    if (code == OK) {
        code = node_front_run(&args->config, &why);
    }
    if (code != OK) {
        fprintf(stderr, "baton route: %s\n", why.text);
    }
    mem_free(args);
    return cli_exit_of(code);
}
