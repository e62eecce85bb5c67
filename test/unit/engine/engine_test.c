#include <sched.h>
#include <stdio.h>

#include "unit/base/test.h"

#include "agree/word.h"
#include "base/mem.h"
#include "engine/engine.h"

enum { BLOCK = 4, PAGE_COUNT = 256, VOCAB = 500, MAX_SEQ = 512 };

/* A whole engine with its thread; the test plays serve and transfer loop. */
struct world {
    struct model_hash_options hash;
    struct model *model;
    struct kv_pool_view pool;
    struct io_waker *engine_waker;
    struct io_waker *own_waker;
    struct io_mailbox *commands, *events, *orders, *reports;
    struct engine_stats_cell *stats;
    atomic_bool cancel_hint;
    struct engine_options options;
    struct engine *engine;
    uint32_t votes;
};

static struct io_mailbox *mailbox_of(size_t size, uint32_t capacity,
                                     struct io_waker *waker)
{
    struct io_mailbox *mailbox = NULL;
    assert_int_equal(
        io_mailbox_create(&(struct io_mailbox_options){.message_size = size,
                                                       .capacity = capacity,
                                                       .waker = waker},
                          &mailbox),
        OK);
    return mailbox;
}

static void create_mailboxes(struct world *world)
{
    assert_int_equal(io_waker_create(&world->engine_waker), OK);
    assert_int_equal(io_waker_create(&world->own_waker), OK);
    world->commands =
        mailbox_of(sizeof(struct engine_command), 64, world->engine_waker);
    /* Smaller than what one turn can give: the engine must cope. */
    world->events =
        mailbox_of(sizeof(struct engine_event), 4, world->own_waker);
    world->orders =
        mailbox_of(sizeof(struct transfer_command), 8, world->own_waker);
    world->reports =
        mailbox_of(sizeof(struct transfer_report), 16, world->engine_waker);
}

static int create_with(void **state, bool is_overlapped,
                       bool (*vote)(void *context, bool can_run))
{
    struct world *world = mem_new(sizeof(*world));
    struct why why = {.text = ""};
    world->hash = (struct model_hash_options){.vocab_size = VOCAB,
                                              .context_length = MAX_SEQ,
                                              .layer_count = 2,
                                              .tokens_per_block = BLOCK,
                                              .seed = 3};
    world->model = model_hash_create(&world->hash);
    world->pool.layout = world->model->info.shape.layouts[0];
    world->pool.page_bytes = kv_layout_page_bytes(&world->pool.layout);
    world->pool.page_count = PAGE_COUNT;
    world->pool.base = mem_try_aligned(64, world->pool.page_bytes * PAGE_COUNT);
    create_mailboxes(world);
    world->stats = engine_stats_cell_create();
    world->options = (struct engine_options){
        .model = world->model,
        .pools = {world->pool},
        .port = {world->commands, world->events, &world->cancel_hint},
        .transfer = {world->orders, world->reports},
        .waker = world->engine_waker,
        .stats = world->stats,
        .max_batch = 4,
        .max_seq = MAX_SEQ,
        .row_count_max = 64,
        .turn_ns_max = 100000000,
        .queue_limit = 8,
        .kv_transfer_timeout_ns = 60000000000,
        .vocab_size = VOCAB,
        .enable_block_reuse = true,
        .is_overlapped = is_overlapped,
        .vote = vote,
        .vote_context = world};
    assert_int_equal(engine_start(&world->options, &why, &world->engine), OK);
    *state = world;
    return 0;
}

static int create(void **state)
{
    return create_with(state, false, NULL);
}

static int create_overlapped(void **state)
{
    return create_with(state, true, NULL);
}

/* Another rank that can run only every third time. */
static bool vote_now_and_then(void *context, bool can_run)
{
    struct world *world = context;
    (void)can_run;
    return ++world->votes % 3 == 0;
}

static int create_voting(void **state)
{
    return create_with(state, true, vote_now_and_then);
}

static struct engine_event next_event(struct world *world)
{
    struct engine_event event;
    while (!io_mailbox_take(world->events, &event)) {
        io_waker_wait(world->own_waker, 2000000);
    }
    return event;
}

static void post(struct world *world, const struct engine_command *command)
{
    while (engine_port_post(&world->options.port, command) != OK) {
        io_waker_wait(world->own_waker, 1000000);
    }
}

