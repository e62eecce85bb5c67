#pragma once
/* A cache for scheduler tests that counts pages and nothing else: what a unit
 * has, what is set aside for it, what was put away. A test may script failures
 * of its own on top. */
#include "unit/base/test.h"

#include "engine/prefix_wait.h"
#include "engine/schedule.h"

enum { MOCK_UNIT_MAX = 64 };

struct mock_unit {
    struct sched_unit unit;
    struct prefix_wait_request prefix;
    uint32_t pages, pages_before; /* before the last grow */
    uint32_t reserved;
    uint32_t reusable; /* tokens that a look-up finds */
    uint32_t grow_failures; /* so many grows fail yet */
    bool cannot_resume;
};

struct mock {
    struct mock_unit units[MOCK_UNIT_MAX];
    struct sched_unit *list[MOCK_UNIT_MAX];
    uint32_t count;
    uint32_t tokens_per_block;
    uint32_t page_count; /* UINT32_MAX: as many as anybody asks for */
    uint32_t pending_free;
    bool has_lower_level;
    struct sched_cache cache;
    struct sched_budget budget;
};

static inline struct mock_unit *mock_of(const struct sched_unit *unit)
{
    return unit->owner;
}

static inline uint32_t mock_blocks(const struct mock *mock, uint32_t tokens)
{
    return (tokens + mock->tokens_per_block - 1) / mock->tokens_per_block;
}

static inline uint32_t mock_max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Pages put away count only where they have nowhere to go. */
static inline uint32_t mock_used(const struct mock *mock)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < mock->count; i++) {
        const struct mock_unit *unit = &mock->units[i];
        bool is_away = unit->unit.is_suspended && mock->has_lower_level;
        used += is_away ? 0 : mock_max(unit->pages, unit->reserved);
    }
    return used;
}

static inline bool mock_has(const struct mock *mock, uint32_t more)
{
    return mock->page_count == UINT32_MAX ||
           mock_used(mock) + more <= mock->page_count;
}

static inline uint32_t mock_probe(void *context, const struct sched_unit *unit)
{
    (void)context;
    return mock_of(unit)->reusable;
}

static inline enum err mock_start(void *context, struct sched_unit *unit,
                                  uint32_t reserve_tokens, uint32_t *reused_out)
{
    const struct mock *mock = context;
    struct mock_unit *own = mock_of(unit);
    uint32_t shared = own->reusable / mock->tokens_per_block;
    uint32_t reserve = mock_blocks(mock, reserve_tokens);
    reserve = reserve > shared ? reserve - shared : 0;
    if (!mock_has(mock, reserve)) {
        return ERR_FULL;
    }
    own->reserved = reserve;
    *reused_out = own->reusable;
    return OK;
}

static inline enum err mock_grow(void *context, struct sched_unit *unit,
                                 uint32_t capacity)
{
    const struct mock *mock = context;
    struct mock_unit *own = mock_of(unit);
    uint32_t need =
        mock_blocks(mock, capacity) - own->reusable / mock->tokens_per_block;
    uint32_t held = mock_max(own->pages, own->reserved);
    if (own->grow_failures > 0) {
        own->grow_failures--;
        return ERR_FULL;
    }
    if (need > held && !mock_has(mock, need - held)) {
        return ERR_FULL;
    }
    own->pages_before = own->pages;
    own->pages = mock_max(need, own->pages);
    return OK;
}

static inline void mock_revert(void *context, struct sched_unit *unit)
{
    (void)context;
    mock_of(unit)->pages = mock_of(unit)->pages_before;
}

static inline void mock_release(void *context, struct sched_unit *unit)
{
    (void)context;
    mock_of(unit)->pages = 0;
    mock_of(unit)->reserved = 0;
    unit->position = 0;
}

static inline void mock_suspend(void *context, struct sched_unit *unit)
{
    (void)context;
    (void)unit;
}

static inline enum err mock_resume(void *context, struct sched_unit *unit)
{
    const struct mock *mock = context;
    struct mock_unit *own = mock_of(unit);
    uint32_t need = mock->has_lower_level ? own->pages : 0;
    return own->cannot_resume || !mock_has(mock, need) ? ERR_FULL : OK;
}

static inline bool mock_fits(void *context, const struct sched_unit *unit,
                             uint32_t tokens)
{
    (void)unit;
    return mock_has(context, mock_blocks(context, tokens));
}

static inline uint32_t mock_pending_free(void *context)
{
    return ((const struct mock *)context)->pending_free;
}

static inline uint32_t mock_committed(void *context)
{
    const struct mock *mock = context;
    return mock->page_count == UINT32_MAX
               ? 0
               : mock_used(mock) * 1000 / mock->page_count;
}

static inline void mock_init(struct mock *mock, uint32_t tokens_per_block)
{
    *mock = (struct mock){.tokens_per_block = tokens_per_block,
                          .page_count = UINT32_MAX,
                          .has_lower_level = true};
    mock->cache = (struct sched_cache){.probe = mock_probe,
                                       .start = mock_start,
                                       .grow = mock_grow,
                                       .revert = mock_revert,
                                       .release = mock_release,
                                       .suspend = mock_suspend,
                                       .resume = mock_resume,
                                       .fits = mock_fits,
                                       .pending_free = mock_pending_free,
                                       .committed = mock_committed,
                                       .context = mock};
    mock->budget = (struct sched_budget){
        .tokens = UINT32_MAX, .requests = UINT32_MAX, .rows = UINT32_MAX};
}

static inline struct mock_unit *mock_add(struct mock *mock,
                                         enum sched_kind kind, uint32_t tokens)
{
    assert_true(mock->count < MOCK_UNIT_MAX);
    struct mock_unit *own = &mock->units[mock->count];
    sched_unit_init(&own->unit, kind, mock->count + 1);
    own->unit.owner = own;
    own->unit.is_replayable = true;
    mock->list[mock->count++] = &own->unit;
    if (kind == SCHED_GENERATION) {
        own->unit.is_started = true;
        own->unit.position = tokens;
        own->pages = mock_blocks(mock, tokens);
    } else {
        own->unit.target = tokens;
    }
    return own;
}

static inline const struct sched_plan *mock_pass(struct mock *mock,
                                                 struct sched *sched)
{
    mock->cache.has_lower_level = mock->has_lower_level;
    return sched_pass(sched, mock->list, mock->count, &mock->budget,
                      &mock->cache);
}

/* What the model did: positions go on, prompts that are complete decode. */
static inline void mock_apply(const struct sched_plan *plan)
{
    for (uint32_t i = 0; i < plan->decode_count; i++) {
        plan->decodes[i].unit->position++;
    }
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        struct sched_unit *unit = plan->chunks[i].unit;
        unit->position += plan->chunks[i].count;
        if (plan->chunks[i].is_last) {
            unit->kind = SCHED_GENERATION;
        }
    }
}

static inline uint32_t mock_chunk(const struct sched_plan *plan,
                                  const struct mock_unit *own)
{
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        if (plan->chunks[i].unit == &own->unit) {
            return plan->chunks[i].count;
        }
    }
    return 0;
}

static inline bool mock_decodes(const struct sched_plan *plan,
                                const struct mock_unit *own)
{
    for (uint32_t i = 0; i < plan->decode_count; i++) {
        if (plan->decodes[i].unit == &own->unit) {
            return true;
        }
    }
    return false;
}

static inline bool mock_has_unit(struct sched_unit *const *units,
                                 uint32_t count, const struct mock_unit *own)
{
    for (uint32_t i = 0; i < count; i++) {
        if (units[i] == &own->unit) {
            return true;
        }
    }
    return false;
}
