/* Same bits, whatever the batch (design, decision 11). For every weight type
 * and every body of ops this CPU can run: some sequences are computed one token
 * at a time, alone, on one thread; then again in a drawn way: cut into chunks,
 * several sequences in a batch, on more threads, with other block sizes and
 * pages, one sequence on top of another's cached pages. Logits of each token
 * must agree in every bit. The seed draws the ways; it is printed on failure. */
#include "unit/base/test.h"

#include "model/model_cpu.h"
#include "unit/model/fixture.h"

enum {
    SEQUENCES = 3,
    LENGTH_MAX = 150,
    SHORT = 23,
    SHARED = 12, /* tokens that sequence 1 has in common with sequence 0 */
    WAYS = 3,
    PAGES_EACH = LENGTH_MAX
};

struct trial {
    const struct fixture *fixture;
    const struct ops *ops;
    const struct gguf *gguf;
    uint32_t length; /* of each sequence */
    int32_t tokens[SEQUENCES][LENGTH_MAX];
    float *expected; /* (sequence, position, vocab) */
};

struct way {
    struct rng rng;
    uint32_t threads;
    uint32_t block;
    bool is_cached; /* sequence 1 starts on pages of sequence 0 */
};

static struct model *open_model(const struct trial *t, const struct way *way)
{
    struct why why = {0};
    struct model *model = NULL;
    struct model_cpu_options options = {.gguf = t->gguf,
                                        .tokens_per_block = way->block,
                                        .thread_count = way->threads,
                                        .row_count_max = SEQUENCES * t->length,
                                        .context_max = t->length};
    enum err error = model_cpu_create_with(&options, t->ops, &why, &model);
    if (error) {
        fail_msg("%s", why.text);
    }
    return model;
}

static void check_row(const struct trial *t, uint32_t sequence,
                      uint32_t position, const float *row, uint64_t seed)
{
    size_t vocab = t->fixture->vocab;
    const float *expected =
        t->expected + ((size_t)sequence * t->length + position) * vocab;
    if (memcmp(row, expected, vocab * sizeof(float)) != 0) {
        fail_msg("%s %s %s: sequence %u position %u differs, seed %llu",
                 t->ops->name, t->fixture->architecture,
                 gguf_type_info(t->fixture->type)->name, sequence, position,
                 (unsigned long long)seed);
    }
}

static void compute_expected(struct trial *t)
{
    struct way plain = {.threads = 1, .block = 16};
    struct model *model = open_model(t, &plain);
    struct fixture_pools pools;
    fixture_pools_make(&model->info.shape, t->length / 16 + 1, 1, &pools);
    model->ops->set_pool(model, pools.views);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t i = 0; i < t->length; i++) {
            struct model_run run = {.tokens = &t->tokens[s][i],
                                    .token_count = 1,
                                    .position = i,
                                    .logit_count = 1};
            fixture_pools_give(&pools, 0, &run);
            struct model_batch batch = {.runs = &run, .run_count = 1};
            float *row =
                t->expected + ((size_t)s * t->length + i) * t->fixture->vocab;
            assert_int_equal(model->ops->forward(model, &batch, row), OK);
        }
    }
    model->ops->destroy(model);
    fixture_pools_end(&pools);
}

struct table {
    kv_page_id pages[SEQUENCES][PAGES_EACH];
};

/* Block tables of all sequences out of one shuffled pool; with caching, the
 * full blocks of what is shared are sequence 0's own pages. */
static void lay_pages(const struct way *way, const kv_page_id *pool,
                      struct table *table)
{
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        memcpy(table->pages[s], pool + s * PAGES_EACH, sizeof(table->pages[s]));
    }
    for (uint32_t i = 0; way->is_cached && i < SHARED / way->block; i++) {
        table->pages[1][i] = table->pages[0][i];
    }
}

/* The tables of a sequence that goes on at `position`, without the blocks that
 * nobody will see: from now on they are none. */
