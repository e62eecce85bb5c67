#pragma once
/* sim/cluster_world: the insides of sim/cluster, for its own files only:
 *   cluster.c          life                cluster_draw.c     what a seed is
 *   cluster_front.c    the front end       cluster_load.c     clients
 *   cluster_hear.c     what it is told     cluster_serve.c    a worker's door
 *   cluster_post.c     calls between both  cluster_worker.c   a worker's life
 *   cluster_engine.c   its turns           cluster_backend.c  what moves pages
 *   cluster_fault.c    what goes wrong     cluster_stranger.c no business here
 *   cluster_pages.c    what pages hold     cluster_check.c    what must hold
 *   cluster_order.c    what is ordered     cluster_report.c   what became of it
 *   cluster_match.c    what is written     cluster_story.c    stories
 */
#include "base/rng.h"
#include "engine/core.h"
#include "io/loop.h"
#include "io/sim.h"
#include "route/request.h"
#include "sim/cluster.h"
#include "sim/draw.h"
#include "transfer/backend.h"
#include "transfer/process.h"
#include "transfer/transfer.h"

enum {
    CLUSTER_WORKER_MAX = 6,
    CLUSTER_REQUEST_MAX = 64,
    CLUSTER_PROBE_COUNT = 4, /* requests after all is over */
    CLUSTER_CALL_MAX = 64, /* of a worker */
    CLUSTER_SESSION_MAX = 32, /* of a worker */
    CLUSTER_TICKET_MAX = 1024, /* of a worker's life */
    CLUSTER_MESSAGE_MAX = 1024,
    CLUSTER_RID_MAX = 2048,
    CLUSTER_TOKENS_MAX = 24, /* of an answer */
    CLUSTER_VOCABULARY = 256,
    CLUSTER_BLOCK_MAX = 64, /* of a prompt */
    CLUSTER_SLICE_MAX = 64, /* of a session */
    CLUSTER_FAULT_KIND_MAX = 12,
    CLUSTER_TRANSFER_PORT = 7000,
    CLUSTER_STRANGER_MAX = 4,
    CLUSTER_STRANGER_HOST = IO_SIM_HOST_MAX - 1,
};
#define CLUSTER_MS UINT64_C(1000000)

/* How bad the world is; chances in 1024. */
struct cluster_hostility {
    uint32_t fault; /* each time one may happen */
    uint64_t fault_ns_max; /* between two such times */
    uint32_t weights[CLUSTER_FAULT_KIND_MAX]; /* cluster_fault.c */
    uint32_t cancel, deadline; /* a request */
    uint32_t abort; /* a forward pass */
    uint32_t stop, doubt, hang, flip; /* a write */
    uint64_t write_ns_max; /* of a piece */
};

/* ---- what moves pages ---- */

/* A pool, mapped by its owner and by who writes into it. */
struct cluster_memory {
    struct cluster_memory *next;
    uint64_t incarnation;
    uint32_t worker;
    size_t size;
    uint32_t maps; /* 0: gone */
    uint8_t *bytes;
};

enum cluster_fate {
    CLUSTER_WRITE_GOOD,
    CLUSTER_WRITE_STOPS,
    CLUSTER_WRITE_IN_DOUBT, /* told so; goes on nevertheless */
    CLUSTER_WRITE_HANGS, /* until its peer is closed, or all is healed */
    CLUSTER_WRITE_FLIPS /* tells the right digest, wrote a wrong byte */
};

/* One write under way, or one in doubt that goes on. */
struct cluster_write {
    struct cluster_write *next;
    struct cluster_backend *backend;
    struct cluster_peer *peer;
    struct transfer_write *caller; /* NULL: given back */
    struct transfer_piece *pieces; /* (piece_count), our copy */
    uint32_t *order; /* (piece_count) in which they are copied */
    uint32_t piece_count, done;
    uint32_t stop_at; /* pieces copied when its fate comes */
    int64_t rid;
    uint64_t writer; /* its incarnation */
    const struct cluster_memory *target;
    bool is_held; /* by a story */
    enum cluster_fate fate;
    bool is_ended; /* has an outcome, waits for poll */
    enum transfer_outcome outcome;
    uint64_t due_ns; /* of its next piece, or of its end */
};

