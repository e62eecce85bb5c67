/* The scheduler's pass against a cache that only counts pages: the table tests
 * of the engine's specification, each a few lines of state and the plan that
 * must come of it. */
#include "unit/engine/schedule_mock.h"

static struct sched_options options_of(enum sched_policy policy)
{
    struct sched_options options = sched_options_default();
    options.policy = policy;
    options.unit_max = MOCK_UNIT_MAX;
    options.is_shortest_first = false;
    return options;
}

static struct sched *create(const struct sched_options *options)
{
    struct why why;
    struct sched *sched = NULL;
    assert_int_equal(sched_create(options, NULL, &why, &sched), OK);
    return sched;
}

/* [engine T53] */
static void decodes_stop_at_the_token_budget(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    for (int i = 0; i < 5; i++) {
        mock_add(&mock, SCHED_GENERATION, 10);
    }
    mock.budget.tokens = 3;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->decode_count, 3);
    /* Who was left out goes first next time. */
    plan = mock_pass(&mock, sched);
    assert_true(mock_decodes(plan, &mock.units[3]));
    assert_true(mock_decodes(plan, &mock.units[4]));
    sched_destroy(sched);
}

/* [engine T54] */
static void draft_tokens_cost_tokens(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    for (int i = 0; i < 2; i++) {
        mock_add(&mock, SCHED_GENERATION, 10)->unit.draft = 3;
    }
    mock.budget.tokens = 5;
    assert_int_equal(mock_pass(&mock, sched)->decode_count, 1);
    sched_destroy(sched);
}

/* [engine T55] */
static void unchunked_prompt_goes_whole_with_its_draft_or_not(void **state)
{
    (void)state;
    static const struct {
        uint32_t draft, chunk;
    } CASES[] = {{30, 0}, {20, 80}};
    for (size_t i = 0; i < 2; i++) {
        struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
        options.is_chunked = false;
        struct sched *sched = create(&options);
        struct mock mock;
        mock_init(&mock, 32);
        struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 80);
        prompt->unit.draft = CASES[i].draft;
        mock.budget.tokens = 100;
        const struct sched_plan *plan = mock_pass(&mock, sched);
        assert_int_equal(mock_chunk(plan, prompt), CASES[i].chunk);
        assert_int_equal(prompt->unit.is_started, CASES[i].chunk > 0);
        sched_destroy(sched);
    }
}

/* [engine T56] */
static void decode_leaves_the_rest_to_the_prompt(void **state)
{
    (void)state;
    static const struct {
        uint32_t tokens, chunk;
    } CASES[] = {{110, 100}, {100, 96}};
    for (size_t i = 0; i < 2; i++) {
        struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
        struct sched *sched = create(&options);
        struct mock mock;
        mock_init(&mock, 32);
        mock_add(&mock, SCHED_GENERATION, 10);
        struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 100);
        mock.budget.tokens = CASES[i].tokens;
        const struct sched_plan *plan = mock_pass(&mock, sched);
        assert_int_equal(plan->decode_count, 1);
        assert_int_equal(mock_chunk(plan, prompt), CASES[i].chunk);
        sched_destroy(sched);
    }
}

/* gen0, gen1 and 99; gen1 fails to grow `failures` times. */
static struct sched *evict_rig(struct mock *mock, uint32_t failures)
{
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    mock_init(mock, 32);
    mock_add(mock, SCHED_GENERATION, 10);
    mock_add(mock, SCHED_GENERATION, 10)->grow_failures = failures;
    mock_add(mock, SCHED_GENERATION, 10);
    return create(&options);
}

/* [engine T57] */
static void decode_that_cannot_grow_puts_the_youngest_away(void **state)
{
    (void)state;
    struct mock mock;
    struct sched *sched = evict_rig(&mock, 1);
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->decode_count, 2);
    assert_true(mock_decodes(plan, &mock.units[0]));
    assert_true(mock_decodes(plan, &mock.units[1]));
    assert_int_equal(plan->suspended_count, 1);
    assert_ptr_equal(plan->suspended[0], &mock.units[2].unit);
    assert_int_equal(plan->paused_count, 0);
    sched_destroy(sched);
}

