/* The AVX2 body: 8 lanes, integer products by multiply-and-add of bytes. */
#include <string.h>

#include "base/check.h"
#include "model/ops_attention.h"
#include "model/ops_bodies.h"
#include "model/ops_float.h"

static size_t row_bytes(uint32_t weight_type, uint32_t columns)
{
    return float_is_type(weight_type) ? float_row_bytes(columns)
                                      : ops_quant_avx2_row_bytes(columns);
}

static void prepare_row(uint32_t weight_type, const float *x, uint32_t columns,
                        uint8_t *row_out)
{
    if (float_is_type(weight_type)) {
        memcpy(row_out, x, columns * sizeof(*x));
    } else {
        ops_quant_avx2_prepare_row(weight_type, x, columns, row_out);
    }
}

static void matmul(const struct ops_matrix *matrix, const uint8_t *rows,
                   uint32_t row_count, float *out, size_t out_stride,
                   uint32_t begin, uint32_t end)
{
    CHECK(end <= matrix->rows);
    if (float_is_type(matrix->type)) {
        float_matmul_any(matrix, rows, row_count, out, out_stride, begin, end);
    } else {
        ops_quant_avx2_matmul(matrix, rows, row_count, out, out_stride, begin,
                              end);
    }
}

static void get_row(const struct ops_matrix *matrix, uint32_t row, float *out)
{
    OPS_REF.get_row(matrix, row, out); /* one row a token: not worth more */
}

const struct ops OPS_AVX2 = {
    .name = "avx2",
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
