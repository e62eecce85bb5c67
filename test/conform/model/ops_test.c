/* One suite for all bodies of model/ops that this CPU runs: `ref` judges what
 * they compute, and each is held to its own bits (decision 11). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../tools/quantise.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/half.h"
#include "model/ops.h"

/* The encoders that also write test models; one source for both. */
#include "../../../tools/quantise.c"

static const uint32_t TYPES[] = {
    GGUF_F32,  GGUF_F16,  GGUF_BF16, GGUF_Q8_0, GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0,
    GGUF_Q5_1, GGUF_Q2_K, GGUF_Q3_K, GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K};
enum { TYPE_COUNT = sizeof(TYPES) / sizeof(TYPES[0]) };

static float draw(struct rng *rng)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (float)(rng_next(rng) >> 40) * 0x1p-24f - 0.5f;
    }
    return sum * 1.7320508f;
}

static float *draw_many(struct rng *rng, size_t count, float scale)
{
    float *x = mem_new_array(count, sizeof(*x));
    for (size_t i = 0; i < count; i++) {
        x[i] = scale * draw(rng);
    }
    return x;
}

/* ---- matrices ---- */

struct matrix {
    struct ops_matrix ops;
    uint8_t *bytes;
};

static size_t packed_bytes(uint32_t type, size_t elements)
{
    return elements / quantise_block_elements(type) *
           quantise_block_bytes(type);
}

/* At an odd address, with nothing readable behind its end (under ASan). */
static struct matrix matrix_of(uint32_t type, const float *x, uint32_t rows,
                               uint32_t columns)
{
    size_t size = packed_bytes(type, (size_t)rows * columns);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    quantise_row(type, x, (size_t)rows * columns, bytes + 1);
    return (struct matrix){{type, rows, columns, bytes + 1}, bytes};
}

static struct matrix draw_matrix(struct rng *rng, uint32_t type, uint32_t rows,
                                 uint32_t columns, float scale)
{
    float *x = draw_many(rng, (size_t)rows * columns, scale);
    struct matrix matrix = matrix_of(type, x, rows, columns);
    mem_free(x);
    return matrix;
}

static uint32_t columns_for(uint32_t type, uint32_t blocks)
{
    return quantise_block_elements(type) * blocks;
}

static uint8_t *prepare(const struct ops *ops, uint32_t type, const float *x,
                        uint32_t rows, uint32_t columns)
{
    size_t stride = ops->row_bytes(type, columns);
    assert_int_equal(stride % 64, 0);
    uint8_t *out = aligned_alloc(64, stride * rows);
    assert_non_null(out);
    for (uint32_t r = 0; r < rows; r++) {
        ops->prepare_row(type, x + (size_t)r * columns, columns,
                         out + r * stride);
    }
    return out;
}

/* (row, matrix row) by one call. */
static float *product(const struct ops *ops, const struct ops_matrix *matrix,
                      const float *x, uint32_t rows)
{
    uint8_t *prepared = prepare(ops, matrix->type, x, rows, matrix->columns);
    float *out = mem_new_array((size_t)rows * matrix->rows, sizeof(*out));
    ops->matmul(matrix, prepared, rows, out, matrix->rows, 0, matrix->rows);
    free(prepared);
    return out;
}

/* How far sums of this size may lie apart: float rounding over the sum of the
 * products' sizes. */
static float *allowance(const struct ops_matrix *matrix, const float *x,
                        uint32_t rows, float share)
{
    float *out = mem_new_array((size_t)rows * matrix->rows, sizeof(*out));
    float *w = mem_new_array(matrix->columns, sizeof(*w));
    for (uint32_t i = 0; i < matrix->rows; i++) {
        OPS_REF.get_row(matrix, i, w);
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0;
            for (uint32_t c = 0; c < matrix->columns; c++) {
                sum += fabs((double)w[c] *
                            (double)x[(size_t)r * matrix->columns + c]);
            }
            out[(size_t)r * matrix->rows + i] = (float)sum * share;
        }
    }
    mem_free(w);
    return out;
}

