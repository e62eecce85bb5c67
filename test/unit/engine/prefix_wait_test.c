/* The planner behind the scheduler's pass, with a cache that only counts: prompts
 * of families that share their first tokens, 32 to a block. What an owner has
 * computed becomes findable after the pass: all of it (attention), or only up to
 * the points it was asked for (hybrid). The table tests of the engine's
 * specification. */
#include "unit/engine/schedule_mock.h"

#include "base/rng.h"

enum { BLOCK = 32, BLOCKS_MAX = 512 };

struct world {
    struct mock mock;
    struct sched *sched;
    struct prefix_wait *waits;
    bool is_hybrid;
    uint32_t shared[MOCK_UNIT_MAX]; /* tokens from the family's start */
    struct prefix_key keys[MOCK_UNIT_MAX][BLOCKS_MAX];
    const struct sched_plan *plan;
};

static void create(struct world *world, bool is_hybrid, uint32_t budget_tokens)
{
    struct why why;
    memset(world, 0, sizeof(*world));
    mock_init(&world->mock, BLOCK);
    world->mock.budget.tokens = budget_tokens;
    world->is_hybrid = is_hybrid;
    struct prefix_wait_options waits = prefix_wait_options_default();
    waits.needs_points = is_hybrid;
    waits.entry_max = 4096;
    assert_int_equal(prefix_wait_create(&waits, &why, &world->waits), OK);
    struct sched_options options = sched_options_default();
    options.policy = SCHED_MAX_UTILIZATION;
    options.unit_max = MOCK_UNIT_MAX;
    options.is_shortest_first = false;
    assert_int_equal(sched_create(&options, world->waits, &why, &world->sched),
                     OK);
}

static void destroy(struct world *world)
{
    assert_true(prefix_wait_is_valid(world->waits));
    sched_destroy(world->sched);
    prefix_wait_destroy(world->waits);
}

