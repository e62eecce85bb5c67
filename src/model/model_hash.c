/* The hash body: no weights, but pages that really hold data.
 *
 * Each token of a sequence has a mark a layer, chained to the marks before it:
 *
 *   mark(i, l) = hash(seed, l, token[i], i, fold(i - 1, l))
 *
 * K and V of the token hold words grown from the mark; `fold` is the hash of
 * all those words as read back from the page. The next token is drawn from the
 * sum of fold(j, l) over all tokens and layers, so that one wrong byte anywhere
 * in the pages of a sequence gives a wrong token, at once or one token later.
 *
 * `model_hash_next` does the same on words that never were in a page. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"

enum {
    HEAD_DIM = 32,
    HALF_WORDS = HEAD_DIM * 2 / 8, /* 64-bit words in one K or V */
    WORDS = 2 * HALF_WORDS
};

static const float PEAK = 60.0f; /* above zero: the others have no chance */

struct model_hash {
    struct model base;
    struct model_hash_options options;
    struct kv_pool_view pool;
    uint64_t *folds; /* (layer_count) of the position before */
};

/* ---- the hash ---- */

static uint64_t make_mark(uint64_t seed, uint32_t layer, int32_t token,
                          uint32_t position, uint64_t previous_fold)
{
    uint64_t place = (uint64_t)layer << 32 | position;
    return rng_at(seed ^ previous_fold, place, (uint64_t)(uint32_t)token);
}

static void grow_words(uint64_t mark, uint64_t words_out[WORDS])
{
    for (uint32_t w = 0; w < WORDS; w++) {
        words_out[w] = rng_at(mark, 0, w);
    }
}

/* Each word keeps its place: none can be swapped, dropped or changed. */
static uint64_t fold_words(const uint64_t words[WORDS])
{
    uint64_t fold = 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        fold = (fold ^ words[w]) * 0x9e3779b97f4a7c15u;
        fold ^= fold >> 29;
    }
    return fold;
}

static int32_t draw_token(const struct model_hash_options *options,
                          uint64_t sum)
{
    uint64_t bits = rng_at(options->seed, 1, sum);
    return (int32_t)(((unsigned __int128)bits * options->vocab_size) >> 64);
}

/* Marks and positions differ, so plain addition keeps tokens apart. */
static uint64_t add_fold(uint64_t sum, uint64_t fold, uint32_t position)
{
    return sum + rng_at(fold, 2, position);
}

int32_t model_hash_next(const struct model_hash_options *options,
                        const int32_t *tokens, uint32_t token_count)
{
    uint64_t words[WORDS];
    uint64_t sum = 0;
    for (uint32_t layer = 0; layer < options->layer_count; layer++) {
        uint64_t fold = 0;
        for (uint32_t i = 0; i < token_count; i++) {
            grow_words(make_mark(options->seed, layer, tokens[i], i, fold),
                       words);
            fold = fold_words(words);
            sum = add_fold(sum, fold, i);
        }
    }
    return draw_token(options, sum);
}

/* ---- the pages ---- */

static uint8_t *key_at(const struct model_hash *hash,
                       const struct model_run *run, uint32_t layer,
                       uint32_t position)
{
    const struct kv_layout *layout = &hash->pool.layout;
    kv_page_id page = run->pages[position / layout->tokens_per_block];
    CHECK(page >= 0);
    CHECK((uint32_t)page < hash->pool.page_count);
    return hash->pool.base + (size_t)page * hash->pool.page_bytes +
           kv_layout_key_offset(layout, layer, 0) +
           (size_t)(position % layout->tokens_per_block) * HEAD_DIM * 2;
}

static void write_words(const struct model_hash *hash, uint8_t *key,
                        const uint64_t words[WORDS])
{
    size_t half = kv_layout_layer_bytes(&hash->pool.layout) / 2;
    memcpy(key, words, HALF_WORDS * sizeof(uint64_t));
    memcpy(key + half, words + HALF_WORDS, HALF_WORDS * sizeof(uint64_t));
}

static uint64_t read_fold(const struct model_hash *hash, const uint8_t *key)
{
    uint64_t words[WORDS];
    size_t half = kv_layout_layer_bytes(&hash->pool.layout) / 2;
    memcpy(words, key, HALF_WORDS * sizeof(uint64_t));
    memcpy(words + HALF_WORDS, key + half, HALF_WORDS * sizeof(uint64_t));
    return fold_words(words);
}

