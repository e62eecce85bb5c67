#pragma once
/* engine/state: the insides of the core, for its own files only:
 *   core.c          life, steps, outbox
 *   command.c       what serve asks
 *   item.c          items, lanes, answers
 *   admit.c         what may be asked of us
 *   units.c         what there is to schedule
 *   units_cache.c   what the scheduler may ask of the cache
 *   batch.c         what is computed
 *   apply.c         what came of it
 *   session.c       hand-offs and agreement
 *   slices.c        what is sent while it is computed
 *   first_aux.c     first tokens that travel with the KV
 *   give_way.c      which hand-offs end for others
 *   cache_events.c  what the cache tells, for those who ask
 *   overlap.c       batches under way; overlap_own.c their inputs,
 *                   overlap_fence.c what waits for their pages
 *   proof.c         invariants */
#include "agree/domain.h"
#include "engine/budget.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "engine/overlap.h"
#include "engine/prefix_wait.h"
#include "engine/schedule.h"
#include "prefix/keys.h"

enum {
    /* The most events one command or agreed op gives: an abort ends two
     * requests (one of each kind), all choices each, and is answered. */
    STEP_EVENTS = 2 * ENGINE_CHOICE_COUNT_MAX + 2,
    END_COUNT_MAX = ENGINE_STOP_TOKEN_COUNT_MAX + ENGINE_END_TOKEN_COUNT_MAX,
};

enum item_state {
    ITEM_FREE,
    ITEM_CONTEXT_WAIT, /* its receiver has not said where the KV goes */
    ITEM_WAITING,
    ITEM_RECEIVING,
    ITEM_RECEIVED,
    ITEM_PREFILL,
    ITEM_DECODE,
    ITEM_SENDING,
    ITEM_DRAINING
};

/* A request from SUBMIT until nothing of it is left. */
struct item {
    enum item_state state;
    struct engine_request *request; /* NULL once answered in full */
    uint64_t id;
    int64_t rid;
    enum engine_kind kind;
    bool is_generation_first;
    struct item *older, *younger; /* live list, by arrival; free list */
    struct session *session;
    struct kv_seq *seq; /* until its choices have their own */
    struct kv_mark mark; /* before this turn's growth */
    struct sched_unit unit; /* of its prompt, or its receive */
    struct prefix_wait_request prefix;
    struct prefix_key *keys; /* (key_count) of the prompt's full blocks */
    uint32_t key_count;
    struct prefix_key tail_key; /* of a partial last block */
    uint64_t probed_epoch; /* unit.probed is of that state of the tree, + 1 */
    struct lane *lanes[ENGINE_CHOICE_COUNT_MAX]; /* by choice; NULL: none */
    uint32_t open_choices; /* bit a choice: FINISHED not said yet */
    uint32_t lanes_held;
    uint32_t computed; /* tokens whose KV is in place; unit.position: planned */
    uint32_t scored; /* prompt tokens whose SCORE was said */
    uint32_t max_new; /* tokens a choice, cut to what fits */
    uint32_t end_count;
    int32_t ends[END_COUNT_MAX]; /* tokens that end a choice */
    struct prefix_scope scope;
    uint32_t offer_count; /* generation-first: how often it had a session */
    uint64_t scheduled_ns, first_token_ns;
    struct engine_journey journey;
};

/* A choice that decodes, or computes anew what a pause took from it. */
struct lane {
    struct item *item; /* NULL: free */
    struct kv_seq *seq; /* NULL: paused */
    struct kv_mark mark;
    struct sched_unit unit;
    uint32_t choice;
    uint32_t computed; /* tokens whose KV is in place */
    uint32_t pending; /* tokens under way: they come after history_count */
    uint32_t pending_job[BATCH_DEPTH_MAX]; /* whose, by batch of the ring */
    uint32_t history_count;
    int32_t *history; /* (max_seq) prompt, then output; not all of it in KV */
    struct prefix_key *keys; /* (block_count_max) */
    uint32_t key_count; /* full blocks of what is in KV, or was */
};