/* `shared` tokens of the family, then its own. */
static struct mock_unit *add(struct world *world, uint32_t token_count,
                             uint32_t shared)
{
    struct mock *mock = &world->mock;
    uint32_t index = mock->count;
    struct mock_unit *own = mock_add(mock, SCHED_CONTEXT, token_count);
    struct prefix_key *keys = world->keys[index];
    world->shared[index] = shared;
    uint32_t count = token_count / BLOCK;
    for (uint32_t i = 0; i < count; i++) {
        bool is_family = (i + 1) * BLOCK <= shared;
        uint32_t words[4] = {i, is_family ? 0 : index + 1, 77, 3};
        memcpy(keys[i].bytes, words, sizeof(words));
    }
    own->prefix = (struct prefix_wait_request){.unit = &own->unit,
                                               .keys = keys,
                                               .key_count = count,
                                               .token_count = token_count,
                                               .can_publish = true};
    own->unit.prefix = &own->prefix;
    prefix_wait_insert(world->waits, &own->prefix);
    return own;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Tokens of the family that this one has made findable. */
static uint32_t published(const struct world *world,
                          const struct mock_unit *own)
{
    uint32_t position = own->unit.position;
    uint32_t answer = 0;
    if (!own->unit.is_started || own->reusable == UINT32_MAX) {
        return 0;
    }
    if (!world->is_hybrid) {
        return position / BLOCK * BLOCK;
    }
    for (uint32_t i = 0; i < own->prefix.point_count; i++) {
        uint32_t point = own->prefix.points[i];
        answer = point <= position ? point : answer;
    }
    return answer;
}

static void publish(struct world *world)
{
    struct mock *mock = &world->mock;
    for (uint32_t i = 0; i < mock->count; i++) {
        struct mock_unit *reader = &mock->units[i];
        for (uint32_t j = 0; j < mock->count && !reader->unit.is_started; j++) {
            uint32_t common = least(world->shared[i], world->shared[j]);
            uint32_t found = least(common, published(world, &mock->units[j]));
            found = least(found, (reader->unit.target - 1) / BLOCK * BLOCK);
            reader->reusable =
                found > reader->reusable ? found : reader->reusable;
        }
    }
}

static void pass(struct world *world)
{
    world->plan = mock_pass(&world->mock, world->sched);
    mock_apply(world->plan);
    publish(world);
    assert_true(prefix_wait_is_valid(world->waits));
}

static uint32_t chunk(const struct world *world, const struct mock_unit *own)
{
    return mock_chunk(world->plan, own);
}

/* [engine T70] [engine T85] */
static void waiter_reuses_what_its_owner_computed(void **state)
{
    (void)state;
    for (int is_hybrid = 0; is_hybrid < 2; is_hybrid++) {
        static struct world world;
        create(&world, is_hybrid, 4096);
        struct mock_unit *a = add(&world, 10000, 8192);
        struct mock_unit *b = add(&world, 9000, 8192);
        pass(&world);
        assert_int_equal(chunk(&world, a), 4096);
        assert_int_equal(b->unit.waits, 1);
        assert_int_equal(a->prefix.point_count, is_hybrid);
        pass(&world);
        assert_int_equal(a->unit.position, 8192);
        assert_int_equal(b->unit.waits, 2);
        pass(&world);
        assert_int_equal(chunk(&world, a), 1808);
        assert_int_equal(chunk(&world, b), 808);
        assert_int_equal(b->unit.waits, 2);
        assert_int_equal(prefix_wait_stats(world.waits).saved_tokens, 8192);
        if (is_hybrid) {
            assert_int_equal(a->prefix.points[0], 8192);
        }
        destroy(&world);
    }
}

/* [engine T71] */
static void gain_below_64_blocks_is_not_waited_for(void **state)
{
    (void)state;
    static struct world world;
    create(&world, false, 20000);
    struct mock_unit *a = add(&world, 10000, 10000);
    struct mock_unit *d = add(&world, 5000, 2047);
    /* Its first block is under way, so the one-pass rule would hold it back. */
    d->unit.prefix->can_publish = true;
    pass(&world);
    assert_int_equal(chunk(&world, a), 10000);
    assert_int_equal(d->unit.waits, 0);
    pass(&world);
    assert_int_equal(d->unit.position, 5000);
    destroy(&world);

    create(&world, false, 2048);
    a = add(&world, 10000, 10000);
    struct mock_unit *e = add(&world, 5000, 2048);
    pass(&world);
    assert_int_equal(e->unit.waits, 1);
    pass(&world);
    assert_int_equal(e->unit.waits, 1);
    destroy(&world);
}

/* [engine T72] */
static void each_waiter_gets_its_own_point(void **state)
{
    (void)state;
    static struct world world;
    create(&world, true, 4096);
    struct mock_unit *a = add(&world, 10000, 10000);
    struct mock_unit *c = add(&world, 6000, 4096);
    struct mock_unit *b = add(&world, 9000, 8192);
    pass(&world);
    assert_int_equal(a->prefix.point_count, 2);
    assert_int_equal(a->prefix.points[0], 4096);
    assert_int_equal(a->prefix.points[1], 8192);
    assert_int_equal(c->unit.waits, 1);
    assert_int_equal(b->unit.waits, 1);
    pass(&world);
    assert_int_equal(a->unit.position, 8192);
    assert_int_equal(c->unit.waits, 1);
    assert_int_equal(b->unit.waits, 2);
    pass(&world);
    assert_int_equal(b->unit.waits, 2);
    assert_true(b->unit.is_started || c->unit.is_started);
    assert_int_equal(b->reusable, 8192);
    assert_int_equal(c->reusable, 4096);
    destroy(&world);
}

/* [engine T73] [engine I42] */
static void owner_that_is_not_admitted_is_no_reason_to_wait(void **state)
{
    (void)state;
    static struct world world;
    create(&world, false, 4096);
    struct mock_unit *a = add(&world, 10000, 8192);
    struct mock_unit *b = add(&world, 9000, 8192);
    a->grow_failures = 1;
    pass(&world);
    assert_int_equal(chunk(&world, a), 0);
    assert_int_equal(chunk(&world, b), 4096);
    assert_int_equal(b->unit.waits, 0);
    pass(&world);
    assert_int_equal(a->unit.waits, 1);
    assert_int_equal(b->unit.position, 8192);
    pass(&world);
    assert_int_equal(a->reusable, 8192);
    assert_true(a->unit.is_started);
    destroy(&world);
}

/* [engine T74] [engine T78] [engine T83] [engine I41] */
static void stuck_owner_is_waited_for_128_passes_at_most(void **state)
{
    (void)state;
    static struct world world;
    create(&world, false, 4096);
    struct mock_unit *a = add(&world, 10000, 8192);
    struct mock_unit *b = add(&world, 9000, 8192);
    a->unit.is_started = true;
    a->unit.is_replayable = false;
    a->reusable = UINT32_MAX; /* what it has is not found */
    a->unit.is_ready = false; /* its turn does not come */
    for (uint32_t i = 0; i < 100; i++) {
        pass(&world);
        assert_int_equal(b->unit.waits, i + 1);
        assert_int_equal(sched_stats(world.sched).stall_count, i + 1);
    }
    b->grow_failures = 1;
    for (uint32_t i = 100; i < 128; i++) {
        pass(&world);
        assert_int_equal(b->unit.waits, i + 1);
    }
    pass(&world); /* it tries, fails, and the count stays */
    assert_int_equal(b->unit.position, 0);
    assert_int_equal(b->unit.waits, 128);
    pass(&world);
    assert_true(b->unit.position > 0);
    assert_int_equal(b->unit.waits, 128);
    assert_int_equal(prefix_wait_stats(world.waits).exhausted, 1);
    destroy(&world);
}

/* Prompts of three families arrive at random, some cannot grow for a while. Who
 * waited in a pass has not started and holds no page, and whom it waited for
 * runs and waits for nobody: no ring can close. In the end all have computed.
 * [engine I42 I43 I46] */
static void nobody_waits_behind_a_waiter_nor_holds_a_page(void **state)
{
    (void)state;
    static struct world world;
    uint32_t wait_count = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng rng = rng_from_seed(seed);
        create(&world, rng_below(&rng, 2) == 0, 4096);
        for (uint32_t at = 0; at < 400; at++) {
            if (at < 100 && world.mock.count < 24 && rng_below(&rng, 3) == 0) {
                uint32_t length = 3000 + (uint32_t)rng_below(&rng, 9000);
                struct mock_unit *own =
                    add(&world, length, (uint32_t)rng_below(&rng, length));
                own->grow_failures = (uint32_t)rng_below(&rng, 3);
            }
            uint32_t before[MOCK_UNIT_MAX];
            for (uint32_t i = 0; i < world.mock.count; i++) {
                before[i] = world.mock.units[i].unit.waits;
            }
            pass(&world);
            for (uint32_t i = 0; i < world.mock.count; i++) {
                const struct mock_unit *own = &world.mock.units[i];
                if (own->unit.waits == before[i]) {
                    continue;
                }
                const struct prefix_wait_request *owner = own->prefix.owner;
                wait_count++;
                assert_false(own->unit.is_started);
                assert_int_equal(own->pages + own->reserved, 0);
                assert_true(owner->unit->is_started);
                assert_true(owner->owner == NULL ||
                            owner->planned_pass != own->prefix.planned_pass);
            }
        }
        for (uint32_t i = 0; i < world.mock.count; i++) {
            const struct sched_unit *unit = &world.mock.units[i].unit;
            assert_true(unit->position >= unit->target);
        }
        destroy(&world);
    }
    assert_true(wait_count > 100);
}

