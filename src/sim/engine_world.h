#pragma once
/* sim/engine_world: the insides of sim/engine, for its own files only:
 *   engine.c           life, one pass         engine_draw.c      what a seed is
 *   engine_load.c      requests, cancels      engine_check.c     events, the end
 *   engine_pages.c     pools, copies          engine_transfer.c  hand-offs
 *   engine_compute.c   a batch, its poison    engine_moved.c     their bytes
 *   engine_flight.c    batches under way */
#include "base/rng.h"
#include "device/copy_sim.h"
#include "engine/core.h"
#include "sim/draw.h"
#include "sim/engine.h"

enum {
    SIM_REQUEST_MAX = 160,
    SIM_STEM_MAX = 24, /* nodes of the tree of prompts */
    SIM_COPY_MAX = 64, /* under way at a time */
    SIM_TRANSFER_MAX = 32,
    SIM_FLIGHT_MAX = 2, /* batches */
    SIM_VOCABULARY = 256,
    SIM_QUIET_PASSES = 6000, /* all has ended by then */
};

/* How bad the world is; chances in 1024. */
struct sim_hostility {
    uint32_t arrival; /* a pass */
    uint32_t burst_max;
    uint32_t cancel; /* a pass */
    uint32_t deadline; /* a request */
    uint32_t abort, fail; /* a forward pass */
    uint32_t copy_fail; /* a copy */
    uint32_t copy_rest; /* that a pass leaves copies be that it may leave */
    uint32_t transfer_fail, transfer_mute; /* a transfer */
    uint32_t aux_fail; /* first tokens that come with the KV */
    uint32_t hold_events; /* a pass */
    uint32_t hold_orders; /* a pass: the transfer's mailbox is full */
    uint32_t stop; /* a pass */
    uint32_t veto; /* a pass: another rank cannot run */
};

struct sim_load {
    uint32_t prompt_max, output_max, choice_max;
    uint32_t stem_count, stem_tokens;
    uint32_t handoff, receive; /* of requests; chances in 1024 */
    uint32_t generation_first; /* of those */
    uint32_t score;
    uint32_t again; /* that a prompt goes on from an earlier answer */
    uint32_t scope_count;
};

struct sim_request {
    uint64_t id;
    int64_t rid;
    enum engine_kind kind;
    struct prefix_scope_id scope;
    int32_t *tokens; /* (prompt_count + max_new) what must come follows */
    uint32_t prompt_count, max_new;
    uint32_t length; /* tokens that a choice gives, when nothing is cut */
    bool is_stopped_by_token;
    uint32_t choice_count;
    uint32_t said[ENGINE_CHOICE_COUNT_MAX]; /* tokens, by choice */
    uint32_t open; /* bit a choice */
    uint32_t scored; /* prompt tokens */
    bool has_scores;
    bool is_cancelled; /* in part or whole: it may end early */
    bool may_fail; /* a fault or a deadline met it */
    bool is_refusable; /* asks for more than may fit */
    bool is_handed_over; /* ... and nobody receives it yet */
    bool is_generation_first;
    bool has_bad_aux; /* it must not say a token */
    uint64_t first_pass;
    /* At its arrival: sim_world's sums, and what those ahead of it need. */
    uint64_t open_before, runs_before, need_before;
};

/* A batch under way; after its end its results stay, for the one after it. */
struct sim_flight {
    const struct engine_plan *plan;
    struct sampler_result *results;
    bool is_computed;
};

struct sim_copy {
    struct kv_order order;
    device_ticket ticket;
};

/* A slice under way, and what its pages were when it was posted. */
struct sim_slice {
    uint32_t first, end;
    uint64_t due_ns; /* it has drained */
};

enum { SIM_SLICE_MAX = 64 };

/* What becomes of a transfer was drawn when it began. */
struct sim_transfer {
    struct transfer_command command; /* that opened it, or its last slice */
    bool is_send;
    struct sim_request *request;
    uint64_t awaited_ns; /* an offer's receiver comes; UINT64_MAX: never */
    uint64_t due_ns; /* of its end; UINT64_MAX: its peer never comes */
    uint64_t quiet_ns; /* of its quiet */
    uint8_t word, reason;
    bool is_awaited;
    bool is_cancelled, is_withdrawn;
    uint8_t cancel_reason; /* enum agree_reason */
    bool is_failing; /* ... once fail_slice has drained, or at its end */
    uint32_t fail_slice;
    bool is_unsafe;
    bool has_last;
    uint32_t slice_count, drained_count;
    struct sim_slice slices[SIM_SLICE_MAX];
    kv_page_id *posted[KV_LIFE_COUNT_MAX]; /* (block_count) as named */
    struct transfer_aux *aux; /* of its last slice */
};

