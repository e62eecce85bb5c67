#pragma once
/* A small cache and prompts for it: blocks of 4 tokens, one full-attention life
 * cycle and 16 pages unless a test says otherwise. */
#include "unit/base/test.h"

#include "kv/manager.h"
#include "prefix/keys.h"

enum { BLOCK = 4, TEXT_MAX = 256 };

struct text {
    int32_t tokens[TEXT_MAX];
    uint32_t count;
    struct prefix_key keys[TEXT_MAX / BLOCK + 1]; /* of full blocks */
    struct prefix_key tail; /* of the partial last block */
    struct prefix_key root;
};

static const uint8_t WORLD_SECRET[PREFIX_SECRET_SIZE] = {7};

static inline void text_seal(struct text *text, uint64_t salt)
{
    struct prefix_scope scope;
    prefix_scope_init(&scope, WORLD_SECRET, salt);
    uint32_t full = prefix_keys(&scope, text->tokens, text->count, BLOCK,
                                TEXT_MAX / BLOCK, text->keys);
    uint32_t rest = text->count % BLOCK;
    text->root = scope.root;
    if (rest > 0) {
        text->tail =
            prefix_key_next(&scope, full > 0 ? &text->keys[full - 1] : NULL,
                            text->tokens + full * BLOCK, rest);
    }
}

/* first, first + 1 .. last, and then what is in `more`, ended by 0. */
static inline struct text text_with(int32_t first, int32_t last,
                                    const int32_t *more, uint64_t salt)
{
    struct text text = {0};
    for (int32_t token = first; token <= last; token++) {
        text.tokens[text.count++] = token;
    }
    for (; more != NULL && *more != 0; more++) {
        text.tokens[text.count++] = *more;
    }
    text_seal(&text, salt);
    return text;
}

static inline struct text text_of(int32_t first, int32_t last)
{
    return text_with(first, last, NULL, 0);
}

#define TEXT(first, last, ...) \
    text_with(first, last, (const int32_t[]){__VA_ARGS__, 0}, 0)

/* All of the text is looked up: a prompt has one token more. */
static inline struct kv_prompt prompt_of(const struct text *text)
{
    return (struct kv_prompt){
        .root = &text->root,
        .keys = text->keys,
        .key_count = text->count / BLOCK,
        .tokens = text->tokens,
        .token_count = text->count,
    };
}

/* What a request with this prompt would reuse: its last token is computed. */
static inline uint32_t reuse_of(const struct kv_manager *manager,
                                const struct text *text)
{
    struct kv_prompt prompt = prompt_of(text);
    prompt.token_count--;
    return kv_manager_probe(manager, &prompt).usable;
}

static inline struct kv_manager_options small_options(void)
{
    return (struct kv_manager_options){
        .tokens_per_block = BLOCK,
        .life_count = 1,
        .group_count = 1,
        .level_count = 1,
        .slot_counts = {{16}},
        .seq_count_max = 8,
        .block_count_max = 8,
        .step_max = 32,
        .enable_reuse = true,
        .enable_partial = true,
        .event_max = 64,
    };
}

static inline struct kv_manager *create(
    const struct kv_manager_options *options)
{
    struct kv_manager *manager = NULL;
    struct why why = {0};
    enum err err = kv_manager_create(options, &why, &manager);
    if (err != OK) {
        print_message("%s\n", why.text);
    }
    assert_int_equal(err, OK);
    return manager;
}

static inline void valid(const struct kv_manager *manager)
{
    assert_true(kv_manager_is_valid(manager));
}

/* Takes all orders and lets them succeed; how many there were. */
static inline uint32_t do_orders(struct kv_manager *manager)
{
    uint32_t count = 0;
    const struct kv_order *orders = kv_manager_orders(manager, &count);
    kv_ticket tickets[256];
    assert_true(count <= 256);
    for (uint32_t i = 0; i < count; i++) {
        tickets[i] = orders[i].ticket;
    }
    kv_manager_orders_taken(manager, count);
    for (uint32_t i = 0; i < count; i++) {
        kv_manager_order_done(manager, tickets[i], true);
    }
    return count;
}

static inline struct kv_seq *open_seq(struct kv_manager *manager,
                                      const struct text *text)
{
    struct kv_prompt prompt = prompt_of(text);
    prompt.token_count--;
    struct kv_seq *seq = NULL;
    assert_int_equal(kv_seq_open(manager, &prompt, UINT32_MAX, &seq), OK);
    return seq;
}

/* Opens and resumes, with room for the whole text. */
static inline struct kv_seq *start(struct kv_manager *manager,
                                   const struct text *text)
{
    struct kv_seq *seq = open_seq(manager, text);
    assert_int_equal(kv_seq_resume(manager, seq), OK);
    do_orders(manager);
    assert_int_equal(
        kv_seq_resize(manager, seq, text->count, seq->history, NULL), OK);
    return seq;
}

static inline void commit(struct kv_manager *manager, struct kv_seq *seq,
                          const struct text *text, uint32_t position,
                          bool is_final)
{
    kv_seq_commit_to(
        manager, seq, position, text->keys, text->tokens, is_final,
        position % BLOCK > 0 && position == text->count ? &text->tail : NULL);
    valid(manager);
}

/* Computes and publishes all of it. */
static inline struct kv_seq *prefill(struct kv_manager *manager,
                                     const struct text *text)
{
    struct kv_seq *seq = start(manager, text);
    commit(manager, seq, text, text->count, true);
    return seq;
}

/* As a request that came and went. */
static inline void publish(struct kv_manager *manager, const struct text *text)
{
    kv_seq_close(manager, prefill(manager, text));
    valid(manager);
}

static inline struct kv_store_counts counts_of(const struct kv_manager *manager,
                                               uint32_t group)
{
    struct kv_manager_stats stats;
    kv_manager_stats(manager, &stats);
    return stats.counts[0][group];
}

static inline uint32_t used_of(const struct kv_manager *manager)
{
    struct kv_store_counts counts = counts_of(manager, 0);
    return counts.total - counts.free;
}
