#include "transfer/pace.h"

/* Long beside what a busy machine takes to wake us for the next one, in which the
 * link has nothing to carry; short beside the 0.1 s that a cancel may take. */
static const uint64_t STEP_NS = 32000000;

struct pace pace_begin(void)
{
    return (struct pace){.step_bytes = PACE_FIRST};
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

void pace_note(struct pace *pace, uint64_t bytes, uint64_t took_ns)
{
    uint64_t room = 2 * pace->step_bytes;
    uint64_t fit = took_ns == 0 ? room : bytes * STEP_NS / took_ns;
    if (fit > pace->step_bytes && bytes < pace->step_bytes / 2) {
        return;
    }
    fit = fit < room ? fit : room;
    pace->step_bytes = within(fit, PACE_LEAST, PACE_MOST);
}
