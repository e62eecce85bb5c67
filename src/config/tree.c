#include "config/tree.h"

#include <string.h>
#include <yaml.h>

#include "base/mem.h"

struct config_tree {
    struct config_node *root;
};

/* One read under way. */
struct reading {
    yaml_parser_t parser;
    const char *name;
    struct why *why;
    uint32_t node_count;
};

static void destroy_nodes(struct config_node *node)
{
    while (node != NULL) {
        struct config_node *next = node->next;
        destroy_nodes(node->first); /* depth is bounded by CONFIG_DEPTH_MAX */
        mem_free(node->key);
        mem_free(node->text);
        mem_free(node);
        node = next;
    }
}

static enum err say(struct reading *reading, size_t line, const char *what)
{
    return why_say(reading->why, ERR_INVALID, "%s:%zu: %s", reading->name,
                   line + 1, what);
}

static enum err next_event(struct reading *reading, yaml_event_t *event)
{
    if (yaml_parser_parse(&reading->parser, event)) {
        return OK;
    }
    const char *problem = reading->parser.problem;
    if (problem != NULL && strstr(problem, "cannot start any token") != NULL) {
        problem = "a character that can not begin anything; indent with "
                  "blanks, not tabs, and put quotes around odd text";
    }
    return say(reading, reading->parser.problem_mark.line,
               problem == NULL ? "not YAML" : problem);
}

static enum err new_node(struct reading *reading, const yaml_event_t *event,
                         enum config_node_kind kind,
                         struct config_node **node_out)
{
    if (++reading->node_count > CONFIG_NODE_COUNT_MAX) {
        return say(reading, event->start_mark.line, "too many values");
    }
    struct config_node *node = mem_new(sizeof(*node));
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    *node_out = node;
    return OK;
}

static enum err scalar_of(struct reading *reading, const yaml_event_t *event,
                          struct config_node **node_out)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length) {
        return say(reading, event->start_mark.line, "a NUL in a value");
    }
    struct config_node *node = NULL;
    enum err code = new_node(reading, event, CONFIG_SCALAR, &node);
    if (code != OK) {
        return code;
    }
    node->text = mem_copy_string(text);
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    *node_out = node;
    return OK;
}

static enum err node_of(struct reading *reading, const yaml_event_t *event,
                        uint32_t depth, struct config_node **node_out);

/* Fills a list up to its end. What was made stays linked in `list`. */
static enum err fill_list(struct reading *reading, uint32_t depth,
                          struct config_node *list)
{
    struct config_node **end = &list->first;
    for (;;) {
        yaml_event_t event;
        enum err code = next_event(reading, &event);
        if (code != OK) {
            return code;
        }
        bool is_end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!is_end) {
            code = node_of(reading, &event, depth + 1, end);
        }
        yaml_event_delete(&event);
        if (is_end || code != OK) {
            return code;
        }
        end = &(*end)->next;
    }
}

static enum err take_key(struct reading *reading, const yaml_event_t *event,
                         const struct config_node *map, char **key_out)
{
    if (event->type != YAML_SCALAR_EVENT) {
        return say(reading, event->start_mark.line, "a key must be plain text");
    }
    const char *key = (const char *)event->data.scalar.value;
    if (strlen(key) != event->data.scalar.length || key[0] == 0) {
        return say(reading, event->start_mark.line, "a key must be plain text");
    }
    if (config_node_find(map, key) != NULL) {
        return why_say(reading->why, ERR_INVALID, "%s:%zu: `%s` stands twice",
                       reading->name, event->start_mark.line + 1, key);
    }
    *key_out = mem_copy_string(key);
    return OK;
}

static enum err fill_member(struct reading *reading, uint32_t depth, char *key,
                            struct config_node **end)
{
    yaml_event_t event;
    enum err code = next_event(reading, &event);
    if (code == OK) {
        code = node_of(reading, &event, depth + 1, end);
        yaml_event_delete(&event);
    }
    if (code != OK) {
        mem_free(key);
        return code;
    }
    (*end)->key = key;
    return OK;
}

static enum err fill_map(struct reading *reading, uint32_t depth,
                         struct config_node *map)
{
    struct config_node **end = &map->first;
    for (;;) {
        yaml_event_t event;
        enum err code = next_event(reading, &event);
        if (code != OK) {
            return code;
        }
        bool is_end = event.type == YAML_MAPPING_END_EVENT;
        char *key = NULL;
        if (!is_end) {
            code = take_key(reading, &event, map, &key);
        }
        yaml_event_delete(&event);
        if (is_end || code != OK) {
            return code;
        }
        code = fill_member(reading, depth, key, end);
        if (code != OK) {
            return code;
        }
        end = &(*end)->next;
    }
}