/* Reads one position that was computed before, all layers. */
static uint64_t recall(struct model_hash *hash, const struct model_run *run,
                       uint32_t position, uint64_t sum)
{
    for (uint32_t layer = 0; layer < hash->options.layer_count; layer++) {
        uint64_t fold = read_fold(hash, key_at(hash, run, layer, position));
        hash->folds[layer] = fold;
        sum = add_fold(sum, fold, position);
    }
    return sum;
}

/* Writes one new token, all layers, and reads it back like an old one. */
static uint64_t pass_token(struct model_hash *hash, const struct model_run *run,
                           uint32_t i, uint64_t sum)
{
    uint64_t words[WORDS];
    uint32_t position = run->position + i;
    for (uint32_t layer = 0; layer < hash->options.layer_count; layer++) {
        uint64_t mark = make_mark(hash->options.seed, layer, run->tokens[i],
                                  position, hash->folds[layer]);
        grow_words(mark, words);
        write_words(hash, key_at(hash, run, layer, position), words);
    }
    return recall(hash, run, position, sum);
}

static void write_logits(const struct model_hash *hash, uint64_t sum,
                         float *logits_out)
{
    memset(logits_out, 0, hash->options.vocab_size * sizeof(float));
    logits_out[draw_token(&hash->options, sum)] = PEAK;
}

static bool is_cancelled(const struct model_batch *batch)
{
    return batch->cancel &&
           atomic_load_explicit(batch->cancel, memory_order_relaxed);
}

/* Like attention, a run reads all that came before it. */
static enum err pass_run(struct model_hash *hash,
                         const struct model_batch *batch,
                         const struct model_run *run, float *logits_out)
{
    uint64_t sum = 0;
    memset(hash->folds, 0, hash->options.layer_count * sizeof(hash->folds[0]));
    for (uint32_t position = 0; position < run->position; position++) {
        sum = recall(hash, run, position, sum);
    }
    uint32_t quiet_count = run->token_count - run->logit_count;
    for (uint32_t i = 0; i < run->token_count; i++) {
        if (is_cancelled(batch)) {
            return ERR_CANCELLED;
        }
        sum = pass_token(hash, run, i, sum);
        if (i >= quiet_count) {
            write_logits(hash, sum, logits_out);
            logits_out += hash->options.vocab_size;
        }
    }
    return OK;
}

/* ---- the table ---- */

static struct model_hash *hash_of(struct model *model)
{
    return (struct model_hash *)(void *)model;
}

static void hash_destroy(struct model *model)
{
    if (model) {
        mem_free(hash_of(model)->folds);
        mem_free(model);
    }
}

static void hash_set_pool(struct model *model, const struct kv_pool_view *pool)
{
    CHECK(pool->layout.head_dim == HEAD_DIM);
    CHECK(pool->layout.layer_count == hash_of(model)->options.layer_count);
    CHECK(pool->page_bytes >= kv_layout_page_bytes(&pool->layout));
    hash_of(model)->pool = *pool;
}

static enum err hash_forward(struct model *model,
                             const struct model_batch *batch, float *logits_out)
{
    struct model_hash *hash = hash_of(model);
    CHECK(hash->pool.base);
    for (uint32_t i = 0; i < batch->run_count; i++) {
        const struct model_run *run = &batch->runs[i];
        if (run->logit_count > run->token_count) {
            return ERR_INVALID;
        }
        enum err error = pass_run(hash, batch, run, logits_out);
        if (error) {
            return error;
        }
        logits_out += (size_t)run->logit_count * hash->options.vocab_size;
    }
    return OK;
}

static const struct model_ops HASH_OPS = {
    .name = "hash",
    .destroy = hash_destroy,
    .forward = hash_forward,
    .set_pool = hash_set_pool,
};

struct model *model_hash_create(const struct model_hash_options *options)
{
    CHECK(options->vocab_size > 0);
    CHECK(options->layer_count > 0);
    CHECK(options->tokens_per_block > 0);
    struct model_hash *hash = mem_new(sizeof(*hash));
    hash->options = *options;
    hash->folds = mem_new_array(options->layer_count, sizeof(hash->folds[0]));
    hash->base.ops = &HASH_OPS;
    struct model_info *info = &hash->base.info;
    snprintf(info->architecture, sizeof(info->architecture), "hash");
    info->vocab_size = options->vocab_size;
    info->context_length = options->context_length;
    info->layout =
        (struct kv_layout){.layer_count = options->layer_count,
                           .kv_head_count = 1,
                           .head_dim = HEAD_DIM,
                           .tokens_per_block = options->tokens_per_block,
                           .element_bytes = 2};
    return &hash->base;
}
