/* The reference operations against their formulas in double, on plain arrays. */
#include "unit/base/test.h"

#include <math.h>
#include <stdlib.h>

#include "unit/model/fixture.h"

#include "model/ops.h"
#include "model/ops_ref_blocks.h"

enum { ROWS = 5, COLUMNS = 512, MATRIX_ROWS = 33 };

struct operands {
    struct buf weights;
    struct ops_matrix matrix;
    float x[ROWS][COLUMNS];
    uint8_t *prepared;
    float out[ROWS][MATRIX_ROWS];
};

static struct operands *make(uint32_t type)
{
    struct operands *o = calloc(1, sizeof(*o));
    struct rng rng = rng_from_seed(type);
    buf_init(&o->weights, 1 << 20);
    fixture_elements(&o->weights, &rng, type, MATRIX_ROWS * COLUMNS, 1.0f, 0);
    o->matrix = (struct ops_matrix){.type = type,
                                    .rows = MATRIX_ROWS,
                                    .columns = COLUMNS,
                                    .data = o->weights.data};
    size_t stride = OPS_REF.row_bytes(type, COLUMNS);
    assert_int_equal(stride % 64, 0);
    o->prepared = aligned_alloc(64, ROWS * stride);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < COLUMNS; i++) {
            o->x[r][i] = fixture_random(&rng);
        }
        OPS_REF.prepare_row(type, o->x[r], COLUMNS, o->prepared + r * stride);
    }
    return o;
}

static void end(struct operands *o)
{
    buf_finish(&o->weights);
    free(o->prepared);
    free(o);
}

/* Products are those of the dequantised row, up to what 8-bit activations
 * lose: a step of 1/127 of the block's peak, some 0.7 % a product, in random
 * directions. Plain types lose nothing. */
static void products_are_those_of_dequantised_rows(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < FIXTURE_TYPE_COUNT; k++) {
        uint32_t type = FIXTURE_TYPES[k];
        struct operands *o = make(type);
        OPS_REF.matmul(&o->matrix, o->prepared, ROWS, o->out[0], MATRIX_ROWS, 0,
                       MATRIX_ROWS);
        double loss = ops_ref_is_plain(type) ? 1e-6 : 0.04;
        for (uint32_t i = 0; i < MATRIX_ROWS; i++) {
            float w[COLUMNS];
            OPS_REF.get_row(&o->matrix, i, w);
            for (uint32_t r = 0; r < ROWS; r++) {
                double sum = 0.0;
                double squares = 0.0;
                for (uint32_t j = 0; j < COLUMNS; j++) {
                    double product = (double)w[j] * (double)o->x[r][j];
                    sum += product;
                    squares += product * product;
                }
                double error = fabs((double)o->out[r][i] - sum);
                assert_true(error <= loss * sqrt(squares) + 1e-5);
            }
        }
        end(o);
    }
}

/* One row at a time, and in odd ranges: the same bits; nothing else written. */
static void ranges_and_grouping_leave_bits_alone(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < FIXTURE_TYPE_COUNT; k++) {
        uint32_t type = FIXTURE_TYPES[k];
        struct operands *o = make(type);
        size_t stride = OPS_REF.row_bytes(type, COLUMNS);
        OPS_REF.matmul(&o->matrix, o->prepared, ROWS, o->out[0], MATRIX_ROWS, 0,
                       MATRIX_ROWS);
        for (uint32_t r = 0; r < ROWS; r++) {
            float row[MATRIX_ROWS + 1];
            row[MATRIX_ROWS] = 77.0f;
            const uint8_t *x = o->prepared + r * stride;
            OPS_REF.matmul(&o->matrix, x, 1, row, MATRIX_ROWS, 0, 16);
            OPS_REF.matmul(&o->matrix, x, 1, row, MATRIX_ROWS, 16, MATRIX_ROWS);
            assert_memory_equal(row, o->out[r], MATRIX_ROWS * sizeof(float));
            assert_true(row[MATRIX_ROWS] == 77.0f);
        }
        end(o);
    }
}

/* A row of zeros prepares to zeros, in every type. */
static void zero_rows_give_zero(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < FIXTURE_TYPE_COUNT; k++) {
        struct operands *o = make(FIXTURE_TYPES[k]);
        memset(o->x, 0, sizeof(o->x));
        OPS_REF.prepare_row(FIXTURE_TYPES[k], o->x[0], COLUMNS, o->prepared);
        OPS_REF.matmul(&o->matrix, o->prepared, 1, o->out[0], MATRIX_ROWS, 0,
                       MATRIX_ROWS);
        for (uint32_t i = 0; i < MATRIX_ROWS; i++) {
            assert_true(o->out[0][i] == 0.0f);
        }
        end(o);
    }
}

