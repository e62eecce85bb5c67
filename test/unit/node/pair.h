#pragma once
/* Two workers in one process, put together from the real parts as node/worker
 * does it: engine threads, transfer loops on threads, backends of one hub, hash
 * models. No HTTP: commands go in, events come out.
 *
 *   test --command--> engine --order--> transfer -> tap -> fault -> tap -> inproc
 *        <--event---         <-report--
 *
 * The outer tap sees which pages each write reads and hits, the inner one when
 * its bytes have moved. The test's thread keeps every answer and holds it
 * against model_hash_next when it is over. */
#include <stdio.h>
#include <stdlib.h>

#include "unit/base/test.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "io/clock.h"
#include "io/loop.h"
#include "io/thread.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"
#include "transfer/transfer.h"

enum {
    PAIR_BLOCK = 4,
    PAIR_VOCAB = 500,
    PAIR_MAX_SEQ = 512,
    PAIR_ANSWER_MAX = 1024,
    PAIR_TOKEN_MAX = 64,
    PAIR_CHOICE_MAX = 4,
    PAIR_PIECE_MAX = 1024
};
static const uint64_t PAIR_PATIENCE_NS = UINT64_C(20000000000);

/* -------- the tap: notes each write and its end, changes nothing -------- */

struct tap {
    struct transfer_backend base;
    struct transfer_backend_ops ops;
    struct transfer_backend *next;
    struct io_lock *lock; /* of what follows */
    uint32_t done_count; /* writes that came back */
    uint32_t piece_count;
    struct transfer_piece pieces[PAIR_PIECE_MAX]; /* of all writes so far */
};

static inline struct transfer_backend *tap_next(
    const struct transfer_backend *backend)
{
    return ((const struct tap *)backend)->next;
}

static inline void tap_destroy(struct transfer_backend *backend)
{
    struct tap *tap = (struct tap *)backend;
    transfer_backend_destroy(tap->next);
    io_lock_destroy(tap->lock);
    mem_free(tap);
}

static inline enum err tap_alloc(struct transfer_backend *backend, size_t size,
                                 struct why *why, void **memory_out)
{
    return transfer_backend_alloc(tap_next(backend), size, why, memory_out);
}

static inline void tap_free(struct transfer_backend *backend, void *memory)
{
    transfer_backend_free(tap_next(backend), memory);
}

static inline const char *tap_config(const struct transfer_backend *backend)
{
    return transfer_backend_config(tap_next(backend));
}

static inline enum err tap_export(struct transfer_backend *backend,
                                  void *memory, size_t size, struct why *why,
                                  struct buf *blob_out)
{
    return transfer_backend_export(tap_next(backend), memory, size, why,
                                   blob_out);
}

/* Peers are those of `next`; they only say that they are ours. */
static inline enum err tap_peer_open(struct transfer_backend *backend,
                                     struct span blob, size_t pool_size,
                                     struct why *why,
                                     struct transfer_backend_peer **peer_out)
{
    enum err err = transfer_backend_peer_open(tap_next(backend), blob,
                                              pool_size, why, peer_out);
    if (err == OK) {
        (*peer_out)->backend = backend;
    }
    return err;
}

static inline void tap_peer_close(struct transfer_backend_peer *peer)
{
    peer->backend = tap_next(peer->backend);
    peer->backend->ops->peer_close(peer);
}

static inline const char *tap_peer_lane(
    const struct transfer_backend_peer *peer)
{
    return tap_next(peer->backend)->ops->peer_lane(peer);
}

static inline void tap_write(struct transfer_backend *backend,
                             struct transfer_write *write)
{
    struct tap *tap = (struct tap *)backend;
    io_lock_take(tap->lock);
    for (size_t i = 0; i < write->piece_count; i++) {
        tap->pieces[tap->piece_count++ % PAIR_PIECE_MAX] = write->pieces[i];
    }
    io_lock_give(tap->lock);
    tap->next->ops->write(tap->next, write);
}

static inline struct transfer_write *tap_poll(struct transfer_backend *backend,
                                              bool *is_busy_out)
{
    struct tap *tap = (struct tap *)backend;
    struct transfer_write *write =
        transfer_backend_poll(tap->next, is_busy_out);
    io_lock_take(tap->lock);
    tap->done_count += write != NULL;
    io_lock_give(tap->lock);
    return write;
}

