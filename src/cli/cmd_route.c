#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/key_file.h"
#include "cli/options.h"
#include "cli/overrides.h"
#include "node/front.h"

struct route_args {
    struct config_route config;
    struct config_route scratch;
    struct cli_overrides overrides;
    const char *path;
    const char *name;
    const char *api_key_file;
};

static const struct cli_flag_key KEYS[] = {{"host", "hostname"},
                                           {"cors", "cors_origin"},
                                           {"api-key-file", "api_key"},
                                           {0}};

static enum err set_config(void *config, const char *key, const char *value,
                           struct why *why)
{
    return config_route_set(config, key, value, why);
}

static enum err set_own(void *target, const char *name, const char *value,
                        struct why *why)
{
    (void)why;
    struct route_args *args = target;
    const char **place = strcmp(name, "config") == 0 ? &args->path
                         : strcmp(name, "name") == 0 ? &args->name
                                                     : &args->api_key_file;
    *place = value;
    return OK;
}

static enum err set_override(void *target, const char *name, const char *value,
                             struct why *why)
{
    struct route_args *args = target;
    return cli_overrides_add(&args->overrides, name, value, why);
}

static const struct cli_option OPTIONS[] = {
    {"config", 'c', "FILE", "YAML file with the servers (required)", set_own},
    {"host", 0, "ADDRESS", "address to listen on", set_override},
    {"port", 'p', "PORT", "port to listen on (8000)", set_override},
    {"api-key", 0, "KEY", "bearer token clients must send; seen in ps",
     set_override},
    {"api-key-file", 0, "FILE", "file with that key, one line", set_own},
    {"cors", 0, "ORIGIN", "allow browsers of this origin, or *", set_override},
    {"schedule-style", 0, "STYLE", "context_first or generation_first",
     set_override},
    {"server_start_timeout", 't', "SECONDS", "wait for the workers (180)",
     set_override},
    {"request_timeout", 'r', "SECONDS", "longest wait for a worker (180)",
     set_override},
    {"name", 0, "NAME", "name in log lines", set_own},
    CLI_LOG_OPTIONS,
    {0},
};

const struct cli_syntax cli_route_syntax = {
    .command = "baton route",
    .arguments = "",
    .about = "Runs a front end: takes OpenAI requests, sends each to a context "
             "server and then, or at once, to a generation server, and relays "
             "the answer.",
    .options = OPTIONS,
    .keys = KEYS,
};

static enum err read_file(struct route_args *args, struct why *why)
{
    struct config_route *config = &args->config;
    config_route_init(config);
    enum err code = config_route_read(args->path, why, config);
    bool has_secret =
        config->internal_auth_key[0] != 0 || config->api_key[0] != 0;
    if (code == OK && has_secret) {
        cli_key_file_warn("--config", args->path);
    }
    return code;
}

/* Flags win over the file, and so does a key that a flag's file holds. */
static enum err read_config(struct route_args *args, struct why *why)
{
    struct config_route *config = &args->config;
    enum err code = read_file(args, why);
    if (code == OK) {
        code = cli_overrides_apply(&args->overrides, why, config);
    }
    if (code == OK && args->api_key_file != NULL) {
        code = cli_key_file_read("--api-key-file", args->api_key_file, why,
                                 config->api_key, sizeof(config->api_key));
    }
    return code == OK ? config_route_check(config, why) : code;
}

/* What is missing or said twice; NULL: nothing. */
static const char *find_misuse(const struct route_args *args)
{
    if (args->path == NULL) {
        return "--config FILE is required";
    }
    bool has_both = args->api_key_file != NULL &&
                    cli_overrides_has(&args->overrides, "api-key");
    return has_both ? "--api-key and --api-key-file exclude each other" : NULL;
}

static int run(struct route_args *args)
{
    struct why why = {{0}};
    const char *misuse = find_misuse(args);
    if (misuse != NULL) {
        fprintf(stderr, "baton route: %s\n", misuse);
        return CLI_USAGE;
    }
    enum err code = read_config(args, &why);
    if (code == OK) {
        code = node_front_run(&args->config, &why);
    }
    if (code != OK) {
        cli_overrides_name(&args->overrides, &why);
        fprintf(stderr, "baton route: %s\n", why.text);
    }
    return cli_exit_of(code);
}

int cli_route(int argc, char **argv)
{
    struct route_args *args = mem_new(sizeof(*args));
    args->name = "front";
    config_route_init(&args->scratch);
    args->overrides.keys = cli_route_syntax.keys;
    args->overrides.set = set_config;
    args->overrides.scratch = &args->scratch;
    cli_parse(&cli_route_syntax, argc, argv, args);
    cli_start_log(args->name);
    int exit_code = run(args);
    mem_free(args);
    return exit_code;
}
