#include "unit/kv/tree_world.h"

#include <stdio.h>

#include "kv/events_tree.h"

enum { B = 4, EVENT_MAX = 64 };

/* Full attention and a window of 8, with a log; blocks are named by their first
 * token in what is expected. */
struct told {
    struct world world;
    struct kv_events *events;
};

static void told_init(struct told *told)
{
    static const struct world_options OPTIONS = {
        .tokens_per_block = B,
        .life_count = 2,
        .lives = {{0}, {.window = 8}},
        .node_max = 64,
        .page_count = 64,
    };
    world_init(&told->world, &OPTIONS);
    told->events = kv_events_create(EVENT_MAX, B);
}

static void told_finish(struct told *told)
{
    world_prove(&told->world);
    kv_events_destroy(told->events);
    world_finish(&told->world);
}

/* Tells all that is new about the chain that ends at `node`. */
static void tell_chain(struct told *told, kv_node node)
{
    kv_node chain[16];
    uint32_t count = 0;
    for (; node != KV_NODE_NONE;
         node = kv_tree_parent(told->world.tree, node)) {
        chain[count++] = node;
    }
    while (count > 0) {
        count--;
        for (uint32_t life = 0; life < 2; life++) {
            kv_events_tell_stored(told->events, told->world.tree,
                                  told->world.store, chain[count], life);
        }
    }
    kv_events_flush(told->events);
}

static void on_removed(void *context, kv_node node, uint32_t life)
{
    struct told *told = context;
    kv_events_tell_removed(told->events, told->world.tree, node, life);
}

static void lose(struct told *told, kv_node node, uint32_t life)
{
    kv_ref page = kv_tree_page(told->world.tree, node, life);
    kv_tree_lose_page(told->world.tree, told->world.store, node, life,
                      on_removed, told);
    kv_store_discard(told->world.store, page);
    kv_events_flush(told->events);
}

/* Takes the log and compares: a wire event is its kind, its life cycle, and how
 * many records it has. */
static void assert_told(struct told *told, const char *text)
{
    const struct kv_event *log;
    uint32_t count = kv_events_peek(told->events, UINT32_MAX, &log);
    char line[256] = "";
    for (uint32_t i = 0; i < count;) {
        uint32_t first = i++;
        while (i < count && log[i].is_continued) {
            i++;
        }
        size_t at = strlen(line);
        snprintf(line + at, sizeof(line) - at, "%s%s/%d*%d",
                 first > 0 ? " " : "",
                 log[first].kind == KV_EVENT_STORED    ? "stored"
                 : log[first].kind == KV_EVENT_REMOVED ? "removed"
                                                       : "updated",
                 log[first].life, (int)(i - first));
    }
    assert_string_equal(line, text);
    kv_events_taken(told->events, count);
}

/* A prompt of ten tokens: one event of two full blocks a life cycle, with the
 * ids in it, and none for the tail; the scope's root stands where the first
 * block has no parent. [engine T14] */
static void test_first_commit_tells_full_blocks(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    int32_t tokens[10];
    world_fill(tokens, 1, 10);
    tell_chain(&told, world_commit(&told.world, tokens, 10));
    const struct kv_event *log;
    assert_int_equal(kv_events_peek(told.events, 64, &log), 4);
    assert_false(log[0].has_parent);
    assert_true(prefix_key_equals(&log[0].parent, &told.world.scope.root));
    assert_true(log[1].has_parent);
    assert_int_equal(log[1].ordinal, 1);
    assert_int_equal(kv_events_tokens(told.events, &log[1])[3], 8);
    assert_told(&told, "stored/0*2 stored/1*2");
    told_finish(&told);
}

/* The tail tells nothing until it is extended, then one stored event and no
 * removed one; told again it says nothing. [engine T16 T38] */
static void test_a_partial_leaf_is_told_when_extended(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    tell_chain(&told, world_commit(&told.world, tokens, 2));
    assert_told(&told, "");
    tell_chain(&told, world_commit(&told.world, tokens, 10));
    assert_told(&told, "stored/0*2 stored/1*2");
    kv_node full = world_commit(&told.world, tokens, 12);
    tell_chain(&told, full);
    assert_told(&told, "stored/0*1 stored/1*1");
    tell_chain(&told, full);
    assert_told(&told, "");
    told_finish(&told);
}

/* A full node whose windowed page covers two tokens is told for full attention
 * only; nor is the loss of that page told. [engine T38] */
static void test_a_page_that_covers_less_is_not_told(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    int32_t tokens[4];
    world_fill(tokens, 1, 4);
    world_commit(&told.world, tokens, 2);
    kv_node full =
        world_commit_as(&told.world, &told.world.scope, tokens, 4, 1u << 0);
    tell_chain(&told, full);
    assert_told(&told, "stored/0*1");
    lose(&told, full, 1);
    assert_told(&told, "");
    told_finish(&told);
}

/* The loss of the root's base page removes five announced nodes: one event a
 * life cycle, children first, and nothing of the partial one. [engine T34] */
