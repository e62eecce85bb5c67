#include "config/field.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/value.h"

enum { PATH_SIZE = 256, WORD_SIZE_MAX = 64 };

static void *place_of(const struct config_field *field, void *config)
{
    return (uint8_t *)config + field->offset;
}

void config_table_init(const struct config_table *table, void *config)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_field *field = &table->fields[i];
        if (field->kind != CONFIG_LIST_OF) {
            enum err code = config_value_read(field, field->default_text, false,
                                              NULL, place_of(field, config));
            CHECK(code == OK);
        }
    }
}

static const struct config_field *field_of(const struct config_table *table,
                                           const char *path)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->fields[i].key, path) == 0) {
            return &table->fields[i];
        }
    }
    return NULL;
}

/* A map on the way to known keys. */
static bool is_section(const struct config_table *table, const char *path)
{
    size_t size = strlen(path);
    for (uint32_t i = 0; i < table->count; i++) {
        const char *key = table->fields[i].key;
        if (strncmp(key, path, size) == 0 && key[size] == '.') {
            return true;
        }
    }
    return false;
}

static uint32_t smallest(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t least = a < b ? a : b;
    return least < c ? least : c;
}

static uint32_t step_cost(const char *a, const char *b, uint32_t i, uint32_t j,
                          const uint32_t *above, const uint32_t *row)
{
    return smallest(above[j] + 1, row[j - 1] + 1,
                    above[j - 1] + (a[i - 1] != b[j - 1]));
}

/* Edit distance of two short words: letters added, lost, replaced, and two
 * neighbours that changed places, which is one slip of the fingers too. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t rows[3][WORD_SIZE_MAX + 1];
    size_t a_size = strlen(a);
    size_t b_size = strlen(b);
    if (a_size > WORD_SIZE_MAX || b_size > WORD_SIZE_MAX) {
        return UINT32_MAX;
    }
    for (uint32_t j = 0; j <= b_size; j++) {
        rows[0][j] = j;
    }
    for (uint32_t i = 1; i <= a_size; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *above = rows[(i + 2) % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= b_size; j++) {
            row[j] = step_cost(a, b, i, j, above, row);
            bool is_swap =
                i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            uint32_t swapped =
                is_swap ? rows[(i + 1) % 3][j - 2] + 1 : UINT32_MAX;
            row[j] = row[j] < swapped ? row[j] : swapped;
        }
    }
    return rows[a_size % 3][b_size];
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

const char *config_table_nearest(const struct config_table *table,
                                 const char *word)
{
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)strlen(last_part(word)) / 3 + 1;
    for (uint32_t i = 0; i < table->count; i++) {
        const char *key = table->fields[i].key;
        uint32_t whole = distance(word, key);
        uint32_t part = distance(last_part(word), last_part(key));
        const char *flag = table->fields[i].flag;
        uint32_t alias = flag == NULL ? UINT32_MAX : distance(word, flag);
        uint32_t least = smallest(whole, part, alias);
        if (least < best_distance) {
            best_distance = least;
            best = key;
        }
    }
    return best;
}

static enum err say_unknown(const struct config_table *table, const char *path,
                            struct why *why)
{
    const char *nearest = config_table_nearest(table, path);
    if (nearest == NULL) {
        return why_say(why, ERR_INVALID, "`%s` is not a known key", path);
    }
    return why_say(why, ERR_INVALID,
                   "`%s` is not a known key; did you mean `%s`?", path,
                   nearest);
}

static void add_place(const char *section, size_t size,
                      char out[CONFIG_PLACE_SIZE])
{
    size_t used = strlen(out);
    const char *before = used == 0 ? "" : " or ";
    if (size == 0) {
        snprintf(out + used, CONFIG_PLACE_SIZE - used, "%sat the top level",
                 before);
    } else {
        snprintf(out + used, CONFIG_PLACE_SIZE - used, "%sunder `%.*s`", before,
                 (int)size, section);
    }
}

bool config_table_find_place(const struct config_table *table, const char *path,
                             char out[CONFIG_PLACE_SIZE])
{
    const char *word = last_part(path);
    out[0] = 0;
    if (is_section(table, word)) {
        add_place("", 0, out);
    }
    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_field *field = &table->fields[i];
        const char *last = last_part(field->key);
        if (!field->is_hidden && strcmp(last, word) == 0) {
            size_t size = (size_t)(last - field->key);
            add_place(field->key, size == 0 ? 0 : size - 1, out);
        }
    }
    return out[0] != 0;
}

/* Of a file: there a key can be right and its place wrong. */
static enum err say_misplaced(const struct config_table *table,
                              const char *path, struct why *why)
{
    char place[CONFIG_PLACE_SIZE];
    if (!config_table_find_place(table, path, place)) {
        return say_unknown(table, path, why);
    }
    return why_say(why, ERR_INVALID,
                   "`%s` is in the wrong place: `%s` belongs "
                   "%s",
                   path, last_part(path), place);
}

static enum err read_field(const struct config_field *field,
                           const struct config_node *node, struct why *why,
                           void *config)
{
    enum err code;
    if (field->kind == CONFIG_LIST_OF) {
        code = field->read(node, NULL, why, config);
    } else if (node->kind != CONFIG_SCALAR) {
        code = why_say(why, ERR_INVALID, "must be one value");
    } else {
        code = config_value_read(field, node->text, node->is_quoted, why,
                                 place_of(field, config));
    }
    return code == OK ? OK : why_prefix(why, code, "`%s`", field->key);
}