static int destroy(void **state)
{
    struct world *world = *state;
    post(world, &(struct engine_command){.kind = ENGINE_STOP});
    while (next_event(world).kind != ENGINE_EVENT_STOPPED) {
    }
    engine_join(world->engine);
    engine_destroy(world->engine);
    world->model->ops->destroy(world->model);
    io_mailbox_destroy(world->commands);
    io_mailbox_destroy(world->events);
    io_mailbox_destroy(world->orders);
    io_mailbox_destroy(world->reports);
    io_waker_destroy(world->engine_waker);
    io_waker_destroy(world->own_waker);
    engine_stats_cell_destroy(world->stats);
    mem_free(world->pool.base);
    mem_free(world);
    return 0;
}

static void submit(struct world *world, uint64_t id, enum engine_kind kind,
                   uint32_t prompt_count, uint32_t max_new)
{
    struct engine_request *request = mem_new(sizeof(*request));
    request->id = id;
    request->rid = (int64_t)id;
    request->kind = kind;
    request->prompt = mem_new_array(prompt_count, sizeof(int32_t));
    request->prompt_count = prompt_count;
    for (uint32_t i = 0; i < prompt_count; i++) {
        request->prompt[i] = (int32_t)((id * 31 + i * 7) % VOCAB);
    }
    request->choice_count = 1;
    request->max_new_tokens = max_new;
    request->sampling = sampler_defaults();
    request->sampling.temperature = 0;
    request->logprob_count = -1;
    post(world, &(struct engine_command){
                    .kind = ENGINE_SUBMIT, .id = id, .request = request});
}

/* Three requests at once through mailboxes of four places: all tokens arrive,
 * in order and right, and the counters say so. */
static void requests_run_through_the_mailboxes(void **state)
{
    struct world *world = *state;
    int32_t tokens[4][100];
    uint32_t counts[4] = {0};
    for (uint64_t id = 1; id <= 3; id++) {
        submit(world, id, ENGINE_AGGREGATED, 40, 30);
        for (uint32_t i = 0; i < 40; i++) {
            tokens[id][i] = (int32_t)((id * 31 + i * 7) % VOCAB);
        }
    }
    for (int finished = 0; finished < 3;) {
        struct engine_event event = next_event(world);
        assert_in_range(event.id, 1, 3);
        if (event.kind == ENGINE_EVENT_FINISHED) {
            finished++;
            continue;
        }
        assert_int_equal(event.kind, ENGINE_EVENT_TOKEN);
        uint32_t at = 40 + counts[event.id]++;
        assert_int_equal(event.token,
                         model_hash_next(&world->hash, tokens[event.id], at));
        tokens[event.id][at] = event.token;
    }
    for (int id = 1; id <= 3; id++) {
        assert_int_equal(counts[id], 30);
    }
    struct engine_stats stats = {0};
    for (int i = 0; i < 1000 && stats.requests_finished < 3; i++) {
        io_waker_wait(world->own_waker, 1000000);
        engine_stats_read(world->stats, &stats);
    }
    assert_int_equal(stats.requests_finished, 3);
    assert_int_equal(stats.pages_total, PAGE_COUNT);
}

/* A cancel ends a request that would go on for long, and the hint was raised
 * for it. */
static void cancel_crosses_the_threads(void **state)
{
    struct world *world = *state;
    submit(world, 1, ENGINE_AGGREGATED, 40, 400);
    struct engine_event event = next_event(world);
    assert_int_equal(event.kind, ENGINE_EVENT_TOKEN);
    post(world, &(struct engine_command){.kind = ENGINE_CANCEL, .id = 1});
    while (event.kind == ENGINE_EVENT_TOKEN) {
        event = next_event(world);
    }
    assert_int_equal(event.kind, ENGINE_EVENT_FINISHED);
    assert_int_equal(event.finish, ENGINE_FINISH_CANCELLED);
}

/* A context half: the transfer loop gets its order after the answer, reports,
 * and the pages come free. Four places for reports a session: 16 allow four. */
