#pragma once
/* Model files made in memory for tests: random weights of any type in the
 * shape of any supported architecture, with faults on request; and page pools
 * whose block tables are shuffled. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/rng.h"
#include "gguf/gguf.h"
#include "model/half.h"
#include "model/model.h"

struct fixture {
    const char *architecture;
    uint32_t type; /* of matrices */
    uint32_t type_v; /* of attn_v, ffn_down and output; 0 (F32): as `type` */
    uint32_t layers;
    uint32_t dim;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t ffn;
    uint32_t vocab;
    uint64_t seed;
    bool is_tied;
    bool has_biases;
    bool has_head_norms;
    bool has_factors;
    bool has_post_norms;
    uint32_t window; /* 0: no key */
    uint32_t window_pattern; /* 0: no key */
    /* Faults. */
    const char *skipped; /* tensor left out, or the key "epsilon" */
    const char *bent; /* tensor with a column too many */
    const char *extra; /* vector of F32 added */
    const char *key; /* one more key, e.g. "llama.expert_count" ... */
    const char *text; /* ... a string when set, else ... */
    float number; /* ... F32 when not zero, else ... */
    uint32_t count; /* ... U32 */
};

static const uint32_t FIXTURE_TYPES[] = {
    GGUF_F32,  GGUF_F16,  GGUF_BF16, GGUF_Q8_0, GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0,
    GGUF_Q5_1, GGUF_Q2_K, GGUF_Q3_K, GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K};
enum { FIXTURE_TYPE_COUNT = 13 };

static inline struct fixture fixture_small(const char *architecture,
                                           uint32_t type)
{
    bool is_qwen3 = strcmp(architecture, "qwen3") == 0;
    bool is_gemma = strcmp(architecture, "gemma3") == 0;
    return (struct fixture){.architecture = architecture,
                            .type = type,
                            .layers = 2,
                            .dim = 256,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .ffn = 256,
                            .vocab = 272,
                            .seed = 7,
                            .has_biases = strcmp(architecture, "qwen2") == 0,
                            .has_head_norms = is_qwen3 || is_gemma,
                            .is_tied = is_gemma,
                            .has_post_norms = is_gemma,
                            .window = is_gemma ? 7 : 0,
                            .window_pattern = is_gemma ? 2 : 0};
}

/* ---- writing the format ---- */

struct fixture_writer {
    const struct fixture *fixture;
    struct buf keys;
    struct buf infos;
    struct buf data;
    uint64_t key_count;
    uint64_t tensor_count;
    struct rng rng;
};

static inline void fixture_u32(struct buf *buf, uint32_t value)
{
    buf_add(buf, &value, 4);
}

static inline void fixture_u64(struct buf *buf, uint64_t value)
{
    buf_add(buf, &value, 8);
}

static inline void fixture_string(struct buf *buf, const char *text)
{
    fixture_u64(buf, strlen(text));
    buf_add_string(buf, text);
}

static inline void fixture_key(struct fixture_writer *w, const char *name,
                               uint32_t kind)
{
    fixture_string(&w->keys, name);
    fixture_u32(&w->keys, kind);
    w->key_count++;
}

static inline void fixture_count_key(struct fixture_writer *w, const char *name,
                                     uint32_t value)
{
    char key[128];
    snprintf(key, sizeof(key), "%s.%s", w->fixture->architecture, name);
    if (w->fixture->key && strcmp(w->fixture->key, key) == 0) {
        return; /* the fault takes its place */
    }
    fixture_key(w, key, 4);
    fixture_u32(&w->keys, value);
}

static inline void fixture_number_key(struct fixture_writer *w,
                                      const char *name, float value)
{
    fixture_key(w, name, 6);
    buf_add(&w->keys, &value, 4);
}

static inline void fixture_text_key(struct fixture_writer *w, const char *name,
                                    const char *value)
{
    fixture_key(w, name, 8);
    fixture_string(&w->keys, value);
}

/* Roughly normal. */
static inline float fixture_random(struct rng *rng)
{
    float sum = 0.0f;
    for (int i = 0; i < 6; i++) {
        sum += (float)(rng_next(rng) >> 40) * 0x1p-24f - 0.5f;
    }
    return sum * 1.41f;
}