static void give_tables(const struct model *model, struct table *tables,
                        uint32_t sequence, struct model_run *run)
{
    const struct kv_shape *shape = &model->info.shape;
    for (uint32_t life = 0; life < shape->life_count; life++) {
        uint32_t window = shape->lives[life].window;
        uint32_t block = shape->layouts[life].tokens_per_block;
        kv_page_id *pages = tables[life].pages[sequence];
        for (uint32_t i = 0; window > 0 && i < run->position / block; i++) {
            if ((i + 1) * block + window <= run->position + 1) {
                pages[i] = KV_PAGE_NONE;
            }
        }
        run->pages[life] = pages;
    }
}

/* Draws one batch: a chunk, or nothing, of each unfinished sequence. */
static uint32_t draw_batch(const struct trial *t, struct way *way,
                           const uint32_t *done, struct model_run *runs,
                           uint32_t *owners)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        uint32_t left = t->length - done[s];
        uint32_t size = (uint32_t)rng_below(&way->rng, left + 1);
        bool must_wait = s == 1 && way->is_cached && done[0] < SHARED;
        if (size == 0 || must_wait) {
            continue;
        }
        owners[count] = s;
        runs[count++] = (struct model_run){
            .tokens = t->tokens[s] + done[s],
            .token_count = size,
            .position = done[s],
            .logit_count = (uint32_t)rng_below(&way->rng, size + 1)};
    }
    return count;
}

static void check_batch(const struct trial *t, const struct model_run *runs,
                        const uint32_t *owners, uint32_t count,
                        const float *logits, uint64_t seed)
{
    for (uint32_t r = 0; r < count; r++) {
        const struct model_run *run = &runs[r];
        uint32_t end = run->position + run->token_count;
        for (uint32_t i = end - run->logit_count; i < end; i++) {
            check_row(t, owners[r], i, logits, seed);
            logits += t->fixture->vocab;
        }
    }
}

static void try_way(const struct trial *t, uint64_t seed)
{
    struct way way = {.rng = rng_from_seed(seed)};
    way.threads = 1 + (uint32_t)rng_below(&way.rng, 3);
    way.block = 1 + (uint32_t)rng_below(&way.rng, 10);
    way.is_cached = rng_below(&way.rng, 2) == 1;
    struct model *model = open_model(t, &way);
    struct fixture_pools pools;
    fixture_pools_make(&model->info.shape, SEQUENCES * PAGES_EACH, seed,
                       &pools);
    model->ops->set_pool(model, pools.views);
    struct table tables[KV_LIFE_COUNT_MAX];
    for (uint32_t i = 0; i < pools.count; i++) {
        lay_pages(&way, pools.pools[i].pages, &tables[i]);
    }
    uint32_t done[SEQUENCES] = {0};
    done[1] = way.is_cached ? SHARED / way.block * way.block : 0;
    size_t floats = (size_t)SEQUENCES * t->length * t->fixture->vocab;
    float *logits = malloc(floats * sizeof(float));
    while (done[0] + done[1] + done[2] < SEQUENCES * t->length) {
        struct model_run runs[SEQUENCES];
        uint32_t owners[SEQUENCES];
        uint32_t count = draw_batch(t, &way, done, runs, owners);
        for (uint32_t r = 0; r < count; r++) {
            give_tables(model, tables, owners[r], &runs[r]);
        }
        struct model_batch batch = {.runs = runs, .run_count = count};
        assert_int_equal(model->ops->forward(model, &batch, logits), OK);
        check_batch(t, runs, owners, count, logits, seed);
        for (uint32_t r = 0; r < count; r++) {
            done[owners[r]] += runs[r].token_count;
        }
    }
    free(logits);
    model->ops->destroy(model);
    fixture_pools_end(&pools);
}

