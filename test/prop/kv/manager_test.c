/* Random work on small caches of random shape, with memory behind them.
 * [engine F1] [engine F2] [engine F3] [engine I5] [engine I6] [engine I7]
 * [engine I12] [engine I13] [engine I14] [engine I15] [engine I17] [engine I18]
 * [engine I16] [engine I19] [engine I20] [engine I28]
 *
 * After every operation the manager proves itself valid, every page that can be
 * found or seen holds what its tokens say, and a call that failed has changed
 * nothing. What a prompt finds is compared with a look at every node. Growth within
 * a promise never fails, nor does the return of a sequence that has one, whatever
 * others do. A claim is what a look-up has just said, or what of it was asked for.
 * Behind what a page of the tree covers only the sequence writes that gave it to the
 * tree. At the end nothing is left over.
 *
 * KV_SEED: one seed only. KV_FIRST: the first of several. KV_OPS: operations of a
 * seed. KV_SEEDS: how many. */
#include "prop/kv/manager_oracle.h"

enum { SEQ_MAX = 6, LEASE_MAX = 6, FANOUT = 2, REF_MAX = 4096 };

struct lease {
    kv_ref refs[DEPTH_MAX];
    uint32_t count;
};

/* What the test knows of a sequence. */
struct actor {
    struct kv_seq *seq; /* NULL: none */
    uint32_t scope;
    int32_t tokens[TEXT_MAX]; /* all it will ever have */
    struct prefix_key keys[DEPTH_MAX];
    uint32_t prompt; /* tokens */
    uint32_t written; /* tokens whose KV it has put in place */
    uint32_t total; /* promised; 0: nothing was */
    bool is_over; /* its context was published: no final commit again */
    uint64_t serial;
};

struct world {
    struct oracle oracle;
    struct kv_manager *manager;
    struct kv_manager_options options;
    struct rng rng;
    struct actor actors[SEQ_MAX];
    struct lease leases[LEASE_MAX];
    uint64_t serials; /* of sequences so far */
    uint64_t makers[REF_MAX]; /* who gave a page to a node it does not fill */
    uint32_t op; /* the last one, for who looks at a failure */
    uint64_t now_ms;
    uint32_t refused, done; /* calls, so that one sees that both happen */
};

static uint32_t below(struct world *world, uint32_t bound)
{
    return (uint32_t)rng_below(&world->rng, bound);
}

/* -- shape ---------------------------------------------------------------- */

static void draw_lives(struct world *world)
{
    struct kv_manager_options *options = &world->options;
    options->life_count = 1 + below(world, KV_LIFE_COUNT_MAX);
    options->group_count = 1 + below(world, options->life_count);
    for (uint32_t life = 0; life < options->life_count; life++) {
        options->group_of[life] =
            (uint8_t)(life < options->group_count
                          ? life
                          : below(world, options->group_count));
        if (below(world, 3) == 0 || (life == 0 && below(world, 3) > 0)) {
            continue;
        }
        options->lives[life].window = 1 + below(world, 10);
        options->lives[life].sink_tokens = below(world, 2) * below(world, 6);
    }
}

static void draw_pools(struct world *world)
{
    struct kv_manager_options *options = &world->options;
    options->level_count = 1 + below(world, KV_LEVEL_COUNT_MAX);
    uint32_t tokens = options->block_count_max * options->tokens_per_block;
    for (uint32_t group = 0; group < options->group_count; group++) {
        uint32_t need = 0;
        for (uint32_t life = 0; life < options->life_count; life++) {
            need += options->group_of[life] == group
                        ? kv_life_blocks_max(&options->lives[life],
                                             options->tokens_per_block, tokens,
                                             options->step_max)
                        : 0;
        }
        uint32_t room = need + below(world, 2 * need + 2);
        options->slot_counts[0][group] = room < SLOT_MAX ? room : SLOT_MAX;
        for (uint32_t level = 1; level < options->level_count; level++) {
            options->slot_counts[level][group] = below(world, 24);
        }
    }
}