static inline void fixture_half(uint8_t *at, float value)
{
    uint16_t half = half_from_f32(value);
    memcpy(at, &half, 2);
}

/* Where the scales of a quantised block stand, and what makes its elements
 * have a deviation near one and a mean near zero. -1: none. */
struct fixture_scale {
    uint32_t type;
    int step_at;
    int floor_at;
    float step;
    float floor;
};

static const struct fixture_scale FIXTURE_SCALES[] = {
    {GGUF_Q8_0, 0, -1, 1 / 74.0f, 0},
    {GGUF_Q4_0, 0, -1, 1 / 4.6f, 0},
    {GGUF_Q4_1, 0, 2, 1 / 4.6f, -7.5f / 4.6f},
    {GGUF_Q5_0, 0, -1, 1 / 9.2f, 0},
    {GGUF_Q5_1, 0, 2, 1 / 9.2f, -15.5f / 9.2f},
    {GGUF_Q2_K, 80, 82, 1 / 14.0f, 1 / 9.0f},
    {GGUF_Q3_K, 108, -1, 1 / 42.0f, 0},
    {GGUF_Q4_K, 0, 2, 1 / 280.0f, 7.5f / 280.0f},
    {GGUF_Q5_K, 0, 2, 1 / 560.0f, 15.5f / 560.0f},
    {GGUF_Q6_K, 208, -1, 1 / 1370.0f, 0},
};

static inline void fixture_block(struct rng *rng, uint32_t type, float scale,
                                 uint8_t *block)
{
    const struct gguf_type_info *info = gguf_type_info(type);
    for (uint32_t i = 0; i < info->block_bytes; i++) {
        block[i] = (uint8_t)rng_next(rng);
    }
    for (size_t i = 0; i < sizeof(FIXTURE_SCALES) / sizeof(FIXTURE_SCALES[0]);
         i++) {
        const struct fixture_scale *s = &FIXTURE_SCALES[i];
        if (s->type == type) {
            float jitter = 1.0f + 0.2f * fixture_random(rng);
            fixture_half(block + s->step_at, s->step * scale * jitter);
            if (s->floor_at >= 0) {
                fixture_half(block + s->floor_at, s->floor * scale * jitter);
            }
        }
    }
}

/* `count` elements with the given deviation and mean. */
static inline void fixture_elements(struct buf *out, struct rng *rng,
                                    uint32_t type, uint64_t count, float scale,
                                    float mean)
{
    const struct gguf_type_info *info = gguf_type_info(type);
    uint8_t block[256];
    for (uint64_t i = 0; i < count; i += info->block_elements) {
        float value = mean + scale * fixture_random(rng);
        uint32_t bits = half_to_bits32(value);
        uint16_t half =
            type == GGUF_F16 ? half_from_f32(value) : (uint16_t)(bits >> 16);
        if (type == GGUF_F32) {
            memcpy(block, &value, 4);
        } else if (info->block_elements == 1) {
            memcpy(block, &half, 2);
        } else {
            fixture_block(rng, type, scale, block);
        }
        buf_add(out, block, info->block_bytes);
    }
}

static inline void fixture_tensor(struct fixture_writer *w, const char *name,
                                  uint32_t type, uint32_t rows,
                                  uint32_t columns, float scale, float mean)
{
    const struct fixture *f = w->fixture;
    if (f->skipped && strcmp(f->skipped, name) == 0) {
        return;
    }
    if (f->bent && strcmp(f->bent, name) == 0) {
        columns += gguf_type_info(type)->block_elements;
    }
    fixture_string(&w->infos, name);
    fixture_u32(&w->infos, rows ? 2 : 1);
    fixture_u64(&w->infos, columns);
    if (rows) {
        fixture_u64(&w->infos, rows);
    }
    fixture_u32(&w->infos, type);
    fixture_u64(&w->infos, w->data.size);
    w->tensor_count++;
    fixture_elements(&w->data, &w->rng, type,
                     (uint64_t)(rows ? rows : 1) * columns, scale, mean);
    while (w->data.size % 32 != 0) {
        buf_add_byte(&w->data, 0);
    }
}