static inline uint32_t tap_done_count(struct tap *tap)
{
    io_lock_take(tap->lock);
    uint32_t count = tap->done_count;
    io_lock_give(tap->lock);
    return count;
}

static inline struct tap *tap_create(struct transfer_backend *next)
{
    struct tap *tap = mem_new(sizeof(*tap));
    tap->next = next;
    tap->lock = io_lock_create();
    tap->ops = (struct transfer_backend_ops){
        .name = next->ops->name,
        .toucher = next->ops->toucher,
        .destroy = tap_destroy,
        .alloc = tap_alloc,
        .free = tap_free,
        .config = tap_config,
        .export_pool = tap_export,
        .peer_open = tap_peer_open,
        .peer_close = tap_peer_close,
        .peer_lane = tap_peer_lane,
        .write = tap_write,
        .poll = tap_poll,
    };
    transfer_backend_init(&tap->base, &tap->ops);
    return tap;
}

/* -------- one worker -------- */

struct answer {
    enum engine_kind kind;
    int32_t *prompt; /* the test's copy */
    uint32_t prompt_count;
    uint32_t choice_count, max_new;
    int64_t rid;
    int32_t tokens[PAIR_CHOICE_MAX][PAIR_TOKEN_MAX];
    uint32_t counts[PAIR_CHOICE_MAX];
    enum engine_finish finishes[PAIR_CHOICE_MAX];
    uint32_t finished; /* a bit a choice */
    bool is_over; /* nothing more may come */
    enum err error; /* of FAILED */
    char reason[120];
    struct engine_journey journey;
};

struct side_setup {
    struct transfer_inproc_hub *hub;
    struct io_waker *event_waker;
    uint64_t incarnation;
    uint32_t page_count;
    uint64_t timeout_ns;
    uint32_t max_batch, queue_limit;
    uint32_t vocab_size; /* 0: PAIR_VOCAB */
    uint32_t tokens_per_block; /* 0: PAIR_BLOCK */
    uint32_t life_count; /* 0: one that sees all; each has page_count pages */
    struct kv_life lives[KV_LIFE_COUNT_MAX];
    bool enable_partial_reuse;
    const int32_t *end_tokens;
    uint32_t end_token_count;
};

struct side {
    struct model_hash_options hash;
    struct model *model;
    struct transfer_fault fault;
    struct tap *tap, *inner_tap;
    struct kv_pool_view pool; /* of the first life cycle */
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX];
    size_t memory_size;
    uint64_t incarnation;
    struct io_loop *loop;
    struct io_thread *thread;
    struct transfer *transfer;
    struct io_waker *engine_waker, *transfer_waker, *event_waker;
    struct io_mailbox *commands, *events, *orders, *reports;
    struct engine_stats_cell *stats;
    atomic_bool cancel_hint;
    struct engine_port port;
    struct engine *engine;
    uint64_t last_id;
    uint32_t aborts_found, aborts_missed;
    bool is_stopped;
    struct answer answers[PAIR_ANSWER_MAX]; /* by id */
};

static inline void pair_ok(enum err err, const struct why *why)
{
    if (err != OK) {
        fail_msg("%s: %s", err_name(err), why->text);
    }
}

static inline struct io_mailbox *pair_mailbox(size_t size, uint32_t capacity,
                                              struct io_waker *waker)
{
    struct io_mailbox *mailbox = NULL;
    struct io_mailbox_options options = {size, capacity, waker};
    assert_int_equal(io_mailbox_create(&options, &mailbox), OK);
    return mailbox;
}

/* Behind the pool of every side opened from now on; no offset. */
static struct transfer_bounce_options pair_bounce;

static inline void side_open_pool(struct side *side,
                                  const struct side_setup *setup)
{
    struct why why = {{0}};
    struct transfer_backend *body = NULL;
    void *base = NULL;
    pair_ok(
        transfer_backend_inproc_create(setup->hub, setup->incarnation, &body),
        &why);
    side->inner_tap = tap_create(body);
    side->tap = tap_create(
        transfer_backend_fault_create(&side->inner_tap->base, &side->fault));
    const struct kv_shape *shape = &side->model->info.shape;
    for (uint32_t i = 0; i < shape->life_count; i++) {
        size_t page_bytes = kv_layout_page_bytes(&shape->layouts[i]);
        side->pools[i] = (struct kv_pool_view){
            NULL, page_bytes, setup->page_count, shape->layouts[i]};
        side->memory_size += page_bytes * setup->page_count;
    }
    pair_ok(transfer_backend_alloc(&side->tap->base,
                                   side->memory_size + pair_bounce.size, &why,
                                   &base),
            &why);
    for (uint32_t i = 0; i < shape->life_count; i++) {
        side->pools[i].base = base;
        base =
            side->pools[i].base + side->pools[i].page_bytes * setup->page_count;
    }
    side->pool = side->pools[0];
}

