#pragma once
/* base/blockers: reasons against something, collected, so that whoever has
 * to change a configuration hears of all of them at once. Bounded: what has no
 * room is counted. Open, zero at first. Pure. */
#include <stdint.h>

#include "base/err.h"

struct blockers {
    uint32_t count;
    /* private */
    uint32_t told; /* of these the text is in `text` */
    uint32_t size;
    char text[sizeof(((struct why *)NULL)->text)];
};

void blockers_add(struct blockers *blockers, const char *format, ...)
    PRINTF_LIKE(2, 3);
/* OK: there is none. Else `code`, with "this: ...; that: ...; and 3 more". */
MUST_USE enum err blockers_say(const struct blockers *blockers, enum err code,
                               struct why *why);
