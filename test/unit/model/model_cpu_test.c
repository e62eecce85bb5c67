/* The forward pass against a slow one written from the paper, in double, on F32
 * weights; and what it refuses. */
#include "unit/base/test.h"

#include "base/mem.h"
#include "model/model_cpu.h"
#include "unit/model/fixture.h"

struct setup {
    struct buf file;
    struct gguf *gguf;
    struct model *model;
    struct fixture_pool pool;
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
    fixture_pool_make(&s.model->info.layout, 3 * CONTEXT / BLOCK, 3, &s.pool);
    s.model->ops->set_pool(s.model, &s.pool.view);
    return s;
}

static void end_setup(struct setup *s)
{
    s->model->ops->destroy(s->model);
    gguf_close(s->gguf);
    buf_finish(&s->file);
    fixture_pool_end(&s->pool);
}

/* ---- the slow pass: one sequence, all tokens, everything kept ---- */

static void slow_multiply(const struct ops_matrix *m, const float *bias,
                          const double *x, double *out)
{
    const float *w = (const float *)(const void *)m->data;
    for (uint32_t i = 0; i < m->rows; i++) {
        out[i] = bias ? bias[i] : 0.0;
        for (uint32_t j = 0; j < m->columns; j++) {
            out[i] += (double)w[(size_t)i * m->columns + j] * x[j];
        }
    }
}

static void slow_norm(const double *x, const float *weight, uint32_t size,
                      double epsilon, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < size; i++) {
        sum += x[i] * x[i];
    }
    for (uint32_t i = 0; i < size; i++) {
        out[i] = x[i] / sqrt(sum / size + epsilon) * weight[i];
    }
}

static void slow_rope(const struct model_weights *w, double *head,
                      uint32_t position)
{
    const struct model_hparams *h = &w->hparams;
    uint32_t n = h->rope_dims;
    for (uint32_t i = 0; i < n / 2; i++) {
        double factor = w->rope_factors ? (double)w->rope_factors[i] : 1.0;
        double angle = position * (double)h->rope_scale *
                       pow((double)h->rope_base, -2.0 * i / n) / factor;
        bool split = strcmp(h->architecture->name, "llama") != 0;
        double *a = &head[split ? i : 2 * i];
        double *b = &head[split ? i + n / 2 : 2 * i + 1];
        double x = *a;
        double y = *b;
        *a = x * cos(angle) - y * sin(angle);
        *b = x * sin(angle) + y * cos(angle);
    }
}

static void slow_heads(const struct model_weights *w, double *heads,
                       uint32_t count, const float *norm, uint32_t position)
{
    uint32_t size = w->hparams.head_dim;
    for (uint32_t i = 0; i < count; i++) {
        if (norm) {
            slow_norm(heads + i * size, norm, size, (double)w->hparams.epsilon,
                      heads + i * size);
        }
        slow_rope(w, heads + i * size, position);
    }
}

/* One token over all that were kept so far: keys and values are
 * (token, kv_head, head_dim), as F16 keeps them. */
static void slow_attention(const struct model_hparams *h, const double *query,
                           const double *keys, const double *values,
                           uint32_t token_count, double *out)
{
    uint32_t d = h->head_dim;
    size_t stride = (size_t)h->kv_head_count * d;
    for (uint32_t head = 0; head < h->head_count; head++) {
        size_t kv = (size_t)head / (h->head_count / h->kv_head_count) * d;
        double weights[CONTEXT];
        double total = 0;
        for (uint32_t t = 0; t < token_count; t++) {
            double score = 0;
            for (uint32_t i = 0; i < d; i++) {
                score += query[head * d + i] * keys[t * stride + kv + i];
            }
            weights[t] = exp(score / sqrt((double)d));
            total += weights[t];
        }
        for (uint32_t i = 0; i < d; i++) {
            out[head * d + i] = 0;
            for (uint32_t t = 0; t < token_count; t++) {
                out[head * d + i] +=
                    weights[t] / total * values[t * stride + kv + i];
            }
        }
    }
}

static void keep_f16(const double *from, uint32_t size, double *to)
{
    for (uint32_t i = 0; i < size; i++) {
        to[i] = (double)half_to_f32(half_from_f32((float)from[i]));
    }
}

