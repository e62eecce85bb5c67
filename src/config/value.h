#pragma once
/* config/value: one setting's text to its typed place, and back. Pure. */
#include "config/field.h"

/* ERR_INVALID says what is wrong ("must be from 1 to 64"). `is_quoted`: the
 * file spelt it as text, which only a text may be. */
MUST_USE enum err config_value_read(const struct config_field *field,
                                    const char *text, bool is_quoted,
                                    struct why *why, void *place);
void config_value_print(const struct config_field *field, const void *place,
                        struct buf *out);