static void assert_near(const struct ops *ops, uint32_t type, const float *got,
                        const float *want, const float *slack, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(got[i] - want[i]) <= slack[i])) {
            fail_msg("%s, type %u, element %zu: %g, but ref says %g (+- %g)",
                     ops->name, type, i, (double)got[i], (double)want[i],
                     (double)slack[i]);
        }
    }
}

static void judge_product(const struct ops *ops, const struct ops_matrix *m,
                          const float *x, uint32_t rows)
{
    float *want = product(&OPS_REF, m, x, rows);
    float *got = product(ops, m, x, rows);
    float *slack = allowance(m, x, rows, 4e-6f);
    assert_near(ops, m->type, got, want, slack, (size_t)rows * m->rows);
    mem_free(slack);
    mem_free(got);
    mem_free(want);
}

/* Odd counts of matrix rows, rows and blocks, above and below each tile, panel
 * and chunk. */
static void products_agree_with_ref_for_each_type_and_odd_size(void **state)
{
    (void)state;
    static const uint32_t SHAPES[][3] = {/* matrix rows, blocks, rows */
                                         {1, 1, 1},    {5, 3, 2},  {16, 2, 1},
                                         {17, 5, 3},   {33, 9, 7}, {64, 4, 8},
                                         {47, 33, 13}, {3, 67, 1}};
    struct rng rng = rng_from_seed(1);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 0; t < TYPE_COUNT; t++) {
            for (size_t s = 0; s < sizeof(SHAPES) / sizeof(SHAPES[0]); s++) {
                uint32_t columns = columns_for(TYPES[t], SHAPES[s][1]);
                struct matrix m =
                    draw_matrix(&rng, TYPES[t], SHAPES[s][0], columns, 0.1f);
                float *x =
                    draw_many(&rng, (size_t)SHAPES[s][2] * columns, 1.0f);
                judge_product(*ops, &m.ops, x, SHAPES[s][2]);
                mem_free(x);
                free(m.bytes);
            }
        }
    }
}

/* Any bytes are weights: scales at both ends of F16 (but finite), each bit of
 * each field in use. */
static void products_agree_with_ref_for_arbitrary_block_bytes(void **state)
{
    (void)state;
    static const uint16_t STEPS[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400,
                                     0x3c00, 0xbc00, 0x5bff, 0xdbff, 0x2e66};
    struct rng rng = rng_from_seed(2);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 3; t < TYPE_COUNT; t++) {
            uint32_t type = TYPES[t];
            uint32_t columns = columns_for(type, 5);
            struct matrix m = draw_matrix(&rng, type, 21, columns, 1.0f);
            uint32_t size = quantise_block_bytes(type);
            uint32_t at = type == GGUF_Q2_K   ? 80
                          : type == GGUF_Q3_K ? 108
                          : type == GGUF_Q6_K ? 208
                                              : 0;
            bool has_two = type == GGUF_Q4_1 || type == GGUF_Q5_1 ||
                           type == GGUF_Q2_K || type == GGUF_Q4_K ||
                           type == GGUF_Q5_K;
            for (uint8_t *p = m.bytes + 1; p < m.bytes + 1 + 21 * 5 * size;
                 p += size) {
                for (uint32_t i = 0; i < size; i++) {
                    p[i] = (uint8_t)rng_next(&rng);
                }
                memcpy(p + at, &STEPS[rng_below(&rng, 10)], 2);
                if (has_two) {
                    memcpy(p + at + 2, &STEPS[rng_below(&rng, 10)], 2);
                }
            }
            float *x = draw_many(&rng, (size_t)5 * columns, 1.0f);
            float *want = product(&OPS_REF, &m.ops, x, 5);
            float *got = product(*ops, &m.ops, x, 5);
            float *slack = allowance(&m.ops, x, 5, 2e-5f);
            assert_near(*ops, type, got, want, slack, 5 * 21);
            mem_free(slack);
            mem_free(got);
            mem_free(want);
            mem_free(x);
            free(m.bytes);
        }
    }
}

