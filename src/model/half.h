#pragma once
/* model/half: 16-bit floats by hand, for code that must run on any CPU. */
#include <stdint.h>
#include <string.h>

static inline float half_from_bits32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t half_to_bits32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* F16 to F32; exact. */
static inline float half_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = half & 0x7fff;
    if (rest >= 0x7c00) { /* infinity and NaN keep their payload */
        return half_from_bits32(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    }
    if (rest < 0x400) { /* zero and subnormals: a count of 2^-24 */
        float value = (float)rest * 0x1p-24f;
        return sign ? -value : value;
    }
    return half_from_bits32(sign | ((rest << 13) + (112u << 23)));
}

/* F32 to F16, round to nearest even; too large becomes infinity. */
static inline uint16_t half_from_f32(float value)
{
    uint32_t bits = half_to_bits32(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    }
    if (rest >= 0x477ff000) { /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (rest < 0x38800000) { /* below 2^-14: adding 0.5 rounds to 2^-24 */
        float shifted = half_from_bits32(rest) + 0.5f;
        return (uint16_t)(sign | (half_to_bits32(shifted) - 0x3f000000));
    }
    uint32_t odd = rest >> 13 & 1;
    return (uint16_t)(sign | ((rest + 0xfff + odd - (112u << 23)) >> 13));
}

static inline float half_bf16_to_f32(uint16_t bits)
{
    return half_from_bits32((uint32_t)bits << 16);
}

/* Two bytes of a file, little endian, at any alignment. */
static inline uint16_t half_read(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}
