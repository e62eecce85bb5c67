#pragma once
/* model/ops_ref_blocks: one block of a quantised type, taken apart.
 *
 * Every integer type of the format says the same thing in a different packing:
 *
 *   value[i] = step * scale[i / 16] * q[i] - floor * min[i / 16]
 *
 * with small integers q, scale and min. Plain types (F32, F16, BF16) have no
 * such form and are read by `ops_ref_read_plain`. Pure: any thread. */
#include <stdbool.h>
#include <stdint.h>

enum { OPS_REF_BLOCK_MAX = 256, OPS_REF_GROUP = 16 };

struct ops_ref_block {
    int8_t q[OPS_REF_BLOCK_MAX];
    int8_t scale[OPS_REF_BLOCK_MAX / OPS_REF_GROUP];
    int8_t min[OPS_REF_BLOCK_MAX / OPS_REF_GROUP];
    float step;
    float floor;
};

/* F32, F16, BF16. */
bool ops_ref_is_plain(uint32_t type);
/* Takes one block of any other type apart. */
void ops_ref_unpack(uint32_t type, const uint8_t *bytes,
                    struct ops_ref_block *block_out);
/* `count` elements of a plain type as floats. */
void ops_ref_read_plain(uint32_t type, const uint8_t *bytes, uint32_t count,
                        float *out);
/* `count` elements, a multiple of the type's block, of any type as floats. */
void ops_ref_dequantise(uint32_t type, const uint8_t *bytes, uint32_t count,
                        float *out);
