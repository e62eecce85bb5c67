#include "model/ops_ref_blocks.h"

#include <string.h>

#include "base/check.h"
#include "gguf/gguf.h"
#include "model/half.h"

static float read_half(const uint8_t *bytes)
{
    return half_to_f32(half_read(bytes));
}

/* Types of 32 elements hold element j in the low and element j + 16 in the
 * high half of byte j; the fifth bit, where there is one, stands in `high`. */
static void unpack_nibbles(const uint8_t *nibbles, uint32_t high, int zero,
                           struct ops_ref_block *block)
{
    for (uint32_t j = 0; j < 16; j++) {
        uint32_t low_fifth = (high >> j & 1) << 4;
        uint32_t high_fifth = (high >> (j + 16) & 1) << 4;
        block->q[j] = (int8_t)((int)((nibbles[j] & 15u) | low_fifth) - zero);
        block->q[j + 16] = (int8_t)((int)(nibbles[j] >> 4 | high_fifth) - zero);
    }
}

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
           (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* | step | q | and | step | floor | q | with 4, 5 or 8 bits; the types whose
 * floor is stored add it, hence the sign. */
static void unpack_32(uint32_t type, const uint8_t *bytes,
                      struct ops_ref_block *block)
{
    bool has_floor = type == GGUF_Q4_1 || type == GGUF_Q5_1;
    bool has_fifth = type == GGUF_Q5_0 || type == GGUF_Q5_1;
    block->step = read_half(bytes);
    block->floor = has_floor ? -read_half(bytes + 2) : 0.0f;
    memset(block->scale, 1, 2);
    memset(block->min, has_floor ? 1 : 0, 2);
    const uint8_t *at = bytes + (has_floor ? 4 : 2);
    if (type == GGUF_Q8_0) {
        memcpy(block->q, at, 32);
        return;
    }
    uint32_t high = has_fifth ? read_u32(at) : 0;
    int zero = has_floor ? 0 : has_fifth ? 16 : 8;
    unpack_nibbles(at + (has_fifth ? 4 : 0), high, zero, block);
}

/* | 16 x (scale, min) nibbles | 64 bytes of q | step | floor |
 * Half n of the block lies in 32 bytes; bits 2j.. hold its elements 32 j... */
static void unpack_q2_k(const uint8_t *bytes, struct ops_ref_block *block)
{
    const uint8_t *q = bytes + 16;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t byte = i / 128 * 32 + i % 32;
        uint32_t shift = i % 128 / 32 * 2;
        block->q[i] = (int8_t)(q[byte] >> shift & 3);
    }
    for (uint32_t g = 0; g < 16; g++) {
        block->scale[g] = (int8_t)(bytes[g] & 15);
        block->min[g] = (int8_t)(bytes[g] >> 4);
    }
    block->step = read_half(bytes + 80);
    block->floor = read_half(bytes + 82);
}

/* | 32 bytes of third bits | 64 bytes of q | 12 bytes of scales | step |
 * The third bit is stored inverted: unset takes 4 off. Scales have 6 bits, 4
 * of them in nibbles of bytes 0..7, 2 in bytes 8..11, with a bias of 32. */
static void unpack_q3_k(const uint8_t *bytes, struct ops_ref_block *block)
{
    const uint8_t *q = bytes + 32;
    const uint8_t *scales = bytes + 96;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t byte = i / 128 * 32 + i % 32;
        uint32_t shift = i % 128 / 32 * 2;
        int third = bytes[i % 32] >> (i / 32) & 1;
        block->q[i] = (int8_t)((q[byte] >> shift & 3) - (third ? 0 : 4));
    }
    for (uint32_t g = 0; g < 16; g++) {
        int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
        int high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
        block->scale[g] = (int8_t)((low | high << 4) - 32);
    }
    memset(block->min, 0, sizeof(block->min));
    block->step = read_half(bytes + 108);
    block->floor = 0.0f;
}

/* Eight 6-bit scales and eight 6-bit mins in 12 bytes: the first four of each
 * in the low bits of bytes 0..3 and 4..7, the others in nibbles of bytes 8..11
 * with their two high bits atop bytes 0..3 and 4..7. Each serves 32 elements. */
