#pragma once
/* cli/options: one table of options a command; argp stands behind it.
 *
 * `--help`, `--usage` and wrong options end the process as users expect from
 * any GNU program: 0, or 2 with a line that names the option. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct cli_option {
    const char *name; /* "model"; NULL ends the table */
    char short_name; /* 'm', or 0 */
    const char *argument; /* "FILE"; NULL: a flag, `value` is then "true" */
    const char *help;
    /* `target` as given to cli_parse. ERR_INVALID: `why` says what is wrong
     * with the value; the option's name is put before it. */
    enum err (*set)(void *target, const char *name, const char *value,
                    struct why *why);
};

/* A flag whose key is more than its own name with '_' for '-'. */
struct cli_flag_key {
    const char *flag; /* NULL ends the table */
    const char *key;
};

struct cli_syntax {
    const char *command; /* "baton serve" */
    const char *arguments; /* "" or "[FILE]" */
    const char *about; /* one paragraph for --help */
    const struct cli_option *options;
    const struct cli_flag_key *keys; /* of options that set a config's keys;
                                        NULL: each by its own name, if any */
    /* An argument that is no option; NULL: none allowed. */
    enum err (*set_argument)(void *target, const char *value, struct why *why);
};

/* argv[0] is the command's name. Ends the process on --help and mistakes. */
void cli_parse(const struct cli_syntax *syntax, int argc, char **argv,
               void *target);

/* Whole numbers only, within the limits; `why` names both. */
MUST_USE enum err cli_read_u32(const char *value, uint32_t min, uint32_t max,
                               struct why *why, uint32_t *out);
MUST_USE enum err cli_read_u64(const char *value, struct why *why,
                               uint64_t *out);
MUST_USE enum err cli_read_number(const char *value, double min, double max,
                                  struct why *why, double *out);
MUST_USE enum err cli_copy(const char *value, char *out, size_t size,
                           struct why *why);

/* Shared by all commands: --log-level and --log-format. */
MUST_USE enum err cli_set_log(void *target, const char *name, const char *value,
                              struct why *why);
/* Applies what cli_set_log collected. */
void cli_start_log(const char *process);

#define CLI_LOG_OPTIONS                                               \
    {"log-level", 0, "LEVEL", "debug, info, warn or error (info)",    \
     cli_set_log},                                                    \
    {                                                                 \
        "log-format", 0, "FORMAT", "text or json (text)", cli_set_log \
    }
