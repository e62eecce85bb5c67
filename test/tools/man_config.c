/* Prints baton.yaml(5), or every option of every command, from the tables that
 * feed the parsers, so that neither can say less than the program knows:
 *     build/man_config >docs/man/baton.yaml.5
 *     build/man_config flags >docs/flags.md */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "config/route.h"
#include "config/worker.h"

/* "key = value   # default D; help" becomes a tagged paragraph. */
static void print_setting(char *line)
{
    char *comment = strstr(line, "# default ");
    char *equals = strstr(line, " = ");
    if (comment == NULL || equals == NULL || equals > comment) {
        return;
    }
    *equals = 0;
    char *value = comment + strlen("# default ");
    char *help = strstr(value, "; ");
    if (help != NULL) {
        *help = 0;
        help += 2;
    }
    printf(".TP\n.B %s\n%s. Default: %s\n", line, help == NULL ? "" : help,
           strcmp(value, "\"\"") == 0 ? "empty" : value);
}

static void print_settings(struct buf *text)
{
    char *rest = NULL;
    for (char *line = strtok_r((char *)text->data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        print_setting(line);
    }
}

static void print_manual(void)
{
    static struct config_worker worker;
    static struct config_route route;
    struct buf text;
    buf_init(&text, 1 << 20);
    printf(".TH BATON.YAML 5 \"2026\" \"baton %s\" \"File Formats\"\n"
           ".SH NAME\nbaton.yaml \\- settings of Baton's workers and front "
           "end\n.SH DESCRIPTION\nYAML. Keys that TensorRT\\-LLM has keep its "
           "names. An unknown key or a value of the wrong kind is an error "
           "that names file, line and key. Flags win over the file.\n",
           BATON_VERSION);
    printf(".SH FRONT END\nRead by\n.BR \"baton route \\-\\-config\" .\n");
    config_route_init(&route);
    config_route_describe(&route, &text);
    print_settings(&text);
    printf(".PP\nEach of\n.B context_servers\nand\n.B generation_servers\nis "
           "a map with\n.B urls\n(a list of host:port) and, where wanted,\n"
           ".B num_instances\n(its length) and\n.B router\n(type: "
           "round_robin).\n");
    buf_reset(&text);
    printf(".SH WORKER\nRead by\n.BR \"baton serve \\-\\-config\" ;\n.B baton "
           "inspect \\-\\-config\nprints every setting with its value and the "
           "limits that follow. A dot in a key is a level of the map.\n");
    config_worker_init(&worker);
    config_worker_describe(&worker, &text);
    print_settings(&text);
    printf(".SH SEE ALSO\n.BR baton (1);\ndocs/flags.md in the source tree: "
           "which option sets which key\n");
    buf_finish(&text);
}

/* -------- flags -------- */

static const struct cli_option *find_option(const struct cli_syntax *syntax,
                                            const char *name)
{
    for (const struct cli_option *at = syntax->options; at->name; at++) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    return NULL;
}

static const char *path_of(const struct cli_syntax *syntax, const char *flag)
{
    bool is_worker = syntax == &cli_serve_syntax;
    const char *key = flag;
    for (const struct cli_flag_key *at = syntax->keys; at->flag; at++) {
        key = strcmp(at->flag, flag) == 0 ? at->key : key;
    }
    return is_worker ? config_worker_path(key) : config_route_path(key);
}

/* Which key an option of `serve`, `route` or `up` sets; NULL: none. `up` gives
 * some to its front end and the rest to its workers. */
static const char *key_of(const struct cli_syntax *syntax, const char *flag)
{
    if (syntax == &cli_serve_syntax || syntax == &cli_route_syntax) {
        return path_of(syntax, flag);
    }
    if (syntax != &cli_up_syntax) {
        return NULL;
    }
    return find_option(&cli_route_syntax, flag) != NULL
               ? path_of(&cli_route_syntax, flag)
           : find_option(&cli_serve_syntax, flag) != NULL
               ? path_of(&cli_serve_syntax, flag)
               : NULL;
}

static void print_cell(const char *text)
{
    for (; *text != 0; text++) {
        printf(strchr("|<>", *text) ? "\\%c" : "%c", *text);
    }
}

static void print_option(const struct cli_syntax *syntax,
                         const struct cli_option *option)
{
    const char *key = key_of(syntax, option->name);
    printf("| `--%s%s%s`", option->name, option->argument ? " " : "",
           option->argument ? option->argument : "");
    if (option->short_name != 0) {
        printf(", `-%c`", option->short_name);
    }
    printf(key == NULL ? " | %s| " : " | `%s` | ", key == NULL ? "" : key);
    print_cell(option->help);
    printf(" |\n");
}

static void print_command(const struct cli_command *command)
{
    const struct cli_syntax *syntax = command->syntax;
    printf("\n## %s%s%s\n\n%s\n\n", syntax->command,
           syntax->arguments[0] ? " " : "", syntax->arguments, syntax->about);
    if (syntax->options[0].name == NULL) {
        printf("No options.\n");
        return;
    }
    printf("| option | key | meaning (default) |\n|---|---|---|\n");
    for (const struct cli_option *at = syntax->options; at->name; at++) {
        print_option(syntax, at);
    }
}

/* Keys that no option of `syntax` sets. */
static void print_rest(const struct cli_syntax *syntax, struct buf *text)
{
    const char *comma = "";
    char *rest = NULL;
    printf("\nOnly in the file:");
    for (char *line = strtok_r((char *)text->data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        bool is_flag = false;
        line[strcspn(line, " ")] = 0;
        for (const struct cli_option *at = syntax->options; at->name; at++) {
            const char *key = key_of(syntax, at->name);
            is_flag |= key != NULL && strcmp(key, line) == 0;
        }
        if (!is_flag) {
            printf("%s\n`%s`", comma, line);
            comma = ",";
        }
    }
    printf(".\n");
}

static void print_flags(void)
{
    static struct config_worker worker;
    static struct config_route route;
    struct buf text;
    buf_init(&text, 1 << 20);
    printf("# Options, keys and variables\n\nMade by `man_config flags` from "
           "the tables that the program parses by.\nWhat a key means, its "
           "unit and default: baton.yaml(5). An option wins over the file.\n"
           "Every command knows `--help` and `--usage`.\n");
    for (const struct cli_command *at = cli_commands; at->name; at++) {
        print_command(at);
        if (at->syntax == &cli_serve_syntax) {
            config_worker_init(&worker);
            config_worker_describe(&worker, &text);
            print_rest(at->syntax, &text);
        } else if (at->syntax == &cli_route_syntax) {
            buf_reset(&text);
            config_route_init(&route);
            config_route_describe(&route, &text);
            print_rest(at->syntax, &text);
        }
    }
    printf("\n## Environment\n\n| variable | read by | meaning "
           "|\n|---|---|---|\n"
           "| `TRTLLM_DISAGG_NO_RETRY` | `route` | `1`: no leg is tried again, "
           "no request begun anew |\n"
           "| `UCX_*` | workers with the ucx lane | read by the UCX library; "
           "transports and what they depend on are set by Baton, whatever "
           "these say |\n");
    buf_finish(&text);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "flags") == 0) {
        print_flags();
    } else {
        print_manual();
    }
    return 0;
}