static void draw_tokens(struct trial *t, uint64_t seed)
{
    struct rng rng = rng_from_seed(seed);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t i = 0; i < t->length; i++) {
            t->tokens[s][i] = s == 1 && i < SHARED
                                  ? t->tokens[0][i]
                                  : (int32_t)rng_below(&rng, t->fixture->vocab);
        }
    }
}

static void check_fixture(const struct fixture *fixture, uint32_t length)
{
    struct buf file;
    struct gguf *gguf;
    struct why why = {0};
    fixture_make(fixture, &file);
    assert_int_equal(gguf_open_bytes(buf_span(&file), &why, &gguf), OK);
    struct trial t = {.fixture = fixture, .gguf = gguf, .length = length};
    t.expected =
        malloc((size_t)SEQUENCES * length * fixture->vocab * sizeof(float));
    draw_tokens(&t, fixture->type + 100);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        t.ops = *ops;
        compute_expected(&t);
        for (uint32_t i = 0; i < WAYS; i++) {
            try_way(&t, fixture->type * 1000 + i);
        }
    }
    free(t.expected);
    gguf_close(gguf);
    buf_finish(&file);
}

static struct fixture tiny(const char *architecture, uint32_t type)
{
    struct fixture f = fixture_small(architecture, type);
    f.head_dim = 32; /* 8 heads fill 256, the least that K types take */
    f.heads = 8;
    f.vocab = 40;
    return f;
}

/* Each type of weights alone. */
static void bits_are_the_same_for_each_type(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FIXTURE_TYPE_COUNT; i++) {
        struct fixture f = tiny("llama", FIXTURE_TYPES[i]);
        check_fixture(&f, SHORT);
    }
}

/* Matrices that read one input and want it prepared differently; biases, norms
 * of heads, odd sizes. */
static void bits_are_the_same_for_mixed_files(void **state)
{
    (void)state;
    struct fixture mixed = tiny("qwen2", GGUF_Q4_K);
    mixed.type_v = GGUF_Q6_K;
    check_fixture(&mixed, SHORT);
    struct fixture odd = tiny("qwen3", GGUF_Q8_0);
    odd.type_v = GGUF_F16;
    odd.heads = 6;
    odd.head_dim = 48;
    odd.ffn = 96;
    odd.vocab = 51;
    odd.is_tied = true;
    check_fixture(&odd, SHORT);
}

/* Sequences over several of the blocks in which attention takes tokens. */
static void bits_are_the_same_for_long_sequences(void **state)
{
    (void)state;
    struct fixture f = tiny("llama", GGUF_Q8_0);
    f.layers = 1;
    check_fixture(&f, LENGTH_MAX);
    struct fixture wide = tiny("qwen3", GGUF_F16);
    wide.layers = 1;
    wide.heads = 2;
    wide.kv_heads = 1;
    wide.head_dim = 128;
    check_fixture(&wide, LENGTH_MAX);
}

/* Two life cycles, windows shorter and longer than pages, chunks and the blocks
 * in which attention takes tokens. What left a window is gone from the table. */
static void bits_are_the_same_across_windows(void **state)
{
    (void)state;
    static const uint32_t WINDOWS[] = {1, 5, 33, 70};
    for (uint32_t i = 0; i < 4; i++) {
        struct fixture f = tiny("gemma3", i % 2 ? GGUF_Q8_0 : GGUF_F16);
        f.heads = 2;
        f.kv_heads = 1;
        f.head_dim = 48;
        f.layers = 3;
        f.window = WINDOWS[i];
        check_fixture(&f, LENGTH_MAX);
    }
    struct fixture f = tiny("llama", GGUF_Q4_0);
    f.window = 20;
    check_fixture(&f, LENGTH_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same_for_each_type),
        cmocka_unit_test(bits_are_the_same_for_mixed_files),
        cmocka_unit_test(bits_are_the_same_for_long_sequences),
        cmocka_unit_test(bits_are_the_same_across_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