/* Tiny, huge and zero blocks side by side, and rows of zeros. */
static void products_agree_with_ref_for_extreme_scales(void **state)
{
    (void)state;
    static const float SCALES[] = {0.0f, 1e-7f, 6e-5f, 1.0f, 300.0f};
    static const float INPUTS[] = {0.0f, 1e-30f, 1e-6f, 1.0f, 1e6f};
    enum { ROWS = 20, INPUT_ROWS = 5 };
    struct rng rng = rng_from_seed(3);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 0; t < TYPE_COUNT; t++) {
            uint32_t wide = quantise_block_elements(TYPES[t]);
            uint32_t columns = wide == 1 ? 67 : wide * 6;
            float *w = draw_many(&rng, (size_t)ROWS * columns, 1.0f);
            for (uint32_t i = 0; i < ROWS * columns; i++) {
                w[i] *= SCALES[i / (wide == 1 ? 16 : wide) % 5];
            }
            float *x = draw_many(&rng, (size_t)INPUT_ROWS * columns, 1.0f);
            for (uint32_t i = 0; i < INPUT_ROWS * columns; i++) {
                x[i] *= INPUTS[i / columns];
            }
            struct matrix m = matrix_of(TYPES[t], w, ROWS, columns);
            judge_product(*ops, &m.ops, x, INPUT_ROWS);
            free(m.bytes);
            mem_free(x);
            mem_free(w);
        }
    }
}

/* A row whose blocks hold one denormal each must neither trap nor spread. */
static void products_of_denormal_rows_stay_small(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(4);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 0; t < TYPE_COUNT; t++) {
            uint32_t columns = 512;
            struct matrix m = draw_matrix(&rng, TYPES[t], 18, columns, 1.0f);
            float *x = mem_new_array(columns, sizeof(*x));
            for (uint32_t i = 0; i < columns; i += 32) {
                x[i] = 1e-40f;
            }
            float *got = product(*ops, &m.ops, x, 1);
            for (int i = 0; i < 18; i++) {
                assert_true(fabsf(got[i]) < 1e-37f);
            }
            mem_free(got);
            mem_free(x);
            free(m.bytes);
        }
    }
}

/* Every element by itself, in ranges and groups drawn at random, gives the
 * bits of one call for all; places outside the range stay untouched. */
static void products_have_the_same_bits_in_any_grouping(void **state)
{
    (void)state;
    enum { ROWS = 70, INPUT_ROWS = 19 };
    struct rng rng = rng_from_seed(5);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 0; t < TYPE_COUNT; t++) {
            uint32_t wide = quantise_block_elements(TYPES[t]);
            uint32_t columns = wide == 1    ? 1093
                               : wide == 32 ? 32 * 37
                                            : 256 * 5;
            struct matrix m = draw_matrix(&rng, TYPES[t], ROWS, columns, 0.1f);
            float *x = draw_many(&rng, (size_t)INPUT_ROWS * columns, 1.0f);
            float *want = product(*ops, &m.ops, x, INPUT_ROWS);
            uint8_t *prepared = prepare(*ops, TYPES[t], x, INPUT_ROWS, columns);
            size_t stride = (*ops)->row_bytes(TYPES[t], columns);
            for (int round = 0; round < 12; round++) {
                float got[INPUT_ROWS * ROWS];
                memset(got, 0xee, sizeof(got));
                float untouched;
                memcpy(&untouched, got, sizeof(untouched));
                uint32_t count =
                    1 + (uint32_t)rng_below(&rng, round < 4 ? 1 : INPUT_ROWS);
                uint32_t first =
                    (uint32_t)rng_below(&rng, INPUT_ROWS - count + 1);
                uint32_t begin = (uint32_t)rng_below(&rng, ROWS);
                uint32_t end =
                    begin + 1 + (uint32_t)rng_below(&rng, ROWS - begin);
                (*ops)->matmul(&m.ops, prepared + first * stride, count, got,
                               ROWS, begin, end);
                for (uint32_t i = 0; i < count * ROWS; i++) {
                    uint32_t column = i % ROWS;
                    bool is_in = column >= begin && column < end;
                    float expected = is_in ? want[first * ROWS + i] : untouched;
                    assert_memory_equal(&got[i], &expected, sizeof(float));
                }
            }
            free(prepared);
            mem_free(want);
            mem_free(x);
            free(m.bytes);
        }
    }
}