/* [engine T58] */
static void when_that_does_not_help_it_goes_away_itself(void **state)
{
    (void)state;
    struct mock mock;
    struct sched *sched = evict_rig(&mock, 9);
    mock.units[2].unit.is_replayable = false;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->decode_count, 1);
    assert_true(mock_decodes(plan, &mock.units[0]));
    assert_int_equal(plan->suspended_count, 2);
    assert_true(mock_has_unit(plan->suspended, 2, &mock.units[1]));
    assert_true(mock_has_unit(plan->suspended, 2, &mock.units[2]));
    sched_destroy(sched);
}

/* [engine T59] */
static void pause_frees_what_suspending_does_not(void **state)
{
    (void)state;
    struct mock mock;
    struct sched *sched = evict_rig(&mock, 2);
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->decode_count, 2);
    assert_int_equal(plan->paused_count, 1);
    assert_ptr_equal(plan->paused[0], &mock.units[2].unit);
    assert_int_equal(plan->suspended_count, 0);
    assert_false(mock.units[2].unit.is_started);
    sched_destroy(sched);
}

/* [engine T60] [engine T61] [engine T32] */
static void pictures_finishing_and_sending_ones_are_never_paused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mock mock;
        struct sched *sched = evict_rig(&mock, 9);
        struct sched_unit *victim = &mock.units[2].unit;
        mock.has_lower_level = false;
        victim->is_multimodal = i == 0;
        victim->is_finishing = i == 1;
        victim->has_session = i == 2;
        const struct sched_plan *plan = mock_pass(&mock, sched);
        assert_int_equal(plan->paused_count, 0);
        assert_true(victim->is_started);
        assert_int_equal(plan->suspended_count, 1);
        assert_ptr_equal(plan->suspended[0], &mock.units[1].unit);
        sched_destroy(sched);
    }
}

/* One whose pages a transfer reads is not put away either, though there is a
 * level below: the decode that cannot grow goes itself. [transfer T69] */
static void what_a_transfer_reads_is_not_put_away(void **state)
{
    (void)state;
    struct mock mock;
    struct sched *sched = evict_rig(&mock, 9);
    mock.units[2].unit.has_session = true;
    mock.has_lower_level = true;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->suspended_count, 1);
    assert_ptr_equal(plan->suspended[0], &mock.units[1].unit);
    assert_int_equal(plan->paused_count, 0);
    assert_true(mock_decodes(plan, &mock.units[2]));
    sched_destroy(sched);
}

/* A prompt that is sent while it is computed starts with all of its pages set
 * aside, whatever the policy: it will not wait for any. [transfer T69] */
static void a_stream_starts_with_all_its_pages(void **state)
{
    (void)state;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
        struct sched *sched = create(&options);
        struct mock mock;
        mock_init(&mock, 32);
        mock.page_count = 100;
        mock.budget.tokens = 64;
        struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 1000);
        prompt->unit.has_session = is_stream == 1;
        assert_int_equal(mock_chunk(mock_pass(&mock, sched), prompt), 64);
        assert_int_equal(prompt->reserved, is_stream ? 32 : 0);
        sched_destroy(sched);
    }
}

static void three_prompts(struct mock *mock, uint32_t reusable)
{
    mock_init(mock, 32);
    mock->page_count = 100;
    for (int i = 0; i < 3; i++) {
        mock_add(mock, SCHED_CONTEXT, 1000)->unit.growth = 600;
    }
    mock->units[2].reusable = reusable;
}

/* [engine T62] */
static void no_evict_admits_what_fits_to_its_end(void **state)
{
    (void)state;
    static const uint32_t REUSABLE[] = {0, 16 * 32};
    for (size_t i = 0; i < 2; i++) {
        struct sched_options options = options_of(SCHED_GUARANTEED_NO_EVICT);
        struct sched *sched = create(&options);
        struct mock mock;
        three_prompts(&mock, REUSABLE[i]);
        const struct sched_plan *plan = mock_pass(&mock, sched);
        assert_int_equal(plan->chunk_count, 2);
        assert_int_equal(mock_chunk(plan, &mock.units[2]), 0);
        assert_false(mock.units[2].unit.is_started);
        sched_destroy(sched);
    }
}

