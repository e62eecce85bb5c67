/* The AVX-512 body: 16 lanes, VNNI for integer products. */
#include <string.h>

#include "base/check.h"
#include "model/ops_attention.h"
#include "model/ops_bodies.h"
#include "model/ops_float.h"

static bool is_super(uint32_t type)
{
    return type >= GGUF_Q2_K && type <= GGUF_Q6_K;
}

static size_t row_bytes(uint32_t weight_type, uint32_t columns)
{
    if (float_is_type(weight_type)) {
        return float_row_bytes(columns);
    }
    return is_super(weight_type) ? ops_supers_avx512_row_bytes(columns)
                                 : ops_blocks_avx512_row_bytes(columns);
}

static void prepare_row(uint32_t weight_type, const float *x, uint32_t columns,
                        uint8_t *row_out)
{
    if (float_is_type(weight_type)) {
        memcpy(row_out, x, columns * sizeof(*x));
    } else if (is_super(weight_type)) {
        ops_supers_avx512_prepare_row(weight_type, x, columns, row_out);
    } else {
        ops_blocks_avx512_prepare_row(weight_type, x, columns, row_out);
    }
}

static void matmul(const struct ops_matrix *matrix, const uint8_t *rows,
                   uint32_t row_count, float *out, size_t out_stride,
                   uint32_t begin, uint32_t end)
{
    CHECK(end <= matrix->rows);
    if (float_is_type(matrix->type)) {
        float_matmul_any(matrix, rows, row_count, out, out_stride, begin, end);
    } else if (is_super(matrix->type)) {
        ops_supers_avx512_matmul(matrix, rows, row_count, out, out_stride,
                                 begin, end);
    } else {
        ops_blocks_avx512_matmul(matrix, rows, row_count, out, out_stride,
                                 begin, end);
    }
}

static void get_row(const struct ops_matrix *matrix, uint32_t row, float *out)
{
    OPS_REF.get_row(matrix, row, out); /* one row a token: not worth more */
}

const struct ops OPS_AVX512 = {
    .name = "avx512",
    .row_bytes = row_bytes,
    .prepare_row = prepare_row,
    .matmul = matmul,
    .get_row = get_row,
    .rms_norm = float_rms_norm,
    .silu_multiply = float_silu_multiply,
    .gelu_multiply = float_gelu_multiply,
    .add = float_add,
    .store_f16 = float_store_f16,
    .attention = attention_run,
};
