#include "engine/budget.h"

enum { TOKENS_MIN = 16 };

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t clamp(uint64_t value, uint32_t low, uint32_t high)
{
    if (value > high) {
        return high;
    }
    return value < low ? low : (uint32_t)value;
}

void engine_pace_init(struct engine_pace *pace, uint32_t chunk_tokens,
                      uint32_t tokens_max, uint64_t turn_ns_max)
{
    /* Nothing is known of the speed yet: begin small, doubling comes soon. */
    uint32_t tokens = chunk_tokens > 0 ? chunk_tokens : TOKENS_MIN;
    *pace = (struct engine_pace){.turn_ns_max = turn_ns_max,
                                 .tokens_min = min(TOKENS_MIN, tokens_max),
                                 .tokens_max = tokens_max,
                                 .tokens = min(tokens, tokens_max),
                                 .is_fixed = chunk_tokens > 0};
}

void engine_pace_learn(struct engine_pace *pace, uint32_t prefill_rows,
                       uint32_t rows, uint64_t elapsed_ns)
{
    if (pace->is_fixed || prefill_rows == 0 || prefill_rows < rows / 2) {
        return;
    }
    uint64_t target_ns = pace->turn_ns_max / 4 * 3;
    uint64_t ns_per_row = elapsed_ns / rows + 1;
    uint64_t wanted = target_ns / ns_per_row;
    bool is_slow = elapsed_ns > target_ns;
    bool is_full = rows >= pace->tokens / 2;
    if (is_slow || (is_full && wanted > pace->tokens)) {
        uint64_t most = (uint64_t)pace->tokens * 2;
        wanted = wanted < most ? wanted : most;
        pace->tokens = clamp(wanted, pace->tokens_min, pace->tokens_max);
    }
}