/* ---- vectors ---- */

/* Sizes around each vector width, in place, compared with ref. */
static void vector_functions_agree_with_ref(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(6);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (uint32_t size = 1; size < 70; size++) {
            float *x = draw_many(&rng, size, 4.0f);
            float *y = draw_many(&rng, size, 1.0f);
            float a[70];
            float b[70];
            uint16_t ha[70];
            uint16_t hb[70];
            (*ops)->rms_norm(x, y, size, 1e-5f, a);
            OPS_REF.rms_norm(x, y, size, 1e-5f, b);
            for (uint32_t i = 0; i < size; i++) {
                assert_true(fabsf(a[i] - b[i]) <= 2e-6f * fabsf(b[i]));
            }
            (*ops)->rms_norm(x, NULL, size, 1e-5f, a);
            OPS_REF.rms_norm(x, NULL, size, 1e-5f, b);
            for (uint32_t i = 0; i < size; i++) {
                assert_true(fabsf(a[i] - b[i]) <= 2e-6f * fabsf(b[i]));
            }
            (*ops)->store_f16(x, size, ha);
            OPS_REF.store_f16(x, size, hb);
            assert_memory_equal(ha, hb, size * sizeof(ha[0]));
            memcpy(a, x, size * sizeof(a[0]));
            memcpy(b, x, size * sizeof(b[0]));
            (*ops)->add(a, y, size);
            OPS_REF.add(b, y, size);
            assert_memory_equal(a, b, size * sizeof(a[0]));
            mem_free(x);
            mem_free(y);
        }
    }
}

/* Round to nearest even for ties, subnormals, overflow and infinities. */
static void store_f16_rounds_as_ref_at_the_edges(void **state)
{
    (void)state;
    static const float EDGES[] = {
        0.0f,     -0.0f,    1.0f,      1.00048828125f, 1.00146484375f,
        65504.0f, 65519.9f, 65520.0f,  -65520.0f,      1e30f,
        6.1e-5f,  5.97e-8f, 2.98e-8f,  2.99e-8f,       -8.94e-8f,
        1e-30f,   INFINITY, -INFINITY, 6.103515625e-5f};
    enum { COUNT = sizeof(EDGES) / sizeof(EDGES[0]) };
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        uint16_t got[COUNT];
        uint16_t want[COUNT];
        (*ops)->store_f16(EDGES, COUNT, got);
        OPS_REF.store_f16(EDGES, COUNT, want);
        assert_memory_equal(got, want, sizeof(got));
    }
}

/* From -100 to 100 and far outside; and each element has the same bits alone
 * as in any place of a longer vector. */
static void silu_agrees_with_ref_and_ignores_its_place(void **state)
{
    (void)state;
    enum { COUNT = 2003 };
    static float x[COUNT];
    static float up[COUNT];
    static float a[COUNT];
    static float b[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - COUNT / 2) * 0.1f;
        up[i] = 1.0f + (float)(i % 3);
    }
    x[0] = -1e30f;
    x[1] = 1e30f;
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        memcpy(a, x, sizeof(a));
        memcpy(b, x, sizeof(b));
        (*ops)->silu_multiply(a, up, COUNT);
        OPS_REF.silu_multiply(b, up, COUNT);
        for (int i = 1; i < COUNT; i++) {
            assert_true(fabsf(a[i] - b[i]) <= 1e-6f * fabsf(b[i]) + 1e-35f);
            float alone = x[i];
            (*ops)->silu_multiply(&alone, &up[i], 1);
            assert_memory_equal(&alone, &a[i], sizeof(alone));
        }
        assert_true(fabsf(a[0]) < 1e-5f);
    }
}

