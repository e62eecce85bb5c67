/* Blocks written bit by bit from the description of each type, one element at
 * a time, must give back that element's value and leave the others alone. */
#include "unit/base/test.h"

#include "gguf/gguf.h"
#include "model/half.h"
#include "model/ops_ref_blocks.h"

static void put_half(uint8_t *at, float value)
{
    uint16_t half = half_from_f32(value);
    memcpy(at, &half, 2);
}

/* Sets field `value` at bit `shift` of a byte. */
static void put(uint8_t *byte, uint32_t value, uint32_t shift)
{
    *byte = (uint8_t)(*byte | value << shift);
}

static void expect(uint32_t type, const uint8_t *bytes, uint32_t at,
                   float value, float others)
{
    uint32_t count = gguf_type_info(type)->block_elements;
    float out[256];
    ops_ref_dequantise(type, bytes, count, out);
    for (uint32_t i = 0; i < count; i++) {
        float expected = i == at ? value : others;
        if (out[i] != expected) {
            fail_msg("%s element %u, set %u: %g, expected %g",
                     gguf_type_info(type)->name, i, at, (double)out[i],
                     (double)expected);
        }
    }
}

/* Nibbles: low half first; zero point 8, or a floor that is added. */
static void four_bit_blocks_of_32_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 32; i++) {
        uint8_t q4_0[18] = {0};
        put_half(q4_0, 0.5f);
        put(&q4_0[2 + i % 16], 13, i < 16 ? 0 : 4);
        expect(GGUF_Q4_0, q4_0, i, 2.5f, -4.0f);
        uint8_t q4_1[20] = {0};
        put_half(q4_1, 0.5f);
        put_half(q4_1 + 2, -3.0f);
        put(&q4_1[4 + i % 16], 13, i < 16 ? 0 : 4);
        expect(GGUF_Q4_1, q4_1, i, 3.5f, -3.0f);
    }
}

/* The fifth bit of element i is bit i of a 32-bit word. */
static void five_bit_blocks_of_32_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 32; i++) {
        uint8_t q5_0[22] = {0};
        put_half(q5_0, 0.5f);
        put(&q5_0[2 + i / 8], 1, i % 8);
        put(&q5_0[6 + i % 16], 5, i < 16 ? 0 : 4);
        expect(GGUF_Q5_0, q5_0, i, 2.5f, -8.0f); /* (21 - 16) / 2 */
        uint8_t q5_1[24] = {0};
        put_half(q5_1, 0.5f);
        put_half(q5_1 + 2, 1.0f);
        put(&q5_1[4 + i / 8], 1, i % 8);
        put(&q5_1[8 + i % 16], 5, i < 16 ? 0 : 4);
        expect(GGUF_Q5_1, q5_1, i, 11.5f, 1.0f);
    }
}

static void eight_bit_blocks_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 32; i++) {
        uint8_t q8_0[34] = {0};
        put_half(q8_0, 0.25f);
        q8_0[2 + i] = (uint8_t)-100;
        expect(GGUF_Q8_0, q8_0, i, -25.0f, 0.0f);
    }
}

/* Two bits: element i in byte 32 (i / 128) + i % 32, pair i % 128 / 32; group
 * i / 16 has scale in the low and min in the high nibble of its byte. */
static void two_bit_super_blocks_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t q2_k[84] = {0};
        put_half(q2_k + 80, 0.5f);
        put_half(q2_k + 82, 2.0f);
        put(&q2_k[i / 16], 7, 0);
        put(&q2_k[16 + i / 128 * 32 + i % 32], 3, i % 128 / 32 * 2);
        expect(GGUF_Q2_K, q2_k, i, 10.5f, 0.0f);
        uint8_t floor[84] = {0};
        put_half(floor + 82, 2.0f);
        put(&floor[i / 16], 3, 4);
        float out[256];
        ops_ref_dequantise(GGUF_Q2_K, floor, 256, out);
        assert_true(out[i] == -6.0f);
        assert_true(out[(i + 16) % 256] == 0.0f);
    }
}