enum unit_owner { UNIT_OF_ITEM, UNIT_OF_LANE };

enum { SLICE_COUNT_MAX = 64 }; /* of a session */

struct session {
    struct item *item; /* NULL: free */
    agree_ticket ticket; /* 0: reserved; not begun, or over */
    kv_page_id *pages[KV_LIFE_COUNT_MAX]; /* (block_count_max), told */
    kv_ref *leased[KV_LIFE_COUNT_MAX]; /* (block_count_max); NONE: not now */
    uint32_t leased_pages[KV_LIFE_COUNT_MAX]; /* by pool group */
    uint32_t block_count; /* of the prompt */
    uint32_t streaming_lives; /* bit a life cycle: leaves chunk by chunk */
    uint64_t started_ns;
    bool is_cancel_posted, is_withdrawal_posted;
    bool is_withdrawn; /* said by a report: back to those without a session */
    char text[120]; /* what went wrong, from the report */
    /* SEND: what the slices so far cover, and where each of them ends. */
    bool is_awaited;
    uint32_t cursor; /* blocks */
    uint32_t slice_count;
    uint32_t drained_count; /* said by a report */
    uint32_t unleased_count; /* ... and its lease has ended */
    uint32_t slice_ends[SLICE_COUNT_MAX];
    bool has_holes; /* RECEIVE: not all tokens of all blocks came */
    struct transfer_aux *aux; /* RECEIVE: came with the KV; owned */
};

/* A scope of late: cache events show its root only. */
struct salt_root {
    struct prefix_key root;
    uint64_t salt; /* 0: empty */
};

/* What somebody ahead in this turn lacks; who wants the same waits behind. */
struct lack {
    bool lanes;
    bool sessions;
    bool handoff; /* the share of a worker that receives too */
    bool receive; /* the share of one that sends too */
};

struct engine_core {
    struct engine_core_options options;
    int32_t end_tokens[ENGINE_END_TOKEN_COUNT_MAX];
    uint32_t block_count_max;
    struct kv_manager *cache;
    struct sched *sched;
    struct prefix_wait *waits;
    struct sched_unit **units; /* (unit_max) of this turn, by arrival */
    uint32_t unit_max;
    uint64_t arrivals;
    struct lack lack;
    struct agree_domain *domain;
    struct engine_pace pace;
    bool is_draining, is_stopping;
    bool has_seen_generation; /* receives too; never unset */
    bool has_seen_streams; /* sends while it computes; never unset */
    bool has_lost_pages; /* a copy failed since the last look */

    struct item *items; /* (item_count) */
    uint32_t item_count;
    struct item *free_items; /* through younger */
    struct item *oldest, *youngest;
    uint32_t waiting_count;
    struct lane *lanes; /* (max_batch) */
    int32_t *histories;
    struct prefix_key *lane_keys;
    uint32_t lanes_free; /* not held by any item */
    struct session *sessions; /* (session_max) */
    kv_page_id *session_pages;
    kv_ref *session_refs;

    struct batch batches[BATCH_DEPTH_MAX]; /* a ring */
    struct batch *batch; /* being built or applied */
    uint32_t batch_first, batch_count; /* under way, oldest first */
    uint64_t result_ns; /* of the last batch that ended */
    const struct sched_plan *schedule; /* of the last pass */
    uint8_t *page_marks[KV_LIFE_COUNT_MAX]; /* by group: (page_count) */
    uint32_t copies_before; /* ordered, not taken, up to the newest batch */
    uint32_t job_max;

    struct engine_event *events; /* (event_max) */
    uint32_t event_count, event_max;
    struct transfer_command *orders; /* (order_max) */
    uint32_t order_count, order_max;
    uint64_t wake_ns;
    uint64_t stuck_since_ns; /* give_way; 0: nobody is */
    struct salt_root *salts; /* NULL: no cache events are kept */
    struct prefix_key plain_root; /* of the scope without a salt */
    struct engine_stats stats;
};