static inline void fixture_matrix(struct fixture_writer *w, uint32_t layer,
                                  const char *part, uint32_t type,
                                  uint32_t rows, uint32_t columns)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, part);
    fixture_tensor(w, name, type, rows, columns, 1.0f / sqrtf((float)columns),
                   0.0f);
    if (w->fixture->has_biases && strncmp(part, "attn_", 5) == 0 &&
        strcmp(part, "attn_output") != 0) {
        snprintf(name, sizeof(name), "blk.%u.%s.bias", layer, part);
        fixture_tensor(w, name, GGUF_F32, 0, rows, 0.5f, 0.0f);
    }
}

static inline void fixture_norm(struct fixture_writer *w, uint32_t layer,
                                const char *part, uint32_t size)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, part);
    fixture_tensor(w, name, GGUF_F32, 0, size, 0.1f, 1.0f);
}

static inline void fixture_layer(struct fixture_writer *w, uint32_t i)
{
    const struct fixture *f = w->fixture;
    uint32_t type_v = f->type_v ? f->type_v : f->type;
    uint32_t q_size = f->heads * f->head_dim;
    uint32_t kv_size = f->kv_heads * f->head_dim;
    fixture_norm(w, i, "attn_norm", f->dim);
    fixture_norm(w, i, "ffn_norm", f->dim);
    fixture_matrix(w, i, "attn_q", f->type, q_size, f->dim);
    fixture_matrix(w, i, "attn_k", f->type, kv_size, f->dim);
    fixture_matrix(w, i, "attn_v", type_v, kv_size, f->dim);
    fixture_matrix(w, i, "attn_output", f->type, f->dim, q_size);
    fixture_matrix(w, i, "ffn_gate", f->type, f->ffn, f->dim);
    fixture_matrix(w, i, "ffn_up", f->type, f->ffn, f->dim);
    fixture_matrix(w, i, "ffn_down", type_v, f->dim, f->ffn);
    if (f->has_post_norms) {
        fixture_norm(w, i, "post_attention_norm", f->dim);
        fixture_norm(w, i, "post_ffw_norm", f->dim);
    }
    if (f->has_head_norms) {
        fixture_norm(w, i, "attn_q_norm", f->head_dim);
        fixture_norm(w, i, "attn_k_norm", f->head_dim);
    }
}

static inline void fixture_keys(struct fixture_writer *w)
{
    const struct fixture *f = w->fixture;
    char name[128];
    fixture_text_key(w, "general.architecture", f->architecture);
    fixture_count_key(w, "context_length", 512);
    fixture_count_key(w, "block_count", f->layers);
    fixture_count_key(w, "embedding_length", f->dim);
    fixture_count_key(w, "feed_forward_length", f->ffn);
    fixture_count_key(w, "attention.head_count", f->heads);
    fixture_count_key(w, "attention.head_count_kv", f->kv_heads);
    fixture_count_key(w, "attention.key_length", f->head_dim);
    fixture_count_key(w, "attention.value_length", f->head_dim);
    snprintf(name, sizeof(name), "%s.rope.freq_base", f->architecture);
    fixture_number_key(w, name, f->has_post_norms ? 160000.0f : 10000.0f);
    if (!f->skipped || strcmp(f->skipped, "epsilon") != 0) {
        snprintf(name, sizeof(name), "%s.attention.layer_norm_rms_epsilon",
                 f->architecture);
        fixture_number_key(w, name, 1e-5f);
    }
    if (f->window) {
        fixture_count_key(w, "attention.sliding_window", f->window);
    }
    if (f->window_pattern) {
        fixture_count_key(w, "attention.sliding_window_pattern",
                          f->window_pattern);
    }
    if (f->key && f->text) {
        fixture_text_key(w, f->key, f->text);
        snprintf(name, sizeof(name), "%s.rope.scaling.factor", f->architecture);
        fixture_number_key(w, name, 4.0f);
    } else if (f->key && f->number != 0.0f) {
        fixture_number_key(w, f->key, f->number);
    } else if (f->key) {
        fixture_key(w, f->key, 4);
        fixture_u32(&w->keys, f->count);
    }
}

