#pragma once
/* A small store for tests, whose pages are known by letters, and a watch that
 * writes down what it is told: "-a" lost, "a01" moved from level 0 to 1. */
#include <stdio.h>

#include "unit/base/test.h"

#include "base/mem.h"
#include "kv/store.h"

enum { WORLD_NAME_COUNT = 128 };

struct world {
    struct kv_store *store;
    kv_ref refs[WORLD_NAME_COUNT]; /* by letter */
    char log[1024];
    /* What watch.lost discards besides, and what watch.victim answers. */
    const char *also_lost; /* "ab": with a, b goes too */
    const char *leaves; /* "ab": instead of a, b, while b is queued */
};

static inline char world_name(const struct world *world, kv_ref ref)
{
    for (int i = 0; i < WORLD_NAME_COUNT; i++) {
        if (world->refs[i] == ref) {
            return (char)i;
        }
    }
    return '?';
}

static inline void world_say(struct world *world, const char *text)
{
    size_t length = strlen(world->log);
    snprintf(world->log + length, sizeof(world->log) - length, "%s%s",
             length > 0 ? " " : "", text);
}

static inline void world_lost(void *context, kv_ref page)
{
    struct world *world = context;
    char name = world_name(world, page);
    world_say(world, (char[]){'-', name, 0});
    world->refs[(int)name] = KV_REF_NONE;
    if (world->also_lost != NULL && world->also_lost[0] == name) {
        kv_store_discard(world->store, page);
        kv_store_discard(world->store, world->refs[(int)world->also_lost[1]]);
    }
}

static inline void world_moved(void *context, kv_ref page, uint8_t from,
                               uint8_t to)
{
    struct world *world = context;
    world_say(world, (char[]){world_name(world, page), (char)('0' + from),
                              (char)('0' + to), 0});
}

static inline kv_ref world_victim(void *context, kv_ref page)
{
    struct world *world = context;
    if (world->leaves != NULL && world->leaves[0] == world_name(world, page)) {
        kv_ref leaf = world->refs[(int)world->leaves[1]];
        if (kv_store_page(world->store, leaf)->flags & KV_PAGE_QUEUED) {
            return leaf;
        }
    }
    return page;
}

/* One group of one life; `slots` by level, as many as there are. */
static inline struct kv_store_options world_options(const uint32_t *slots,
                                                    uint32_t level_count)
{
    struct kv_store_options options = {
        .life_count = 1,
        .group_count = 1,
        .level_count = level_count,
        .order_max = 16,
        .watch = {.lost = world_lost,
                  .moved = world_moved,
                  .victim = world_victim},
    };
    for (uint32_t level = 0; level < level_count; level++) {
        options.slot_counts[level][0] = slots[level];
    }
    return options;
}

static inline struct world *world_create_with(struct kv_store_options options)
{
    struct world *world = test_calloc(1, sizeof(*world));
    memset(world->refs, 0xff, sizeof(world->refs));
    options.watch.context = world;
    world->store = kv_store_create(&options);
    return world;
}

#define WORLD_OPTIONS(...)                         \
    world_options((const uint32_t[]){__VA_ARGS__}, \
                  sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
#define WORLD_CREATE(...) world_create_with(WORLD_OPTIONS(__VA_ARGS__))

static inline void world_destroy(struct world *world)
{
    assert_true(kv_store_is_valid(world->store));
    kv_store_destroy(world->store);
    test_free(world);
}

static inline enum err world_ask(struct world *world, uint32_t count,
                                 kv_ref *refs)
{
    return kv_store_take(world->store,
                         (const uint32_t[KV_LIFE_COUNT_MAX]){count}, refs);
}

/* New locked pages by these names. */
static inline void world_take(struct world *world, const char *names)
{
    kv_ref refs[32];
    assert_int_equal(world_ask(world, (uint32_t)strlen(names), refs), OK);
    for (size_t i = 0; names[i] != 0; i++) {
        world->refs[(int)names[i]] = refs[i];
    }
}

static inline void world_commit(struct world *world, const char *names)
{
    for (; *names != 0; names++) {
        kv_store_commit(world->store, world->refs[(int)*names], (kv_node)*names,
                        4);
    }
}

static inline void world_unlock(struct world *world, const char *names)
{
    for (; *names != 0; names++) {
        kv_ref ref = world->refs[(int)*names];
        kv_store_unlock(world->store, ref);
        if (kv_store_page(world->store, ref)->flags == 0) {
            world->refs[(int)*names] = KV_REF_NONE; /* freed */
        }
    }
}

static inline void world_suspend(struct world *world, const char *names)
{
    for (; *names != 0; names++) {
        kv_store_unlock_to_hold(world->store, world->refs[(int)*names]);
    }
}

/* Committed pages that nobody uses, released in this order. */
static inline void world_cache(struct world *world, const char *names)
{
    world_take(world, names);
    world_commit(world, names);
    world_unlock(world, names);
}

static inline enum err world_lock(struct world *world, const char *names)
{
    kv_ref refs[32];
    uint32_t count = (uint32_t)strlen(names);
    for (uint32_t i = 0; i < count; i++) {
        refs[i] = world->refs[(int)names[i]];
    }
    return kv_store_lock(world->store, refs, count,
                         (const uint32_t[KV_LIFE_COUNT_MAX]){0}, NULL);
}

static inline const struct kv_page *world_page(const struct world *world,
                                               char name)
{
    return kv_store_page(world->store, world->refs[(int)name]);
}

/* The copy engine catches up, in the order of the orders. */
static inline void world_copy(struct world *world)
{
    uint32_t count;
    const struct kv_order *orders = kv_store_orders(world->store, &count);
    kv_ticket last = count > 0 ? orders[count - 1].ticket : 0;
    kv_ticket first = count > 0 ? orders[0].ticket : 1;
    kv_store_orders_taken(world->store, count);
    for (kv_ticket t = first; t <= last; t++) {
        kv_store_order_done(world->store, t, true);
    }
}

#define assert_queue(world, level, names)                         \
    do {                                                          \
        kv_ref queue_[32];                                        \
        char text_[33] = {0};                                     \
        uint32_t count_ =                                         \
            kv_store_queue((world)->store, level, 0, 32, queue_); \
        for (uint32_t i_ = 0; i_ < count_; i_++) {                \
            text_[i_] = world_name(world, queue_[i_]);            \
        }                                                         \
        assert_string_equal(text_, names);                        \
    } while (0)

/* What was told since the last time. */
#define assert_log(world, text)                  \
    do {                                         \
        assert_string_equal((world)->log, text); \
        (world)->log[0] = 0;                     \
    } while (0)
