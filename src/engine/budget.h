#pragma once
/* engine/budget: what one turn may compute, and how fast it turns out to be.
 *
 * Tokens (engine.md 3.1, 3.3): a decode costs 1 + its draft tokens, a prefill
 * chunk its tokens, plus the draft on the last chunk. A chunk that does not
 * finish its prompt is a multiple of `unit`; unchunked, a prompt goes whole or
 * not at all. Pure. */
#include <stdbool.h>
#include <stdint.h>

struct engine_budget {
    uint32_t tokens_left;
    uint32_t unit; /* > 0 */
    bool is_chunked;
};

/* False: not this turn; nothing is taken. */
bool engine_budget_take_decode(struct engine_budget *budget, uint32_t draft);
/* Tokens of the next chunk of a prompt with `remaining` tokens to go, at most
 * `chunk_max`; 0: not this turn. */
uint32_t engine_budget_take_chunk(struct engine_budget *budget,
                                  uint32_t remaining, uint32_t draft,
                                  uint32_t chunk_max);

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