/* [engine T75] */
static void point_behind_its_owner_is_refused(void **state)
{
    (void)state;
    for (uint32_t arrival = 1; arrival <= 3; arrival += 2) {
        static struct world world;
        create(&world, true, 3000);
        struct mock_unit *a = add(&world, 10000, 10000);
        for (uint32_t i = 0; i < arrival; i++) {
            pass(&world);
        }
        struct mock_unit *b = add(&world, 9000, 8192);
        pass(&world);
        if (arrival == 3) {
            assert_int_equal(b->unit.waits, 0);
        } else {
            assert_int_equal(b->unit.waits, 1);
            pass(&world);
            assert_int_equal(b->unit.waits, 2);
            assert_int_equal(chunk(&world, a), 2240);
            pass(&world);
            assert_int_equal(b->reusable, 8192);
            assert_true(b->unit.is_started);
        }
        destroy(&world);
    }
}

/* [engine T76] */
static void cancelled_owner_leaves_what_it_published(void **state)
{
    (void)state;
    static struct world world;
    create(&world, false, 4096);
    struct mock_unit *a = add(&world, 10000, 8192);
    struct mock_unit *b = add(&world, 9000, 8192);
    pass(&world);
    prefix_wait_remove(world.waits, &a->prefix);
    a->unit.is_ready = false;
    pass(&world);
    assert_int_equal(b->unit.waits, 1);
    assert_int_equal(b->reusable, 4096);
    assert_true(b->unit.is_started);
    destroy(&world);
}

