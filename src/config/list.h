#pragma once
/* config/list: a list of texts, as a file or a flag spells it. Pure. */
#include <stddef.h>

#include "config/tree.h"

/* Takes one entry, without a NUL behind it. Errors say what is wrong with it. */
typedef enum err config_list_add(void *context, const char *text, size_t size,
                                 struct why *why);
/* The entries of a YAML list, in their order. ERR_INVALID: `what` ("must be a
 * list of names") when it is none, or what `add` says, with the entry's line. */
MUST_USE enum err config_list_read(const struct config_node *node,
                                   const char *what, config_list_add *add,
                                   void *context, struct why *why);
/* The same of a text with commas between; blanks around an entry are not its.
 * Behind the last comma may be nothing. */
MUST_USE enum err config_list_read_text(const char *text, config_list_add *add,
                                        void *context, struct why *why);
