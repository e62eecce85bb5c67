#include "quantise.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "gguf/gguf.h"

enum { SUPER = 256 };

struct format {
    const char *name;
    uint32_t type;
    uint32_t elements;
    uint32_t bytes;
    void (*encode)(const float *x, uint8_t *out);
};

/* ---- numbers ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

uint16_t quantise_f16_from(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    float size = fabsf(value);
    if (!(size < 65520.0f)) {
        return (uint16_t)(sign | (isnan(value) ? 0x7e00u : 0x7c00u));
    }
    if (size < 0x1p-14f) { /* subnormal: steps of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(size * 0x1p24f));
    }
    uint32_t rest = bits & 0x7fffffffu;
    rest += 0xfffu + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest - (112u << 23)) >> 13));
}

float quantise_f16_to(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    float fraction = (float)(bits & 1023);
    float size = exponent == 0    ? ldexpf(fraction, -24)
                 : exponent == 31 ? (fraction > 0 ? NAN : INFINITY)
                                  : ldexpf(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

/* Stores `value` and gives back what a reader will see. */
static float put_f16(uint8_t *out, float value)
{
    uint16_t bits = quantise_f16_from(value);
    memcpy(out, &bits, sizeof(bits));
    return quantise_f16_to(bits);
}

static int round_to(float value, float scale, int low, int high)
{
    if (scale == 0) {
        return low > 0 ? low : 0;
    }
    float q = value / scale;
    q = q < (float)low ? (float)low : q;
    q = q > (float)high ? (float)high : q;
    return (int)lrintf(q);
}

static float peak_of(const float *x, int count)
{
    float peak = 0;
    for (int i = 0; i < count; i++) {
        peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    }
    return peak;
}

