#include "route/deadline.h"

/* Digits that a uint64_t holds, whatever they are, in nanoseconds too. */
enum { DIGIT_COUNT_MAX = 12 };
static const uint64_t MS = 1000000;

enum err route_deadline_read(struct span header, uint64_t ours_ns,
                             struct why *why, uint64_t *ns_out)
{
    uint64_t ms = 0;
    if (header.data == NULL) {
        *ns_out = ours_ns;
        return OK;
    }
    bool is_number = header.size > 0 && header.size <= DIGIT_COUNT_MAX;
    for (size_t i = 0; i < header.size && is_number; i++) {
        is_number = header.data[i] >= '0' && header.data[i] <= '9';
        ms = ms * 10 + (uint64_t)(header.data[i] - '0');
    }
    if (!is_number) {
        return why_say(why, ERR_INVALID,
                       "x-baton-deadline-ms: must be a whole number of "
                       "milliseconds, of at most %d digits",
                       DIGIT_COUNT_MAX);
    }
    if (ms == 0) {
        return why_say(why, ERR_TIMEOUT,
                       "x-baton-deadline-ms: the deadline has passed");
    }
    *ns_out = ms * MS < ours_ns ? ms * MS : ours_ns;
    return OK;
}
