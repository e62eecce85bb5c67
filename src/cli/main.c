/* baton: one program, many commands. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/exit.h"
#include "io/map_watch.h"

static void print_help(FILE *out)
{
    fprintf(out, "usage: baton COMMAND [OPTION...]\n\n"
                 "Serves large language models with prefill and decode on "
                 "separate servers.\n\n");
    for (const struct cli_command *at = cli_commands; at->name; at++) {
        fprintf(out, "  %-10s %s\n", at->name, at->summary);
    }
    fprintf(out, "\n`baton COMMAND --help` says more. First steps:\n"
                 "  baton up --model models/demo.gguf\n"
                 "  curl localhost:8000/v1/completions -H 'content-type: "
                 "application/json' \\\n"
                 "       -d '{\"model\":\"demo\",\"prompt\":\"In the "
                 "beginning\",\"max_tokens\":20}'\n"
                 "\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 bad model, "
                 "config or file,\n4 port, memory or peer not to be had, 5 "
                 "model file cut while in use,\n130 interrupted.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc < 2 ? "" : argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0 ||
        strcmp(name, "-h") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0 ||
        strcmp(name, "-V") == 0) {
        printf("baton %s\n", BATON_VERSION);
        return CLI_OK;
    }
    for (const struct cli_command *at = cli_commands; at->name; at++) {
        if (strcmp(name, at->name) == 0) {
            io_map_watch(CLI_FILE_LOST);
            return at->run(argc - 1, argv + 1);
        }
    }
    if (argc < 2) {
        print_help(stderr);
    } else {
        fprintf(stderr, "baton: '%s' is no command; see baton --help\n", name);
    }
    return CLI_USAGE;
}
