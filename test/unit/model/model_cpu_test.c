/* The forward pass against a slow one written from the paper, in double, on F32
 * weights; and what it refuses. */
#include "unit/base/test.h"

#include "base/mem.h"
#include "model/model_cpu.h"
#include "unit/model/fixture.h"
#include "unit/model/slow.h"

struct setup {
    struct buf file;
    struct gguf *gguf;
    struct model *model;
    struct fixture_pools pools;
};

enum { CONTEXT = 40, ROWS = 32, BLOCK = 8 };

static struct setup make_setup(const struct fixture *fixture)
{
    struct setup s;
    struct why why = {0};
    fixture_make(fixture, &s.file);
    assert_int_equal(gguf_open_bytes(buf_span(&s.file), &why, &s.gguf), OK);
    struct model_cpu_options options = {.gguf = s.gguf,
                                        .tokens_per_block = BLOCK,
                                        .thread_count = 2,
                                        .row_count_max = ROWS,
                                        .context_max = CONTEXT,
                                        .reference_ops = true};
    assert_int_equal(model_cpu_create(&options, &why, &s.model), OK);
    fixture_pools_make(&s.model->info.shape, 3 * CONTEXT / BLOCK, 3, &s.pools);
    s.model->ops->set_pool(s.model, s.pools.views);
    return s;
}

static void end_setup(struct setup *s)
{
    s->model->ops->destroy(s->model);
    gguf_close(s->gguf);
    buf_finish(&s->file);
    fixture_pools_end(&s->pools);
}

static void fill_tokens(int32_t *tokens, uint32_t count, uint32_t vocab)
{
    struct rng rng = rng_from_seed(11);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)rng_below(&rng, vocab);
    }
}

static void compare_with_slow(const struct fixture *fixture)
{
    enum { COUNT = ROWS };
    struct setup s = make_setup(fixture);
    uint32_t vocab = fixture->vocab;
    int32_t tokens[COUNT];
    fill_tokens(tokens, COUNT, vocab);
    float *logits = calloc((size_t)COUNT * vocab, sizeof(float));
    double *expected = calloc((size_t)COUNT * vocab, sizeof(double));
    struct model_run run = {
        .tokens = tokens, .token_count = COUNT, .logit_count = COUNT};
    fixture_pools_give(&s.pools, 0, &run);
    struct model_batch batch = {.runs = &run, .run_count = 1};
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits), OK);
    const struct model_cpu *cpu = (const void *)s.model;
    slow_forward(&cpu->weights, tokens, COUNT, expected);
    for (uint32_t i = 0; i < COUNT * vocab; i++) {
        assert_true(fabs((double)logits[i] - expected[i]) <
                    1e-3 + 1e-3 * fabs(expected[i]));
    }
    free(logits);
    free(expected);
    end_setup(&s);
}

/* Adjacent pairs turn, grouped heads, separate output matrix. */
static void llama_computes_what_the_paper_says(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F32);
    compare_with_slow(&f);
}

/* The frequency factors of the tensor and the linear scale of the key divide
 * the angles; the slow pass applies them on its own. */
static void llama_with_stretched_positions_computes_so_too(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F32);
    f.has_factors = true;
    f.key = "llama.rope.scaling.type";
    f.text = "linear";
    compare_with_slow(&f);
}

/* Split pairs, biases on q, k and v, tied output. */
static void qwen2_computes_what_the_paper_says(void **state)
{
    (void)state;
    struct fixture f = fixture_small("qwen2", GGUF_F32);
    f.is_tied = true;
    compare_with_slow(&f);
}

/* Norms on each head; a head is wider than dim / heads. */
static void qwen3_computes_what_the_paper_says(void **state)
{
    (void)state;
    struct fixture f = fixture_small("qwen3", GGUF_F32);
    f.head_dim = 96;
    compare_with_slow(&f);
}

/* Two life cycles, a rope for each, norms on what is added, gelu, the embedding
 * scaled; the sequence is some windows long. Linear scaling touches the layers
 * that see all and no others. */