static void draw_world(struct world *world, uint64_t seed)
{
    *world = (struct world){.rng = rng_from_seed(seed)};
    struct kv_manager_options *options = &world->options;
    *options = (struct kv_manager_options){
        .tokens_per_block = 1u << (1 + below(world, 2)),
        .seq_count_max = 2 + below(world, SEQ_MAX - 1),
        .block_count_max = 4 + below(world, 5),
        .step_max = 1 + below(world, 12),
        .commit = (enum kv_commit_policy)below(world, 3),
        .enable_reuse = below(world, 16) > 0,
        .enable_partial = below(world, 4) > 0,
        .offload_priority_min = (uint8_t)(below(world, 4) == 0 ? 40 : 0),
        .event_max = below(world, 2) * 64,
        .order_max = below(world, 3) == 0 ? 1 + below(world, 6) : 0,
    };
    draw_lives(world);
    draw_pools(world);
    struct why why = {0};
    enum err err = kv_manager_create(options, &why, &world->manager);
    if (err != OK) {
        print_message("%s\n", why.text);
    }
    assert_int_equal(err, OK);
    struct oracle *oracle = &world->oracle;
    oracle->manager = world->manager;
    oracle->rng = rng_child(&world->rng, 1);
    oracle->fail_of_256 = below(world, 3) == 0 ? 12 : 0;
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {3};
    for (uint32_t i = 0; i < SCOPE_COUNT; i++) {
        prefix_scope_init(&oracle->scopes[i], SECRET, i);
    }
}

/* -- actors --------------------------------------------------------------- */

static struct actor *any(struct world *world, enum kv_seq_status status)
{
    uint32_t first = below(world, SEQ_MAX);
    for (uint32_t i = 0; i < SEQ_MAX; i++) {
        struct actor *actor = &world->actors[(first + i) % SEQ_MAX];
        if (actor->seq != NULL && actor->seq->status == status) {
            return actor;
        }
    }
    return NULL;
}

static uint32_t token_max(const struct world *world)
{
    return world->options.block_count_max * world->options.tokens_per_block;
}

/* Few kinds of token early on, so that prompts share much. */
static void draw_text(struct world *world, struct actor *actor)
{
    uint32_t block = world->options.tokens_per_block;
    actor->scope = below(world, 4) == 0;
    for (uint32_t i = 0; i < token_max(world); i++) {
        bool is_bland = below(world, 4) > 0;
        actor->tokens[i] = is_bland ? 1 : 1 + (int32_t)below(world, FANOUT + 1);
    }
    prefix_keys(&world->oracle.scopes[actor->scope], actor->tokens,
                token_max(world), block, DEPTH_MAX, actor->keys);
    actor->prompt = 1 + below(world, token_max(world));
}

static uint64_t value_at(const struct actor *actor, uint32_t life,
                         uint32_t token)
{
    return oracle_value(oracle_hash(actor->scope, actor->tokens, token + 1),
                        life);
}

/* Where a token of a sequence lies; NULL: no page. */
static uint64_t *place_of(struct world *world, const struct actor *actor,
                          uint32_t life, uint32_t token)
{
    uint32_t block = world->options.tokens_per_block;
    kv_page_id slot = actor->seq->tables[life][token / block];
    uint32_t group = world->options.group_of[life];
    return slot == KV_PAGE_NONE
               ? NULL
               : &world->oracle.memory[0][group][slot][token % block];
}

/* All that a query at `history` sees is in place. */
static void check_actor(struct world *world, const struct actor *actor)
{
    const struct kv_seq *seq = actor->seq;
    uint32_t readable =
        actor->written < seq->history ? actor->written : seq->history;
    if (!kv_seq_is_ready(world->manager, seq) || readable < seq->history) {
        return;
    }
    for (uint32_t life = 0; life < world->options.life_count; life++) {
        const struct kv_life *rule = &world->options.lives[life];
        for (uint32_t token = 0; token < seq->history; token++) {
            bool is_seen = rule->window == 0 || token < rule->sink_tokens ||
                           token + rule->window >= seq->history + 1;
            if (is_seen) {
                uint64_t *place = place_of(world, actor, life, token);
                assert_non_null(place);
                assert_int_equal(*place, value_at(actor, life, token));
            }
        }
    }
}

