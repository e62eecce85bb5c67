#pragma once
/* engine/budget: how many tokens a turn may have, as it turns out how fast they
 * are. What they are spent on is the scheduler's (engine/schedule.h). Pure. */
#include <stdbool.h>
#include <stdint.h>

/* How many tokens a turn should get so that it stays under its limit: measured
 * time a row, aimed at three quarters of the limit, at most doubling a turn.
 * Only turns that computed prompts teach: in a pure decode the weights are read
 * for a few rows, which says little about a chunk. */
struct engine_pace {
    uint64_t turn_ns_max;
    uint32_t tokens_min;
    uint32_t tokens_max;
    uint32_t tokens; /* the present answer */
    bool is_fixed;
};
void engine_pace_init(struct engine_pace *pace, uint32_t chunk_tokens,
                      uint32_t tokens_max, uint64_t turn_ns_max);
void engine_pace_learn(struct engine_pace *pace, uint32_t prefill_rows,
                       uint32_t rows, uint64_t elapsed_ns);