static void unpack_scales_6(const uint8_t *packed, struct ops_ref_block *block)
{
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t scale = packed[j % 4] & 63u;
        uint32_t min = packed[4 + j % 4] & 63u;
        if (j >= 4) {
            scale = (packed[j + 4] & 15u) | (packed[j - 4] >> 6 << 4);
            min = (packed[j + 4] >> 4) | (packed[j] >> 6 << 4);
        }
        block->scale[2 * j] = block->scale[2 * j + 1] = (int8_t)scale;
        block->min[2 * j] = block->min[2 * j + 1] = (int8_t)min;
    }
}

/* | step | floor | 12 bytes of scales | (32 bytes of fifth bits) | 128 of q |
 * Each 32 bytes of q hold 32 elements in low, the next 32 in high nibbles. */
static void unpack_q45_k(uint32_t type, const uint8_t *bytes,
                         struct ops_ref_block *block)
{
    bool has_fifth = type == GGUF_Q5_K;
    const uint8_t *fifth = bytes + 16;
    const uint8_t *q = bytes + (has_fifth ? 48 : 16);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t byte = q[i / 64 * 32 + i % 32];
        uint32_t value = i / 32 % 2 == 0 ? byte & 15u : byte >> 4;
        if (has_fifth) {
            value |= (uint32_t)(fifth[i % 32] >> (i / 32) & 1) << 4;
        }
        block->q[i] = (int8_t)value;
    }
    unpack_scales_6(bytes + 4, block);
    block->step = read_half(bytes);
    block->floor = read_half(bytes + 2);
}

/* | 128 bytes of low nibbles | 64 of high bits | 16 scales | step |
 * Quarter j of half n: nibbles of bytes 64 n + 32 (j % 2)..., low for j < 2;
 * bits 2j.. of high bytes 32 n.... */
static void unpack_q6_k(const uint8_t *bytes, struct ops_ref_block *block)
{
    const uint8_t *high = bytes + 128;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t half = i / 128;
        uint32_t quarter = i % 128 / 32;
        uint32_t byte = bytes[half * 64 + quarter % 2 * 32 + i % 32];
        uint32_t low = quarter < 2 ? byte & 15u : byte >> 4;
        uint32_t top = high[half * 32 + i % 32] >> (quarter * 2) & 3u;
        block->q[i] = (int8_t)((int)(low | top << 4) - 32);
    }
    memcpy(block->scale, bytes + 192, 16);
    memset(block->min, 0, sizeof(block->min));
    block->step = read_half(bytes + 208);
    block->floor = 0.0f;
}

bool ops_ref_is_plain(uint32_t type)
{
    return type == GGUF_F32 || type == GGUF_F16 || type == GGUF_BF16;
}

void ops_ref_unpack(uint32_t type, const uint8_t *bytes,
                    struct ops_ref_block *block_out)
{
    switch (type) {
    case GGUF_Q4_0:
    case GGUF_Q4_1:
    case GGUF_Q5_0:
    case GGUF_Q5_1:
    case GGUF_Q8_0:
        unpack_32(type, bytes, block_out);
        return;
    case GGUF_Q2_K:
        unpack_q2_k(bytes, block_out);
        return;
    case GGUF_Q3_K:
        unpack_q3_k(bytes, block_out);
        return;
    case GGUF_Q4_K:
    case GGUF_Q5_K:
        unpack_q45_k(type, bytes, block_out);
        return;
    case GGUF_Q6_K:
        unpack_q6_k(bytes, block_out);
        return;
    default:
        CHECK_UNREACHABLE();
    }
}

void ops_ref_read_plain(uint32_t type, const uint8_t *bytes, uint32_t count,
                        float *out)
{
    if (type == GGUF_F32) {
        memcpy(out, bytes, (size_t)count * sizeof(float));
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint16_t bits = half_read(bytes + 2 * (size_t)i);
        out[i] = type == GGUF_F16 ? half_to_f32(bits) : half_bf16_to_f32(bits);
    }
}

void ops_ref_dequantise(uint32_t type, const uint8_t *bytes, uint32_t count,
                        float *out)
{
    if (ops_ref_is_plain(type)) {
        ops_ref_read_plain(type, bytes, count, out);
        return;
    }
    const struct gguf_type_info *info = gguf_type_info(type);
    struct ops_ref_block block;
    for (uint32_t at = 0; at < count; at += info->block_elements) {
        ops_ref_unpack(type, bytes, &block);
        for (uint32_t i = 0; i < info->block_elements; i++) {
            uint32_t g = i / OPS_REF_GROUP;
            float scale = block.step * (float)block.scale[g];
            float min = block.floor * (float)block.min[g];
            out[at + i] = scale * (float)block.q[i] - min;
        }
        bytes += info->block_bytes;
    }
}
