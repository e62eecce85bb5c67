#include <stdio.h>
#include <string.h>

#include "bench/load.h"
#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/key_file.h"
#include "cli/options.h"
#include "io/tcp.h"

struct bench_args {
    struct bench_load_options load;
    struct io_address address;
    bool has_command;
    const char *api_key_file;
    char api_key[256];
};

static enum err set_text(void *target, const char *name, const char *value,
                         struct why *why)
{
    struct bench_args *args = target;
    if (strcmp(name, "url") == 0) {
        return io_address_parse(span_of_string(value), why, &args->address);
    }
    if (strcmp(name, "model") == 0) {
        args->load.model = value;
    } else if (strcmp(name, "api-key") == 0) {
        args->load.api_key = value;
    } else if (strcmp(name, "api-key-file") == 0) {
        args->api_key_file = value;
    } else if (strcmp(name, "json") == 0) {
        args->load.as_json = true;
    } else if (strcmp(name, "no-warm-up") == 0) {
        args->load.warm_up = false;
    } else {
        args->load.ignore_end = false;
    }
    return OK;
}

static enum err set_count(void *target, const char *name, const char *value,
                          struct why *why)
{
    struct bench_load_options *load = &((struct bench_args *)target)->load;
    const struct {
        const char *name;
        uint32_t min, max;
        uint32_t *out;
    } counts[] = {
        {"requests", 1, 1000000, &load->request_count},
        {"concurrency", 1, 10000, &load->concurrency},
        {"input-words", 1, 1000000, &load->input_words},
        {"shared-words", 0, 1000000, &load->shared_words},
        {"output-tokens", 1, 1000000, &load->output_tokens},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (strcmp(counts[i].name, name) == 0) {
            return cli_read_u32(value, counts[i].min, counts[i].max, why,
                                counts[i].out);
        }
    }
    return cli_read_u64(value, why, &load->seed);
}

static enum err set_number(void *target, const char *name, const char *value,
                           struct why *why)
{
    struct bench_load_options *load = &((struct bench_args *)target)->load;
    double *out = strcmp(name, "rate") == 0         ? &load->rate
                  : strcmp(name, "burstiness") == 0 ? &load->burstiness
                  : strcmp(name, "goal-ttft") == 0  ? &load->goal.ttft_ms
                  : strcmp(name, "goal-tpot") == 0  ? &load->goal.tpot_ms
                                                    : &load->goal.e2el_ms;
    double min = strcmp(name, "burstiness") == 0 ? 0.01 : 0;
    return cli_read_number(value, min, 1e9, why, out);
}

static enum err set_command(void *target, const char *value, struct why *why)
{
    struct bench_args *args = target;
    if (args->has_command || strcmp(value, "serve") != 0) {
        return why_say(why, ERR_INVALID, "'%s' is not a benchmark; 'serve' is",
                       value);
    }
    args->has_command = true;
    return OK;
}

static const struct cli_option OPTIONS[] = {
    {"url", 'u', "HOST:PORT", "the server (127.0.0.1:8000)", set_text},
    {"model", 'm', "NAME", "model name in requests (demo)", set_text},
    {"api-key", 0, "KEY", "sent as a bearer token; seen in ps", set_text},
    {"api-key-file", 0, "FILE", "file with that key, one line", set_text},
    {"requests", 'n', "N", "requests (100)", set_count},
    {"concurrency", 'c', "N", "open at the same time at most (8)", set_count},
    {"rate", 'r', "X", "arrivals a second; 0: as they end (0)", set_number},
    {"burstiness", 0, "X", "1 is Poisson, less is burstier (1)", set_number},
    {"input-words", 0, "N", "words of a prompt (100)", set_count},
    {"shared-words", 0, "N", "words at the front shared by all (0)", set_count},
    {"output-tokens", 0, "N", "tokens of an answer (32)", set_count},
    {"stop-at-end", 0, NULL, "let an end token end an answer", set_text},
    {"seed", 0, "N", "of prompts and arrivals (1)", set_count},
    {"no-warm-up", 0, NULL, "count the first request too", set_text},
    {"goal-ttft", 0, "MS", "goodput: longest time to first token", set_number},
    {"goal-tpot", 0, "MS", "goodput: longest time per token", set_number},
    {"goal-e2el", 0, "MS", "goodput: longest whole request", set_number},
    {"json", 0, NULL, "print one JSON object", set_text},
    CLI_LOG_OPTIONS,
    {0},
};

const struct cli_syntax cli_bench_syntax = {
    .command = "baton bench",
    .arguments = "serve",
    .about = "Loads a running server with streaming completions and reports "
             "throughput and latencies as a client sees them.",
    .options = OPTIONS,
    .set_argument = set_command,
};

static enum err run(struct bench_args *args, struct why *why)
{
    struct bench_load_options *load = &args->load;
    load->host = args->address.host;
    load->port = args->address.port;
    if (args->api_key_file != NULL) {
        enum err code =
            cli_key_file_read("--api-key-file", args->api_key_file, why,
                              args->api_key, sizeof(args->api_key));
        if (code != OK) {
            return code;
        }
        load->api_key = args->api_key;
    }
    return bench_load_run(load, why);
}

int cli_bench(int argc, char **argv)
{
    struct bench_args args = {
        .address = {"127.0.0.1", 8000},
        .load =
            {
                .model = "demo",
                .request_count = 100,
                .concurrency = 8,
                .burstiness = 1,
                .input_words = 100,
                .output_tokens = 32,
                .ignore_end = true,
                .seed = 1,
                .warm_up = true,
            },
    };
    cli_parse(&cli_bench_syntax, argc, argv, &args);
    cli_start_log("bench");
    if (!args.has_command) {
        fprintf(stderr, "baton bench: which one? 'baton bench serve'\n");
        return CLI_USAGE;
    }
    if (args.api_key_file != NULL && args.load.api_key != NULL) {
        fprintf(stderr, "baton bench: --api-key and --api-key-file exclude "
                        "each other\n");
        return CLI_USAGE;
    }
    struct why why = {{0}};
    enum err code = run(&args, &why);
    if (code != OK) {
        fprintf(stderr, "baton bench: %s\n", why.text);
    }
    return cli_exit_of(code);
}
