#pragma once
/* config/field: one table row a key, which drives everything a key needs: the
 * default, the parser with its limits, the flag, what `inspect` prints and
 * what the manual says. Pure.
 *
 *   { key "max_batch_size", flag "max_batch", kind, where in the struct,
 *     limits, default, unit, help }
 *
 * A row whose `kind` is CONFIG_LIST_OF has its own reader and printer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/tree.h"

enum { CONFIG_PLACE_SIZE = 160 };

enum config_kind {
    CONFIG_BOOL,
    CONFIG_I32,
    CONFIG_U32,
    CONFIG_U64,
    CONFIG_BYTES, /* uint64_t; a text may end in KiB, MiB or GiB */
    CONFIG_DOUBLE,
    CONFIG_TEXT, /* char[size] */
    CONFIG_CHOICE, /* an enum int: index into the `|` list of `choices` */
    CONFIG_LIST_OF
};

struct config_field {
    const char *key; /* path in the file: "kv_cache_config.max_tokens" */
    const char *flag; /* short name for flags; NULL: the key */
    enum config_kind kind;
    bool is_secret; /* never printed */
    bool is_hidden; /* for tests and benches: described only when it is set */
    size_t offset;
    size_t size; /* of a text */
    double min, max;
    const char *choices; /* also limits a text; NULL: any */
    const char *default_text; /* as the file would spell it */
    const char *unit; /* "" when none */
    const char *help;
    /* CONFIG_LIST_OF only. A NULL `node` stands for the list of `text`,
     * separated by commas. Errors say what is wrong, not where. */
    enum err (*read)(const struct config_node *node, const char *text,
                     struct why *why, void *config);
    void (*print)(const void *config, struct buf *out);
};

struct config_table {
    const struct config_field *fields;
    uint32_t count;
    /* Keys, by full path, that exist elsewhere: true to pass them over; false
     * with `why` filled to refuse them by name; false with an empty `why`:
     * unknown. May be NULL. */
    bool (*is_passed_over)(const char *path, const struct config_node *node,
                           struct why *why);
};

/* `config` is the struct that the offsets mean. */
void config_table_init(const struct config_table *table, void *config);
MUST_USE enum err config_table_read(const struct config_table *table,
                                    const struct config_node *root,
                                    const char *name, struct why *why,
                                    void *config);
/* `key` is a path, a flag, or its last part; '-' stands for '_'. `why` says
 * what is wrong with the value: the caller knows what its user calls the key. */
MUST_USE enum err config_table_set(const struct config_table *table,
                                   const char *key, const char *value,
                                   struct why *why, void *config);
/* The whole path of what `key` means there; NULL: nothing. */
const char *config_table_path(const struct config_table *table,
                              const char *key);
/* `key = value   # default D, unit; help`, a line a key. */
void config_table_describe(const struct config_table *table, const void *config,
                           struct buf *out);

/* For a path that nobody knows: where its last part is known, as "at the top
 * level" or "under `kv_cache_config`", several with "or" between. False:
 * nowhere. */
bool config_table_find_place(const struct config_table *table, const char *path,
                             char out[CONFIG_PLACE_SIZE]);
/* The known name that `word` most likely means; NULL: none is near. */
const char *config_table_nearest(const struct config_table *table,
                                 const char *word);