/* [engine T63] */
static void max_utilization_admits_on_what_is_needed_now(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    three_prompts(&mock, 0);
    assert_int_equal(mock_pass(&mock, sched)->chunk_count, 3);
    assert_int_equal(mock_used(&mock), 96);
    sched_destroy(sched);
}

/* [engine T64] */
static void prompt_that_does_not_fit_whole_takes_nothing(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock.page_count = 50000 / 32;
    struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 120000);
    mock.budget.tokens = 4096;
    assert_int_equal(mock_pass(&mock, sched)->chunk_count, 0);
    assert_int_equal(prompt->pages + prompt->reserved, 0);
    assert_false(prompt->unit.is_started);
    sched_destroy(sched);
}

/* [engine T65] */
static void first_chunk_that_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 1000);
    prompt->reusable = 320;
    prompt->grow_failures = 1;
    assert_int_equal(mock_pass(&mock, sched)->chunk_count, 0);
    assert_int_equal(prompt->unit.position, 0);
    assert_false(prompt->unit.is_started);
    assert_int_equal(mock_pass(&mock, sched)->chunk_count, 1);
    assert_int_equal(prompt->unit.position, 320);
    sched_destroy(sched);
}

/* [engine T66] */
static void prompt_that_preempts_gets_the_pages_next_time(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock.has_lower_level = false;
    struct mock_unit *a = mock_add(&mock, SCHED_CONTEXT, 640);
    struct mock_unit *b = mock_add(&mock, SCHED_CONTEXT, 64);
    struct mock_unit *z = mock_add(&mock, SCHED_GENERATION, 320);
    a->unit.is_started = true;
    a->grow_failures = 1;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    /* Z decodes in this pass already: it is not taken from under it. */
    assert_true(mock_decodes(plan, z));
    assert_int_equal(plan->paused_count, 0);
    z->unit.kind = SCHED_CONTEXT;
    z->unit.target = 640;
    a->grow_failures = 1;
    b->unit.is_started = false;
    b->unit.position = 0;
    plan = mock_pass(&mock, sched);
    assert_int_equal(plan->paused_count, 1);
    assert_ptr_equal(plan->paused[0], &z->unit);
    assert_int_equal(plan->chunk_count, 0);
    plan = mock_pass(&mock, sched);
    assert_true(mock_chunk(plan, a) > 0);
    sched_destroy(sched);
}

/* [engine T67] */
static void nothing_for_a_thousand_passes_is_said_loudly(void **state)
{
    (void)state;
    for (int with_transfer = 0; with_transfer < 2; with_transfer++) {
        struct sched_options options = options_of(SCHED_GUARANTEED_NO_EVICT);
        struct sched *sched = create(&options);
        struct mock mock;
        mock_init(&mock, 32);
        mock.page_count = 4;
        mock_add(&mock, SCHED_CONTEXT, 1000);
        uint32_t warnings = 0;
        for (int i = 1; i <= 999; i++) {
            mock.budget.is_transfer_pending = with_transfer && i == 500;
            const struct sched_plan *plan = mock_pass(&mock, sched);
            assert_false(plan->is_stalled);
            warnings += plan->is_stall_warning;
        }
        assert_int_equal(mock_pass(&mock, sched)->is_stalled, !with_transfer);
        assert_int_equal(warnings, with_transfer ? 2 : 3);
        sched_destroy(sched);
    }
}

/* [engine T68] */
static void span_is_never_cut(void **state)
{
    (void)state;
    static const struct {
        uint32_t first, end, position, tokens, chunk;
    } CASES[] = {{90, 130, 0, 100, 64},
                 {90, 130, 0, 128, 64},
                 {90, 130, 0, 160, 160},
                 {90, 230, 96, 64, 0}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
        struct sched *sched = create(&options);
        struct mock mock;
        mock_init(&mock, 32);
        struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 1000);
        prompt->unit.is_started = CASES[i].position > 0;
        prompt->unit.position = CASES[i].position;
        prompt->unit.span_first = CASES[i].first;
        prompt->unit.span_end = CASES[i].end;
        mock.budget.tokens = CASES[i].tokens;
        const struct sched_plan *plan = mock_pass(&mock, sched);
        assert_int_equal(mock_chunk(plan, prompt), CASES[i].chunk);
        sched_destroy(sched);
    }
}