static inline void side_open_mailboxes(struct side *side)
{
    assert_int_equal(io_waker_create(&side->engine_waker), OK);
    assert_int_equal(io_waker_create(&side->transfer_waker), OK);
    side->commands =
        pair_mailbox(sizeof(struct engine_command), 256, side->engine_waker);
    side->events =
        pair_mailbox(sizeof(struct engine_event), 1024, side->event_waker);
    side->orders = pair_mailbox(sizeof(struct transfer_command), 512,
                                side->transfer_waker);
    side->reports =
        pair_mailbox(sizeof(struct transfer_report), 256, side->engine_waker);
    side->port =
        (struct engine_port){side->commands, side->events, &side->cancel_hint};
}

static inline void side_run(void *context)
{
    io_loop_run(context);
}

static inline void side_open_transfer(struct side *side,
                                      const struct side_setup *setup)
{
    struct why why = {{0}};
    struct transfer_bounce_options bounce = pair_bounce;
    bounce.offset = side->memory_size;
    assert_int_equal(io_loop_create(&side->loop), OK);
    struct transfer_options options = {
        .loop = side->loop,
        .backend = &side->tap->base,
        .memory = side->pool.base,
        .memory_size = side->memory_size + bounce.size,
        .bounce = bounce,
        .group_count = side->model->info.shape.life_count,
        .incarnation = side->incarnation,
        .host = "127.0.0.1",
        .port = {side->orders, side->reports},
        .commands_waker = side->transfer_waker,
        .grace_ns = setup->timeout_ns,
    };
    for (uint32_t i = 0; i < options.group_count; i++) {
        options.groups[i] = (struct transfer_group){
            .pool = side->pools[i], .life = side->model->info.shape.lives[i]};
    }
    pair_ok(transfer_create(&options, &why, &side->transfer), &why);
    assert_int_equal(
        io_thread_start("transfer", side_run, side->loop, &side->thread), OK);
}

static inline void side_open_engine(struct side *side,
                                    const struct side_setup *setup)
{
    struct why why = {{0}};
    side->stats = engine_stats_cell_create();
    pair_ok(engine_start(
                &(struct engine_options){
                    .model = side->model,
                    .pools = {side->pools[0], side->pools[1]},
                    .port = side->port,
                    .transfer = {side->orders, side->reports},
                    .waker = side->engine_waker,
                    .stats = side->stats,
                    .max_batch = setup->max_batch,
                    .max_seq = PAIR_MAX_SEQ,
                    .row_count_max = 64,
                    .chunk_tokens = 32,
                    .turn_ns_max = 100000000,
                    .queue_limit = setup->queue_limit,
                    .kv_transfer_timeout_ns = setup->timeout_ns,
                    .vocab_size = side->hash.vocab_size,
                    .end_tokens = setup->end_tokens,
                    .end_token_count = setup->end_token_count,
                    .enable_block_reuse = true,
                    .enable_partial_reuse = setup->enable_partial_reuse,
                },
                &why, &side->engine),
            &why);
}

static inline struct side *side_open(const struct side_setup *setup)
{
    struct side *side = mem_new(sizeof(*side));
    side->hash = (struct model_hash_options){
        .vocab_size = setup->vocab_size == 0 ? PAIR_VOCAB : setup->vocab_size,
        .context_length = PAIR_MAX_SEQ,
        .layer_count = 2,
        .tokens_per_block =
            setup->tokens_per_block == 0 ? PAIR_BLOCK : setup->tokens_per_block,
        .seed = 77,
        .life_count = setup->life_count};
    memcpy(side->hash.lives, setup->lives, sizeof(side->hash.lives));
    side->model = model_hash_create(&side->hash);
    side->incarnation = setup->incarnation;
    side->event_waker = setup->event_waker;
    side_open_pool(side, setup);
    side_open_mailboxes(side);
    side_open_transfer(side, setup);
    side_open_engine(side, setup);
    return side;
}