/* One row of each type comes back as ref reads it. */
static void rows_are_looked_up_as_ref_reads_them(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(7);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 0; t < TYPE_COUNT; t++) {
            uint32_t columns = 512;
            struct matrix m = draw_matrix(&rng, TYPES[t], 3, columns, 1.0f);
            float a[512];
            float b[512];
            (*ops)->get_row(&m.ops, 2, a);
            OPS_REF.get_row(&m.ops, 2, b);
            assert_memory_equal(a, b, sizeof(a));
            free(m.bytes);
        }
    }
}

/* The root mean square miss of normal numbers is what each width promises:
 * a format read in another way than it was written misses by far more. */
static void rows_read_back_near_what_was_written(void **state)
{
    (void)state;
    static const float MISS[TYPE_COUNT] = {0.0f,  3e-4f, 3e-3f, 0.008f, 0.12f,
                                           0.10f, 0.06f, 0.05f, 0.40f,  0.20f,
                                           0.09f, 0.05f, 0.03f};
    enum { COLUMNS = 2048 };
    struct rng rng = rng_from_seed(8);
    float *x = draw_many(&rng, COLUMNS, 1.0f);
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int t = 0; t < TYPE_COUNT; t++) {
            struct matrix m = matrix_of(TYPES[t], x, 1, COLUMNS);
            float got[COLUMNS];
            (*ops)->get_row(&m.ops, 0, got);
            double sum = 0;
            for (int i = 0; i < COLUMNS; i++) {
                sum += pow((double)(got[i] - x[i]), 2);
            }
            double miss = sqrt(sum / COLUMNS);
            if (!(miss <= (double)MISS[t])) {
                fail_msg("type %u misses by %g", TYPES[t], miss);
            }
            free(m.bytes);
        }
    }
    mem_free(x);
}

/* ---- attention ---- */

struct scene {
    uint32_t head_dim;
    uint32_t group;
    uint32_t rows;
    uint32_t position;
    uint32_t tokens_per_block;
    uint8_t *pool;
    kv_page_id *pages;
    size_t page_bytes;
    float *query;
    float *scratch;
    uint32_t window;
    uint32_t sink_tokens;
};

static float token_value(uint64_t seed, uint32_t token, uint32_t d)
{
    return rng_unit_at(seed, token, d) * 2.0f - 1.0f;
}

/* Pages in reverse order; what no token fills holds NaN. */
static void fill_pages(struct scene *s)
{
    uint32_t tokens = s->position + s->rows;
    uint32_t count = (tokens + s->tokens_per_block - 1) / s->tokens_per_block;
    size_t side = (size_t)s->tokens_per_block * s->head_dim * 2;
    s->page_bytes = 2 * side;
    s->pool = malloc(count * s->page_bytes);
    s->pages = mem_new_array(count, sizeof(*s->pages));
    assert_non_null(s->pool);
    memset(s->pool, 0x7f, count * s->page_bytes);
    for (uint32_t t = 0; t < tokens; t++) {
        uint32_t page = t / s->tokens_per_block;
        s->pages[page] = (kv_page_id)(count - 1 - page);
        uint8_t *at = s->pool + (size_t)s->pages[page] * s->page_bytes +
                      (size_t)(t % s->tokens_per_block) * s->head_dim * 2;
        for (uint32_t d = 0; d < s->head_dim; d++) {
            uint16_t key = quantise_f16_from(2 * token_value(1, t, d));
            uint16_t value = quantise_f16_from(token_value(2, t, d));
            memcpy(at + 2 * d, &key, 2);
            memcpy(at + side + 2 * d, &value, 2);
        }
    }
}

static struct scene scene_of(uint32_t head_dim, uint32_t group, uint32_t rows,
                             uint32_t position, uint32_t tokens_per_block)
{
    struct scene s = {.head_dim = head_dim,
                      .group = group,
                      .rows = rows,
                      .position = position,
                      .tokens_per_block = tokens_per_block};
    fill_pages(&s);
    size_t count = (size_t)rows * group * head_dim;
    s.query = mem_new_array(count, sizeof(float));
    for (size_t i = 0; i < count; i++) { /* by position, not by place */
        uint32_t row = (uint32_t)(i / (group * head_dim));
        s.query[i] = 2 * token_value(3, position + row,
                                     (uint32_t)(i % (group * head_dim)));
    }
    s.scratch = mem_new_array(
        ops_attention_scratch(position + rows, group, head_dim), sizeof(float));
    return s;
}

