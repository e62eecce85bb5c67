#include "config/list.h"

#include <string.h>

static enum err add_line(enum err code, const struct config_node *entry,
                         struct why *why)
{
    return why_prefix(why, code, "line %u", entry->line);
}

enum err config_list_read(const struct config_node *node, const char *what,
                          config_list_add *add, void *context, struct why *why)
{
    if (node->kind != CONFIG_LIST) {
        return why_say(why, ERR_INVALID, "%s", what);
    }
    for (const struct config_node *at = node->first; at; at = at->next) {
        enum err code = at->kind != CONFIG_SCALAR
                            ? why_say(why, ERR_INVALID, "%s", what)
                            : add(context, at->text, strlen(at->text), why);
        if (code != OK) {
            return add_line(code, at, why);
        }
    }
    return OK;
}

enum err config_list_read_text(const char *text, config_list_add *add,
                               void *context, struct why *why)
{
    for (const char *at = text + strspn(text, " "); *at != 0;) {
        size_t size = strcspn(at, ",");
        const char *next = at + size + (at[size] == ',');
        while (size > 0 && at[size - 1] == ' ') {
            size--;
        }
        enum err code = add(context, at, size, why);
        if (code != OK) {
            return code;
        }
        at = next + strspn(next, " ");
    }
    return OK;
}