/* The tree may know the page up to some token; who writes behind that? */
static void check_writer(const struct world *world, const struct actor *actor,
                         uint32_t life, uint32_t token)
{
    uint32_t block_tokens = world->options.tokens_per_block;
    kv_ref ref = actor->seq->inside->refs[life][token / block_tokens];
    assert_true(ref < REF_MAX);
    const struct kv_page *page = kv_manager_page(world->manager, ref);
    if (kv_is_in_tree(page)) {
        assert_true(token % block_tokens >= page->tokens);
        assert_true(world->makers[ref] == actor->serial);
    }
}

/* The tail that a commit has just given to the tree. */
static void note_maker(struct world *world, const struct actor *actor)
{
    const struct kv_seq *seq = actor->seq;
    uint32_t block = seq->committed / world->options.tokens_per_block;
    for (uint32_t life = 0; life < world->options.life_count; life++) {
        kv_ref ref = block < seq->block_count ? seq->inside->refs[life][block]
                                              : KV_REF_NONE;
        if (ref != KV_REF_NONE) {
            world->makers[ref] = actor->serial;
        }
    }
}

/* Computes up to `end`. */
static void write_tokens(struct world *world, struct actor *actor, uint32_t end)
{
    for (uint32_t life = 0; life < world->options.life_count; life++) {
        for (uint32_t token = actor->written; token < end; token++) {
            uint64_t *place = place_of(world, actor, life, token);
            if (place != NULL) {
                check_writer(world, actor, life, token);
                *place = value_at(actor, life, token);
            }
        }
    }
    actor->written = end > actor->written ? end : actor->written;
}

static void close_actor(struct world *world, struct actor *actor)
{
    kv_seq_close(world->manager, actor->seq);
    *actor = (struct actor){0};
}

/* -- operations ----------------------------------------------------------- */

static void check_failed_call(struct world *world, uint64_t before)
{
    world->refused++;
    assert_int_equal(oracle_dump(&world->oracle), before);
}

static void op_open(struct world *world)
{
    uint32_t at = below(world, SEQ_MAX);
    struct actor *actor = &world->actors[at];
    if (actor->seq != NULL) {
        return;
    }
    draw_text(world, actor);
    struct kv_prompt prompt = {
        .root = &world->oracle.scopes[actor->scope].root,
        .keys = actor->keys,
        .key_count = (actor->prompt - 1) / world->options.tokens_per_block,
        .tokens = actor->tokens,
        .token_count = actor->prompt - 1,
    };
    uint32_t limit = below(world, 4) == 0 ? below(world, 12) : UINT32_MAX;
    struct oracle_match slow = oracle_match(&world->oracle, actor->scope,
                                            actor->tokens, actor->prompt - 1);
    struct kv_match fast = kv_manager_probe(world->manager, &prompt);
    if (world->options.enable_reuse) {
        assert_int_equal(fast.raw, slow.raw);
        assert_true(fast.usable <= slow.usable);
        assert_true(world->options.enable_partial ||
                    fast.usable == slow.usable);
    }
    struct kv_prompt part = prompt;
    part.token_count = limit < prompt.token_count ? limit : prompt.token_count;
    uint32_t promised = kv_manager_probe(world->manager, &part).usable;
    uint64_t before = oracle_dump(&world->oracle);
    if (kv_seq_open(world->manager, &prompt, limit, &actor->seq) != OK) {
        check_failed_call(world, before);
        return;
    }
    assert_true(actor->seq->reused <= limit);
    assert_true(actor->seq->reused == promised);
    assert_true(limit < UINT32_MAX || actor->seq->reused == fast.usable);
    actor->serial = ++world->serials;
    actor->written = actor->seq->reused;
    if (below(world, 3) == 0) {
        struct kv_retention rule = {0, below(world, 20),
                                    (uint8_t)below(world, 101),
                                    below(world, 3) * 3000};
        struct kv_retention_plan plan = {
            .rule_count = 1,
            .rules = {rule},
            .has_generated = below(world, 2) > 0,
            .generated = rule,
        };
        kv_seq_retain(actor->seq, &plan, actor->prompt);
    }
}