static void scene_end(struct scene *s)
{
    mem_free(s->scratch);
    mem_free(s->query);
    mem_free(s->pages);
    free(s->pool);
}

static void attend(const struct ops *ops, const struct scene *s, uint32_t begin,
                   uint32_t end, float *out)
{
    size_t stride = (size_t)s->group * s->head_dim;
    struct ops_attention attention = {
        .pool = s->pool,
        .page_bytes = s->page_bytes,
        .pages = s->pages,
        .key_offset = 0,
        .value_offset = s->page_bytes / 2,
        .tokens_per_block = s->tokens_per_block,
        .head_dim = s->head_dim,
        .group_size = s->group,
        .scale = 1.0f / sqrtf((float)s->head_dim),
        .query = s->query,
        .query_stride = stride,
        .out = out,
        .out_stride = stride,
        .position = s->position,
        .window = s->window,
        .sink_tokens = s->sink_tokens,
        .scratch = s->scratch,
    };
    ops->attention(&attention, begin, end);
}

/* Head widths that fill no vector, groups that fill no tile, pages of any
 * size, short and long; the pages' unwritten part is NaN. */
static void attention_agrees_with_ref(void **state)
{
    (void)state;
    static const uint32_t SCENES[][5] = {
        {64, 4, 1, 0, 16},   {64, 4, 1, 200, 32}, {32, 1, 7, 60, 32},
        {128, 7, 3, 63, 64}, {80, 2, 70, 0, 8},   {20, 3, 5, 130, 7},
        {256, 1, 2, 64, 32}, {300, 2, 2, 70, 16}, {64, 8, 33, 100, 1},
        {6, 150, 2, 9, 32}};
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (size_t i = 0; i < sizeof(SCENES) / sizeof(SCENES[0]); i++) {
            const uint32_t *c = SCENES[i];
            struct scene s = scene_of(c[0], c[1], c[2], c[3], c[4]);
            size_t count = (size_t)c[0] * c[1] * c[2];
            float *got = mem_new_array(count, sizeof(float));
            float *want = mem_new_array(count, sizeof(float));
            attend(*ops, &s, 0, s.rows, got);
            attend(&OPS_REF, &s, 0, s.rows, want);
            for (size_t k = 0; k < count; k++) {
                if (!(fabsf(got[k] - want[k]) <= 3e-6f)) {
                    fail_msg("%s, scene %zu, element %zu: %g, ref %g",
                             (*ops)->name, i, k, (double)got[k],
                             (double)want[k]);
                }
            }
            mem_free(got);
            mem_free(want);
            scene_end(&s);
        }
    }
}

/* The same tokens in other pages, other chunks, row by row: the same bits. */
static void attention_has_the_same_bits_in_any_grouping(void **state)
{
    (void)state;
    enum { DIM = 48, GROUP = 3, ROWS = 150, SIZE = DIM * GROUP };
    static const uint32_t PAGES[] = {1, 7, 16, 64, 200};
    static float whole[ROWS * SIZE];
    static float got[ROWS * SIZE];
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        struct scene all = scene_of(DIM, GROUP, ROWS, 0, 32);
        attend(*ops, &all, 0, ROWS, whole);
        scene_end(&all);
        for (int i = 0; i < 5; i++) {
            uint32_t first = (uint32_t)(i * 31);
            struct scene s =
                scene_of(DIM, GROUP, ROWS - first, first, PAGES[i]);
            for (uint32_t r = 0; r < s.rows;) {
                uint32_t stop = r + 1 + (r * 7 + 3) % 40;
                stop = stop < s.rows ? stop : s.rows;
                attend(*ops, &s, r, stop, got);
                r = stop;
            }
            assert_memory_equal(got, whole + first * SIZE,
                                (size_t)s.rows * SIZE * sizeof(float));
            scene_end(&s);
        }
    }
}