static inline uint8_t *side_page(const struct side *side, uint64_t offset)
{
    assert_int_equal(offset % side->pool.page_bytes, 0);
    return side->pool.base + offset;
}

/* -------- requests and answers -------- */

struct ask {
    enum engine_kind kind;
    const int32_t *prompt;
    uint32_t prompt_count;
    uint32_t choice_count; /* 0: 1 */
    uint32_t max_new;
    int64_t rid;
    bool is_generation_first;
    const struct side *sender; /* generation: whose KV */
    const int32_t *first_tokens; /* generation: (choice_count) */
};

static inline void side_post(struct side *side,
                             const struct engine_command *command)
{
    while (engine_port_post(&side->port, command) != OK) {
        io_waker_wait(side->event_waker, 1000000);
    }
}

static inline uint64_t side_submit(struct side *side, const struct ask *ask)
{
    struct engine_request *request = mem_new(sizeof(*request));
    uint32_t choices = ask->choice_count == 0 ? 1 : ask->choice_count;
    uint64_t id = ++side->last_id;
    assert_true(id < PAIR_ANSWER_MAX);
    assert_true(ask->max_new <= PAIR_TOKEN_MAX && choices <= PAIR_CHOICE_MAX);
    request->id = id;
    request->kind = ask->kind;
    request->arrival_ns = io_clock_now_ns();
    request->prompt =
        mem_copy(ask->prompt, ask->prompt_count * sizeof(int32_t));
    request->prompt_count = ask->prompt_count;
    request->choice_count = choices;
    request->max_new_tokens = ask->max_new;
    request->sampling = sampler_defaults();
    request->sampling.temperature = 0;
    request->logprob_count = -1;
    request->rid = ask->rid;
    request->is_generation_first = ask->is_generation_first;
    if (ask->kind == ENGINE_GENERATION_ONLY) {
        request->sender_incarnation = ask->sender->incarnation;
        snprintf(request->sender_endpoint, sizeof(request->sender_endpoint),
                 "%s", transfer_endpoint(ask->sender->transfer));
        if (!ask->is_generation_first) {
            memcpy(request->first_tokens, ask->first_tokens,
                   choices * sizeof(int32_t));
        }
    }
    side->answers[id] = (struct answer){
        .kind = ask->kind,
        .prompt = mem_copy(ask->prompt, ask->prompt_count * sizeof(int32_t)),
        .prompt_count = ask->prompt_count,
        .choice_count = choices,
        .max_new = ask->max_new,
        .rid = ask->rid,
    };
    side_post(side, &(struct engine_command){
                        .kind = ENGINE_SUBMIT, .id = id, .request = request});
    return id;
}

static inline void side_cancel(struct side *side, uint64_t id)
{
    side_post(side, &(struct engine_command){.kind = ENGINE_CANCEL, .id = id});
}

static inline void side_abort(struct side *side, int64_t rid)
{
    side_post(side,
              &(struct engine_command){.kind = ENGINE_ABORT_RID, .rid = rid});
}

static inline void side_take_token(struct answer *answer,
                                   const struct engine_event *event)
{
    uint32_t c = event->choice;
    assert_true(c < answer->choice_count);
    assert_false(answer->finished >> c & 1);
    assert_int_equal(event->index, answer->counts[c]);
    assert_true(answer->counts[c] < PAIR_TOKEN_MAX);
    answer->tokens[c][answer->counts[c]++] = event->token;
}

static inline void side_take_finish(struct answer *answer,
                                    const struct engine_event *event)
{
    assert_true(event->choice < answer->choice_count);
    assert_false(answer->finished >> event->choice & 1);
    answer->finished |= 1u << event->choice;
    answer->finishes[event->choice] = event->finish;
    answer->journey = event->journey;
    answer->is_over = answer->finished == (1u << answer->choice_count) - 1;
}