static void gemma3_computes_what_the_paper_says(void **state)
{
    (void)state;
    struct fixture f = fixture_small("gemma3", GGUF_F32);
    compare_with_slow(&f);
    f.layers = 5;
    f.window_pattern = 3;
    f.window = 5;
    compare_with_slow(&f);
    f.key = "gemma3.rope.scaling.type";
    f.text = "linear";
    compare_with_slow(&f);
}

/* No layer reaches the pattern: one life cycle, with a window. A pattern of one
 * makes all layers see all. */
static void gemma3_may_have_one_kind_of_layers_only(void **state)
{
    (void)state;
    struct fixture f = fixture_small("gemma3", GGUF_F32);
    f.window_pattern = 6;
    compare_with_slow(&f);
    f.window_pattern = 1;
    compare_with_slow(&f);
}

/* Mistral: each layer has the window. */
static void llama_with_a_window_computes_so_too(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F32);
    f.window = 6;
    compare_with_slow(&f);
}

/* Which layers live together, by the file's window and pattern. */
static void lives_follow_the_pattern(void **state)
{
    (void)state;
    const struct {
        const char *architecture;
        uint32_t window, pattern, layers, full, windowed;
    } CASES[] = {{"gemma3", 64, 2, 5, 2, 3}, {"gemma3", 64, 6, 5, 0, 5},
                 {"gemma3", 64, 1, 2, 2, 0}, {"gemma3", 64, 0, 13, 2, 11},
                 {"llama", 64, 0, 2, 0, 2},  {"llama", 512, 0, 2, 2, 0},
                 {"llama", 0, 0, 2, 2, 0}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct fixture f = fixture_small(CASES[i].architecture, GGUF_Q4_0);
        f.window = CASES[i].window;
        f.window_pattern = CASES[i].pattern;
        f.layers = CASES[i].layers;
        struct setup s = make_setup(&f);
        const struct kv_shape *shape = &s.model->info.shape;
        uint32_t life = 0;
        if (CASES[i].full > 0) {
            assert_int_equal(shape->lives[life].window, 0);
            assert_int_equal(shape->layouts[life++].layer_count, CASES[i].full);
        }
        if (CASES[i].windowed > 0) {
            assert_int_equal(shape->lives[life].window, f.window);
            assert_int_equal(shape->layouts[life++].layer_count,
                             CASES[i].windowed);
        }
        assert_int_equal(shape->life_count, life);
        end_setup(&s);
    }
}

/* Three runs in one batch, with 0, 2 and 1 logits: three rows come back, each
 * equal to what the run gives alone with all its logits. */
static void logits_are_packed_in_run_order(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_Q8_0);
    struct setup s = make_setup(&f);
    int32_t tokens[24];
    fill_tokens(tokens, 24, f.vocab);
    float *packed = calloc(3 * f.vocab, sizeof(float));
    float *alone = calloc(8 * f.vocab, sizeof(float));
    const uint32_t COUNTS[] = {0, 2, 1};
    struct model_run runs[3];
    for (uint32_t i = 0; i < 3; i++) {
        runs[i] = (struct model_run){.tokens = tokens + 8 * i,
                                     .token_count = 8,
                                     .pages = {s.pools.pools[0].pages + i},
                                     .logit_count = COUNTS[i]};
    }
    struct model_batch batch = {.runs = runs, .run_count = 3};
    assert_int_equal(s.model->ops->forward(s.model, &batch, packed), OK);
    const float *next = packed;
    for (uint32_t i = 0; i < 3; i++) {
        runs[i].logit_count = 8;
        struct model_batch one = {.runs = &runs[i], .run_count = 1};
        assert_int_equal(s.model->ops->forward(s.model, &one, alone), OK);
        size_t bytes = COUNTS[i] * f.vocab * sizeof(float);
        assert_memory_equal(next, alone + (8 - COUNTS[i]) * f.vocab, bytes);
        next += COUNTS[i] * f.vocab;
    }
    free(packed);
    free(alone);
    end_setup(&s);
}