/* [engine T77] */
static void whole_prompts_share_up_to_the_last_block(void **state)
{
    (void)state;
    static struct world world;
    create(&world, true, 4096);
    struct mock_unit *a = add(&world, 10000, 10000);
    struct mock_unit *b = add(&world, 10001, 10000);
    struct mock_unit *c = add(&world, 10001, 10000);
    for (int i = 0; i < 3; i++) {
        pass(&world);
    }
    assert_int_equal(a->prefix.points[0], 9984);
    assert_int_equal(b->unit.waits, 3);
    assert_int_equal(c->unit.waits, 3);
    pass(&world);
    assert_int_equal(chunk(&world, a), 16);
    assert_int_equal(b->reusable, 9984);
    assert_int_equal(c->reusable, 9984);
    assert_true(b->unit.is_started);
    assert_true(c->unit.is_started);
    destroy(&world);
}

/* [engine T79] [engine T80] [engine T81] [engine T82] [engine I44]
 * [engine I45] */
static void who_does_not_qualify_never_waits(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        static struct world world;
        create(&world, false, 4096);
        struct mock_unit *a = add(&world, 10000, which == 0 ? 0 : 8192);
        struct mock_unit *b = add(&world, 9000, 8192);
        if (which == 1) {
            b->unit.is_multimodal = true;
        } else if (which == 2) {
            prefix_wait_remove(world.waits, &a->prefix);
            a->prefix.can_publish = false;
            prefix_wait_insert(world.waits, &a->prefix);
        } else if (which == 3) {
            a->unit.kind = SCHED_GENERATION;
            a->unit.is_started = true;
            a->unit.position = a->unit.target;
            a->reusable = UINT32_MAX;
        }
        for (int i = 0; i < 3; i++) {
            pass(&world);
        }
        assert_int_equal(b->unit.waits, 0);
        destroy(&world);
    }
}

static void kill_switch_costs_nothing(void **state)
{
    (void)state;
    struct why why;
    struct prefix_wait_options options = prefix_wait_options_default();
    options.is_enabled = false;
    struct prefix_wait *waits = NULL;
    assert_int_equal(prefix_wait_create(&options, &why, &waits), OK);
    struct sched_unit unit;
    sched_unit_init(&unit, SCHED_CONTEXT, 1);
    struct prefix_key keys[64] = {{{0}}};
    struct prefix_wait_request request = {.unit = &unit,
                                          .keys = keys,
                                          .key_count = 64,
                                          .token_count = 2048,
                                          .can_publish = true};
    struct prefix_wait_request *list[] = {&request};
    prefix_wait_insert(waits, &request);
    prefix_wait_plan(waits, list, 1, 4096);
    assert_int_equal(prefix_wait_stats(waits).entries, 0);
    assert_int_equal(prefix_wait_stats(waits).planned, 0);
    prefix_wait_destroy(waits);
}