/* ---- requests, legs, calls ---- */

struct cluster_request {
    uint32_t index;
    int32_t *tokens; /* (prompt_count + max_new): what must come follows */
    uint32_t prompt_count, max_new, length;
    struct prefix_scope_id scope;
    bool is_stream, is_generation_first;
    struct route_request route;
    bool is_begun, has_ended, is_answered, is_cancelled;
    uint32_t heard; /* tokens the client has */
    uint64_t start_ns, deadline_ns, cancel_ns, wait_ns; /* 0: none */
    /* The leg under way. */
    uint64_t call; /* 0: none */
    uint32_t worker;
    enum route_leg_kind leg;
    int64_t rid;
    uint32_t leg_tokens; /* heard from this leg */
    /* A pair's context leg. */
    uint64_t beside; /* 0: none */
    uint32_t beside_worker;
    /* What the context leg answered. */
    int32_t first_token;
    uint64_t sender_incarnation;
    char sender_endpoint[280];
};

enum cluster_message_kind {
    CLUSTER_POST_LEG, /* front to worker */
    CLUSTER_CLOSE_CALL,
    CLUSTER_ABORT,
    CLUSTER_TOKEN, /* worker to front */
    CLUSTER_ANSWER, /* whole, good */
    CLUSTER_FAILED,
    CLUSTER_REFUSED, /* nobody listens */
    CLUSTER_LOST /* the connection ended */
};

struct cluster_message {
    enum cluster_message_kind kind;
    uint64_t due_ns, number;
    uint64_t call;
    uint32_t worker, request;
    uint64_t incarnation; /* of the worker that says it */
    enum route_leg_kind leg;
    int64_t rid;
    int32_t first_token;
    uint64_t sender_incarnation;
    char sender_endpoint[280];
    uint64_t left_ns; /* of the deadline; 0: none */
    bool is_stream, is_hand_off, is_pair;
    struct route_outcome outcome;
    uint32_t token_count;
    int32_t tokens[CLUSTER_TOKENS_MAX];
};

/* A call as the worker has it. */
struct cluster_call {
    uint64_t call; /* 0: free */
    uint64_t id; /* of the engine's request */
    uint32_t request;
    int64_t rid;
    enum route_leg_kind leg;
    bool is_stream, is_closed, is_pair;
    uint32_t token_count;
    int32_t tokens[CLUSTER_TOKENS_MAX];
};

/* ---- a worker ---- */

/* What was ordered of the transfer and is not quiet yet. Of a send `drained`
 * slices are through, their pages need not be kept any more. */
struct cluster_session {
    uint64_t ticket; /* 0: free */
    int64_t rid;
    uint64_t deadline_ns;
    bool is_receive;
    bool is_generation_first;
    bool is_awaited, is_cancelled, is_withdrawal_ordered, has_last;
    uint8_t word;
    uint32_t block_count;
    uint32_t streaming; /* life cycles that leave slice by slice: bits */
    uint32_t slice_count, drained;
    uint32_t ends[CLUSTER_SLICE_MAX]; /* (slice_count) blocks */
    const kv_page_id *pages[KV_LIFE_COUNT_MAX]; /* the engine's */
    /* (block) as they were named; KV_PAGE_NONE: not yet, or not at all. */
    kv_page_id posted[KV_LIFE_COUNT_MAX][CLUSTER_BLOCK_MAX];
    uint8_t written[KV_LIFE_COUNT_MAX][CLUSTER_BLOCK_MAX]; /* of a receive */
};

