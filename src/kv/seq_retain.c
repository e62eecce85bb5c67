/* Ranks of pages (engine.md 1.10, 6.4): what a request's rules ask for, and that no
 * node ranks below one that stands on it, now or when a rank ends. Ends are whole
 * seconds, so that one is known exactly from 32 bits. */
#include "kv/manager_state.h"

static const struct kv_rank DEFAULT_RANK = {KV_PRIORITY_DEFAULT, 0};

static struct kv_rank of_rule(const struct kv_manager *manager,
                              const struct kv_retention *rule)
{
    uint64_t now = manager->now_ms;
    uint64_t end = now + rule->duration_ms;
    struct kv_rank rank = {rule->priority, 0};
    if (rule->duration_ms == 0 || rule->priority == KV_PRIORITY_DEFAULT) {
        return DEFAULT_RANK;
    }
    if (end >= now && end / 1000 < UINT32_MAX - 1) {
        rank.until_s = (uint32_t)(end / 1000) + (end % 1000 > 0);
    }
    return rank;
}

/* The highest of the rules that touch the block. */
static struct kv_rank wish(const struct kv_manager *manager,
                           const struct kv_seq *seq, uint32_t block)
{
    uint64_t first = (uint64_t)block * kv_block_tokens(manager);
    uint64_t end = first + kv_block_tokens(manager);
    const struct kv_retention_plan *plan = &seq->inside->retention;
    if (first >= seq->inside->ruled_tokens) {
        return plan->has_generated ? of_rule(manager, &plan->generated)
                                   : DEFAULT_RANK;
    }
    const struct kv_retention *best = NULL;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        const struct kv_retention *rule = &plan->rules[i];
        bool is_touched = rule->first_token < end && first < rule->end_token;
        if (is_touched && (best == NULL || rule->priority > best->priority)) {
            best = rule;
        }
    }
    return best == NULL ? DEFAULT_RANK : of_rule(manager, best);
}

struct kv_rank kv_rank_of(const struct kv_manager *manager, kv_ref page)
{
    uint8_t priority = kv_manager_page(manager, page)->priority;
    if (priority == KV_PRIORITY_DEFAULT) {
        return DEFAULT_RANK;
    }
    uint64_t expiry_ms = kv_store_expiry(manager->store, page);
    bool is_for_good = expiry_ms == UINT64_MAX;
    return (struct kv_rank){priority,
                            is_for_good ? 0 : (uint32_t)(expiry_ms / 1000)};
}

static void set_rank(struct kv_manager *manager, kv_ref page,
                     struct kv_rank rank)
{
    struct kv_rank before = kv_rank_of(manager, page);
    if (before.priority == rank.priority && before.until_s == rank.until_s) {
        return;
    }
    uint64_t until_ms =
        rank.until_s == 0 ? UINT64_MAX : (uint64_t)rank.until_s * 1000;
    kv_store_retain(manager->store, page, rank.priority, until_ms);
    kv_events_tell_updated(manager->events, manager->tree, manager->store, page,
                           kv_manager_page(manager, page)->level,
                           before.priority);
}

/* Later than any: 0 means for good. */
static bool ends_before(uint32_t a, uint32_t b)
{
    return a - 1 < b - 1;
}

/* Is `rank` at least `least`, now and from each end on? */
static bool is_enough(struct kv_rank rank, struct kv_rank least)
{
    bool is_later_enough = least.priority <= KV_PRIORITY_DEFAULT ||
                           !ends_before(rank.until_s, least.until_s);
    return rank.priority >= least.priority && is_later_enough;
}

/* It may hold the higher priority for longer than was asked. */
struct kv_rank kv_rank_join(struct kv_rank a, struct kv_rank b)
{
    if (is_enough(a, b)) {
        return a;
    }
    if (is_enough(b, a)) {
        return b;
    }
    return (struct kv_rank){
        .priority = a.priority > b.priority ? a.priority : b.priority,
        .until_s = ends_before(a.until_s, b.until_s) ? b.until_s : a.until_s,
    };
}

static bool has_rules(const struct kv_retention_plan *plan)
{
    return plan->rule_count > 0 || plan->has_generated;
}

bool kv_rank_is_used(const struct kv_manager *manager, const struct kv_seq *seq)
{
    return has_rules(&seq->inside->retention) ||
           kv_store_ranked(manager->store) > 0;
}

struct kv_rank kv_rank_floor(const struct kv_manager *manager, kv_node node)
{
    struct kv_rank rank = {0, 0};
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_ref page = kv_tree_page(manager->tree, node, life);
        if (page != KV_REF_NONE) {
            rank = kv_rank_join(rank, kv_rank_of(manager, page));
        }
    }
    return rank;
}

struct climb {
    struct kv_manager *manager;
    struct kv_rank least;
};

/* A node without pages has no rank; those above it may. */
static bool raise_node(void *context, kv_node node)
{
    const struct climb *climb = context;
    bool is_any = false;
    bool is_raised = false;
    for (uint32_t life = 0; life < climb->manager->options.life_count; life++) {
        kv_ref page = kv_tree_page(climb->manager->tree, node, life);
        if (page == KV_REF_NONE) {
            continue;
        }
        struct kv_rank rank = kv_rank_of(climb->manager, page);
        is_any = true;
        is_raised = is_raised || !is_enough(rank, climb->least);
        set_rank(climb->manager, page, kv_rank_join(rank, climb->least));
    }
    return is_raised || !is_any;
}

void kv_rank_node(struct kv_manager *manager, const struct kv_seq *seq,
                  kv_node node, uint32_t block, struct kv_rank least)
{
    struct kv_rank rank = kv_rank_join(wish(manager, seq, block), least);
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_ref page = kv_tree_page(manager->tree, node, life);
        if (page != KV_REF_NONE) {
            set_rank(manager, page, rank);
        }
    }
    struct climb climb = {manager, rank};
    /* A low rank that ends becomes the default. */
    if (rank.priority < KV_PRIORITY_DEFAULT && rank.until_s != 0) {
        climb.least = DEFAULT_RANK;
    }
    kv_tree_ancestors(manager->tree, node, raise_node, &climb);
}

/* The node that the sequence shares this block with; it has a page for it of
 * some life cycle at least. */
static kv_node node_of(const struct kv_seq *seq, uint32_t block)
{
    const struct kv_manager *manager = seq->inside->manager;
    for (uint32_t life = 0; life < manager->options.life_count; life++) {
        kv_ref page = seq->inside->refs[life][block];
        if (page != KV_REF_NONE &&
            kv_is_in_tree(kv_manager_page(manager, page))) {
            return kv_manager_page(manager, page)->node;
        }
    }
    return KV_NODE_NONE;
}

void kv_seq_retain(struct kv_seq *seq, const struct kv_retention_plan *plan,
                   uint32_t prompt_tokens)
{
    struct kv_manager *manager = seq->inside->manager;
    CHECK(plan->rule_count <= KV_RETENTION_COUNT_MAX);
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        CHECK(plan->rules[i].priority <= KV_PRIORITY_MAX);
    }
    CHECK(plan->generated.priority <= KV_PRIORITY_MAX);
    seq->inside->retention = *plan;
    seq->inside->ruled_tokens = prompt_tokens;
    uint32_t found = seq->committed / kv_block_tokens(manager);
    for (uint32_t block = 0; has_rules(plan) && block < found; block++) {
        kv_node node = node_of(seq, block);
        if (node != KV_NODE_NONE) {
            kv_rank_node(manager, seq, node, block,
                         kv_rank_floor(manager, node));
        }
    }
}