static inline void side_take_one(struct side *side,
                                 const struct engine_event *event)
{
    struct answer *answer = &side->answers[event->id % PAIR_ANSWER_MAX];
    switch (event->kind) {
    case ENGINE_EVENT_ABORTED:
        side->aborts_found += event->found;
        side->aborts_missed += !event->found;
        return;
    case ENGINE_EVENT_STOPPED:
        side->is_stopped = true;
        return;
    case ENGINE_EVENT_SENT:
        assert_true(answer->is_over);
        return;
    default:
        break;
    }
    assert_true(event->id > 0 && event->id <= side->last_id);
    assert_false(answer->is_over);
    if (event->kind == ENGINE_EVENT_TOKEN) {
        side_take_token(answer, event);
    } else if (event->kind == ENGINE_EVENT_FINISHED) {
        side_take_finish(answer, event);
    } else {
        assert_int_equal(event->kind, ENGINE_EVENT_FAILED);
        answer->is_over = true;
        answer->error = event->error;
        memcpy(answer->reason, event->reason, sizeof(answer->reason));
    }
}

static inline void side_take(struct side *side)
{
    struct engine_event event;
    while (io_mailbox_take(side->events, &event)) {
        mem_free(event.top);
        side_take_one(side, &event);
    }
}

static inline struct engine_stats side_stats(struct side *side)
{
    struct engine_stats stats;
    engine_stats_read(side->stats, &stats);
    return stats;
}

/* Every token of every choice is the one that the hash names: a wrong byte in
 * any page of the sequence would have changed it. */
static inline void side_check_tokens(const struct side *side, uint64_t id)
{
    const struct answer *answer = &side->answers[id];
    uint32_t count = answer->prompt_count;
    int32_t all[PAIR_MAX_SEQ + PAIR_TOKEN_MAX];
    for (uint32_t c = 0; c < answer->choice_count; c++) {
        memcpy(all, answer->prompt, count * sizeof(all[0]));
        for (uint32_t i = 0; i < answer->counts[c]; i++) {
            all[count + i] = model_hash_next(&side->hash, all, count + i);
            if (answer->tokens[c][i] != all[count + i]) {
                fail_msg("request %llu choice %u token %u is %d, not %d",
                         (unsigned long long)id, c, i, answer->tokens[c][i],
                         all[count + i]);
            }
        }
    }
}

/* All choices ended this way, with all their tokens, each right. */
static inline void side_check_whole(const struct side *side, uint64_t id,
                                    enum engine_finish finish)
{
    const struct answer *answer = &side->answers[id];
    assert_true(answer->is_over);
    if (answer->error != OK) {
        fail_msg("request %llu: %s", (unsigned long long)id, answer->reason);
    }
    bool is_context = answer->kind == ENGINE_CONTEXT_ONLY;
    for (uint32_t c = 0; c < answer->choice_count; c++) {
        assert_int_equal(answer->finishes[c], finish);
        assert_int_equal(answer->counts[c], is_context ? 1 : answer->max_new);
    }
    side_check_tokens(side, id);
}

/* -------- the end -------- */

static inline void side_stop_engine(struct side *side)
{
    side_post(side, &(struct engine_command){.kind = ENGINE_STOP});
    while (!side->is_stopped) {
        side_take(side);
        io_waker_wait(side->event_waker, 2000000);
    }
    engine_join(side->engine);
}

static inline void side_stop_loop(struct side *side)
{
    io_loop_stop(side->loop);
    io_thread_join(side->thread);
    side->thread = NULL;
}

/* Engine and loop are stopped, the transfer is gone. */
static inline void side_free(struct side *side)
{
    engine_destroy(side->engine);
    transfer_backend_free(&side->tap->base, side->pool.base);
    transfer_backend_destroy(&side->tap->base);
    side->model->ops->destroy(side->model);
    io_mailbox_destroy(side->commands);
    io_mailbox_destroy(side->events);
    io_mailbox_destroy(side->orders);
    io_mailbox_destroy(side->reports);
    io_waker_destroy(side->engine_waker);
    io_waker_destroy(side->transfer_waker);
    engine_stats_cell_destroy(side->stats);
    io_loop_destroy(side->loop);
    for (uint64_t id = 1; id <= side->last_id; id++) {
        mem_free(side->answers[id].prompt);
    }
    mem_free(side);
}

static inline bool side_is_quiet(struct side *side)
{
    struct transfer_stats stats;
    transfer_stats_read(side->transfer, &stats);
    return stats.sends == 0 && stats.receives == 0;
}

/* -------- both -------- */

struct pair {
    struct transfer_inproc_hub *hub;
    struct io_waker *event_waker;
    struct side *context, *generation;
    int64_t last_rid;
};