struct cluster_worker {
    struct cluster *world;
    uint32_t index, host;
    bool is_context;
    bool is_alive, is_frozen;
    bool is_doomed; /* killed when it would go on */
    bool is_doubtful; /* a write of it is in doubt for ever */
    uint64_t incarnation;
    uint64_t restart_ns, thaw_ns;
    uint64_t awake_ns; /* since when it runs without a stop */
    struct transfer_identity identity;
    struct io_loop *transfer_loop, *engine_loop;
    struct io_waker *transfer_waker, *engine_waker;
    struct io_timer *engine_timer;
    struct io_mailbox *commands, *reports;
    struct transfer_backend *backend;
    struct transfer *transfer;
    struct engine_core *core;
    struct model *model;
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX]; /* by group */
    uint8_t *memory; /* all pools */
    size_t memory_size;
    struct sampler *sampler;
    float *logits, *scratch;
    struct sampler_result *results;
    const struct engine_plan *plan; /* under way, or NULL */
    struct engine_command inbox[CLUSTER_MESSAGE_MAX];
    uint32_t inbox_count;
    struct cluster_call calls[CLUSTER_CALL_MAX];
    struct cluster_session sessions[CLUSTER_SESSION_MAX];
    uint64_t tickets[CLUSTER_TICKET_MAX]; /* all that were ever ordered */
    int64_t sent_rids[CLUSTER_TICKET_MAX]; /* their rids; 0: a receive */
    uint32_t ticket_count;
    uint64_t next_id, turn_count;
    uint32_t spin_count;
    uint64_t to_ns, from_ns; /* arrival of the last message, each way */
};

struct cluster {
    struct sim_cluster_options options;
    struct engine_core_options core_options;
    struct model_hash_options hash;
    struct cluster_hostility hostility;
    struct rng load_rng, world_rng, fault_rng, write_rng;
    uint32_t context_count, generation_count, worker_count;
    uint32_t request_count, request_max;
    uint64_t arrival_ns_max, next_arrival_ns, next_fault_ns, next_probe_ns;
    uint32_t prompt_max, output_max, stem_count, stem_tokens;
    uint64_t http_ns_max;
    uint64_t pass_ns; /* of a batch, and more for each row */
    uint64_t grace_ns, heartbeat_ns, advert_ttl_ns;
    uint32_t page_counts[CLUSTER_WORKER_MAX][KV_LIFE_COUNT_MAX]; /* group */
    bool keeps_peers; /* the front end knows generation-first */
    uint32_t generation_first; /* of its requests; of 1024 */
    uint64_t heal_ns[CLUSTER_WORKER_MAX][CLUSTER_WORKER_MAX]; /* 0: sound */
    bool is_quiet; /* no more load, no more faults */
    uint64_t quiet_ns; /* since when */
    struct io_sim *io;
    struct io_loop *stranger_loop;
    struct cluster_stranger *strangers[CLUSTER_STRANGER_MAX];
    struct route_pool route_pool;
    struct cluster_worker workers[CLUSTER_WORKER_MAX];
    struct cluster_request requests[CLUSTER_REQUEST_MAX + CLUSTER_PROBE_COUNT];
    struct cluster_message messages[CLUSTER_MESSAGE_MAX];
    uint32_t message_count;
    uint64_t message_number, call_number, rid_number;
    uint32_t rid_owner[CLUSTER_RID_MAX];
    bool rid_is_pair[CLUSTER_RID_MAX];
    bool rid_is_flipped[CLUSTER_RID_MAX]; /* a wrong byte was written */
    struct cluster_memory *memories;
    struct cluster_write *writes;
    struct model *reference; /* with pages of its own, for one sequence */
    struct kv_pool_view reference_pools[KV_LIFE_COUNT_MAX]; /* by life cycle */
    kv_page_id *reference_table;
    const struct cluster_request *referenced; /* whose KV lies in them */
    float *reference_logits;
    /* A story's. */
    const char *story; /* what is left of it; NULL: a seed's world */
    const char *awaited; /* text; NULL: it has come */
    bool is_held[CLUSTER_WORKER_MAX][CLUSTER_WORKER_MAX]; /* writes from, to */
    enum cluster_fate next_fate;
    bool drops_block;
    kv_page_id tampered[CLUSTER_BLOCK_MAX];
    struct sim_trace trace;
    struct sim_cluster_summary summary;
};

