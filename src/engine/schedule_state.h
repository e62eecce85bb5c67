#pragma once
/* engine/schedule_state: the insides of the scheduler, for its own files only:
 *   schedule.c         the pass: decodes, receives, veto, stall
 *   schedule_order.c   in which order prompts are looked at
 *   schedule_chunk.c   how much of a prompt
 *   schedule_admit.c   prompts: start, resume, grow
 *   schedule_evict.c   who gives way
 *   schedule_overcommit.c  how much is set aside for an answer */
#include "engine/prefix_wait.h"
#include "engine/schedule.h"

enum { SCHED_FIXED = 256 }; /* one, in fixed point */

enum sched_act { SCHED_ACT_START, SCHED_ACT_RESUME, SCHED_ACT_GROW };

/* What the pass took, to be given back in reverse. */
struct sched_taken {
    struct sched_unit *unit;
    enum sched_act act;
};

struct sched_ranked {
    uint64_t rank; /* smaller goes first */
    struct sched_unit *unit;
};

struct sched {
    struct sched_options options;
    struct prefix_wait *waits;
    struct sched_plan plan;
    struct sched_stats stats;
    uint64_t pass;

    /* of the pass under way */
    const struct sched_cache *cache;
    struct sched_unit *const *units; /* by arrival */
    uint32_t unit_count;
    uint32_t tokens_left;
    uint32_t requests_left;
    uint32_t prompt_tokens; /* tokens left when prompts began */
    uint32_t suspend_end, pause_end; /* victims are below these indices */
    bool is_preempting_over; /* what was freed has yet to arrive */

    struct sched_taken *taken; /* (3 * unit_max) */
    uint32_t taken_count;
    struct sched_ranked *ranked, *spare; /* (unit_max) */
    uint32_t ranked_count;
    struct prefix_wait_request **pending; /* (unit_max) */

    uint64_t decode_cursor; /* arrival of who lacked tokens last time */
    uint32_t stall_count;
    uint32_t idle_passes; /* in a row: nothing to compute, but somebody waits */
    /* BOUNDED_OVERCOMMIT */
    uint32_t predicted; /* output tokens, times 256 */
    uint32_t learned, longest; /* of the first answers, in tokens */
    uint32_t window_passes, window_suspends;
    uint64_t strict_until; /* pass */
};

/* schedule.c */
void sched_take_note(struct sched *sched, struct sched_unit *unit,
                     enum sched_act act);
bool sched_may_evict(const struct sched *sched);

/* schedule_overcommit.c */
bool sched_is_overcommitted(const struct sched *sched);
void sched_watch_overcommit(struct sched *sched);

/* schedule_order.c: fills `ranked` with what may be looked at. */
void sched_order_prompts(struct sched *sched);

/* schedule_chunk.c: tokens from `position` on, 0: not this pass. */
uint32_t sched_chunk_size(const struct sched *sched,
                          const struct sched_unit *unit, uint32_t position,
                          uint32_t tokens);

/* schedule_admit.c */
uint64_t sched_oldest_starved(const struct sched *sched);
void sched_admit_prompts(struct sched *sched, uint64_t blocked_arrival);

/* schedule_evict.c: makes `unit` (at `index` of the units) grow to `capacity`
 * by suspending, then pausing who comes after it. */
bool sched_evict_for(struct sched *sched, uint32_t index,
                     struct sched_unit *unit, uint32_t capacity);
/* A prompt that cannot grow: the newest started one gives way. */
bool sched_preempt_newest(struct sched *sched, const struct sched_unit *unit);
/* Of those that arrived later; false: none may be paused. */
bool sched_pause_newest(struct sched *sched, uint64_t arrival);
void sched_suspend(struct sched *sched, struct sched_unit *unit);