static inline struct side *pair_open_side(struct pair *pair,
                                          const struct side_setup *own,
                                          uint64_t incarnation)
{
    struct side_setup setup = *own;
    setup.hub = pair->hub;
    setup.event_waker = pair->event_waker;
    setup.incarnation = incarnation;
    setup.max_batch = 8;
    setup.queue_limit = 64;
    return side_open(&setup);
}

/* Of the setups what a test says of pages, blocks, life cycles and time. */
static inline struct pair *pair_open_as(const struct side_setup *context,
                                        const struct side_setup *generation)
{
    struct pair *pair = mem_new(sizeof(*pair));
    assert_int_equal(io_waker_create(&pair->event_waker), OK);
    pair->hub = transfer_inproc_hub_create();
    pair->context = pair_open_side(pair, context, 0x1111);
    pair->generation = pair_open_side(pair, generation, 0x2222);
    return pair;
}

static inline struct pair *pair_open(uint32_t context_pages,
                                     uint32_t generation_pages,
                                     uint64_t timeout_ns)
{
    return pair_open_as(&(struct side_setup){.page_count = context_pages,
                                             .timeout_ns = timeout_ns},
                        &(struct side_setup){.page_count = generation_pages,
                                             .timeout_ns = timeout_ns});
}

static inline void pair_take(struct pair *pair)
{
    side_take(pair->context);
    side_take(pair->generation);
}

static inline void pair_say(struct pair *pair)
{
    struct side *sides[] = {pair->context, pair->generation};
    for (int i = 0; i < 2; i++) {
        struct engine_stats s = side_stats(sides[i]);
        print_error("%s: waiting %u running %u receiving %u sending %u; pages "
                    "%u free %u cached %u leased %u used\n",
                    i == 0 ? "context" : "generation", s.waiting, s.running,
                    s.receiving, s.sending, s.pages_free, s.pages_cached,
                    s.pages_leased, s.pages_used);
    }
}

/* Until `condition` holds; a test that waits for ever fails instead. */
#define PAIR_AWAIT(pair, condition)                                  \
    do {                                                             \
        uint64_t give_up_ns = io_clock_now_ns() + PAIR_PATIENCE_NS;  \
        for (pair_take(pair); !(condition); pair_take(pair)) {       \
            if (io_clock_now_ns() > give_up_ns) {                    \
                pair_say(pair);                                      \
                fail_msg("%s:%d: %s never came", __FILE__, __LINE__, \
                         #condition);                                \
            }                                                        \
            io_waker_wait((pair)->event_waker, 2000000);             \
        }                                                            \
    } while (0)

static inline bool side_is_empty(struct side *side)
{
    struct engine_stats stats = side_stats(side);
    return stats.pages_used == 0 && stats.pages_leased == 0 &&
           stats.waiting == 0 && stats.running == 0 && stats.receiving == 0 &&
           stats.sending == 0 && side_is_quiet(side);
}

/* Everything was given back: no page is used or leased, no session lives. */
static inline void pair_await_empty(struct pair *pair)
{
    PAIR_AWAIT(pair,
               side_is_empty(pair->context) && side_is_empty(pair->generation));
    struct side *sides[] = {pair->context, pair->generation};
    for (int i = 0; i < 2; i++) {
        struct engine_stats stats = side_stats(sides[i]);
        assert_int_equal(stats.pages_free + stats.pages_cached,
                         stats.pages_total);
        assert_int_equal(stats.copied_kv_bytes, 0);
    }
}

static inline void pair_close(struct pair *pair)
{
    struct side *sides[] = {pair->context, pair->generation};
    for (int i = 0; i < 2; i++) {
        side_stop_engine(sides[i]);
    }
    for (int i = 0; i < 2; i++) {
        side_stop_loop(sides[i]);
        assert_int_equal(transfer_destroy(sides[i]->transfer), OK);
    }
    for (int i = 0; i < 2; i++) {
        side_free(sides[i]);
    }
    transfer_inproc_hub_destroy(pair->hub);
    io_waker_destroy(pair->event_waker);
    mem_free(pair);
}

/* Prompt `kind`: others with the same `kind` share its beginning. */
static inline void pair_prompt(uint32_t kind, uint32_t count,
                               int32_t prompt_out[PAIR_MAX_SEQ])
{
    for (uint32_t i = 0; i < count; i++) {
        prompt_out[i] = (int32_t)((kind * 131u + i * 17u + i * i % 7u) % 499u);
    }
}
