#pragma once
/* engine/port: what serve and engine say to each other. Plain structs through
 * two bounded mailboxes; nothing else crosses.
 *
 *   serve loop --- struct engine_command ---> engine thread
 *   serve loop <-- struct engine_event  ---- engine thread (one post a turn)
 *
 * A request's life, as serve sees it (id is serve's, unique in the process):
 *
 *   SUBMIT -> TOKEN* (per choice) -> FINISHED (per choice, exactly once)
 *          -> FAILED (whole request, instead of what is missing)
 *
 * then nothing more under that id, except that a hand-off to somebody tells what
 * became of it (SENT). The token that ends a choice comes as a
 * TOKEN like any other (it counts in the usage); FINISHED with STOP names it
 * once more in `token`, so that its text can be left out. After a CANCEL each
 * open choice still gets its FINISHED, with CANCELLED. SCORE events come in
 * order for prompt tokens 1 .. prompt_count - 1 (nothing precedes token 0),
 * before the first TOKEN. A context-only request gives one TOKEN and
 * one FINISHED a choice: ENGINE_FINISH_HANDOFF when its KV waits to be pulled.
 * Generation-first, each choice of the other half begins with a TOKEN that came
 * with the KV, logprobs and all, and nothing is computed here before it is known
 * where the KV goes.
 * What the engine still holds after that (pages under a transfer) is its own
 * affair. CANCEL may cross with the end; an unknown id is ignored. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/mailbox.h"
#include "kv/events.h"
#include "kv/retention.h"
#include "model/sampler.h"
#include "prefix/scope.h"

enum { ENGINE_CHOICE_COUNT_MAX = 16, ENGINE_STOP_TOKEN_COUNT_MAX = 64 };

enum engine_kind {
    ENGINE_AGGREGATED, /* prefill and decode here */
    ENGINE_CONTEXT_ONLY, /* prefill, first token(s), hand over */
    ENGINE_GENERATION_ONLY, /* pull the prompt's KV, go on from first tokens */
};

/* Heap object (base/mem). Serve makes it; with SUBMIT it is the engine's. */
struct engine_request {
    uint64_t id;
    enum engine_kind kind;
    uint64_t arrival_ns;
    /* Of the FAILED event of the request this one goes on for: it was accepted
     * once, so it keeps its turn, also in a full queue or a drain. 0: none. */
    uint64_t place;
    uint64_t deadline_ns; /* to the first token; 0: none */
    struct prefix_scope_id scope; /* others share nothing with this one */
    struct kv_retention_plan retention; /* priorities valid: KV_PRIORITY_MAX */

    int32_t *prompt; /* owned */
    uint32_t prompt_count;

    uint32_t choice_count; /* n: one prefill, then each choice on its own */
    uint32_t max_new_tokens;
    bool is_length_asked; /* more than fits is refused; else it is cut */
    uint32_t min_tokens; /* refused when it does not fit */
    bool ignore_end;
    uint32_t stop_token_count;
    int32_t stop_tokens[ENGINE_STOP_TOKEN_COUNT_MAX];
    struct sampler_options sampling;
    struct sampler_bias *biases; /* owned; sampling.biases points here */
    int32_t logprob_count; /* -1: none; 0..20 */
    bool score_prompt; /* echo with logprobs: a SCORE event a token */

    /* Hand-off, for the two disaggregated kinds (transfer.md 1.1, 2.4). */
    int64_t rid;
    bool is_generation_first; /* the KV leaves while it is computed, and the
                                 first tokens come with it */
    /* Generation: who holds the KV; 0: whoever answers at the endpoint. */
    uint64_t sender_incarnation;
    char sender_endpoint[280]; /* generation: "tcp://host:port" */
    /* Generation, context first: one a choice. */
    int32_t first_tokens[ENGINE_CHOICE_COUNT_MAX];
};
void engine_request_free(struct engine_request *request); /* NULL is fine */

enum engine_command_kind {
    ENGINE_SUBMIT,
    ENGINE_CANCEL, /* who asked left, or the worker ends */
    ENGINE_CANCEL_CHOICE, /* one of n: a stop string matched */
    ENGINE_ABORT_RID, /* /v1/disagg/abort: answered by ENGINE_EVENT_ABORTED */
    ENGINE_CACHE_EVENTS, /* answered by ENGINE_EVENT_CACHE */
    ENGINE_DRAIN, /* refuse new work, finish the rest */
    ENGINE_STOP /* end the thread; what runs fails */
};

struct engine_command {
    enum engine_command_kind kind;
    uint32_t choice;
    uint64_t id; /* ABORT_RID, CACHE_EVENTS: echoed in the answer */
    int64_t rid;
    bool is_shutdown; /* CANCEL: the worker ends, nobody left */
    bool is_resync; /* CACHE_EVENTS: all that is announced, instead */
    struct engine_request *request; /* SUBMIT only; ownership moves */
};

enum engine_event_kind {
    ENGINE_EVENT_TOKEN,
    ENGINE_EVENT_SCORE, /* logprob of prompt token `index` */
    ENGINE_EVENT_FINISHED, /* this choice is over */
    ENGINE_EVENT_FAILED, /* the request is over */
    ENGINE_EVENT_ABORTED, /* answer to ABORT_RID: `found` */
    ENGINE_EVENT_CACHE, /* answer to CACHE_EVENTS: `cache` */
    ENGINE_EVENT_STOPPED, /* the engine thread has ended */
    ENGINE_EVENT_SENT /* the KV of a context-only request that was answered has
                         gone (`error` OK) or will not: `journey` */
};