/* Norm, activation and sum, element by element. */
static void elementwise_operations_are_their_formulas(void **state)
{
    (void)state;
    float x[5] = {1, -2, 3, -4, 0};
    const float WEIGHT[5] = {1, 2, 1, 1, 1};
    float out[5];
    OPS_REF.rms_norm(x, WEIGHT, 5, 0.5f, out);
    for (uint32_t i = 0; i < 5; i++) {
        double expected = (double)x[i] / sqrt(6.5) * (double)WEIGHT[i];
        assert_true(fabs((double)out[i] - expected) < 1e-6);
    }
    OPS_REF.rms_norm(x, NULL, 5, 0.5f, x);
    assert_true(fabs((double)x[1] + 2 / sqrt(6.5)) < 1e-6);
    float gate[3] = {0, 2, -1000};
    const float UP[3] = {5, 3, 1};
    OPS_REF.silu_multiply(gate, UP, 3);
    assert_true(gate[0] == 0.0f);
    assert_true(fabs((double)gate[1] - 6 / (1 + exp(-2))) < 1e-6);
    assert_true(gate[2] == 0.0f);
    OPS_REF.add(gate, UP, 3);
    assert_true(gate[2] == 1.0f);
    uint16_t halves[3];
    OPS_REF.store_f16(UP, 3, halves);
    assert_int_equal(halves[0], half_from_f32(5));
    assert_int_equal(halves[2], 0x3c00);
}

/* Keys such that each query sees one token far ahead of all others: its value
 * comes out. Pages are shuffled, and what lies past the row is NaN. */
static void attention_finds_its_token_through_the_table(void **state)
{
    (void)state;
    enum { TOKENS = 10, BLOCK = 4, DIM = 16, PAGES = 3 };
    const struct kv_layout LAYOUT = {1, 1, DIM, BLOCK, 2};
    struct fixture_pool pool;
    fixture_pool_make(&LAYOUT, PAGES, 4, &pool);
    size_t values = kv_layout_layer_bytes(&LAYOUT) / 2;
    for (uint32_t t = 0; t < TOKENS; t++) {
        uint8_t *page = pool.view.base +
                        (size_t)pool.pages[t / BLOCK] * pool.view.page_bytes;
        for (uint32_t d = 0; d < DIM; d++) {
            size_t at = (t % BLOCK * DIM + d) * 2;
            fixture_half(page + at, d == t ? 50.0f : 0.0f);
            fixture_half(page + values + at, (float)(100 * t + d));
        }
    }
    float query[2][DIM] = {{0}};
    float out[2][DIM];
    float scratch[TOKENS];
    query[0][6] = 1.0f; /* row 0 stands at 8, row 1 at 9 */
    query[1][9] = 1.0f;
    struct ops_attention a = {.pool = pool.view.base,
                              .page_bytes = pool.view.page_bytes,
                              .pages = pool.pages,
                              .value_offset = values,
                              .tokens_per_block = BLOCK,
                              .head_dim = DIM,
                              .group_size = 1,
                              .scale = 1.0f,
                              .query = query[0],
                              .query_stride = DIM,
                              .out = out[0],
                              .out_stride = DIM,
                              .position = 8,
                              .scratch = scratch};
    assert_true(ops_attention_scratch(TOKENS, 1, DIM) <= TOKENS);
    OPS_REF.attention(&a, 0, 2);
    for (uint32_t d = 0; d < DIM; d++) {
        assert_true(fabsf(out[0][d] - (float)(600 + d)) < 1e-3f);
        assert_true(fabsf(out[1][d] - (float)(900 + d)) < 1e-3f);
    }
    query[0][6] = 0.0f; /* all alike: the mean over tokens 0..8 */
    OPS_REF.attention(&a, 0, 1);
    assert_true(fabsf(out[0][3] - 403.0f) < 1e-3f);
    fixture_pool_end(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_dequantised_rows),
        cmocka_unit_test(ranges_and_grouping_leave_bits_alone),
        cmocka_unit_test(zero_rows_give_zero),
        cmocka_unit_test(elementwise_operations_are_their_formulas),
        cmocka_unit_test(attention_finds_its_token_through_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