static void op_promise(struct world *world)
{
    struct actor *actor =
        any(world, below(world, 2) ? KV_SEQ_SUSPENDED : KV_SEQ_ACTIVE);
    if (actor == NULL) {
        return;
    }
    uint32_t span = token_max(world) - actor->seq->capacity;
    struct kv_promise promise = {
        .token_total = actor->seq->capacity + below(world, span + 1),
        .fork_count = below(world, 3) == 0 ? below(world, 3) : 0,
        .fork_at = below(world, 2) ? actor->prompt : actor->seq->history,
    };
    promise.token_total = promise.token_total < actor->prompt && below(world, 4)
                              ? actor->prompt
                              : promise.token_total;
    bool is_less = actor->total > 0 && promise.token_total <= actor->total &&
                   promise.fork_count == 0;
    uint64_t before = oracle_dump(&world->oracle);
    if (kv_seq_promise(world->manager, actor->seq, &promise) != OK) {
        assert_false(is_less);
        check_failed_call(world, before);
        return;
    }
    actor->total = promise.token_total;
}

static void op_resume(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_SUSPENDED);
    if (actor == NULL) {
        return;
    }
    bool is_idle = below(world, 8) == 0;
    if (is_idle) {
        oracle_drain(&world->oracle);
    }
    uint64_t before = oracle_dump(&world->oracle);
    enum err err = kv_seq_resume(world->manager, actor->seq);
    if (err == ERR_CORRUPT) {
        close_actor(world, actor);
        return;
    }
    if (err != OK) {
        assert_false(err == ERR_BUSY && actor->total > 0);
        assert_false(is_idle && actor->total > 0 &&
                     world->options.order_max == 0);
        check_failed_call(world, before);
    }
}

static void op_suspend(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_ACTIVE);
    if (actor != NULL) {
        kv_seq_suspend(world->manager, actor->seq);
        kv_seq_suspend(world->manager, actor->seq);
    }
}

static bool has_leases(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < LEASE_MAX; i++) {
        count += world->leases[i].count;
    }
    return count > 0;
}

/* A lease keeps, or may keep in the next step, what would be promised again. */
static bool is_hindered(const struct world *world, const struct actor *actor)
{
    const struct kv_seq *seq = actor->seq;
    for (uint32_t life = 0; life < world->options.life_count; life++) {
        if (seq->inside->owed[life] > 0) {
            return has_leases(world);
        }
        for (uint32_t i = 0; i < seq->block_count; i++) {
            kv_ref ref = seq->inside->refs[life][i];
            if (world->options.lives[life].window > 0 && ref != KV_REF_NONE &&
                world->manager->sides[ref].leases > 0) {
                return true;
            }
        }
    }
    return false;
}

static void op_grow(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_ACTIVE);
    if (actor == NULL) {
        return;
    }
    struct kv_seq *seq = actor->seq;
    uint32_t reach =
        actor->written < seq->capacity ? actor->written : seq->capacity;
    uint32_t span = reach > seq->history ? reach - seq->history : 0;
    uint32_t history =
        seq->history + (below(world, 2) ? span : below(world, span + 1));
    uint32_t step = 1 + below(world, world->options.step_max);
    uint32_t capacity = history + step;
    if (capacity > token_max(world)) {
        capacity = token_max(world);
    }
    uint64_t before = oracle_dump(&world->oracle);
    struct kv_mark mark = {0};
    enum err err = kv_seq_resize(world->manager, seq, capacity, history, &mark);
    if (err != OK) {
        bool is_promised = actor->total > 0 && capacity <= actor->total;
        assert_false(is_promised && !is_hindered(world, actor));
        check_failed_call(world, before);
        return;
    }
    world->done++;
    if (below(world, 6) == 0 && mark.capacity >= seq->history &&
        mark.capacity <= seq->capacity) {
        kv_seq_revert(world->manager, seq, &mark);
        assert_int_equal(seq->capacity, mark.capacity);
    }
    /* What was cut off is to be computed anew. */
    actor->written =
        actor->written < seq->capacity ? actor->written : seq->capacity;
}

/* As one who receives the KV of a whole prompt: all at once, the window only. */
static void op_jump(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_ACTIVE);
    if (actor == NULL || actor->written > 0 || actor->seq->capacity > 0) {
        return;
    }
    uint64_t before = oracle_dump(&world->oracle);
    if (kv_seq_resize(world->manager, actor->seq, actor->prompt, actor->prompt,
                      NULL) != OK) {
        check_failed_call(world, before);
    }
}