/* Each bad batch is named by its error and the model goes on afterwards. */
static void bad_batches_are_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_Q4_0);
    struct setup s = make_setup(&f);
    int32_t tokens[ROWS + 1];
    float *logits = calloc(2 * f.vocab, sizeof(float));
    fill_tokens(tokens, ROWS + 1, f.vocab);
    struct model_run good = {.tokens = tokens,
                             .token_count = 2,
                             .pages = {s.pools.pools[0].pages},
                             .logit_count = 2};
    struct model_run run = good;
    struct model_batch batch = {.runs = &run, .run_count = 1};
    run.token_count = ROWS + 1;
    run.logit_count = 0;
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits), ERR_FULL);
    run = good;
    run.position = CONTEXT - 1;
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits),
                     ERR_INVALID);
    run = good;
    run.logit_count = 3;
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits),
                     ERR_INVALID);
    run = good;
    tokens[1] = (int32_t)f.vocab;
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits),
                     ERR_INVALID);
    tokens[1] = -1;
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits),
                     ERR_INVALID);
    tokens[1] = 1;
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits), OK);
    free(logits);
    end_setup(&s);
}

/* The flag is up before the pass: nothing is computed; down again, it is. */
static void a_set_flag_cancels(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_Q4_0);
    struct setup s = make_setup(&f);
    int32_t token = 5;
    float *logits = calloc(f.vocab, sizeof(float));
    struct model_run run = {.tokens = &token,
                            .token_count = 1,
                            .pages = {s.pools.pools[0].pages},
                            .logit_count = 1};
    atomic_bool cancel = true;
    struct model_batch batch = {
        .runs = &run, .run_count = 1, .cancel = &cancel};
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits),
                     ERR_CANCELLED);
    assert_true(logits[0] == 0.0f);
    atomic_store(&cancel, false);
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits), OK);
    free(logits);
    end_setup(&s);
}

/* The allocation counter stands still over a pass. */
static void a_pass_allocates_and_copies_nothing(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_Q4_K);
    struct setup s = make_setup(&f);
    int32_t tokens[4] = {1, 2, 3, 4};
    float *logits = calloc(f.vocab, sizeof(float));
    struct model_run run = {.tokens = tokens,
                            .token_count = 4,
                            .pages = {s.pools.pools[0].pages},
                            .logit_count = 1};
    struct model_batch batch = {.runs = &run, .run_count = 1};
    uint64_t before = mem_allocation_count();
    assert_int_equal(s.model->ops->forward(s.model, &batch, logits), OK);
    assert_int_equal(mem_allocation_count(), before);
    assert_int_equal(model_copied_kv_bytes(), 0);
    free(logits);
    end_setup(&s);
}

/* What the file says is what info tells. */
static void info_describes_the_file(void **state)
{
    (void)state;
    struct fixture f = fixture_small("qwen3", GGUF_Q6_K);
    struct setup s = make_setup(&f);
    const struct model_info *info = &s.model->info;
    assert_string_equal(info->architecture, "qwen3");
    assert_int_equal(info->vocab_size, f.vocab);
    assert_int_equal(info->context_length, 512);
    assert_int_equal(info->shape.layouts[0].kv_head_count, 2);
    assert_int_equal(info->shape.layouts[0].head_dim, 64);
    assert_int_equal(info->shape.layouts[0].tokens_per_block, BLOCK);
    uint64_t layer = 2 * 256 + 2 * 64 + 256 * (256 + 128 + 128 + 256 + 3 * 256);
    assert_int_equal(info->parameter_count, 2 * layer + 2 * 272 * 256 + 256);
    end_setup(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_computes_what_the_paper_says),
        cmocka_unit_test(llama_with_stretched_positions_computes_so_too),
        cmocka_unit_test(qwen2_computes_what_the_paper_says),
        cmocka_unit_test(qwen3_computes_what_the_paper_says),
        cmocka_unit_test(gemma3_computes_what_the_paper_says),
        cmocka_unit_test(gemma3_may_have_one_kind_of_layers_only),
        cmocka_unit_test(llama_with_a_window_computes_so_too),
        cmocka_unit_test(lives_follow_the_pattern),
        cmocka_unit_test(logits_are_packed_in_run_order),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(a_set_flag_cancels),
        cmocka_unit_test(a_pass_allocates_and_copies_nothing),
        cmocka_unit_test(info_describes_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
