#pragma once
/* model/ops_bodies: the fast bodies, and their products with integer types.
 *
 * AVX2 unpacks weights to signed bytes. AVX-512 needs VNNI: weights become
 * unsigned bytes (their offset is taken back through the sums of the row's
 * bytes), lanes are 16 matrix rows, and each block of columns adds one exact
 * integer, scaled, to the element: block after block, in order. */
#include <stddef.h>
#include <stdint.h>

#include "model/ops.h"

extern const struct ops OPS_AVX2;
extern const struct ops OPS_AVX512;

/* All integer types. */
size_t ops_quant_avx2_row_bytes(uint32_t columns);
void ops_quant_avx2_prepare_row(uint32_t type, const float *x, uint32_t columns,
                                uint8_t *row_out);
void ops_quant_avx2_matmul(const struct ops_matrix *matrix, const uint8_t *rows,
                           uint32_t row_count, float *out, size_t out_stride,
                           uint32_t begin, uint32_t end);

/* Types in blocks of 32: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1. */
size_t ops_blocks_avx512_row_bytes(uint32_t columns);
void ops_blocks_avx512_prepare_row(uint32_t type, const float *x,
                                   uint32_t columns, uint8_t *row_out);
void ops_blocks_avx512_matmul(const struct ops_matrix *matrix,
                              const uint8_t *rows, uint32_t row_count,
                              float *out, size_t out_stride, uint32_t begin,
                              uint32_t end);

/* Types in super-blocks of 256: Q2_K to Q6_K. */
size_t ops_supers_avx512_row_bytes(uint32_t columns);
void ops_supers_avx512_prepare_row(uint32_t type, const float *x,
                                   uint32_t columns, uint8_t *row_out);
void ops_supers_avx512_matmul(const struct ops_matrix *matrix,
                              const uint8_t *rows, uint32_t row_count,
                              float *out, size_t out_stride, uint32_t begin,
                              uint32_t end);
