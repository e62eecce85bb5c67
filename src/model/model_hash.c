/* The hash body: no weights, but pages that really hold data.
 *
 * Each token of a sequence has a mark a layer, chained to the marks before it:
 *
 *   mark(i, l) = hash(seed, l, token[i], i, fold(i - 1, l))
 *
 * K and V of the token hold words grown from the mark; `fold` is the hash of
 * all those words as read back from the page. The next token is drawn from the
 * sum of fold(j, l) over all layers and the tokens that their life cycle lets
 * the last one see, so that one wrong byte anywhere in what a sequence can see
 * gives a wrong token, at once or one token later; what it cannot see is not
 * read. (A window of one does not see the token before: there fold(i - 1, l)
 * is 0 but for sinks.)
 *
 * `model_hash_next` does the same on words that never were in a page, a walk
 * on the folds it keeps of them. */
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
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX];
    uint64_t *folds; /* (life, layer) of the position before */
};

/* One life cycle of one run, as a pass goes along. */
struct view {
    const struct model_hash_options *options;
    const struct kv_pool_view *pool;
    const kv_page_id *pages;
    struct kv_life life;
    uint32_t first_layer; /* counted over all life cycles */
    uint64_t *folds; /* (layer) of the position before */
    uint64_t sum; /* over what the last position sees */
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

/* ---- who sees what ---- */

static uint32_t count_lives(const struct model_hash_options *options)
{
    return options->life_count == 0 ? 1 : options->life_count;
}

/* Where the window of a query at `position` begins. */
static uint32_t window_first(const struct kv_life *life, uint32_t position)
{
    bool is_all = life->window == 0 || position < life->window;
    return is_all ? 0 : position + 1 - life->window;
}

static bool is_seen(const struct kv_life *life, uint32_t token,
                    uint32_t position)
{
    return token < life->sink_tokens || token >= window_first(life, position);
}

/* Whether the mark at `position` is chained to the one before. */
static bool has_chain(const struct kv_life *life, uint32_t position)
{
    return position > 0 && is_seen(life, position - 1, position);
}

/* ---- without pages ---- */

struct model_hash_walk {
    struct model_hash_options options;
    uint32_t layer_count; /* over all life cycles */
    uint32_t token_count, token_max;
    uint64_t *folds; /* (layer, token) */
};

struct model_hash_walk *model_hash_walk_create(
    const struct model_hash_options *options, uint32_t token_max)
{
    struct model_hash_walk *walk = mem_new(sizeof(*walk));
    *walk = (struct model_hash_walk){
        .options = *options,
        .layer_count = count_lives(options) * options->layer_count,
        .token_max = token_max,
    };
    walk->folds = mem_new_array((size_t)walk->layer_count * token_max,
                                sizeof(walk->folds[0]));
    return walk;
}

void model_hash_walk_destroy(struct model_hash_walk *walk)
{
    if (walk != NULL) {
        mem_free(walk->folds);
        mem_free(walk);
    }
}

static const struct kv_life *life_of(const struct model_hash_walk *walk,
                                     uint32_t layer)
{
    return &walk->options.lives[layer / walk->options.layer_count];
}

void model_hash_walk_add(struct model_hash_walk *walk, int32_t token)
{
    uint32_t at = walk->token_count++;
    CHECK(at < walk->token_max);
    uint64_t words[WORDS];
    for (uint32_t layer = 0; layer < walk->layer_count; layer++) {
        uint64_t *folds = walk->folds + (size_t)layer * walk->token_max;
        uint64_t before =
            has_chain(life_of(walk, layer), at) ? folds[at - 1] : 0;
        grow_words(make_mark(walk->options.seed, layer, token, at, before),
                   words);
        folds[at] = fold_words(words);
    }
}

int32_t model_hash_walk_next(const struct model_hash_walk *walk)
{
    uint64_t sum = 0;
    for (uint32_t layer = 0; layer < walk->layer_count; layer++) {
        const uint64_t *folds = walk->folds + (size_t)layer * walk->token_max;
        for (uint32_t i = 0; i < walk->token_count; i++) {
            if (is_seen(life_of(walk, layer), i, walk->token_count - 1)) {
                sum = add_fold(sum, folds[i], i);
            }
        }
    }
    return draw_token(&walk->options, sum);
}

static uint64_t sum_layer(const struct model_hash_options *options,
                          const struct kv_life *life, uint32_t layer,
                          const int32_t *tokens, uint32_t token_count)
{
    uint64_t words[WORDS];
    uint64_t sum = 0;
    uint64_t fold = 0;
    for (uint32_t i = 0; i < token_count; i++) {
        uint64_t before = has_chain(life, i) ? fold : 0;
        grow_words(make_mark(options->seed, layer, tokens[i], i, before),
                   words);
        fold = fold_words(words);
        if (is_seen(life, i, token_count - 1)) {
            sum = add_fold(sum, fold, i);
        }
    }
    return sum;
}

int32_t model_hash_next(const struct model_hash_options *options,
                        const int32_t *tokens, uint32_t token_count)
{
    uint64_t sum = 0;
    uint32_t count = count_lives(options) * options->layer_count;
    for (uint32_t layer = 0; layer < count; layer++) {
        const struct kv_life *life =
            &options->lives[layer / options->layer_count];
        sum += sum_layer(options, life, layer, tokens, token_count);
    }
    return draw_token(options, sum);
}

/* ---- the pages ---- */

static uint8_t *key_at(const struct view *view, uint32_t layer,
                       uint32_t position)
{
    const struct kv_layout *layout = &view->pool->layout;
    kv_page_id page = view->pages[position / layout->tokens_per_block];
    CHECK(page >= 0);
    CHECK((uint32_t)page < view->pool->page_count);
    return view->pool->base + (size_t)page * view->pool->page_bytes +
           kv_layout_key_offset(layout, layer, 0) +
           (size_t)(position % layout->tokens_per_block) * HEAD_DIM * 2;
}

static void write_words(const struct view *view, uint8_t *key,
                        const uint64_t words[WORDS])
{
    size_t half = kv_layout_layer_bytes(&view->pool->layout) / 2;
    memcpy(key, words, HALF_WORDS * sizeof(uint64_t));
    memcpy(key + half, words + HALF_WORDS, HALF_WORDS * sizeof(uint64_t));
}

static uint64_t read_fold(const struct view *view, uint32_t layer,
                          uint32_t position)
{
    uint64_t words[WORDS];
    const uint8_t *key = key_at(view, layer, position);
    size_t half = kv_layout_layer_bytes(&view->pool->layout) / 2;
    memcpy(words, key, HALF_WORDS * sizeof(uint64_t));
    memcpy(words + HALF_WORDS, key + half, HALF_WORDS * sizeof(uint64_t));
    return fold_words(words);
}

/* Takes one position into the sum, all layers. */
static void recall(struct view *view, uint32_t position)
{
    for (uint32_t layer = 0; layer < view->options->layer_count; layer++) {
        view->folds[layer] = read_fold(view, layer, position);
        view->sum = add_fold(view->sum, view->folds[layer], position);
    }
}

/* Takes it out again. */
static void forget(struct view *view, uint32_t position)
{
    for (uint32_t layer = 0; layer < view->options->layer_count; layer++) {
        view->sum -= add_fold(0, read_fold(view, layer, position), position);
    }
}

/* Writes one new token, all layers, and reads it back like an old one. */
static void pass_token(struct view *view, int32_t token, uint32_t position)
{
    uint64_t words[WORDS];
    for (uint32_t layer = 0; layer < view->options->layer_count; layer++) {
        uint64_t before =
            has_chain(&view->life, position) ? view->folds[layer] : 0;
        grow_words(make_mark(view->options->seed, view->first_layer + layer,
                             token, position, before),
                   words);
        write_words(view, key_at(view, layer, position), words);
    }
    recall(view, position);
}

/* What the query at `position` sees of the tokens before it. */
static void recall_seen(struct view *view, uint32_t position)
{
    uint32_t first = window_first(&view->life, position);
    for (uint32_t i = 0; i < view->life.sink_tokens && i < first; i++) {
        recall(view, i);
    }
    for (uint32_t i = first; i < position; i++) {
        recall(view, i);
    }
}

/* From the sum of the position before to what is left of it at `position`. */
static void move_window(struct view *view, uint32_t position)
{
    uint32_t first = window_first(&view->life, position);
    if (first > 0 && first - 1 >= view->life.sink_tokens) {
        forget(view, first - 1);
    }
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

static void open_views(struct model_hash *hash, const struct model_run *run,
                       struct view *views_out)
{
    uint32_t layers = hash->options.layer_count;
    memset(hash->folds, 0,
           (size_t)count_lives(&hash->options) * layers * sizeof(uint64_t));
    for (uint32_t i = 0; i < count_lives(&hash->options); i++) {
        views_out[i] = (struct view){
            .options = &hash->options,
            .pool = &hash->pools[i],
            .pages = run->pages[i],
            .life = hash->options.lives[i],
            .first_layer = i * layers,
            .folds = hash->folds + (size_t)i * layers,
        };
        recall_seen(&views_out[i], run->position);
    }
}

/* One token through all life cycles; what they see together. */
static uint64_t step_views(struct view *views, uint32_t count,
                           const struct model_run *run, uint32_t i)
{
    uint64_t sum = 0;
    for (uint32_t v = 0; v < count; v++) {
        if (i > 0) {
            move_window(&views[v], run->position + i);
        }
        pass_token(&views[v], run->tokens[i], run->position + i);
        sum += views[v].sum;
    }
    return sum;
}

/* Like attention, a run reads what it sees of all that came before it. */
static enum err pass_run(struct model_hash *hash,
                         const struct model_batch *batch,
                         const struct model_run *run, float *logits_out)
{
    struct view views[KV_LIFE_COUNT_MAX];
    open_views(hash, run, views);
    uint32_t quiet_count = run->token_count - run->logit_count;
    for (uint32_t i = 0; i < run->token_count; i++) {
        if (is_cancelled(batch)) {
            return ERR_CANCELLED;
        }
        uint64_t sum = step_views(views, count_lives(&hash->options), run, i);
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

static void hash_set_pool(struct model *model, const struct kv_pool_view *pools)
{
    struct model_hash *hash = hash_of(model);
    for (uint32_t i = 0; i < count_lives(&hash->options); i++) {
        CHECK(pools[i].layout.head_dim == HEAD_DIM);
        CHECK(pools[i].layout.layer_count == hash->options.layer_count);
        CHECK(pools[i].page_bytes >= kv_layout_page_bytes(&pools[i].layout));
        hash->pools[i] = pools[i];
    }
}

static enum err hash_forward(struct model *model,
                             const struct model_batch *batch, float *logits_out)
{
    struct model_hash *hash = hash_of(model);
    CHECK(hash->pools[0].base);
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

static struct kv_shape shape_of(const struct model_hash_options *options)
{
    struct kv_shape shape = {.life_count = count_lives(options)};
    for (uint32_t i = 0; i < shape.life_count; i++) {
        shape.lives[i] = options->lives[i];
        shape.layouts[i] =
            (struct kv_layout){.layer_count = options->layer_count,
                               .kv_head_count = 1,
                               .head_dim = HEAD_DIM,
                               .tokens_per_block = options->tokens_per_block,
                               .element_bytes = 2};
    }
    return shape;
}

struct model *model_hash_create(const struct model_hash_options *options)
{
    CHECK(options->vocab_size > 0);
    CHECK(options->layer_count > 0);
    CHECK(options->tokens_per_block > 0);
    CHECK(options->life_count <= KV_LIFE_COUNT_MAX);
    struct model_hash *hash = mem_new(sizeof(*hash));
    hash->options = *options;
    hash->folds = mem_new_array(
        (size_t)count_lives(options) * options->layer_count, sizeof(uint64_t));
    hash->base.ops = &HASH_OPS;
    struct model_info *info = &hash->base.info;
    snprintf(info->architecture, sizeof(info->architecture), "hash");
    info->vocab_size = options->vocab_size;
    info->context_length = options->context_length;
    info->shape = shape_of(options);
    return &hash->base;
}