/* Six-bit scale of group g: low nibbles in bytes 0..7 (high ones from g 8 on),
 * two high bits in bytes 8..11. Bias 32; the third bit unset takes 4. */
static void three_bit_super_blocks_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t q3_k[110] = {0};
        put_half(q3_k + 108, 0.5f);
        memset(q3_k, 0xff, 32); /* third bits set: all elements are q */
        memset(q3_k + 104, 0xaa, 4); /* high bits 2: scale 32 - 32 = 0 */
        uint32_t g = i / 16;
        put(&q3_k[96 + g % 8], 5, g < 8 ? 0 : 4);
        put(&q3_k[32 + i / 128 * 32 + i % 32], 3, i % 128 / 32 * 2);
        expect(GGUF_Q3_K, q3_k, i, 7.5f, 0.0f); /* 0.5 * 5 * 3 */
        q3_k[i % 32] = (uint8_t)(q3_k[i % 32] & ~(1u << (i / 32)));
        expect(GGUF_Q3_K, q3_k, i, -2.5f, 0.0f); /* 0.5 * 5 * (3 - 4) */
    }
}

/* Writes scale and min of group j as the K types pack them. */
static void put_scale_6(uint8_t *packed, uint32_t j, uint32_t scale,
                        uint32_t min)
{
    if (j < 4) {
        put(&packed[j], scale, 0);
        put(&packed[j + 4], min, 0);
        return;
    }
    put(&packed[j + 4], scale & 15, 0);
    put(&packed[j + 4], min & 15, 4);
    put(&packed[j - 4], scale >> 4, 6);
    put(&packed[j], min >> 4, 6);
}

/* Groups of 32; element i in byte 32 (i / 64) + i % 32, low nibble when i / 32
 * is even; Q5_K's fifth bits of group j are bits j of 32 bytes. */
static void four_and_five_bit_super_blocks_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t j = i / 32;
        uint8_t q4_k[144] = {0};
        put_half(q4_k, 0.5f);
        put_scale_6(q4_k + 4, j, 43, 0);
        put(&q4_k[16 + i / 64 * 32 + i % 32], 9, j % 2 * 4);
        expect(GGUF_Q4_K, q4_k, i, 193.5f, 0.0f);
        uint8_t q5_k[176] = {0};
        put_half(q5_k, 0.5f);
        put_scale_6(q5_k + 4, j, 43, 0);
        put(&q5_k[16 + i % 32], 1, j);
        put(&q5_k[48 + i / 64 * 32 + i % 32], 9, j % 2 * 4);
        expect(GGUF_Q5_K, q5_k, i, 537.5f, 0.0f); /* 25 * 21.5 */
        uint8_t floor[144] = {0};
        put_half(floor + 2, 0.25f);
        put_scale_6(floor + 4, j, 0, 53);
        float out[256];
        ops_ref_dequantise(GGUF_Q4_K, floor, 256, out);
        assert_true(out[i] == -13.25f);
        assert_true(out[(i + 32) % 256] == 0.0f);
    }
}

/* Six bits: low nibbles in bytes 64 (i / 128) + i % 64, high nibble from the
 * second 64 on; two high bits in pair i % 128 / 32. Signed scales. */
static void six_bit_super_blocks_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t q6_k[210] = {0};
        put_half(q6_k + 208, 0.5f);
        q6_k[192 + i / 16] = (uint8_t)-3;
        for (uint32_t k = 0; k < 64; k++) {
            q6_k[128 + k] = 0xaa; /* high bits 2: q = 32 - 32 = 0 */
        }
        put(&q6_k[i / 128 * 64 + i % 64], 11, i % 128 < 64 ? 0 : 4);
        expect(GGUF_Q6_K, q6_k, i, -16.5f, 0.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_bit_blocks_of_32_read),
        cmocka_unit_test(five_bit_blocks_of_32_read),
        cmocka_unit_test(eight_bit_blocks_read),
        cmocka_unit_test(two_bit_super_blocks_read),
        cmocka_unit_test(three_bit_super_blocks_read),
        cmocka_unit_test(four_and_five_bit_super_blocks_read),
        cmocka_unit_test(six_bit_super_blocks_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