/* ---- windows ---- */

/* Rows [begin, end) on a table whose entries are far outside wherever none of
 * them sees a token: whoever reads one ends the test. */
static void attend_blind(const struct ops *ops, const struct scene *s,
                         uint32_t begin, uint32_t end, float *out)
{
    uint32_t size = s->tokens_per_block;
    uint32_t count = (s->position + s->rows + size - 1) / size;
    uint32_t at = s->position + begin;
    uint32_t first = s->window == 0 || at < s->window ? 0 : at + 1 - s->window;
    struct scene blind = *s;
    blind.pages = mem_new_array(count, sizeof(*blind.pages));
    for (uint32_t i = 0; i < count; i++) {
        bool is_seen = i * size < s->sink_tokens ||
                       ((i + 1) * size > first && i * size < s->position + end);
        blind.pages[i] = is_seen ? s->pages[i] : INT32_MAX;
    }
    attend(ops, &blind, begin, end, out);
    mem_free(blind.pages);
}

/* By the definition: softmax over the tokens in sight, in long double. */
static void attend_slowly(const struct scene *s, float *out)
{
    long double *p = mem_new_array(s->position + s->rows, sizeof(*p));
    for (uint32_t i = 0; i < s->rows * s->group; i++) {
        const float *query = s->query + (size_t)i * s->head_dim;
        uint32_t at = s->position + i / s->group;
        long double total = 0;
        for (uint32_t t = 0; t <= at; t++) {
            bool is_seen =
                s->window == 0 || t + s->window > at || t < s->sink_tokens;
            long double sum = 0;
            for (uint32_t d = 0; is_seen && d < s->head_dim; d++) {
                sum += (long double)query[d] *
                       (long double)half_to_f32(
                           quantise_f16_from(2 * token_value(1, t, d)));
            }
            p[t] = is_seen ? expl(sum / sqrtl(s->head_dim)) : 0;
            total += p[t];
        }
        for (uint32_t d = 0; d < s->head_dim; d++) {
            long double sum = 0;
            for (uint32_t t = 0; t <= at; t++) {
                sum += p[t] * (long double)half_to_f32(
                                  quantise_f16_from(token_value(2, t, d)));
            }
            out[(size_t)i * s->head_dim + d] = (float)(sum / total);
        }
    }
    mem_free(p);
}

/* Windows of one token, of blocks and of odd sizes; sinks apart from the window,
 * touching it and inside it; every body, the reference too. */
static void windows_see_what_they_should(void **state)
{
    (void)state;
    static const uint32_t SCENES[][7] = {
        /* head_dim, group, rows, position, page, window, sinks */
        {64, 4, 1, 300, 32, 100, 0},  {32, 1, 90, 0, 16, 1, 0},
        {32, 2, 150, 7, 8, 64, 0},    {16, 3, 70, 130, 7, 65, 0},
        {20, 3, 5, 130, 7, 33, 5},    {64, 1, 140, 0, 32, 31, 70},
        {32, 8, 33, 200, 1, 128, 64}, {48, 2, 40, 90, 16, 500, 3},
        {16, 1, 200, 0, 32, 96, 1},   {300, 2, 3, 90, 16, 20, 6}};
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (size_t i = 0; i < sizeof(SCENES) / sizeof(SCENES[0]); i++) {
            const uint32_t *c = SCENES[i];
            struct scene s = scene_of(c[0], c[1], c[2], c[3], c[4]);
            s.window = c[5];
            s.sink_tokens = c[6];
            size_t count = (size_t)c[0] * c[1] * c[2];
            float *got = mem_new_array(count, sizeof(float));
            float *want = mem_new_array(count, sizeof(float));
            attend_blind(*ops, &s, 0, s.rows, got);
            attend_slowly(&s, want);
            for (size_t k = 0; k < count; k++) {
                if (!(fabsf(got[k] - want[k]) <= 3e-6f)) {
                    fail_msg("%s, scene %zu, element %zu: %g, not %g",
                             (*ops)->name, i, k, (double)got[k],
                             (double)want[k]);
                }
            }
            mem_free(got);
            mem_free(want);
            scene_end(&s);
        }
    }
}