/* item.c */
struct item *item_take(struct engine_core *core); /* NULL: full */
/* In the live list where its unit's arrival belongs. */
void item_take_place(struct engine_core *core, struct item *item);
void item_free(struct engine_core *core, struct item *item);
bool item_is_answered(const struct item *item);
uint32_t item_room(const struct engine_core *core);
struct engine_event *item_event(struct engine_core *core,
                                const struct item *item,
                                enum engine_event_kind kind);
void item_say_finished(struct engine_core *core, struct item *item,
                       uint32_t choice, enum engine_finish finish,
                       int32_t token, uint64_t now_ns);
/* What became of a hand-off whose request was answered; `reason` "" where all
 * went well. */
void item_say_sent(struct engine_core *core, struct item *item, uint64_t now_ns,
                   enum err error, const char *reason);
void item_say_failed(struct engine_core *core, struct item *item,
                     uint64_t now_ns, enum err error, const char *reason);
/* Ends a request in any state: what it holds is let go now, or when its
 * transfer is quiet. The caller has answered, or does next. */
void item_let_go(struct engine_core *core, struct item *item, uint8_t agree_bit,
                 uint8_t agree_reason);
/* Its choices end as cancelled; `agree_reason` is why. */
void item_cancel(struct engine_core *core, struct item *item,
                 uint8_t agree_reason, uint64_t now_ns);
void item_cancel_choice(struct engine_core *core, struct item *item,
                        uint32_t choice, uint64_t now_ns);
void item_fail(struct engine_core *core, struct item *item, uint64_t now_ns,
               enum err error, const char *reason);
/* The prompt's first `position` tokens are in KV. */
void item_commit(struct engine_core *core, struct item *item,
                 uint32_t position);
void lane_commit(struct engine_core *core, struct lane *lane,
                 uint32_t position);
struct lane *lane_take(struct engine_core *core, struct item *item,
                       uint32_t choice);
void lane_free(struct engine_core *core, struct lane *lane);
bool item_ends_with(const struct item *item, int32_t token);

/* admit.c */
void admit_submit(struct engine_core *core, uint64_t now_ns,
                  struct engine_request *request);
/* All that its choices that are open may need, from the prompt on. */
struct kv_promise admit_promise(const struct item *item);
/* Pages by pool group that keeping it takes when `reused` tokens are found. */
void admit_need(const struct engine_core *core,
                const struct kv_promise *promise, uint32_t reused,
                uint32_t pages_out[KV_LIFE_COUNT_MAX]);

/* cache_events.c */
void cache_events_init(struct engine_core *core);
/* A request of this scope comes: its salt is remembered under its root. */
void cache_events_note_scope(const struct engine_core *core,
                             const struct item *item);
void cache_events_answer(struct engine_core *core, uint64_t now_ns,
                         const struct engine_command *command);

/* units.c */
void units_init_item(struct engine_core *core, struct item *item);
/* It may wait for others' prefixes, and they for its. */
void units_join_waits(struct engine_core *core, struct item *item);
void units_init_lane(struct engine_core *core, struct lane *lane);
void units_replay(struct lane *lane);
struct item *unit_item(const struct sched_unit *unit);
struct lane *unit_lane(const struct sched_unit *unit); /* NULL: a prompt's */
const struct sched_plan *units_schedule(struct engine_core *core,
                                        uint64_t now_ns);
/* What the last pass admitted to receive is asked for. */
void units_post_receives(struct engine_core *core, uint64_t now_ns);

/* units_cache.c: what the scheduler may ask of the cache. */
struct sched_cache units_cache(struct engine_core *core);
/* Pages were lost on their way: who had them starts anew, or fails. */
void units_drop_lost(struct engine_core *core, uint64_t now_ns);

