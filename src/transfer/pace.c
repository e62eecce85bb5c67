#include "transfer/pace.h"

static const uint64_t STEP_NS = 16000000;

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