struct sim_world {
    struct sim_engine_options options;
    struct engine_core_options core_options;
    struct model_hash_options hash;
    struct sim_hostility hostility;
    struct sim_load load;
    struct rng load_rng, world_rng, transfer_rng;
    struct engine_core *core;
    struct model *model;
    struct model *reference; /* with pages of its own, for one sequence */
    struct kv_pool_view reference_pools[KV_LIFE_COUNT_MAX];
    kv_page_id *reference_table;
    struct kv_pool_view pools[2][KV_LIFE_COUNT_MAX]; /* by level, group */
    struct sampler *sampler;
    float *logits, *scratch;
    struct sim_flight flights[SIM_FLIGHT_MAX]; /* a ring */
    uint32_t flight_first, flight_count;
    bool is_delayed; /* a veto: what is under way was left so */
    struct device_copier *copier;
    struct sim_copy copies[SIM_COPY_MAX];
    uint32_t copy_count;
    struct sim_transfer transfers[SIM_TRANSFER_MAX];
    uint32_t transfer_count;
    struct sim_request requests[SIM_REQUEST_MAX];
    uint32_t request_count;
    uint64_t now_ns;
    uint64_t pass;
    uint64_t open_sum,
        run_sum; /* choices open, runs planned; over all passes */
    bool is_quiet; /* no more load, no more faults but of copies */
    bool is_stopped;
    struct sim_trace trace;
    struct sim_engine_summary summary;
};

#define sim_say(world, ...) sim_trace_say(&(world)->trace, __VA_ARGS__)

/* The first failure counts. */
void sim_fail(struct sim_world *world, const char *format, ...)
    PRINTF_LIKE(2, 3);
bool sim_has_failed(const struct sim_world *world);
/* engine_core_is_valid, and the step's observer. */
void sim_check_core(struct sim_world *world, const char *step);

/* Passes that the request takes when it has a worker for itself. */
static inline uint64_t sim_need(const struct sim_world *world,
                                const struct sim_request *request)
{
    return request->prompt_count / world->core_options.chunk_unit +
           request->length + 1;
}

/* engine_draw.c */
void sim_draw(struct sim_world *world);

/* engine_pages.c */
void sim_pages_create(struct sim_world *world);
void sim_pages_destroy(struct sim_world *world);
/* Hands new orders to the copier. */
void sim_copies_take(struct sim_world *world);
/* One more comes to its end; false: there is none. */
bool sim_copies_end_one(struct sim_world *world);
/* Some end, as chance has it. */
void sim_copies_step(struct sim_world *world);
void sim_copies_drain(struct sim_world *world);
/* Runs copies until none brings this page of level 0, or, where it is written,
 * takes from it. */
void sim_copies_await(struct sim_world *world, uint32_t group, kv_page_id page,
                      bool is_written);
/* Does a copy bring this page, or, where it is written, take from it? */
bool sim_page_is_busy(const struct sim_world *world, uint32_t group,
                      kv_page_id page, bool is_written);
/* Garbage in tokens [first, end) of a page of level 0. */
void sim_page_poison(struct sim_world *world, uint32_t life, kv_page_id page,
                     uint32_t first, uint32_t end);

/* engine_compute.c */
/* `before`: whose tokens it is fed. */
void sim_compute(struct sim_world *world, struct sim_flight *flight,
                 const struct sim_flight *before);
/* Garbage in all that it writes. */
void sim_spoil(struct sim_world *world, const struct engine_plan *plan);

/* engine_flight.c */
/* False: it came to nothing. */
bool sim_flight_launch(struct sim_world *world, const struct engine_plan *plan);
/* The oldest one comes to its end, well or not. */
void sim_flight_settle(struct sim_world *world);

/* engine_load.c */
void sim_load_step(struct sim_world *world);
struct sim_request *sim_request_of(struct sim_world *world, uint64_t id);

/* engine_transfer.c */
void sim_transfers_destroy(struct sim_world *world);
void sim_transfers_take(struct sim_world *world);
void sim_transfers_step(struct sim_world *world);
/* When the next one has something to say; UINT64_MAX: none. */
uint64_t sim_transfers_next_ns(const struct sim_world *world);

/* engine_moved.c: `life` of a transfer, blocks [first, end). */
bool sim_life_streams(const struct sim_world *world, uint32_t life,
                      uint32_t prompt_count);
void sim_moved_prepare(struct sim_world *world,
                       const struct sim_request *request);
void sim_moved_check(struct sim_world *world,
                     const struct sim_transfer *transfer, uint32_t life,
                     uint32_t first, uint32_t end);
void sim_moved_write(struct sim_world *world,
                     const struct sim_transfer *transfer);
void sim_moved_scribble(struct sim_world *world,
                        const struct sim_transfer *transfer);
/* First tokens as the peer gives them; some are not what they should be. */
struct transfer_aux *sim_aux_draw(struct sim_world *world,
                                  struct sim_request *request);
void sim_aux_check(struct sim_world *world, const struct sim_request *request,
                   const struct transfer_aux *aux);

/* engine_check.c */
void sim_check_plan(struct sim_world *world, const struct engine_plan *plan);
void sim_events_take(struct sim_world *world);
bool sim_is_over(const struct sim_world *world);
void sim_check_end(struct sim_world *world);