/* [engine T69] */
static void receives_go_through_a_window_in_order(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_GUARANTEED_NO_EVICT);
    options.receive_window_tokens = 320;
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock_add(&mock, SCHED_RECEIVE, 6 * 32);
    mock_add(&mock, SCHED_RECEIVE, 6 * 32);
    mock_add(&mock, SCHED_RECEIVE, 3 * 32);
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->receive_count, 1);
    assert_ptr_equal(plan->receives[0], &mock.units[0].unit);
    sched_destroy(sched);

    sched = create(&options);
    mock_init(&mock, 32);
    mock_add(&mock, SCHED_RECEIVE, 12 * 32);
    mock_add(&mock, SCHED_RECEIVE, 32);
    plan = mock_pass(&mock, sched);
    assert_int_equal(plan->receive_count, 1);
    assert_ptr_equal(plan->receives[0], &mock.units[0].unit);
    sched_destroy(sched);
}

/* A prompt that was put away comes back, finds no page to go on, and is paused
 * in the same pass because nobody moves: what it was given is gone, so the veto
 * leaves it as it is, without pages and waiting. [engine I39] */
static void veto_finds_nothing_of_what_was_paused(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 4);
    mock.page_count = 10;
    struct mock_unit *own = mock_add(&mock, SCHED_CONTEXT, 100);
    own->unit.is_started = true;
    own->unit.position = 8;
    own->pages = 2;
    own->grow_failures = UINT32_MAX;
    bool is_paused = false;
    for (uint32_t i = 0; i < 8 && !is_paused; i++) {
        own->unit.is_suspended = true;
        is_paused = mock_pass(&mock, sched)->paused_count == 1;
    }
    assert_true(is_paused);
    sched_veto(sched, &mock.cache);
    assert_false(own->unit.is_suspended);
    assert_false(own->unit.is_started);
    assert_int_equal(mock_used(&mock), 0);
    sched_destroy(sched);
}

/* A prompt under way has found too few pages for long: one that is younger and
 * would fit does not begin, although nothing is promised to anybody; once the old
 * one has gone on, it does. */
static void starved_prompt_holds_back_those_that_have_not_begun(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 4);
    mock.page_count = 20;
    mock.budget.is_transfer_pending = true; /* no jam: nobody is paused */
    struct mock_unit *old = mock_add(&mock, SCHED_CONTEXT, 80);
    old->unit.is_started = true;
    old->unit.position = 40;
    old->pages = 10;
    struct mock_unit *busy = mock_add(&mock, SCHED_GENERATION, 32);
    busy->unit.is_in_flight = true;
    for (uint32_t i = 0; i < options.starved_passes; i++) {
        assert_int_equal(mock_pass(&mock, sched)->chunk_count, 0);
    }
    struct mock_unit *young = mock_add(&mock, SCHED_CONTEXT, 8);
    assert_int_equal(mock_pass(&mock, sched)->chunk_count, 0);
    assert_false(young->unit.is_started);
    busy->pages = 0;
    mock.page_count = 24;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(mock_chunk(plan, old), 40);
    mock_apply(plan);
    assert_int_equal(mock_chunk(mock_pass(&mock, sched), young), 8);
    sched_destroy(sched);
}

/* Three decodes, a prompt and a receive get pages, then the group says no: what
 * was free before is free again. [engine T86]
 * [engine I39] */
static void veto_gives_everything_back(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_GUARANTEED_NO_EVICT);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 4);
    mock.page_count = 1000;
    for (uint32_t i = 0; i < 3; i++) {
        mock_add(&mock, SCHED_GENERATION, 8);
    }
    mock_add(&mock, SCHED_CONTEXT, 100);
    mock_add(&mock, SCHED_RECEIVE, 50);
    uint32_t before = mock_used(&mock);
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->decode_count, 3);
    assert_int_equal(plan->chunk_count, 1);
    assert_int_equal(plan->receive_count, 1);
    assert_true(mock_used(&mock) > before);
    sched_veto(sched, &mock.cache);
    assert_int_equal(mock_used(&mock), before);
    assert_false(mock.units[3].unit.is_started);
    assert_false(mock.units[4].unit.is_started);
    plan = mock_pass(&mock, sched);
    assert_int_equal(plan->decode_count, 3);
    assert_int_equal(plan->chunk_count, 1);
    sched_destroy(sched);
}

