#pragma once
/* transfer/bounce_turns: who is next to get a part of the arena (transfer.md
 * 5.3). Strict round-robin; a head that does not fit is passed over; after
 * max(8, 2 * flows) others got theirs meanwhile it is the drain flow: nobody
 * else gets anything until it fits. So
 *
 *   others served while a head waits <= max(8, 2 * flows) + flows
 *
 * The second part: those who reached the limit before it. Pure; embedded. */
#include <stdbool.h>
#include <stdint.h>

enum { BOUNCE_NOBODY = UINT32_MAX, BOUNCE_BYPASS_MIN = 8 };

struct bounce_turns {
    uint32_t count; /* flows there can be */
    uint32_t next; /* whose turn it is */
    uint32_t drain; /* flow, or BOUNCE_NOBODY */
    struct bounce_turn {
        bool is_waiting; /* its head did not fit */
        uint32_t bypass_count;
    } * turns; /* (count) */
};

void bounce_turns_init(struct bounce_turns *turns, uint32_t count);
void bounce_turns_finish(struct bounce_turns *turns);
/* The flow to look at as the i-th of a sweep; BOUNCE_NOBODY ends it. */
uint32_t bounce_turns_at(const struct bounce_turns *turns, uint32_t i);
/* Its head does not fit now. */
void bounce_turns_pass(struct bounce_turns *turns, uint32_t flow);
/* It got what it wanted; `flow_count` flows are there. Ends a sweep. */
void bounce_turns_serve(struct bounce_turns *turns, uint32_t flow,
                        uint32_t flow_count);
/* It wants nothing any more. */
void bounce_turns_forget(struct bounce_turns *turns, uint32_t flow);
/* Somebody's head did not fit when it was last looked at. */
bool bounce_turns_has_waiting(const struct bounce_turns *turns);