/* session.c */
struct session *session_reserve(struct engine_core *core, struct item *item);
void session_free(struct engine_core *core, struct session *session);
void session_receive(struct engine_core *core, struct item *item,
                     uint64_t now_ns);
/* Heap; `firsts` of all choices. */
struct first_token;
void session_send(struct engine_core *core, struct item *item,
                  const struct first_token *firsts, uint32_t count,
                  uint64_t now_ns);
void session_cancel(struct engine_core *core, struct session *session,
                    uint8_t agree_bit, uint8_t agree_reason);
void session_report(struct engine_core *core,
                    const struct transfer_report *report);
/* Begins an attempt: a ticket, nothing leased and no page named. */
void session_begin(struct engine_core *core, struct item *item,
                   uint64_t now_ns);
struct transfer_command *session_order(struct engine_core *core,
                                       const struct session *session,
                                       enum transfer_command_kind kind);
/* Blocks [first, end) of one life cycle: named, and leased. */
void session_lease(struct engine_core *core, struct session *session,
                   uint32_t life, uint32_t first, uint32_t end);
void session_unlease(struct engine_core *core, struct session *session,
                     uint32_t life, uint32_t first, uint32_t end);
/* Its transfer may touch pages, or will. Session membership decides, never the
 * state (transfer.md 6.4). */
bool session_is_live(const struct item *item);
/* Slices that nobody has posted are not posted any more. */
void session_drop_slices(struct engine_core *core,
                         const struct session *session);
void session_apply_agreed(struct engine_core *core, uint64_t now_ns);

/* slices.c */
/* Sends its KV while it computes it: generation-first. */
bool item_streams(const struct item *item);
/* At the head of a turn: leases of what has drained end, offers are made, who
 * is awaited may be scheduled. */
void slices_turn(struct engine_core *core, uint64_t now_ns);
/* When a hand-off of `item` is late. */
uint64_t slices_deadline(const struct engine_core *core,
                         const struct item *item, uint64_t now_ns);
/* Which prompts hold a session until somebody asks for them (offers.c). */
void offers_turn(struct engine_core *core, uint64_t now_ns);
/* A chunk is in KV and committed, and not the last one. */
void slices_after_chunk(struct engine_core *core, struct item *item,
                        uint64_t now_ns);
/* All that is left of the prompt; `aux` moves, NULL where none is sent. */
void slices_send_last(struct engine_core *core, struct item *item,
                      struct transfer_aux *aux, uint64_t now_ns);

/* batch.c */
struct sched_budget batch_budget(const struct engine_core *core);
/* Tokens with logits of a prompt that is scored: at most so many a turn. */
void batch_build(struct engine_core *core, const struct sched_plan *schedule);

/* give_way.c: ends hand-offs that keep receives waiting for ever. */
void give_way(struct engine_core *core, uint64_t now_ns);

/* first_aux.c */
struct transfer_aux *first_aux_make(const struct item *item,
                                    const struct first_token *firsts,
                                    uint32_t count);
/* What a peer says is input: ERR_INVALID says what is wrong with it. */
MUST_USE enum err first_aux_check(const struct engine_core *core,
                                  const struct item *item,
                                  const struct transfer_aux *aux,
                                  struct why *why);
/* Of a choice, as if sampled here: at most as many tops as were asked for. */
void first_aux_result(const struct item *item, const struct transfer_aux *aux,
                      uint32_t choice, struct sampler_result *result_out);

/* apply.c */
struct first_token {
    uint32_t choice;
    int32_t token;
    const struct sampler_result *result; /* NULL: computed elsewhere */
};
void apply_first_tokens(struct engine_core *core, struct item *item,
                        const struct first_token *firsts, uint32_t count,
                        uint64_t now_ns);
void apply_received(struct engine_core *core, uint64_t now_ns);
void apply_results(struct engine_core *core, uint64_t now_ns,
                   const struct sampler_result *results);