static void a_transfer_is_ordered_and_reported(void **state)
{
    struct world *world = *state;
    struct transfer_command order = {0};
    submit(world, 1, ENGINE_CONTEXT_ONLY, 40, 1);
    assert_int_equal(next_event(world).kind, ENGINE_EVENT_TOKEN);
    assert_int_equal(next_event(world).finish, ENGINE_FINISH_HANDOFF);
    while (!io_mailbox_take(world->orders, &order)) {
        io_waker_wait(world->own_waker, 2000000);
    }
    assert_int_equal(order.kind, TRANSFER_SEND);
    assert_int_equal(order.block_count, 10);
    struct engine_stats stats = {.pages_leased = 0};
    for (int i = 0; i < 1000 && stats.pages_leased == 0; i++) {
        io_waker_wait(world->own_waker, 1000000);
        engine_stats_read(world->stats, &stats);
    }
    assert_int_equal(stats.pages_leased, 10);
    struct transfer_report report = {.request = order.request,
                                     .word = AGREE_TERMINAL | AGREE_QUIET};
    assert_int_equal(io_mailbox_post(world->reports, &report), OK);
    for (int i = 0; i < 1000 && stats.pages_leased > 0; i++) {
        io_waker_wait(world->own_waker, 1000000);
        engine_stats_read(world->stats, &stats);
    }
    assert_int_equal(stats.pages_leased, 0);
    assert_int_equal(stats.sending, 0);
}

static atomic_bool may_compute;
static enum err (*hash_forward)(struct model *model,
                                const struct model_batch *batch,
                                float *logits_out);

static enum err held_forward(struct model *model,
                             const struct model_batch *batch, float *logits_out)
{
    while (!atomic_load(&may_compute)) {
        sched_yield();
    }
    return hash_forward(model, batch, logits_out);
}

/* A pass over a prompt that does not end while we look: what the turn's head
 * decided is known meanwhile, so that pages that came free at it show. */
static void a_long_pass_does_not_hide_its_turns_head(void **state)
{
    struct world *world = *state;
    struct model_ops ops = *world->model->ops;
    const struct model_ops *kept = world->model->ops;
    hash_forward = ops.forward;
    ops.forward = held_forward;
    atomic_store(&may_compute, false);
    world->model->ops = &ops;
    submit(world, 1, ENGINE_AGGREGATED, 40, 1);
    struct engine_stats stats = {.running = 0};
    for (int i = 0; i < 5000 && stats.running == 0; i++) {
        io_waker_wait(world->own_waker, 1000000);
        engine_stats_read(world->stats, &stats);
    }
    atomic_store(&may_compute, true);
    assert_int_equal(stats.running, 1);
    assert_int_equal(stats.prefill_tokens, 0);
    assert_true(stats.pages_used > 0);
    while (next_event(world).kind != ENGINE_EVENT_FINISHED) {
    }
    world->model->ops = kept;
}

/* The thread is stopped with work in hand (see destroy): it is answered, and
 * what was never taken is freed. */
static void stop_with_work_in_hand_leaks_nothing(void **state)
{
    struct world *world = *state;
    for (uint64_t id = 1; id <= 4; id++) {
        submit(world, id, ENGINE_AGGREGATED, 40, 400);
    }
    assert_int_equal(next_event(world).kind, ENGINE_EVENT_TOKEN);
}

/* A turn must hold max_batch decodes and a chunk: refused with the numbers. */
static void impossible_options_are_refused(void **state)
{
    struct world *world = *state;
    struct why why = {.text = ""};
    struct engine *engine = NULL;
    struct engine_options options = world->options;
    options.row_count_max = 8;
    assert_int_equal(engine_start(&options, &why, &engine), ERR_INVALID);
    assert_non_null(strstr(why.text, "row_count_max is 8"));
    assert_null(engine);
}

/* What the engine says does not depend on when it decides, nor on how often the
 * other ranks make it give a turn back. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)
#define TEST_BOTH(name)                                               \
    TEST(name),                                                       \
    {                                                                 \
#name " with overlap", name, create_overlapped, destroy, NULL \
    }
#define TEST_ALL(name)                                           \
    TEST_BOTH(name),                                             \
    {                                                            \
#name " with vetoes", name, create_voting, destroy, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ALL(requests_run_through_the_mailboxes),
        TEST_ALL(cancel_crosses_the_threads),
        TEST_ALL(a_transfer_is_ordered_and_reported),
        TEST(a_long_pass_does_not_hide_its_turns_head),
        TEST_ALL(stop_with_work_in_hand_leaks_nothing),
        TEST(impossible_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