/* Short prompts pass a long one that had all tokens of four passes, four times;
 * then it has its turn again. */
static void long_prompt_yields_but_not_for_ever(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    options.is_shortest_first = true;
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock.budget.tokens = 64;
    struct mock_unit *large = mock_add(&mock, SCHED_CONTEXT, 10000);
    for (int i = 0; i < 4; i++) {
        mock_apply(mock_pass(&mock, sched));
    }
    assert_int_equal(large->unit.position, 256);
    uint32_t passed = 0;
    for (int i = 0; i < 6; i++) {
        mock_add(&mock, SCHED_CONTEXT, 64);
        const struct sched_plan *plan = mock_pass(&mock, sched);
        passed += mock_chunk(plan, large) == 0;
        mock_apply(plan);
        mock.count = 1; /* the short ones are done */
    }
    assert_int_equal(passed, 4);
    assert_int_equal(large->unit.position, 384);
    sched_destroy(sched);
}

/* A prompt that was passed over 64 times goes before shorter ones. */
static void starved_prompt_goes_first(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    options.is_shortest_first = true;
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock.budget.tokens = 64;
    struct mock_unit *old = mock_add(&mock, SCHED_CONTEXT, 640);
    uint32_t passes = 0;
    while (old->unit.position == 0) {
        mock.count = 1;
        mock_add(&mock, SCHED_CONTEXT, 64);
        mock_apply(mock_pass(&mock, sched));
        passes++;
        assert_true(passes <= 65);
    }
    assert_int_equal(passes, 65);
    sched_destroy(sched);
}

static uint32_t probe_last(void *context, const struct sched_unit *unit)
{
    return unit->probed == 0 ? mock_probe(context, unit) : unit->probed;
}

/* A cache that has nothing new to say may repeat what it said: the answer of the
 * last pass is still there when it is asked. */
static void last_answer_is_there_when_the_cache_is_asked(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_MAX_UTILIZATION);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock.cache.probe = probe_last;
    mock.page_count = 4;
    struct mock_unit *prompt = mock_add(&mock, SCHED_CONTEXT, 1000);
    prompt->reusable = 320;
    mock_pass(&mock, sched);
    assert_int_equal(prompt->unit.probed, 320);
    prompt->reusable = 0;
    mock_pass(&mock, sched);
    assert_int_equal(prompt->unit.probed, 320);
    sched_destroy(sched);
}

/* Put away in one pass, it may not push others out for 32. */
static void suspended_one_does_not_push_back(void **state)
{
    (void)state;
    struct mock mock;
    struct sched *sched = evict_rig(&mock, 9);
    for (int i = 0; i < 3; i++) {
        mock.units[i].unit.is_replayable = false;
    }
    mock_pass(&mock, sched); /* 1 and 2 are away */
    mock.units[1].grow_failures = 1000;
    for (int i = 1; i < 32; i++) {
        const struct sched_plan *plan = mock_pass(&mock, sched);
        assert_true(mock_decodes(plan, &mock.units[0]));
        assert_true(mock_decodes(plan, &mock.units[2]));
        assert_false(mock_decodes(plan, &mock.units[1]));
        assert_false(mock_has_unit(plan->suspended, plan->suspended_count,
                                   &mock.units[2]));
    }
    sched_destroy(sched);
}

/* Freed pages that are still on their way stop further preemption. */
static void pending_free_pages_are_waited_for(void **state)
{
    (void)state;
    struct mock mock;
    struct sched *sched = evict_rig(&mock, 9);
    mock.pending_free = 3;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_false(mock_decodes(plan, &mock.units[1]));
    assert_int_equal(plan->suspended_count + plan->paused_count, 0);
    sched_destroy(sched);
}