struct walk {
    const struct config_table *table;
    const char *name;
    struct why *why;
    void *config;
};

static enum err walk_map(const struct walk *walk, const struct config_node *map,
                         const char *prefix);

static enum err walk_member(const struct walk *walk,
                            const struct config_node *node, const char *path)
{
    const struct config_field *field = field_of(walk->table, path);
    struct why refusal = {""};
    if (field != NULL) {
        return read_field(field, node, walk->why, walk->config);
    }
    if (node->kind == CONFIG_MAP && is_section(walk->table, path)) {
        return walk_map(walk, node, path);
    }
    if (is_section(walk->table, path)) {
        bool is_null = node->kind == CONFIG_SCALAR && !node->is_quoted &&
                       node->text[0] == 0;
        return is_null ? OK
                       : why_say(walk->why, ERR_INVALID,
                                 "`%s` must be a map of keys", path);
    }
    if (walk->table->is_passed_over != NULL &&
        walk->table->is_passed_over(path, node, &refusal)) {
        return OK;
    }
    if (refusal.text[0] != 0) {
        return why_say(walk->why, ERR_INVALID, "`%s`: %s", path, refusal.text);
    }
    return say_misplaced(walk->table, path, walk->why);
}

static enum err walk_map(const struct walk *walk, const struct config_node *map,
                         const char *prefix)
{
    for (const struct config_node *node = map->first; node != NULL;
         node = node->next) {
        char path[PATH_SIZE];
        int size = snprintf(path, sizeof(path), "%s%s%s", prefix,
                            prefix[0] == 0 ? "" : ".", node->key);
        if (size >= (int)sizeof(path)) {
            return why_say(walk->why, ERR_INVALID, "%s:%u: a key is too long",
                           walk->name, node->line);
        }
        uint32_t line = node->line;
        bool had_place = false;
        enum err code = walk_member(walk, node, path);
        if (code != OK) {
            /* The innermost level knows the line. */
            had_place =
                walk->why != NULL &&
                strncmp(walk->why->text, walk->name, strlen(walk->name)) == 0;
            return had_place
                       ? code
                       : why_prefix(walk->why, code, "%s:%u", walk->name, line);
        }
    }
    return OK;
}

enum err config_table_read(const struct config_table *table,
                           const struct config_node *root, const char *name,
                           struct why *why, void *config)
{
    struct walk walk = {table, name, why, config};
    return walk_map(&walk, root, "");
}

/* A flag, a path, or a last part that only one path has. */
static const struct config_field *find_flag(const struct config_table *table,
                                            const char *key)
{
    const struct config_field *found = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_field *field = &table->fields[i];
        if (strcmp(field->key, key) == 0 ||
            (field->flag != NULL && strcmp(field->flag, key) == 0)) {
            return field;
        }
        if (strcmp(last_part(field->key), key) == 0) {
            found = field;
            count++;
        }
    }
    return count == 1 ? found : NULL;
}

static void undash(const char *key, char name_out[PATH_SIZE])
{
    snprintf(name_out, PATH_SIZE, "%s", key);
    for (char *at = name_out; *at != 0; at++) {
        *at = *at == '-' ? '_' : *at;
    }
}

const char *config_table_path(const struct config_table *table, const char *key)
{
    char name[PATH_SIZE];
    undash(key, name);
    const struct config_field *field = find_flag(table, name);
    return field == NULL ? NULL : field->key;
}

enum err config_table_set(const struct config_table *table, const char *key,
                          const char *value, struct why *why, void *config)
{
    char name[PATH_SIZE];
    undash(key, name);
    const struct config_field *field = find_flag(table, name);
    if (field == NULL) {
        return say_unknown(table, name, why);
    }
    return field->kind == CONFIG_LIST_OF
               ? field->read(NULL, value, why, config)
               : config_value_read(field, value, false, why,
                                   place_of(field, config));
}

static void describe(const struct config_field *field, const void *config,
                     struct buf *out)
{
    buf_printf(out, "%s = ", field->key);
    size_t begin = out->size;
    if (field->kind == CONFIG_LIST_OF) {
        field->print(config, out);
    } else {
        config_value_print(field, (const uint8_t *)config + field->offset, out);
    }
    int used = (int)(strlen(field->key) + 3 + out->size - begin);
    buf_printf(out, "%*s# default %s%s%s; %s\n", used < 46 ? 46 - used : 1, "",
               field->default_text[0] == 0 ? "\"\"" : field->default_text,
               field->unit[0] == 0 ? "" : " ", field->unit, field->help);
}

static bool is_default(const struct config_field *field, const void *config)
{
    struct buf now;
    buf_init(&now, 4096);
    config_value_print(field, (const uint8_t *)config + field->offset, &now);
    bool is_it = strcmp(buf_string(&now), field->default_text) == 0;
    buf_finish(&now);
    return is_it;
}

void config_table_describe(const struct config_table *table, const void *config,
                           struct buf *out)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_field *field = &table->fields[i];
        if (!field->is_hidden || !is_default(field, config)) {
            describe(field, config, out);
        }
    }
}
