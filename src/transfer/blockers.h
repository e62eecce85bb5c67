#pragma once
/* transfer/blockers: reasons against something, collected, so that whoever has
 * to change a configuration hears of all of them at once. Bounded: what has no
 * room is counted. Open, zero at first. Pure. */
#include <stdint.h>

#include "base/err.h"

struct transfer_blockers {
    uint32_t count;
    /* private */
    uint32_t told; /* of these the text is in `text` */
    uint32_t size;
    char text[sizeof(((struct why *)NULL)->text)];
};

void transfer_blockers_add(struct transfer_blockers *blockers,
                           const char *format, ...) PRINTF_LIKE(2, 3);
/* OK: there is none. ERR_UNSUPPORTED: "this: ...; that: ...; and 3 more". */
MUST_USE enum err transfer_blockers_say(
    const struct transfer_blockers *blockers, struct why *why);