static inline void fixture_tensors(struct fixture_writer *w)
{
    const struct fixture *f = w->fixture;
    uint32_t type_v = f->type_v ? f->type_v : f->type;
    fixture_tensor(w, "token_embd.weight", f->type, f->vocab, f->dim, 1.0f, 0);
    fixture_tensor(w, "output_norm.weight", GGUF_F32, 0, f->dim, 0.1f, 1.0f);
    if (!f->is_tied) {
        fixture_tensor(w, "output.weight", type_v, f->vocab, f->dim, 0.2f, 0);
    }
    if (f->has_factors) {
        fixture_tensor(w, "rope_freqs.weight", GGUF_F32, 0, f->head_dim / 2,
                       0.3f, 3.0f);
    }
    if (f->extra) {
        fixture_tensor(w, f->extra, GGUF_F32, 0, f->dim, 0.1f, 1.0f);
    }
    for (uint32_t i = 0; i < f->layers; i++) {
        fixture_layer(w, i);
    }
}

/* The bytes of the file; finished by the caller. */
static inline void fixture_make(const struct fixture *f, struct buf *out)
{
    struct fixture_writer w = {.fixture = f, .rng = rng_from_seed(f->seed)};
    buf_init(&w.keys, 1 << 20);
    buf_init(&w.infos, 1 << 20);
    buf_init(&w.data, 1 << 28);
    fixture_keys(&w);
    fixture_tensors(&w);
    buf_init(out, 1 << 28);
    buf_add(out, "GGUF", 4);
    fixture_u32(out, 3);
    fixture_u64(out, w.tensor_count);
    fixture_u64(out, w.key_count);
    buf_add_span(out, buf_span(&w.keys));
    buf_add_span(out, buf_span(&w.infos));
    while (out->size % 32 != 0) {
        buf_add_byte(out, 0);
    }
    buf_add_span(out, buf_span(&w.data));
    CHECK(!buf_error(out));
    buf_finish(&w.keys);
    buf_finish(&w.infos);
    buf_finish(&w.data);
}

/* ---- pages ---- */

struct fixture_pool {
    struct kv_pool_view view;
    kv_page_id *pages; /* a shuffled block table over the whole pool */
};

static inline void fixture_pool_make(const struct kv_layout *layout,
                                     uint32_t page_count, uint64_t seed,
                                     struct fixture_pool *out)
{
    struct rng rng = rng_from_seed(seed);
    *out = (struct fixture_pool){
        .view = {.layout = *layout, .page_count = page_count}};
    out->view.page_bytes = kv_layout_page_bytes(layout);
    size_t bytes = (out->view.page_bytes * page_count + 63) / 64 * 64;
    out->view.base = aligned_alloc(64, bytes);
    out->pages = malloc(page_count * sizeof(out->pages[0]));
    CHECK(out->view.base);
    CHECK(out->pages);
    memset(out->view.base, 0xfe, bytes); /* F16 NaN wherever nobody wrote */
    for (uint32_t i = 0; i < page_count; i++) {
        uint32_t j = (uint32_t)rng_below(&rng, i + 1);
        out->pages[i] = out->pages[j];
        out->pages[j] = (kv_page_id)i;
    }
}

/* One pool a life cycle, each with a shuffled table of its own. */
struct fixture_pools {
    uint32_t count;
    struct fixture_pool pools[KV_LIFE_COUNT_MAX];
    struct kv_pool_view views[KV_LIFE_COUNT_MAX];
};

static inline void fixture_pool_end(struct fixture_pool *pool)
{
    free(pool->view.base);
    free(pool->pages);
}

static inline void fixture_pools_make(const struct kv_shape *shape,
                                      uint32_t page_count, uint64_t seed,
                                      struct fixture_pools *out)
{
    *out = (struct fixture_pools){.count = shape->life_count};
    for (uint32_t i = 0; i < out->count; i++) {
        fixture_pool_make(&shape->layouts[i], page_count, seed + i,
                          &out->pools[i]);
        out->views[i] = out->pools[i].view;
    }
}

/* The run's tables: each life cycle's own, `first` pages on. */
static inline void fixture_pools_give(const struct fixture_pools *pools,
                                      uint32_t first, struct model_run *run)
{
    for (uint32_t i = 0; i < pools->count; i++) {
        run->pages[i] = pools->pools[i].pages + first;
    }
}

static inline void fixture_pools_end(struct fixture_pools *pools)
{
    for (uint32_t i = 0; i < pools->count; i++) {
        fixture_pool_end(&pools->pools[i]);
    }
}
