#pragma once
/* config/tree: a YAML text as a small tree with line numbers. The one file
 * that knows libyaml is behind it. Bounded in size, depth and node count;
 * anchors, aliases, tags of one's own and duplicate keys are errors. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum {
    CONFIG_TEXT_SIZE_MAX = 1 << 20,
    CONFIG_NODE_COUNT_MAX = 20000,
    CONFIG_DEPTH_MAX = 16
};

enum config_node_kind { CONFIG_SCALAR, CONFIG_MAP, CONFIG_LIST };

/*   map:  first -> next -> next     each with its key
 *   list: first -> next -> next     keys are NULL
 */
struct config_node {
    enum config_node_kind kind;
    uint32_t line; /* from 1 */
    bool is_quoted; /* a scalar that can only be text */
    char *key;
    char *text; /* a scalar's value */
    struct config_node *first;
    struct config_node *next;
};

struct config_tree;
/* ERR_INVALID: `why` says "name:line: ...". An empty text is an empty map. */
MUST_USE enum err config_tree_read(struct span yaml, const char *name,
                                   struct why *why,
                                   struct config_tree **tree_out);
void config_tree_destroy(struct config_tree *tree); /* NULL is fine */
/* The outermost map; the tree's. */
const struct config_node *config_tree_root(const struct config_tree *tree);
/* NULL: absent, or `map` is not a map. */
const struct config_node *config_node_find(const struct config_node *map,
                                           const char *key);
/* Same kind, same text, same children in the same order. */
bool config_node_equals(const struct config_node *a,
                        const struct config_node *b);
uint32_t config_node_count(const struct config_node *node);