static void op_write(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_ACTIVE);
    if (actor != NULL && kv_seq_is_ready(world->manager, actor->seq)) {
        write_tokens(world, actor, actor->seq->capacity);
    }
}

static void op_commit(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_ACTIVE);
    if (actor == NULL || actor->written < actor->seq->history ||
        !kv_seq_is_ready(world->manager, actor->seq)) {
        return;
    }
    struct kv_seq *seq = actor->seq;
    uint32_t block = world->options.tokens_per_block;
    uint32_t end =
        actor->written < seq->capacity ? actor->written : seq->capacity;
    uint32_t position = seq->history + below(world, end - seq->history + 1);
    position = below(world, 2) ? end : position;
    bool is_final = below(world, 3) == 0;
    uint32_t rest = position % block;
    struct prefix_key tail = {0};
    if (rest > 0) {
        tail = prefix_key_next(
            &world->oracle.scopes[actor->scope],
            position > rest ? &actor->keys[position / block - 1] : NULL,
            actor->tokens + position - rest, rest);
    }
    bool has_tail = rest > 0 && below(world, 4) > 0;
    uint32_t committed_before = seq->committed;
    kv_seq_commit_to(world->manager, seq, position, actor->keys, actor->tokens,
                     is_final, has_tail ? &tail : NULL);
    assert_int_equal(seq->history, position);
    assert_in_range(seq->committed, committed_before, position);
    if (seq->committed > committed_before && seq->committed % block > 0) {
        note_maker(world, actor);
    }
    world->done++;
}

static void op_fork(struct world *world)
{
    struct actor *parent = any(world, KV_SEQ_ACTIVE);
    uint32_t at = below(world, SEQ_MAX);
    struct actor *child = &world->actors[at];
    if (parent == NULL || child->seq != NULL ||
        parent->written < parent->seq->history) {
        return;
    }
    const struct kv_promise *promise = &parent->seq->inside->promise;
    bool is_promised = promise->fork_count > 0;
    bool is_sure = is_promised && promise->fork_at == parent->seq->history &&
                   world->options.order_max == 0 &&
                   world->manager->free_seqs != NULL;
    if (is_sure) {
        oracle_drain(&world->oracle);
    }
    uint64_t before = oracle_dump(&world->oracle);
    struct kv_seq *seq = NULL;
    if (kv_seq_fork(world->manager, parent->seq, &seq) != OK) {
        assert_false(is_sure);
        check_failed_call(world, before);
        return;
    }
    *child = *parent;
    child->seq = seq;
    child->serial = ++world->serials;
    child->written = seq->history;
    child->total = is_promised ? parent->total : 0;
    /* From here on it says something else. */
    for (uint32_t i = seq->history; i < token_max(world); i++) {
        child->tokens[i] = 1 + (int32_t)below(world, FANOUT + 1);
    }
    prefix_keys(&world->oracle.scopes[child->scope], child->tokens,
                token_max(world), world->options.tokens_per_block, DEPTH_MAX,
                child->keys);
}

static void op_lease(struct world *world)
{
    struct lease *lease = &world->leases[below(world, LEASE_MAX)];
    if (lease->count > 0) {
        kv_manager_unlease(world->manager, lease->refs, lease->count);
        lease->count = 0;
        return;
    }
    struct actor *actor = any(world, KV_SEQ_ACTIVE);
    if (actor == NULL || actor->seq->block_count == 0) {
        return;
    }
    uint32_t first = below(world, actor->seq->block_count);
    lease->count = 1 + below(world, actor->seq->block_count - first);
    kv_seq_lease(world->manager, actor->seq,
                 below(world, world->options.life_count), first, lease->count,
                 lease->refs);
}