/* [engine T45] */
static void points_merge_and_stay_apart(void **state)
{
    (void)state;
    struct why why;
    struct prefix_wait_options options = prefix_wait_options_default();
    struct prefix_wait *waits = NULL;
    assert_int_equal(prefix_wait_create(&options, &why, &waits), OK);
    struct sched_unit unit;
    sched_unit_init(&unit, SCHED_CONTEXT, 1);
    struct prefix_wait_request owner = {.unit = &unit, .token_count = 10000};
    assert_int_equal(prefix_wait_request_point(waits, &owner, 8192), 8192);
    assert_int_equal(prefix_wait_request_point(waits, &owner, 4096), 4096);
    assert_int_equal(prefix_wait_request_point(waits, &owner, 8200), 8192);
    assert_int_equal(prefix_wait_request_point(waits, &owner, 4096), 4096);
    assert_int_equal(owner.point_count, 2);
    assert_int_equal(prefix_wait_request_point(waits, &owner, 4128), 0);
    unit.position = 5000;
    assert_int_equal(prefix_wait_request_point(waits, &owner, 4096), 0);
    owner.point_count = 0;
    assert_int_equal(prefix_wait_request_point(waits, &owner, 10000), 9984);
    owner.token_count = 9984;
    owner.point_count = 0;
    assert_int_equal(prefix_wait_request_point(waits, &owner, 9984), 0);
    prefix_wait_destroy(waits);
}

/* With tokens to spare and a slow owner, computing it oneself is quicker. */
static void slow_owner_is_not_worth_waiting_for(void **state)
{
    (void)state;
    static struct world world;
    create(&world, false, 20000);
    struct mock_unit *a = add(&world, 10000, 8192);
    a->unit.is_started = true;
    a->unit.recent_tokens = 64 * 256;
    a->unit.chunk_max = 64;
    a->unit.growth = 0;
    struct mock_unit *b = add(&world, 9000, 8192);
    pass(&world);
    assert_int_equal(b->unit.waits, 0);
    assert_int_equal(prefix_wait_stats(world.waits).too_dear, 1);
    destroy(&world);
}

/* A thousand prompts of one family come and go in any order; the index agrees
 * with them after each step and is empty at the end. */
static void index_survives_any_order(void **state)
{
    (void)state;
    static struct world world;
    create(&world, false, 4096);
    for (uint32_t i = 0; i < 60; i++) {
        add(&world, 2048 + 64 * i, 64 * i);
        assert_true(prefix_wait_is_valid(world.waits));
    }
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t at = i * 37 % 60;
        prefix_wait_remove(world.waits, &world.mock.units[at].prefix);
        assert_true(prefix_wait_is_valid(world.waits));
    }
    assert_int_equal(prefix_wait_stats(world.waits).entries, 0);
    assert_int_equal(prefix_wait_stats(world.waits).requests, 0);
    destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiter_reuses_what_its_owner_computed),
        cmocka_unit_test(gain_below_64_blocks_is_not_waited_for),
        cmocka_unit_test(each_waiter_gets_its_own_point),
        cmocka_unit_test(owner_that_is_not_admitted_is_no_reason_to_wait),
        cmocka_unit_test(stuck_owner_is_waited_for_128_passes_at_most),
        cmocka_unit_test(nobody_waits_behind_a_waiter_nor_holds_a_page),
        cmocka_unit_test(point_behind_its_owner_is_refused),
        cmocka_unit_test(cancelled_owner_leaves_what_it_published),
        cmocka_unit_test(whole_prompts_share_up_to_the_last_block),
        cmocka_unit_test(who_does_not_qualify_never_waits),
        cmocka_unit_test(kill_switch_costs_nothing),
        cmocka_unit_test(points_merge_and_stay_apart),
        cmocka_unit_test(slow_owner_is_not_worth_waiting_for),
        cmocka_unit_test(index_survives_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