/* Whatever rows go together and however small the pages: the same bits, from
 * tables without what the rows do not see. */
static void windows_have_the_same_bits_in_any_grouping(void **state)
{
    (void)state;
    enum { DIM = 48, GROUP = 3, ROWS = 220, SIZE = DIM * GROUP };
    static const uint32_t WINDOWS[][2] = {{1, 0}, {40, 0}, {64, 9}, {97, 66}};
    static const uint32_t PAGES[] = {1, 7, 16, 64};
    static float whole[ROWS * SIZE];
    static float got[ROWS * SIZE];
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        for (int w = 0; w < 4; w++) {
            struct scene all = scene_of(DIM, GROUP, ROWS, 0, 32);
            all.window = WINDOWS[w][0];
            all.sink_tokens = WINDOWS[w][1];
            attend(*ops, &all, 0, ROWS, whole);
            scene_end(&all);
            uint32_t first = (uint32_t)(w * 31);
            struct scene s =
                scene_of(DIM, GROUP, ROWS - first, first, PAGES[w]);
            s.window = WINDOWS[w][0];
            s.sink_tokens = WINDOWS[w][1];
            for (uint32_t r = 0; r < s.rows;) {
                uint32_t stop = r + 1 + (r * 7 + 3) % 40;
                stop = stop < s.rows ? stop : s.rows;
                attend_blind(*ops, &s, r, stop, got);
                r = stop;
            }
            assert_memory_equal(got, whole + first * SIZE,
                                (size_t)s.rows * SIZE * sizeof(float));
            scene_end(&s);
        }
    }
}

/* Scores far apart: the running peak moves block after block, and what it
 * leaves behind vanishes without NaN. */
static void attention_survives_scores_far_apart(void **state)
{
    (void)state;
    for (const struct ops *const *ops = ops_all(); *ops; ops++) {
        struct scene s = scene_of(64, 1, 1, 255, 32);
        for (uint32_t d = 0; d < 64; d++) {
            s.query[d] *= 400.0f;
        }
        float got[64];
        float want[64];
        attend(*ops, &s, 0, 1, got);
        attend(&OPS_REF, &s, 0, 1, want);
        for (int d = 0; d < 64; d++) {
            assert_true(fabsf(got[d] - want[d]) <= 1e-3f);
        }
        scene_end(&s);
    }
}

/* The list ends, starts with ref and holds what ops_fast picks. */
static void the_fast_body_is_among_all_bodies(void **state)
{
    (void)state;
    const struct ops *const *all = ops_all();
    bool is_there = false;
    assert_ptr_equal(all[0], &OPS_REF);
    for (; *all; all++) {
        is_there |= *all == ops_fast();
    }
    assert_true(is_there);
}

int main(void)
{
    const struct CMUnitTest TESTS[] = {
        cmocka_unit_test(products_agree_with_ref_for_each_type_and_odd_size),
        cmocka_unit_test(products_agree_with_ref_for_arbitrary_block_bytes),
        cmocka_unit_test(products_agree_with_ref_for_extreme_scales),
        cmocka_unit_test(products_of_denormal_rows_stay_small),
        cmocka_unit_test(products_have_the_same_bits_in_any_grouping),
        cmocka_unit_test(vector_functions_agree_with_ref),
        cmocka_unit_test(store_f16_rounds_as_ref_at_the_edges),
        cmocka_unit_test(silu_agrees_with_ref_and_ignores_its_place),
        cmocka_unit_test(rows_are_looked_up_as_ref_reads_them),
        cmocka_unit_test(rows_read_back_near_what_was_written),
        cmocka_unit_test(attention_agrees_with_ref),
        cmocka_unit_test(attention_has_the_same_bits_in_any_grouping),
        cmocka_unit_test(windows_see_what_they_should),
        cmocka_unit_test(windows_have_the_same_bits_in_any_grouping),
        cmocka_unit_test(attention_survives_scores_far_apart),
        cmocka_unit_test(the_fast_body_is_among_all_bodies),
    };
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