static void op_rest(struct world *world)
{
    struct actor *actor = any(world, KV_SEQ_SUSPENDED);
    switch (below(world, 6)) {
    case 0:
        kv_manager_clear(world->manager);
        break;
    case 1:
        world->now_ms += below(world, 4000);
        kv_manager_tick(world->manager, world->now_ms);
        break;
    case 2:
        actor = any(world, KV_SEQ_ACTIVE);
        if (actor != NULL && below(world, 4) == 0) {
            kv_seq_stop(actor->seq);
        }
        break;
    default:
        if (actor != NULL) {
            kv_seq_prefetch(world->manager, actor->seq,
                            (uint8_t)below(world, world->options.level_count));
        }
        break;
    }
}

static void op_close(struct world *world)
{
    struct actor *actor =
        any(world, below(world, 4) ? KV_SEQ_ACTIVE : KV_SEQ_SUSPENDED);
    if (actor != NULL) {
        close_actor(world, actor);
    }
}

static void act(struct world *world)
{
    static void (*const OPS[])(struct world *) = {
        op_open,   op_open,  op_open,   op_promise, op_resume, op_resume,
        op_resume, op_grow,  op_grow,   op_grow,    op_grow,   op_write,
        op_write,  op_write, op_commit, op_commit,  op_commit, op_suspend,
        op_fork,   op_lease, op_lease,  op_rest,    op_jump,   op_close,
    };
    uint32_t op = below(world, sizeof(OPS) / sizeof(OPS[0]));
    world->op = op;
    OPS[op](world);
    if (below(world, 3) > 0) {
        oracle_work(&world->oracle);
    }
}

/* -- a run ---------------------------------------------------------------- */

/* A place to stop a debugger at. */
__attribute__((noinline)) static void fail_if_invalid(struct world *world)
{
    print_message("operation %u\n", world->op);
    fail_msg("the manager is not valid");
}

static void check(struct world *world)
{
    if (!kv_manager_is_valid(world->manager)) {
        fail_if_invalid(world);
    }
    oracle_poison(&world->oracle);
    oracle_check_tree(&world->oracle);
    for (uint32_t i = 0; i < SEQ_MAX; i++) {
        struct actor *actor = &world->actors[i];
        if (actor->seq == NULL) {
            continue;
        }
        check_actor(world, actor);
        if (actor->seq->status == KV_SEQ_ACTIVE &&
            kv_seq_is_lost(world->manager, actor->seq)) {
            close_actor(world, actor);
        }
    }
}

/* Nobody uses anything: all that is not free can be given up. */
static void end(struct world *world)
{
    for (uint32_t i = 0; i < SEQ_MAX; i++) {
        if (world->actors[i].seq != NULL) {
            close_actor(world, &world->actors[i]);
        }
    }
    for (uint32_t i = 0; i < LEASE_MAX; i++) {
        kv_manager_unlease(world->manager, world->leases[i].refs,
                           world->leases[i].count);
    }
    oracle_drain(&world->oracle);
    kv_manager_clear(world->manager);
    assert_true(kv_manager_is_valid(world->manager));
    for (uint32_t group = 0; group < world->options.group_count; group++) {
        for (uint8_t level = 0; level < world->options.level_count; level++) {
            struct kv_store_counts counts =
                kv_store_counts(world->manager->store, level, group);
            assert_int_equal(counts.free, counts.total);
        }
    }
    assert_int_equal(kv_tree_count(world->manager->tree), 0);
    kv_manager_destroy(world->manager);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

static void run(uint64_t seed, uint64_t op_count)
{
    static struct world world;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    draw_world(&world, seed);
    bool is_loud = getenv("KV_LOUD") != NULL;
    for (uint64_t i = 0; i < op_count; i++) {
        if (is_loud) {
            printf("op %llu\n", (unsigned long long)i);
            fflush(stdout);
        }
        act(&world);
        check(&world);
    }
    end(&world);
}

static void random_work_breaks_no_promise(void **state)
{
    (void)state;
    uint64_t op_count = number("KV_OPS", 2000);
    uint64_t only = number("KV_SEED", 0);
    uint64_t first = only > 0 ? only : number("KV_FIRST", 1);
    uint64_t count = only > 0 ? 1 : number("KV_SEEDS", 40);
    for (uint64_t i = 0; i < count; i++) {
        run(first + i, op_count);
    }
    printf("seeds %llu\noperations %llu\n", (unsigned long long)count,
           (unsigned long long)(count * op_count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_breaks_no_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