static void test_losing_a_subtree_tells_children_first(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    int32_t tokens[14];
    world_fill(tokens, 1, 14);
    kv_node deepest = world_commit(&told.world, tokens, 14);
    tell_chain(&told, deepest);
    tokens[4] = 99;
    tell_chain(&told, world_commit(&told.world, tokens, 12));
    assert_told(&told, "stored/0*3 stored/1*3 stored/0*2 stored/1*2");
    kv_node first = deepest;
    for (int i = 0; i < 3; i++) {
        first = kv_tree_parent(told.world.tree, first);
    }
    struct prefix_key key = *kv_tree_key(told.world.tree, first);
    lose(&told, first, 0);
    const struct kv_event *log;
    assert_int_equal(kv_events_peek(told.events, 64, &log), 10);
    assert_true(prefix_key_equals(&log[4].key, &key));
    assert_told(&told, "removed/0*5 removed/1*5");
    told_finish(&told);
}

/* A windowed page that goes is told for its life cycle only, once; given anew,
 * it is told as stored again. [engine T35] */
static void test_losing_a_windowed_page_tells_its_group_only(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    int32_t tokens[12];
    world_fill(tokens, 1, 12);
    kv_node deepest = world_commit(&told.world, tokens, 12);
    tell_chain(&told, deepest);
    assert_told(&told, "stored/0*3 stored/1*3");
    kv_node middle = kv_tree_parent(told.world.tree, deepest);
    lose(&told, middle, 1);
    assert_told(&told, "removed/1*1");
    world_give_page(&told.world, middle, 1);
    tell_chain(&told, deepest);
    assert_told(&told, "stored/1*1");
    told_finish(&told);
}

/* A new rank of an announced page is told once, of an unchanged page, a partial
 * one and an orphan never. [engine T33] */
static void test_updates_are_told_of_announced_pages_only(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    const struct kv_tree *tree = told.world.tree;
    struct kv_store *store = told.world.store;
    int32_t tokens[6];
    world_fill(tokens, 1, 6);
    kv_node leaf = world_commit(&told.world, tokens, 6);
    kv_node full = kv_tree_parent(tree, leaf);
    tell_chain(&told, leaf);
    assert_told(&told, "stored/0*1 stored/1*1");
    kv_ref page = kv_tree_page(tree, full, 0);
    kv_events_tell_updated(told.events, tree, store, page, 0, 35);
    kv_store_retain(store, page, 80, UINT64_MAX);
    kv_events_tell_updated(told.events, tree, store, page, 0, 35);
    assert_told(&told, "updated/0*1");
    kv_ref partial = kv_tree_page(tree, leaf, 0);
    kv_events_tell_updated(told.events, tree, store, partial, 1, 35);
    kv_store_hold(store, partial);
    lose(&told, leaf, 0);
    kv_events_tell_updated(told.events, tree, store, partial, 1, 35);
    kv_store_unhold(store, partial);
    assert_told(&told, "");
    told_finish(&told);
}

struct listing {
    const struct told *told;
    uint32_t count;
    uint8_t lives[16];
    int32_t firsts[16];
};

static void on_listed(void *context, const struct kv_event *event)
{
    struct listing *listing = context;
    assert_int_equal(event->kind, KV_EVENT_STORED);
    listing->lives[listing->count] = event->life;
    listing->firsts[listing->count++] =
        kv_events_tokens(listing->told->events, event)[0];
}

/* The listing names what is announced, no more and no less, parents first, a
 * life cycle after the other. [engine I29] */
static void test_a_listing_names_what_is_announced(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    int32_t tokens[10];
    world_fill(tokens, 1, 10);
    kv_node leaf = world_commit(&told.world, tokens, 10);
    tell_chain(&told, leaf);
    lose(&told, kv_tree_parent(told.world.tree, leaf), 1);
    struct listing listing = {.told = &told};
    kv_events_list(told.world.tree, told.world.store, 2, on_listed, &listing);
    assert_int_equal(listing.count, 3);
    static const int32_t FIRSTS[] = {1, 5, 1};
    static const uint8_t LIVES[] = {0, 0, 1};
    assert_memory_equal(listing.firsts, FIRSTS, sizeof(FIRSTS));
    assert_memory_equal(listing.lives, LIVES, sizeof(LIVES));
    told_finish(&told);
}

/* Without a log nothing is announced and no call minds. */
static void test_nobody_listening_is_fine(void **state)
{
    (void)state;
    struct told told;
    told_init(&told);
    kv_events_destroy(told.events);
    told.events = NULL;
    int32_t tokens[4];
    world_fill(tokens, 1, 4);
    kv_node node = world_commit(&told.world, tokens, 4);
    kv_events_tell_stored(NULL, told.world.tree, told.world.store, node, 0);
    assert_false(kv_tree_is_announced(told.world.tree, node, 0));
    kv_events_tell_removed(NULL, told.world.tree, node, 0);
    kv_events_tell_updated(NULL, told.world.tree, told.world.store,
                           kv_tree_page(told.world.tree, node, 0), 1, 35);
    told_finish(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_commit_tells_full_blocks),
        cmocka_unit_test(test_a_partial_leaf_is_told_when_extended),
        cmocka_unit_test(test_a_page_that_covers_less_is_not_told),
        cmocka_unit_test(test_losing_a_subtree_tells_children_first),
        cmocka_unit_test(test_losing_a_windowed_page_tells_its_group_only),
        cmocka_unit_test(test_updates_are_told_of_announced_pages_only),
        cmocka_unit_test(test_a_listing_names_what_is_announced),
        cmocka_unit_test(test_nobody_listening_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
