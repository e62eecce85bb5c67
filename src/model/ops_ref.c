/* The reference body: plain C that says what each operation means. Sums are
 * taken in double, in the order of the elements, so that what it gives is the
 * exact result for practical purposes and a fast body is judged by it. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "model/half.h"
#include "model/ops.h"
#include "model/ops_ref_blocks.h"

/* Prepared rows: floats for plain types; for the others one of these a block,
 * 32 or 256 wide as the weights' blocks are. */
struct ref_row_block {
    float step;
    int8_t q[];
};

enum { TILE = 32 }; /* rows that share one unpacked block */

static size_t round_up_64(size_t size)
{
    return (size + 63) / 64 * 64;
}

static size_t block_bytes(uint32_t type)
{
    return sizeof(struct ref_row_block) + gguf_type_info(type)->block_elements;
}

static size_t ref_row_bytes(uint32_t weight_type, uint32_t columns)
{
    if (ops_ref_is_plain(weight_type)) {
        return round_up_64((size_t)columns * sizeof(float));
    }
    uint32_t wide = gguf_type_info(weight_type)->block_elements;
    return round_up_64(columns / wide * block_bytes(weight_type));
}

/* Within what 8 bits hold, whatever came in: a row may hold anything. */
static int8_t to_8_bits(float value)
{
    return (int8_t)rintf(fminf(127.0f, fmaxf(-127.0f, value)));
}

/* 0 where the peak is too small to divide by. */
static float inverse_step(float peak)
{
    float inverse = 127.0f / peak;
    return isfinite(inverse) ? inverse : 0.0f;
}

/* Blocks of 32: symmetric, the step kept as F16. */
static void quantise_32(const float *x, struct ref_row_block *out)
{
    float peak = 0.0f;
    for (uint32_t i = 0; i < 32; i++) {
        peak = fmaxf(peak, fabsf(x[i]));
    }
    float inverse = inverse_step(peak);
    out->step = half_to_f32(half_from_f32(peak / 127.0f));
    for (uint32_t i = 0; i < 32; i++) {
        out->q[i] = to_8_bits(x[i] * inverse);
    }
}

/* Blocks of 256: the element of largest size becomes exactly -127. */
static void quantise_256(const float *x, struct ref_row_block *out)
{
    float peak = 0.0f;
    for (uint32_t i = 0; i < 256; i++) {
        peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    }
    float inverse = -inverse_step(peak);
    out->step = inverse != 0.0f ? 1.0f / inverse : 0.0f;
    for (uint32_t i = 0; i < 256; i++) {
        out->q[i] = to_8_bits(x[i] * inverse);
    }
}

static void ref_prepare_row(uint32_t weight_type, const float *x,
                            uint32_t columns, uint8_t *row_out)
{
    if (ops_ref_is_plain(weight_type)) {
        memcpy(row_out, x, (size_t)columns * sizeof(float));
        return;
    }
    uint32_t wide = gguf_type_info(weight_type)->block_elements;
    for (uint32_t at = 0; at < columns; at += wide) {
        struct ref_row_block *block = (void *)row_out;
        if (wide == 32) {
            quantise_32(x + at, block);
        } else {
            quantise_256(x + at, block);
        }
        row_out += block_bytes(weight_type);
    }
}

static double dot_block(const struct ops_ref_block *w, uint32_t wide,
                        const struct ref_row_block *x)
{
    int32_t products = 0;
    int32_t mins = 0;
    for (uint32_t g = 0; g < wide / OPS_REF_GROUP; g++) {
        int32_t product = 0;
        int32_t sum = 0;
        for (uint32_t i = g * OPS_REF_GROUP; i < (g + 1) * OPS_REF_GROUP; i++) {
            product += w->q[i] * x->q[i];
            sum += x->q[i];
        }
        products += product * w->scale[g];
        mins += sum * w->min[g];
    }
    return (double)x->step *
           ((double)w->step * products - (double)w->floor * mins);
}