enum engine_finish {
    ENGINE_FINISH_STOP, /* an end token or a stop token: `token` */
    ENGINE_FINISH_LENGTH, /* max_new_tokens or the context length */
    ENGINE_FINISH_HANDOFF, /* context only: more to come on the other side */
    ENGINE_FINISH_CANCELLED
};

/* Where the time went; 0 where a phase did not happen here. */
struct engine_journey {
    uint32_t prompt_tokens;
    /* Of the prompt, found in this worker's cache; of a generation-first
     * receive, in the sender's. */
    uint32_t cached_tokens;
    uint32_t chunk_count;
    uint64_t queue_ns; /* arrival to first scheduled */
    uint64_t prefill_ns; /* first scheduled to first token */
    uint64_t handoff_ns; /* receive or send posted to KV complete, or failed */
    uint64_t decode_ns; /* first token to last; not of a context-only one */
    uint64_t moved_bytes; /* KV received or sent */
    uint32_t moved_blocks;
    uint64_t bounced_bytes; /* of those moved, packed on their way */
    char backend[16]; /* "auto", "ucx", "tcp", "inproc" */
    char lane[32]; /* what the backend really used: "sysv", ... */
};

/* What the cache told since it was last asked (engine.md 1.12), and, after a
 * GAP or where a resync was asked for, all that it announces now: then whoever
 * keeps books by the tags can begin anew. Of a STORED record `tokens` points
 * into the batch, and a first block (no parent) has its scope's salt; `has_salt`
 * with salt 0: of a scope that is forgotten, nobody can name it outside. */
struct engine_cache_batch {
    uint64_t id_last; /* of the wire events so far */
    uint32_t told_count;
    uint32_t listed_count;
    bool has_listing;
    struct kv_event *told; /* (told_count); none in a resync */
    struct kv_event *listed; /* (listed_count) */
    int32_t *tokens;
};
void engine_cache_batch_free(struct engine_cache_batch *batch); /* NULL: fine */

struct engine_event {
    enum engine_event_kind kind;
    uint64_t id;
    uint32_t choice;
    uint32_t index; /* TOKEN: 0 is the first generated; SCORE: prompt index */
    int32_t token;
    float logprob;
    uint32_t top_count;
    struct sampler_top *top; /* heap, the receiver's; NULL when none */
    enum engine_finish finish;
    enum err error; /* SENT; FAILED: ERR_FULL asks the client to retry later */
    /* FAILED: for the client; "n: ..." names its field. SENT: what went wrong. */
    char reason[120];
    uint64_t place; /* FAILED: in the order of arrival; 0: never accepted */
    bool found;
    struct engine_journey journey; /* FINISHED, FAILED, SENT */
    /* CACHE: heap, the receiver's; NULL: no events are kept here (`error` OK),
     * or no memory for the answer. */
    struct engine_cache_batch *cache;
};
/* Ends what the event owns. */
void engine_event_finish(struct engine_event *event);

/* What serve holds. Both mailboxes are made by node. */
struct engine_port {
    struct io_mailbox *commands; /* struct engine_command */
    struct io_mailbox *events; /* struct engine_event */
    /* Set by engine_port_post when the command takes work away: the forward
     * pass looks at it between layers and gives up, so that a cancelled long
     * prefill ends in the middle of a turn. May be NULL: then at turn heads. */
    atomic_bool *cancel_hint;
};
/* Posts one command, and sets the hint after it where the kind asks for it (in
 * this order, a hint is never cleared before its command can be seen).
 * ERR_FULL: nothing was posted, the request is still the caller's. */
MUST_USE enum err engine_port_post(const struct engine_port *port,
                                   const struct engine_command *command);

/* Pages of one pool: free + used + evictable = total. */
struct engine_pool_stats {
    uint32_t total, free, used;
    uint32_t evictable; /* cached, held by nobody */
};

/* Counters, written by the engine thread at each turn's end and before it posts
 * events, read by any. */
struct engine_stats {
    uint64_t turns;
    uint64_t turn_ns_max; /* longest turn since start */
    uint64_t prefill_tokens, decode_tokens, cached_tokens;
    uint64_t requests_started, requests_finished, requests_failed,
        requests_cancelled;
    uint32_t waiting, running, receiving, sending;
    uint32_t pages_total, pages_free, pages_cached, pages_used;
    uint32_t pages_leased; /* of the used ones, under a transfer */
    uint64_t page_seconds; /* used ones by time; set by publish */
    uint64_t evicted_pages;
    /* Suspended and paused: how often one had to give way. */
    uint64_t suspended_requests, paused_requests, replayed_tokens;
    uint64_t waited_prefix_tokens; /* prefill saved by waiting for a prefix */
    /* The cache by level and pool (engine.md 1.13). */
    uint32_t level_count, pool_count;
    struct engine_pool_stats pools[KV_LEVEL_COUNT_MAX][KV_LIFE_COUNT_MAX];
    uint64_t blocks_allocated, blocks_reused, blocks_reused_partial,
        blocks_missed;
    uint64_t offloaded_pages, onboarded_pages, copied_pages;
    uint64_t cache_events, cache_events_lost;
    uint64_t metadata_bytes;
    uint32_t chunk_budget;
    uint64_t copied_kv_bytes;
    /* Seen in the process while the core decided, turns with alternatives left
     * out: other threads count too, so 0 proves, more asks. */
    uint64_t steady_allocations;
};
struct engine_stats_cell;
struct engine_stats_cell *engine_stats_cell_create(void);
void engine_stats_cell_destroy(struct engine_stats_cell *cell);
/* At `now_ns`, which only grows. */
void engine_stats_publish(struct engine_stats_cell *cell, uint64_t now_ns,
                          const struct engine_stats *stats);
void engine_stats_read(struct engine_stats_cell *cell,
                       struct engine_stats *stats_out);