static void range_of(const float *x, int count, float *low_out, float *high_out)
{
    float low = x[0];
    float high = x[0];
    for (int i = 1; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *low_out = low;
    *high_out = high;
}

/* ---- plain ---- */

static void encode_f32(const float *x, uint8_t *out)
{
    memcpy(out, x, sizeof(*x));
}

static void encode_f16(const float *x, uint8_t *out)
{
    put_f16(out, x[0]);
}

static void encode_bf16(const float *x, uint8_t *out)
{
    uint32_t bits = bits_of(x[0]);
    bits += 0x7fffu + (bits >> 16 & 1);
    out[0] = (uint8_t)(bits >> 16);
    out[1] = (uint8_t)(bits >> 24);
}

/* ---- blocks of 32 ---- */

static void encode_q8_0(const float *x, uint8_t *out)
{
    float d = put_f16(out, fabsf(peak_of(x, 32)) / 127);
    for (int i = 0; i < 32; i++) {
        out[2 + i] = (uint8_t)round_to(x[i], d, -127, 127);
    }
}

/* Element i shares a byte with element i + 16; bit 4 goes to `high`. */
static void pack_32(const int *q, uint8_t *high, uint8_t *low)
{
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) {
        low[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
        bits |= (uint32_t)(q[i] >> 4 & 1) << i;
        bits |= (uint32_t)(q[i + 16] >> 4 & 1) << (i + 16);
    }
    if (high) {
        memcpy(high, &bits, sizeof(bits));
    }
}

static void symmetric_32(const float *x, int half, uint8_t *d_out, int *q)
{
    float d = put_f16(d_out, peak_of(x, 32) / (float)-half);
    for (int i = 0; i < 32; i++) {
        q[i] = round_to(x[i], d, -half, half - 1) + half;
    }
}

static void affine_32(const float *x, int top, uint8_t *d_out, int *q)
{
    float low;
    float high;
    range_of(x, 32, &low, &high);
    float d = put_f16(d_out, (high - low) / (float)top);
    float m = put_f16(d_out + 2, low);
    for (int i = 0; i < 32; i++) {
        q[i] = round_to(x[i] - m, d, 0, top);
    }
}

static void encode_q4_0(const float *x, uint8_t *out)
{
    int q[32];
    symmetric_32(x, 8, out, q);
    pack_32(q, NULL, out + 2);
}

static void encode_q4_1(const float *x, uint8_t *out)
{
    int q[32];
    affine_32(x, 15, out, q);
    pack_32(q, NULL, out + 4);
}

static void encode_q5_0(const float *x, uint8_t *out)
{
    int q[32];
    symmetric_32(x, 16, out, q);
    pack_32(q, out + 2, out + 6);
}

static void encode_q5_1(const float *x, uint8_t *out)
{
    int q[32];
    affine_32(x, 31, out, q);
    pack_32(q, out + 4, out + 8);
}

/* ---- super-blocks of 256 ---- */

/* The scale, among a few near the obvious one, with the least square error of
 * x = scale * q, q in [-half, half). */
static float fit_symmetric(const float *x, int count, int half)
{
    float peak = peak_of(x, count);
    float best = 0;
    float best_error = INFINITY;
    for (int step = -1; step <= 1; step++) {
        float scale = peak / -((float)half + 0.4f * (float)step);
        float error = 0;
        for (int i = 0; i < count; i++) {
            int q = round_to(x[i], scale, -half, half - 1);
            float miss = x[i] - scale * (float)q;
            error += miss * miss;
        }
        if (error < best_error) {
            best_error = error;
            best = scale;
        }
    }
    return best;
}

/* The same for x = scale * q - offset, q in [0, top], offset >= 0. */
static void fit_affine(const float *x, int count, int top, float *scale_out,
                       float *offset_out)
{
    float low;
    float high;
    range_of(x, count, &low, &high);
    low = low > 0 ? 0 : low;
    high = high < low ? low : high;
    float best_error = INFINITY;
    for (int step = 0; step <= 2; step++) {
        float trim = (high - low) * 0.03f * (float)step;
        float offset = -(low + trim) > 0 ? -(low + trim) : 0;
        float scale = (high - trim + offset) / (float)top;
        float error = 0;
        for (int i = 0; i < count; i++) {
            int q = round_to(x[i] + offset, scale, 0, top);
            float miss = x[i] - scale * (float)q + offset;
            error += miss * miss;
        }
        if (error < best_error) {
            best_error = error;
            *scale_out = scale;
            *offset_out = offset;
        }
    }
}

/* A super-block as integers: x = d * scale * q - dmin * offset. */
struct super {
    float d;
    float dmin;
    int scale[16];
    int offset[16];
    int q[SUPER];
};

static void fill_symmetric(struct super *s, const float *x, int half,
                           int scale_half, uint8_t *d_out)
{
    float scale[16] = {0};
    for (int g = 0; g < 16; g++) {
        scale[g] = fit_symmetric(x + 16 * g, 16, half);
    }
    s->d = put_f16(d_out, peak_of(scale, 16) / (float)-scale_half);
    for (int g = 0; g < 16; g++) {
        s->scale[g] = round_to(scale[g], s->d, -scale_half, scale_half - 1);
        for (int i = 16 * g; i < 16 * g + 16; i++) {
            s->q[i] =
                round_to(x[i], s->d * (float)s->scale[g], -half, half - 1);
        }
    }
}

static void fill_affine(struct super *s, const float *x, int group, int top,
                        int scale_top, uint8_t *d_out)
{
    float scale[16] = {0};
    float offset[16] = {0};
    int groups = SUPER / group;
    for (int g = 0; g < groups; g++) {
        fit_affine(x + group * g, group, top, &scale[g], &offset[g]);
    }
    s->d = put_f16(d_out, peak_of(scale, groups) / (float)scale_top);
    s->dmin = put_f16(d_out + 2, peak_of(offset, groups) / (float)scale_top);
    for (int g = 0; g < groups; g++) {
        s->scale[g] = round_to(scale[g], s->d, 0, scale_top);
        s->offset[g] = round_to(offset[g], s->dmin, 0, scale_top);
        for (int i = group * g; i < group * (g + 1); i++) {
            s->q[i] = round_to(x[i] + s->dmin * (float)s->offset[g],
                               s->d * (float)s->scale[g], 0, top);
        }
    }
}

/* Two low bits: four elements 32 apart share a byte. */
static void pack_2_bits(const int *q, uint8_t *out)
{
    for (int i = 0; i < SUPER; i++) {
        int at = 32 * (i / 128) + i % 32;
        out[at] = (uint8_t)(out[at] | (q[i] & 3) << 2 * (i / 32 % 4));
    }
}

/* Four low bits: elements 32 apart share a byte. */
static void pack_4_bits(const int *q, uint8_t *out)
{
    for (int i = 0; i < SUPER; i++) {
        int at = 32 * (i / 64) + i % 32;
        out[at] = (uint8_t)(out[at] | (q[i] & 15) << 4 * (i / 32 % 2));
    }
}

/* Eight pairs of six-bit numbers in twelve bytes. */
static void pack_scales(const struct super *s, uint8_t *out)
{
    for (int g = 0; g < 4; g++) {
        int scale = s->scale[g + 4];
        int offset = s->offset[g + 4];
        out[g] = (uint8_t)(s->scale[g] | (scale >> 4) << 6);
        out[g + 4] = (uint8_t)(s->offset[g] | (offset >> 4) << 6);
        out[g + 8] = (uint8_t)((scale & 15) | (offset & 15) << 4);
    }
}

/* scales[16] qs[64] d dmin */
static void encode_q2_k(const float *x, uint8_t *out)
{
    struct super s;
    memset(out, 0, 84);
    fill_affine(&s, x, 16, 3, 15, out + 80);
    for (int g = 0; g < 16; g++) {
        out[g] = (uint8_t)(s.scale[g] | s.offset[g] << 4);
    }
    pack_2_bits(s.q, out + 16);
}

/* hmask[32] qs[64] scales[12] d */
static void encode_q3_k(const float *x, uint8_t *out)
{
    struct super s;
    memset(out, 0, 110);
    fill_symmetric(&s, x, 4, 32, out + 108);
    for (int i = 0; i < SUPER; i++) {
        s.q[i] += 4;
        out[i % 32] = (uint8_t)(out[i % 32] | (s.q[i] >> 2 & 1) << i / 32);
    }
    pack_2_bits(s.q, out + 32);
    uint8_t *scales = out + 96;
    for (int g = 0; g < 16; g++) {
        int scale = s.scale[g] + 32;
        uint8_t *low = &scales[g % 8];
        uint8_t *high = &scales[8 + g % 4];
        *low = (uint8_t)(*low | (scale & 15) << 4 * (g / 8));
        *high = (uint8_t)(*high | (scale >> 4) << 2 * (g / 4));
    }
}

/* d dmin scales[12] qs[128] */
static void encode_q4_k(const float *x, uint8_t *out)
{
    struct super s;
    memset(out, 0, 144);
    fill_affine(&s, x, 32, 15, 63, out);
    pack_scales(&s, out + 4);
    pack_4_bits(s.q, out + 16);
}

/* d dmin scales[12] qh[32] qs[128] */
static void encode_q5_k(const float *x, uint8_t *out)
{
    struct super s;
    memset(out, 0, 176);
    fill_affine(&s, x, 32, 31, 63, out);
    pack_scales(&s, out + 4);
    uint8_t *high = out + 16;
    for (int i = 0; i < SUPER; i++) {
        high[i % 32] = (uint8_t)(high[i % 32] | (s.q[i] >> 4) << i / 32);
    }
    pack_4_bits(s.q, out + 48);
}

/* ql[128] qh[64] scales[16] d */
static void encode_q6_k(const float *x, uint8_t *out)
{
    struct super s;
    memset(out, 0, 210);
    fill_symmetric(&s, x, 32, 128, out + 208);
    for (int g = 0; g < 16; g++) {
        out[192 + g] = (uint8_t)s.scale[g];
    }
    for (int i = 0; i < SUPER; i++) {
        int q = s.q[i] + 32;
        int low = 64 * (i / 128) + i % 64;
        int high = 128 + 32 * (i / 128) + i % 32;
        out[low] = (uint8_t)(out[low] | (q & 15) << 4 * (i / 64 % 2));
        out[high] = (uint8_t)(out[high] | (q >> 4) << 2 * (i / 32 % 4));
    }
}

/* ---- the table ---- */

static const struct format FORMATS[] = {
    {"f32", GGUF_F32, 1, 4, encode_f32},
    {"f16", GGUF_F16, 1, 2, encode_f16},
    {"bf16", GGUF_BF16, 1, 2, encode_bf16},
    {"q8_0", GGUF_Q8_0, 32, 34, encode_q8_0},
    {"q4_0", GGUF_Q4_0, 32, 18, encode_q4_0},
    {"q4_1", GGUF_Q4_1, 32, 20, encode_q4_1},
    {"q5_0", GGUF_Q5_0, 32, 22, encode_q5_0},
    {"q5_1", GGUF_Q5_1, 32, 24, encode_q5_1},
    {"q2_k", GGUF_Q2_K, SUPER, 84, encode_q2_k},
    {"q3_k", GGUF_Q3_K, SUPER, 110, encode_q3_k},
    {"q4_k", GGUF_Q4_K, SUPER, 144, encode_q4_k},
    {"q5_k", GGUF_Q5_K, SUPER, 176, encode_q5_k},
    {"q6_k", GGUF_Q6_K, SUPER, 210, encode_q6_k},
};
enum { FORMAT_COUNT = sizeof(FORMATS) / sizeof(FORMATS[0]) };

static const struct format *format_of(uint32_t type)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (FORMATS[i].type == type) {
            return &FORMATS[i];
        }
    }
    CHECK_UNREACHABLE();
}

bool quantise_find_type(const char *name, uint32_t *type_out)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (!strcmp(FORMATS[i].name, name)) {
            *type_out = FORMATS[i].type;
            return true;
        }
    }
    return false;
}

uint32_t quantise_block_elements(uint32_t type)
{
    return format_of(type)->elements;
}

uint32_t quantise_block_bytes(uint32_t type)
{
    return format_of(type)->bytes;
}

void quantise_row(uint32_t type, const float *x, size_t count, uint8_t *out)
{
    const struct format *format = format_of(type);
    CHECK(count % format->elements == 0);
    for (size_t i = 0; i < count; i += format->elements) {
        format->encode(x + i, out);
        out += format->bytes;
    }
}