/* One matrix row against up to TILE prepared rows, blocks in order. */
static void dot_quantised(const struct ops_matrix *matrix, const uint8_t *data,
                          const uint8_t *rows, size_t stride, uint32_t count,
                          double *sums)
{
    const struct gguf_type_info *info = gguf_type_info(matrix->type);
    uint32_t block_count = matrix->columns / info->block_elements;
    struct ops_ref_block block;
    for (uint32_t b = 0; b < block_count; b++) {
        ops_ref_unpack(matrix->type, data + b * (size_t)info->block_bytes,
                       &block);
        size_t at = b * block_bytes(matrix->type);
        for (uint32_t r = 0; r < count; r++) {
            const void *x = rows + r * stride + at;
            sums[r] += dot_block(&block, info->block_elements, x);
        }
    }
}

static void dot_plain(const struct ops_matrix *matrix, const uint8_t *data,
                      const uint8_t *rows, size_t stride, uint32_t count,
                      double *sums)
{
    enum { PIECE = 64 };
    uint32_t bytes = gguf_type_info(matrix->type)->block_bytes;
    float weights[PIECE];
    for (uint32_t at = 0; at < matrix->columns; at += PIECE) {
        uint32_t left = matrix->columns - at;
        uint32_t size = left < PIECE ? left : PIECE;
        ops_ref_read_plain(matrix->type, data + at * (size_t)bytes, size,
                           weights);
        for (uint32_t r = 0; r < count; r++) {
            const float *x = (const float *)(const void *)(rows + r * stride);
            for (uint32_t i = 0; i < size; i++) {
                sums[r] += (double)weights[i] * (double)x[at + i];
            }
        }
    }
}

static size_t matrix_row_bytes(const struct ops_matrix *matrix)
{
    const struct gguf_type_info *info = gguf_type_info(matrix->type);
    return (size_t)matrix->columns / info->block_elements * info->block_bytes;
}

static void matmul_tile(const struct ops_matrix *matrix, const uint8_t *rows,
                        uint32_t count, float *out, size_t out_stride,
                        uint32_t begin, uint32_t end)
{
    size_t stride = ref_row_bytes(matrix->type, matrix->columns);
    bool is_plain = ops_ref_is_plain(matrix->type);
    for (uint32_t i = begin; i < end; i++) {
        const uint8_t *data = matrix->data + i * matrix_row_bytes(matrix);
        double sums[TILE] = {0};
        if (is_plain) {
            dot_plain(matrix, data, rows, stride, count, sums);
        } else {
            dot_quantised(matrix, data, rows, stride, count, sums);
        }
        for (uint32_t r = 0; r < count; r++) {
            out[r * out_stride + i] = (float)sums[r];
        }
    }
}

static void ref_matmul(const struct ops_matrix *matrix, const uint8_t *rows,
                       uint32_t row_count, float *out, size_t out_stride,
                       uint32_t begin, uint32_t end)
{
    CHECK(end <= matrix->rows);
    size_t stride = ref_row_bytes(matrix->type, matrix->columns);
    for (uint32_t r = 0; r < row_count; r += TILE) {
        uint32_t left = row_count - r;
        matmul_tile(matrix, rows + r * stride, left < TILE ? left : TILE,
                    out + r * out_stride, out_stride, begin, end);
    }
}

static void ref_get_row(const struct ops_matrix *matrix, uint32_t row,
                        float *out)
{
    CHECK(row < matrix->rows);
    ops_ref_dequantise(matrix->type,
                       matrix->data + row * matrix_row_bytes(matrix),
                       matrix->columns, out);
}

static void ref_rms_norm(const float *x, const float *weight, uint32_t size,
                         float epsilon, float *out)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < size; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    float scale = (float)(1.0 / sqrt(sum / size + (double)epsilon));
    for (uint32_t i = 0; i < size; i++) {
        float value = x[i] * scale;
        out[i] = weight ? value * weight[i] : value;
    }
}

static void ref_silu_multiply(float *gate, const float *up, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        double x = (double)gate[i];
        gate[i] = (float)(x / (1.0 + exp(-x))) * up[i];
    }
}

static void ref_gelu_multiply(float *gate, const float *up, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        double x = (double)gate[i];
        double inner = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
        gate[i] = (float)(0.5 * x * (1.0 + tanh(inner))) * up[i];
    }
}

static void ref_add(float *x, const float *y, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        x[i] += y[i];
    }
}

static void ref_store_f16(const float *x, uint32_t size, uint16_t *out)
{
    for (uint32_t i = 0; i < size; i++) {
        out[i] = half_from_f32(x[i]);
    }
}

