#pragma once
/* cli/overrides: flags that win over a file. Each is checked when it is given,
 * kept, and set again once the file was read, whatever the order on the command
 * line. What is wrong later with a key that came by a flag is told by the
 * flag's name: that is what the user typed. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/options.h"

enum { CLI_OVERRIDE_COUNT_MAX = 64, CLI_KEY_SIZE = 64 };

/* config_worker_set or config_route_set. */
typedef enum err cli_config_set(void *config, const char *key,
                                const char *value, struct why *why);

struct cli_overrides {
    const struct cli_flag_key *keys; /* ends with a NULL flag */
    cli_config_set *set;
    void *scratch; /* a config of defaults, to check a value on its own */
    /* private */
    uint32_t count;
    struct {
        const char *flag; /* without its dashes */
        const char *value;
        char key[CLI_KEY_SIZE];
    } list[CLI_OVERRIDE_COUNT_MAX];
};

/* `flag` and `value` outlive it. `why` says what is wrong with the value. */
MUST_USE enum err cli_overrides_add(struct cli_overrides *overrides,
                                    const char *flag, const char *value,
                                    struct why *why);
bool cli_overrides_has(const struct cli_overrides *overrides, const char *flag);
/* Sets all in `config`, in their order. */
MUST_USE enum err cli_overrides_apply(const struct cli_overrides *overrides,
                                      struct why *why, void *config);
/* Writes the flag where the line speaks of its key. */
void cli_overrides_name(const struct cli_overrides *overrides, struct why *why);