#define cluster_say(world, ...) sim_trace_say(&(world)->trace, __VA_ARGS__)

/* cluster.c */
void cluster_run_until(struct cluster *world, uint64_t limit_ns,
                       bool (*goes_on)(const struct cluster *world));

/* cluster_story.c */
void cluster_story_draw(struct cluster *world);
void cluster_story_run(struct cluster *world);
bool cluster_story_waits(const struct cluster *world);
void cluster_story_hear(struct cluster *world, const char *line);
void cluster_story_tamper(struct cluster *world,
                          struct transfer_command *command);

/* cluster_check.c; the first failure counts. */
void cluster_fail(struct cluster *world, const char *format, ...)
    PRINTF_LIKE(2, 3);
bool cluster_has_failed(const struct cluster *world);
void cluster_check_plan(struct cluster_worker *worker,
                        const struct engine_plan *plan);
void cluster_check_copy(struct cluster_worker *worker,
                        const struct kv_order *order);
void cluster_check_turn(struct cluster_worker *worker);
bool cluster_is_over(const struct cluster *world);
void cluster_check_end(struct cluster *world);

/* cluster_order.c */
struct cluster_session *cluster_session_find(struct cluster_worker *worker,
                                             uint64_t ticket);
struct cluster_request *cluster_owner_of(struct cluster *world, int64_t rid);
/* Blocks [first, end) of `life` are leased to the session now. */
void cluster_session_forget(struct cluster_worker *worker, uint64_t ticket);
void cluster_session_leased(const struct cluster_session *session,
                            uint32_t life, uint32_t *first_out,
                            uint32_t *end_out);
void cluster_check_order(struct cluster_worker *worker,
                         const struct transfer_command *command);

/* cluster_report.c; takes what the report owns only to look at it. */
void cluster_check_report(struct cluster_worker *worker,
                          const struct transfer_report *report);

/* cluster_match.c: a piece of a write that begins. */
void cluster_check_piece(struct cluster_worker *writer, int64_t rid,
                         const struct cluster_memory *target,
                         const struct transfer_piece *piece);
/* One that has ended waits for poll; one in doubt goes on all the same. */
bool cluster_write_is_moving(const struct cluster_write *write);
/* Does a write under way touch this page of this worker (cluster_page_at)? */
bool cluster_page_is_target(const struct cluster_worker *worker, uint64_t page);
bool cluster_page_is_source(const struct cluster_worker *worker, uint64_t page);
/* Does one of this rid go on, by this worker, or into it? */
bool cluster_rid_is_moving(const struct cluster_worker *worker, int64_t rid,
                           bool is_receive);

/* cluster_draw.c */
void cluster_draw(struct cluster *world);

/* cluster_pages.c */
void cluster_pages_create(struct cluster *world);
void cluster_pages_destroy(struct cluster *world);
const struct kv_pool_view *cluster_pool(const struct cluster_worker *worker,
                                        uint32_t life);
/* Where a page of a pool group lies in its worker's memory: what names it. */
uint64_t cluster_page_at(const struct cluster_worker *worker, uint32_t group,
                         kv_page_id page);
static inline uint64_t cluster_page_of(const struct cluster_worker *worker,
                                       uint32_t life, kv_page_id page)
{
    const struct cluster *world = worker->world;
    return cluster_page_at(worker, world->core_options.group_of[life], page);
}
/* Garbage in tokens [first, end) of a page. */
void cluster_page_poison(const struct cluster_worker *worker, uint32_t life,
                         kv_page_id page, uint32_t first, uint32_t end);
/* Decoding reads that block of a life cycle. */
bool cluster_is_needed(const struct cluster *world, uint32_t life,
                       uint32_t block, uint32_t prompt_count);