/* Bytes of token `t` of K or V, whichever `offset` says. */
static const uint8_t *token_at(const struct ops_attention *a, size_t offset,
                               uint32_t t)
{
    size_t page = (size_t)a->pages[t / a->tokens_per_block];
    size_t slot = t % a->tokens_per_block;
    return a->pool + page * a->page_bytes + offset + slot * a->head_dim * 2;
}

/* The tokens that one query sees: [0, sink_end) and [first, end). */
struct seen {
    uint32_t sink_end;
    uint32_t first;
    uint32_t end;
};

static struct seen see(const struct ops_attention *a, uint32_t position)
{
    uint32_t first = ops_window_first(a->window, position);
    return (struct seen){
        .sink_end = a->sink_tokens < first ? a->sink_tokens : first,
        .first = first,
        .end = position + 1,
    };
}

static uint32_t begin_seen(const struct seen *seen)
{
    return seen->sink_end > 0 ? 0 : seen->first;
}

static uint32_t next_seen(const struct seen *seen, uint32_t t)
{
    return t + 1 == seen->sink_end ? seen->first : t + 1;
}

/* Softmax over the scores, not yet divided by the sum, which is returned. */
static double weigh_tokens(const struct ops_attention *a, const float *query,
                           const struct seen *seen)
{
    float peak = -INFINITY;
    for (uint32_t t = begin_seen(seen); t < seen->end; t = next_seen(seen, t)) {
        const uint8_t *key = token_at(a, a->key_offset, t);
        double sum = 0.0;
        for (uint32_t d = 0; d < a->head_dim; d++) {
            sum +=
                (double)query[d] * (double)half_to_f32(half_read(key + 2 * d));
        }
        a->scratch[t] = (float)sum * a->scale;
        peak = fmaxf(peak, a->scratch[t]);
    }
    double total = 0.0;
    for (uint32_t t = begin_seen(seen); t < seen->end; t = next_seen(seen, t)) {
        a->scratch[t] = (float)exp((double)(a->scratch[t] - peak));
        total += (double)a->scratch[t];
    }
    return total;
}

static void mix_values(const struct ops_attention *a, const struct seen *seen,
                       double total, float *out)
{
    enum { PIECE = 64 };
    for (uint32_t at = 0; at < a->head_dim; at += PIECE) {
        uint32_t left = a->head_dim - at;
        uint32_t size = left < PIECE ? left : PIECE;
        double sums[PIECE] = {0};
        for (uint32_t t = begin_seen(seen); t < seen->end;
             t = next_seen(seen, t)) {
            const uint8_t *value = token_at(a, a->value_offset, t) + 2 * at;
            for (uint32_t d = 0; d < size; d++) {
                sums[d] += (double)a->scratch[t] *
                           (double)half_to_f32(half_read(value + 2 * d));
            }
        }
        for (uint32_t d = 0; d < size; d++) {
            out[at + d] = (float)(sums[d] / total);
        }
    }
}

static void ref_attention(const struct ops_attention *a, uint32_t row_begin,
                          uint32_t row_end)
{
    for (uint32_t r = row_begin; r < row_end; r++) {
        struct seen seen = see(a, a->position + r);
        for (uint32_t g = 0; g < a->group_size; g++) {
            const float *query =
                a->query + r * a->query_stride + (size_t)g * a->head_dim;
            float *out = a->out + r * a->out_stride + (size_t)g * a->head_dim;
            double total = weigh_tokens(a, query, &seen);
            mix_values(a, &seen, total, out);
        }
    }
}

/* The scores of one query; the fast bodies need none. */
size_t ops_attention_scratch(uint32_t context_max, uint32_t group_size,
                             uint32_t head_dim)
{
    (void)group_size;
    (void)head_dim;
    return context_max;
}

const struct ops OPS_REF = {
    .name = "ref",
    .row_bytes = ref_row_bytes,
    .prepare_row = ref_prepare_row,
    .matmul = ref_matmul,
    .get_row = ref_get_row,
    .rms_norm = ref_rms_norm,
    .silu_multiply = ref_silu_multiply,
    .gelu_multiply = ref_gelu_multiply,
    .add = ref_add,
    .store_f16 = ref_store_f16,
    .attention = ref_attention,
};