enum { WIDE = 1024 };

static void slow_layer(const struct model_weights *w, uint32_t layer,
                       uint32_t position, double *keys, double *values,
                       double *x)
{
    const struct model_hparams *h = &w->hparams;
    const struct model_layer *l = &w->layers[layer];
    double n[WIDE], q[WIDE], k[WIDE], v[WIDE], a[WIDE], b[WIDE];
    uint32_t kv_size = h->kv_head_count * h->head_dim;
    slow_norm(x, l->attention_norm, h->dim, (double)h->epsilon, n);
    slow_multiply(&l->q, l->q_bias, n, q);
    slow_multiply(&l->k, l->k_bias, n, k);
    slow_multiply(&l->v, l->v_bias, n, v);
    slow_heads(w, q, h->head_count, l->q_norm, position);
    slow_heads(w, k, h->kv_head_count, l->k_norm, position);
    keep_f16(k, kv_size, keys + (size_t)position * kv_size);
    keep_f16(v, kv_size, values + (size_t)position * kv_size);
    slow_attention(h, q, keys, values, position + 1, a);
    slow_multiply(&l->o, NULL, a, b);
    for (uint32_t i = 0; i < h->dim; i++) {
        x[i] += b[i];
    }
    slow_norm(x, l->ffn_norm, h->dim, (double)h->epsilon, n);
    slow_multiply(&l->gate, NULL, n, a);
    slow_multiply(&l->up, NULL, n, b);
    for (uint32_t i = 0; i < h->ffn_dim; i++) {
        a[i] = a[i] / (1 + exp(-a[i])) * b[i];
    }
    slow_multiply(&l->down, NULL, a, b);
    for (uint32_t i = 0; i < h->dim; i++) {
        x[i] += b[i];
    }
}

/* Logits after each token: (token, vocab). */
static void slow_forward(const struct model_weights *w, const int32_t *tokens,
                         uint32_t count, double *logits)
{
    const struct model_hparams *h = &w->hparams;
    size_t layer_size = (size_t)CONTEXT * h->kv_head_count * h->head_dim;
    double *keys = calloc(h->layer_count * layer_size, sizeof(double));
    double *values = calloc(h->layer_count * layer_size, sizeof(double));
    const float *embedding = (const float *)(const void *)w->embedding.data;
    for (uint32_t t = 0; t < count; t++) {
        double x[WIDE], n[WIDE];
        for (uint32_t i = 0; i < h->dim; i++) {
            x[i] = (double)embedding[(size_t)tokens[t] * h->dim + i];
        }
        for (uint32_t layer = 0; layer < h->layer_count; layer++) {
            slow_layer(w, layer, t, keys + layer * layer_size,
                       values + layer * layer_size, x);
        }
        slow_norm(x, w->output_norm, h->dim, (double)h->epsilon, n);
        slow_multiply(&w->output, NULL, n, logits + (size_t)t * h->vocab_size);
    }
    free(keys);
    free(values);
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
    enum { COUNT = 21 };
    struct setup s = make_setup(fixture);
    uint32_t vocab = fixture->vocab;
    int32_t tokens[COUNT];
    fill_tokens(tokens, COUNT, vocab);
    float *logits = calloc((size_t)COUNT * vocab, sizeof(float));
    double *expected = calloc((size_t)COUNT * vocab, sizeof(double));
    struct model_run run = {.tokens = tokens,
                            .token_count = COUNT,
                            .pages = s.pool.pages,
                            .logit_count = COUNT};
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
                                     .pages = s.pool.pages + i,
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
                             .pages = s.pool.pages,
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
                            .pages = s.pool.pages,
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
                            .pages = s.pool.pages,
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
    assert_int_equal(info->layout.kv_head_count, 2);
    assert_int_equal(info->layout.head_dim, 64);
    assert_int_equal(info->layout.tokens_per_block, BLOCK);
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
        cmocka_unit_test(logits_are_packed_in_run_order),
        cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(a_set_flag_cancels),
        cmocka_unit_test(a_pass_allocates_and_copies_nothing),
        cmocka_unit_test(info_describes_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
