#pragma once
/* engine/state: the insides of the core, for its own files only:
 *   core.c      life, commands, outbox       admit.c    who may start
 *   item.c      items, lanes, answers        batch.c    what is computed
 *   session.c   hand-offs and agreement      apply.c    what came of it
 *   proof.c     invariants */
#include "agree/domain.h"
#include "engine/budget.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "prefix/keys.h"

enum {
    /* The most events one command or agreed op gives: an abort ends two
     * requests (one of each kind), all choices each, and is answered. */
    STEP_EVENTS = 2 * ENGINE_CHOICE_COUNT_MAX + 2,
    END_COUNT_MAX = ENGINE_STOP_TOKEN_COUNT_MAX + ENGINE_END_TOKEN_COUNT_MAX,
};

enum item_state {
    ITEM_FREE,
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
    struct item *older, *younger; /* live list, by arrival */
    struct item *wait_next; /* WAITING: the queue */
    struct session *session;
    struct kv_seq *seq; /* until its choices have their own */
    uint32_t open_choices; /* bit a choice: FINISHED not said yet */
    uint32_t lanes_held;
    uint32_t max_new; /* tokens a choice, cut to what fits */
    uint32_t end_count;
    int32_t ends[END_COUNT_MAX]; /* tokens that end a choice */
    struct prefix_scope scope;
    uint64_t scheduled_ns, first_token_ns;
    struct engine_journey journey;
};

/* A choice that decodes. */
struct lane {
    struct item *item; /* NULL: free */
    struct kv_seq *seq;
    uint32_t choice;
    uint32_t history_count;
    int32_t *history; /* (max_seq) prompt, then output; not all of it in KV */
};

struct session {
    struct item *item; /* NULL: free */
    agree_ticket ticket; /* 0: reserved; not begun, or over */
    kv_page_id *pages; /* (block_count_max) what the transfer was told */
    uint32_t first_block; /* leased */
    uint32_t block_count;
    uint64_t started_ns;
    bool is_cancel_posted;
    char text[120]; /* what went wrong, from the report */
};

/* One run of the plan, and which jobs are its. */
struct entry {
    struct item *item;
    struct lane *lane; /* NULL: prefill */
    uint32_t token_count;
    uint32_t first_job;
    uint32_t job_count;
};

/* The keys of the request that was tried last. */
struct key_memo {
    struct prefix_key *keys; /* (block_count_max) */
    uint32_t count;
    uint64_t item_id;
};

struct engine_core {
    struct engine_core_options options;
    int32_t end_tokens[ENGINE_END_TOKEN_COUNT_MAX];
    uint32_t block_count_max;
    struct kv_cache *cache;
    struct agree_domain *domain;
    struct engine_pace pace;
    bool is_draining, is_stopping;
    bool has_seen_generation; /* receives too; never unset */

    struct item *items; /* (item_count) */
    uint32_t item_count;
    struct item *free_items; /* through wait_next */
    struct item *oldest, *youngest;
    struct item *wait_head, *wait_tail;
    uint32_t waiting_count;
    struct lane *lanes; /* (max_batch) */
    int32_t *histories;
    uint32_t lanes_free; /* not held by any item */
    uint32_t lane_cursor;
    struct item **prefills; /* (max_batch), by admission */
    uint32_t prefill_count;
    struct session *sessions; /* (session_max) */
    kv_page_id *session_pages;

    struct key_memo key_memos[2]; /* prompts to compute; to receive */

    struct engine_plan plan;
    bool has_plan;
    uint64_t plan_ns;
    uint32_t prefill_rows;
    uint32_t events_planned; /* the plan's result may give so many */
    struct entry *entries; /* (max_batch) */
    struct model_run *runs; /* (max_batch) */
    struct engine_job *jobs; /* (job_max) */
    uint32_t job_max;

    struct engine_event *events; /* (event_max) */
    uint32_t event_count, event_max;
    struct transfer_command *orders; /* (order_max) */
    uint32_t order_count, order_max;
    struct kv_copy *copies; /* (max_batch) */
    uint32_t copy_count;
    uint64_t wake_ns;
    uint64_t stuck_since_ns; /* give_way; 0: nobody is */
    struct engine_stats stats;
};

/* item.c */
struct item *item_take(struct engine_core *core); /* NULL: full */
void item_free(struct engine_core *core, struct item *item);
bool item_is_answered(const struct item *item);
uint32_t item_room(const struct engine_core *core);
struct engine_event *item_event(struct engine_core *core,
                                const struct item *item,
                                enum engine_event_kind kind);
void item_say_finished(struct engine_core *core, struct item *item,
                       uint32_t choice, enum engine_finish finish,
                       int32_t token, uint64_t now_ns);
void item_say_failed(struct engine_core *core, struct item *item,
                     uint64_t now_ns, enum err error, const char *reason);
/* Ends a request in any state: what it holds is let go now, or when its
 * transfer is quiet. The caller has answered, or does next. */
void item_let_go(struct engine_core *core, struct item *item, uint8_t agree_bit,
                 uint8_t agree_reason);
void item_leave_prefills(struct engine_core *core, const struct item *item);
void item_cancel(struct engine_core *core, struct item *item, uint64_t now_ns);
void item_cancel_choice(struct engine_core *core, struct item *item,
                        uint32_t choice, uint64_t now_ns);
void item_fail(struct engine_core *core, struct item *item, uint64_t now_ns,
               enum err error, const char *reason);
void item_commit(struct engine_core *core, const struct item *item,
                 struct kv_seq *seq, const int32_t *tokens);
struct lane *lane_take(struct engine_core *core, struct item *item,
                       uint32_t choice);
void lane_free(struct engine_core *core, struct lane *lane);
bool item_ends_with(const struct item *item, int32_t token);

/* admit.c */
void admit_submit(struct engine_core *core, uint64_t now_ns,
                  struct engine_request *request);
void admit_waiting(struct engine_core *core, uint64_t now_ns);
uint32_t admit_tail_blocks(const struct engine_core *core,
                           const struct item *item);

/* give_way.c: ends hand-offs that keep receives waiting for ever. */
void give_way(struct engine_core *core, uint64_t now_ns);

/* session.c */
struct session *session_reserve(struct engine_core *core, struct item *item);
void session_free(struct engine_core *core, struct session *session);
void session_receive(struct engine_core *core, struct item *item,
                     uint64_t now_ns);
void session_send(struct engine_core *core, struct item *item, uint64_t now_ns);
void session_cancel(struct engine_core *core, struct session *session,
                    uint8_t agree_bit, uint8_t agree_reason);
void session_report(struct engine_core *core,
                    const struct transfer_report *report);
void session_apply_agreed(struct engine_core *core, uint64_t now_ns);

/* batch.c */
void batch_build(struct engine_core *core, uint64_t now_ns);

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