/* A younger prompt may not take the pages that an older receive waits for. */
static void receive_without_pages_holds_back_the_younger(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_GUARANTEED_NO_EVICT);
    struct sched *sched = create(&options);
    struct mock mock;
    mock_init(&mock, 32);
    mock.page_count = 10;
    struct mock_unit *older = mock_add(&mock, SCHED_CONTEXT, 64);
    mock_add(&mock, SCHED_RECEIVE, 320);
    mock_add(&mock, SCHED_CONTEXT, 64);
    older->unit.is_started = true;
    older->reserved = 2;
    const struct sched_plan *plan = mock_pass(&mock, sched);
    assert_int_equal(plan->receive_count, 0);
    assert_int_equal(plan->chunk_count, 1);
    assert_int_equal(mock_chunk(plan, older), 64);
    sched_destroy(sched);
}

/* After the first twenty the longest of them is set aside. Nineteen of twenty
 * answers are short: the reserve comes down to that. */
static void overcommit_learns_how_long_answers_are(void **state)
{
    (void)state;
    struct sched_options options = options_of(SCHED_BOUNDED_OVERCOMMIT);
    options.seq_tokens_max = 4096;
    struct sched *sched = create(&options);
    for (uint32_t i = 0; i < 19; i++) {
        assert_int_equal(sched_reserve_tokens(sched, 100, 1000), 1100);
        sched_learn_length(sched, i == 7 ? 300 : 100);
    }
    sched_learn_length(sched, 100);
    assert_int_equal(sched_reserve_tokens(sched, 100, 1000), 400);
    for (uint32_t i = 0; i < 40000; i++) {
        sched_learn_length(sched, i % 25 == 0 ? 2000 : 100);
    }
    uint32_t reserve = sched_reserve_tokens(sched, 100, 1000);
    assert_true(reserve >= 200);
    assert_true(reserve < 400);
    sched_destroy(sched);
}

static void refuses_limits_that_make_no_sense(void **state)
{
    (void)state;
    struct why why;
    struct sched *sched = NULL;
    struct sched_options options = sched_options_default();
    options.chunk_unit = 0;
    assert_int_equal(sched_create(&options, NULL, &why, &sched), ERR_INVALID);
    assert_non_null(strstr(why.text, "chunk_unit 0"));
    options = sched_options_default();
    options.stall_passes = 3;
    assert_int_equal(sched_create(&options, NULL, &why, &sched), ERR_INVALID);
    assert_non_null(strstr(why.text, "stall_passes is 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_stop_at_the_token_budget),
        cmocka_unit_test(draft_tokens_cost_tokens),
        cmocka_unit_test(unchunked_prompt_goes_whole_with_its_draft_or_not),
        cmocka_unit_test(decode_leaves_the_rest_to_the_prompt),
        cmocka_unit_test(decode_that_cannot_grow_puts_the_youngest_away),
        cmocka_unit_test(when_that_does_not_help_it_goes_away_itself),
        cmocka_unit_test(pause_frees_what_suspending_does_not),
        cmocka_unit_test(pictures_finishing_and_sending_ones_are_never_paused),
        cmocka_unit_test(what_a_transfer_reads_is_not_put_away),
        cmocka_unit_test(a_stream_starts_with_all_its_pages),
        cmocka_unit_test(no_evict_admits_what_fits_to_its_end),
        cmocka_unit_test(max_utilization_admits_on_what_is_needed_now),
        cmocka_unit_test(prompt_that_does_not_fit_whole_takes_nothing),
        cmocka_unit_test(first_chunk_that_fails_leaves_nothing_behind),
        cmocka_unit_test(prompt_that_preempts_gets_the_pages_next_time),
        cmocka_unit_test(nothing_for_a_thousand_passes_is_said_loudly),
        cmocka_unit_test(span_is_never_cut),
        cmocka_unit_test(receives_go_through_a_window_in_order),
        cmocka_unit_test(veto_finds_nothing_of_what_was_paused),
        cmocka_unit_test(starved_prompt_holds_back_those_that_have_not_begun),
        cmocka_unit_test(veto_gives_everything_back),
        cmocka_unit_test(long_prompt_yields_but_not_for_ever),
        cmocka_unit_test(starved_prompt_goes_first),
        cmocka_unit_test(last_answer_is_there_when_the_cache_is_asked),
        cmocka_unit_test(suspended_one_does_not_push_back),
        cmocka_unit_test(pending_free_pages_are_waited_for),
        cmocka_unit_test(receive_without_pages_holds_back_the_younger),
        cmocka_unit_test(overcommit_learns_how_long_answers_are),
        cmocka_unit_test(refuses_limits_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