static enum err check_event(struct reading *reading, const yaml_event_t *event,
                            uint32_t depth)
{
    size_t line = event->start_mark.line;
    if (depth > CONFIG_DEPTH_MAX) {
        return say(reading, line, "nested too deep");
    }
    bool has_anchor =
        (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
        (event->type == YAML_MAPPING_START_EVENT &&
         event->data.mapping_start.anchor) ||
        (event->type == YAML_SEQUENCE_START_EVENT &&
         event->data.sequence_start.anchor);
    if (has_anchor || event->type == YAML_ALIAS_EVENT) {
        return say(reading, line, "anchors and aliases are not read");
    }
    bool has_tag =
        (event->type == YAML_SCALAR_EVENT && event->data.scalar.tag) ||
        (event->type == YAML_MAPPING_START_EVENT &&
         event->data.mapping_start.tag) ||
        (event->type == YAML_SEQUENCE_START_EVENT &&
         event->data.sequence_start.tag);
    return has_tag ? say(reading, line, "tags are not read") : OK;
}

/* *node_out is linked before its inside is read, so that its owner ends both
 * when the inside fails. */
static enum err node_of(struct reading *reading, const yaml_event_t *event,
                        uint32_t depth, struct config_node **node_out)
{
    enum err code = check_event(reading, event, depth);
    if (code != OK) {
        return code;
    }
    if (event->type == YAML_SCALAR_EVENT) {
        return scalar_of(reading, event, node_out);
    }
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    if (!is_map && event->type != YAML_SEQUENCE_START_EVENT) {
        return say(reading, event->start_mark.line, "a value is expected");
    }
    code =
        new_node(reading, event, is_map ? CONFIG_MAP : CONFIG_LIST, node_out);
    if (code != OK) {
        return code;
    }
    return is_map ? fill_map(reading, depth, *node_out)
                  : fill_list(reading, depth, *node_out);
}

static enum err expect(struct reading *reading, yaml_event_type_t type)
{
    yaml_event_t event;
    enum err code = next_event(reading, &event);
    if (code != OK) {
        return code;
    }
    if (event.type != type) {
        code = say(reading, event.start_mark.line, "one document is expected");
    }
    yaml_event_delete(&event);
    return code;
}

static enum err read_document(struct reading *reading,
                              struct config_node **root_out)
{
    yaml_event_t event;
    enum err code = expect(reading, YAML_STREAM_START_EVENT);
    if (code != OK || (code = next_event(reading, &event)) != OK) {
        return code;
    }
    bool is_empty = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (is_empty) {
        *root_out = mem_new(sizeof(**root_out));
        (*root_out)->kind = CONFIG_MAP;
        (*root_out)->line = 1;
        return OK;
    }
    code = next_event(reading, &event);
    if (code == OK) {
        code = node_of(reading, &event, 0, root_out);
        yaml_event_delete(&event);
    }
    if (code == OK) {
        code = expect(reading, YAML_DOCUMENT_END_EVENT);
    }
    return code == OK ? expect(reading, YAML_STREAM_END_EVENT) : code;
}

/* `a: ~` and a file of comments only are an empty map too. */
static enum err check_root(struct reading *reading, struct config_node *root)
{
    bool is_null = root->kind == CONFIG_SCALAR && !root->is_quoted &&
                   (root->text[0] == 0 || strcmp(root->text, "~") == 0);
    if (is_null) {
        root->kind = CONFIG_MAP;
        return OK;
    }
    return root->kind == CONFIG_MAP
               ? OK
               : say(reading, root->line - 1, "`key: value` is expected");
}

enum err config_tree_read(struct span yaml, const char *name, struct why *why,
                          struct config_tree **tree_out)
{
    struct reading reading = {.name = name, .why = why};
    if (yaml.size > CONFIG_TEXT_SIZE_MAX) {
        return why_say(why, ERR_INVALID, "%s: longer than %d bytes", name,
                       CONFIG_TEXT_SIZE_MAX);
    }
    if (!yaml_parser_initialize(&reading.parser)) {
        return why_say(why, ERR_NO_MEMORY, "%s: no memory", name);
    }
    const uint8_t *text = yaml.data == NULL ? (const uint8_t *)"" : yaml.data;
    yaml_parser_set_input_string(&reading.parser, text, yaml.size);
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    struct config_node *root = NULL;
    enum err code = read_document(&reading, &root);
    if (code == OK) {
        code = check_root(&reading, root);
    }
    yaml_parser_delete(&reading.parser);
    if (code != OK) {
        destroy_nodes(root);
        return code;
    }
    *tree_out = mem_new(sizeof(**tree_out));
    (*tree_out)->root = root;
    return OK;
}

void config_tree_destroy(struct config_tree *tree)
{
    if (tree != NULL) {
        destroy_nodes(tree->root);
        mem_free(tree);
    }
}

const struct config_node *config_tree_root(const struct config_tree *tree)
{
    return tree->root;
}

const struct config_node *config_node_find(const struct config_node *map,
                                           const char *key)
{
    if (map == NULL || map->kind != CONFIG_MAP) {
        return NULL;
    }
    for (const struct config_node *node = map->first; node != NULL;
         node = node->next) {
        /* The member being read has no key yet. */
        if (node->key != NULL && strcmp(node->key, key) == 0) {
            return node;
        }
    }
    return NULL;
}

bool config_node_equals(const struct config_node *a,
                        const struct config_node *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == CONFIG_SCALAR) {
        return strcmp(a->text, b->text) == 0 && a->is_quoted == b->is_quoted;
    }
    const struct config_node *x = a->first;
    const struct config_node *y = b->first;
    for (; x != NULL && y != NULL; x = x->next, y = y->next) {
        bool same_key = x->key == NULL || strcmp(x->key, y->key) == 0;
        if (!same_key || !config_node_equals(x, y)) {
            return false;
        }
    }
    return x == NULL && y == NULL;
}

uint32_t config_node_count(const struct config_node *node)
{
    uint32_t count = 0;
    for (const struct config_node *at = node->first; at != NULL;
         at = at->next) {
        count++;
    }
    return count;
}