/* Life cycles of which nothing is stale when the prompt ends: bits. */
uint32_t cluster_streaming(const struct cluster *world, uint32_t prompt_count);
/* Is this prompt's KV in blocks [first, end) of these pages? Answers the first
 * that is not, or -1. */
int32_t cluster_pages_compare(struct cluster_worker *worker,
                              const struct cluster_request *request,
                              uint32_t life, const kv_page_id *pages,
                              uint32_t first, uint32_t end);

struct cluster_memory *cluster_memory_find(const struct cluster *world,
                                           uint64_t incarnation);
void cluster_memory_unmap(struct cluster *world, struct cluster_memory *memory);

/* cluster_backend.c */
void cluster_backend_create(struct cluster_worker *worker);
/* Its process is gone: its writes stop where they are. */
void cluster_backend_kill(struct cluster_worker *worker);
uint64_t cluster_writes_ns(const struct cluster *world);
void cluster_writes_step(struct cluster *world);
void cluster_writes_release(struct cluster *world);
/* cluster_worker.c */
void cluster_worker_start(struct cluster *world, uint32_t index);
void cluster_worker_crash(struct cluster_worker *worker);
/* In order. False: the transfer has sessions that are not quiet. */
bool cluster_worker_stop(struct cluster_worker *worker);
void cluster_worker_freeze(struct cluster_worker *worker, bool on);

/* cluster_engine.c */
MUST_USE enum err cluster_engine_create(struct cluster_worker *worker);
void cluster_engine_destroy(struct cluster_worker *worker);
void cluster_engine_post(struct cluster_worker *worker,
                         const struct engine_command *command);

/* cluster_serve.c */
void cluster_serve_take(struct cluster_worker *worker,
                        const struct cluster_message *message);
void cluster_serve_event(struct cluster_worker *worker,
                         const struct engine_event *event);

/* cluster_post.c */
void cluster_post(struct cluster *world, const struct cluster_message *message,
                  bool is_to_worker);
uint64_t cluster_messages_ns(const struct cluster *world);
void cluster_messages_step(struct cluster *world);
/* Those on their way to or from a process that is gone. */
void cluster_messages_lose(struct cluster_worker *worker);

/* cluster_front.c */
int64_t cluster_front_rid(struct cluster *world,
                          const struct cluster_request *request);
/* Feeds an event and carries out what follows; `tell`: one that may need a
 * fresh id. */
void cluster_front_event(struct cluster *world, struct cluster_request *request,
                         struct route_event event);
void cluster_front_tell(struct cluster *world, struct cluster_request *request,
                        enum route_event_kind kind);
void cluster_front_create(struct cluster *world);
void cluster_front_start(struct cluster *world,
                         struct cluster_request *request);
void cluster_front_gone(struct cluster *world, struct cluster_request *request);
/* Another worker is asked for the same KV, or for KV that nobody sends; what it
 * answers is nobody's. */
void cluster_front_pull(struct cluster *world,
                        const struct cluster_request *request, uint32_t worker,
                        bool is_known);
uint64_t cluster_front_ns(const struct cluster *world);
void cluster_front_step(struct cluster *world);

/* cluster_hear.c */
void cluster_front_hear(struct cluster *world,
                        const struct cluster_message *message);

/* cluster_load.c */
void cluster_load_ask(struct cluster *world, bool is_generation_first,
                      uint32_t prompt, uint32_t prompt_count, uint32_t max_new);
uint64_t cluster_load_ns(const struct cluster *world);
void cluster_load_step(struct cluster *world);

/* cluster_stranger.c */
bool cluster_stranger_come(struct cluster *world, uint32_t worker);
void cluster_strangers_leave(struct cluster *world);

/* cluster_fault.c */
uint64_t cluster_faults_ns(const struct cluster *world);
void cluster_faults_step(struct cluster *world);
void cluster_faults_heal(struct cluster *world);
