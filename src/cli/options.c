#include "cli/options.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/exit.h"

enum { FIRST_KEY = 0x100 };

struct parse {
    const struct cli_syntax *syntax;
    void *target;
};

static struct log_options log_choice = {.level = LOG_INFO};

static const struct cli_option *find(const struct cli_syntax *syntax, int key)
{
    for (const struct cli_option *o = syntax->options; o->name != NULL; o++) {
        bool is_short = o->short_name != 0 && o->short_name == key;
        if (is_short || o - syntax->options == key - FIRST_KEY) {
            return o;
        }
    }
    return NULL;
}

static error_t on_key(int key, char *value, struct argp_state *state)
{
    struct parse *parse = state->input;
    struct why why = {{0}};
    if (key == ARGP_KEY_ARG) {
        if (parse->syntax->set_argument == NULL) {
            argp_error(state, "'%s' is not an option of this command", value);
        } else if (parse->syntax->set_argument(parse->target, value, &why) !=
                   OK) {
            argp_error(state, "%s", why.text);
        }
        return 0;
    }
    const struct cli_option *option = find(parse->syntax, key);
    if (option == NULL) {
        return ARGP_ERR_UNKNOWN;
    }
    const char *given = value == NULL ? "true" : value;
    if (option->set(parse->target, option->name, given, &why) != OK) {
        argp_error(state, "--%s: %s", option->name, why.text);
    }
    return 0;
}

static struct argp_option *build_options(const struct cli_syntax *syntax)
{
    size_t count = 0;
    while (syntax->options[count].name != NULL) {
        count++;
    }
    struct argp_option *options = mem_new_array(count + 1, sizeof(*options));
    for (size_t i = 0; i < count; i++) {
        const struct cli_option *from = &syntax->options[i];
        options[i] = (struct argp_option){
            .name = from->name,
            .key =
                from->short_name != 0 ? from->short_name : FIRST_KEY + (int)i,
            .arg = from->argument,
            .doc = from->help,
            .group = strncmp(from->name, "log-", 4) == 0 ? 1 : 0,
        };
    }
    return options;
}

void cli_parse(const struct cli_syntax *syntax, int argc, char **argv,
               void *target)
{
    struct argp_option *options = build_options(syntax);
    struct parse parse = {syntax, target};
    struct argp argp = {
        .options = options,
        .parser = on_key,
        .args_doc = syntax->arguments,
        .doc = syntax->about,
    };
    argp_err_exit_status = CLI_USAGE;
    char name[64];
    snprintf(name, sizeof(name), "%s", syntax->command);
    char *first = argv[0];
    argv[0] = name;
    argp_parse(&argp, argc, argv, 0, NULL, &parse);
    argv[0] = first;
    mem_free(options);
}

enum err cli_read_u64(const char *value, struct why *why, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno != 0 || end == value || *end != 0 || strchr(value, '-')) {
        return why_say(why, ERR_INVALID, "'%s' is not a whole number", value);
    }
    *out = number;
    return OK;
}

enum err cli_read_u32(const char *value, uint32_t min, uint32_t max,
                      struct why *why, uint32_t *out)
{
    uint64_t number = 0;
    enum err code = cli_read_u64(value, why, &number);
    if (code != OK) {
        return code;
    }
    if (number < min || number > max) {
        return why_say(why, ERR_INVALID, "%s is not within %u and %u", value,
                       min, max);
    }
    *out = (uint32_t)number;
    return OK;
}

enum err cli_read_number(const char *value, double min, double max,
                         struct why *why, double *out)
{
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end != 0) {
        return why_say(why, ERR_INVALID, "'%s' is not a number", value);
    }
    if (!(number >= min && number <= max)) {
        return why_say(why, ERR_INVALID, "%s is not within %g and %g", value,
                       min, max);
    }
    *out = number;
    return OK;
}

enum err cli_copy(const char *value, char *out, size_t size, struct why *why)
{
    size_t length = strlen(value);
    if (length >= size) {
        return why_say(why, ERR_INVALID, "longer than %zu bytes", size - 1);
    }
    memcpy(out, value, length + 1);
    return OK;
}

static enum err pick(const char *value, const char *const *names, size_t count,
                     struct why *why, int *index_out)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, names[i]) == 0) {
            *index_out = (int)i;
            return OK;
        }
    }
    return why_say(why, ERR_INVALID,
                   "'%s' is not one of those listed by --help", value);
}

enum err cli_set_log(void *target, const char *name, const char *value,
                     struct why *why)
{
    (void)target;
    static const char *const LEVELS[] = {"debug", "info", "warn", "error"};
    static const char *const FORMATS[] = {"text", "json"};
    int index = 0;
    bool is_level = strcmp(name, "log-level") == 0;
    enum err code = is_level ? pick(value, LEVELS, 4, why, &index)
                             : pick(value, FORMATS, 2, why, &index);
    if (code == OK && is_level) {
        log_choice.level = (enum log_level)index;
    } else if (code == OK) {
        log_choice.format = (enum log_format)index;
    }
    return code;
}

void cli_start_log(const char *process)
{
    log_choice.process = process;
    log_setup(&log_choice);
}
