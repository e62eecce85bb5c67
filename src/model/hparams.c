/* The keys of a model file, read and refused by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/weights.h"

/* Far above any model there is; keeps products within 64 bits. */
enum {
    LAYER_COUNT_MAX = 4096,
    DIM_MAX = 1 << 20,
    HEAD_COUNT_MAX = 1 << 16,
    HEAD_DIM_MAX = 256 /* what fast attention holds in place */
};

static const struct model_architecture ARCHITECTURES[] = {
    {.name = "llama", .window = MODEL_WINDOW_EVERYWHERE},
    {.name = "qwen2", .is_split_rope = true},
    {.name = "qwen3", .is_split_rope = true, .has_head_norms = true},
    {.name = "gemma3",
     .window = MODEL_WINDOW_PATTERN,
     .is_split_rope = true,
     .has_head_norms = true,
     .has_post_norms = true,
     .has_gelu = true,
     .scales_embedding = true,
     .has_local_rope = true},
};

/* Gemma 3 where the file does not say. */
enum { WINDOW_PATTERN = 6, WIDE_SCALE_LAYERS = 62 };

/* Where we read: keys begin with the architecture's name. The first trouble
 * sticks, so that a reader needs one test at its end. */
struct reader {
    const struct gguf *gguf;
    const char *architecture;
    struct why *why;
    enum err error;
    char key[128]; /* of the last read */
};

static const char *set_key(struct reader *reader, const char *name)
{
    snprintf(reader->key, sizeof(reader->key), "%s.%s", reader->architecture,
             name);
    return reader->key;
}

static uint32_t read_u32(struct reader *reader, const char *name,
                         uint32_t fallback)
{
    uint32_t value = fallback;
    if (!reader->error) {
        reader->error = gguf_read_u32(reader->gguf, set_key(reader, name),
                                      fallback, reader->why, &value);
    }
    return value;
}

/* A size that must be there and lie in [1, max]. */
static uint32_t read_size(struct reader *reader, const char *name,
                          uint32_t fallback, uint32_t max)
{
    uint32_t value = read_u32(reader, name, fallback);
    if (!reader->error && (value == 0 || value > max)) {
        reader->error =
            why_say(reader->why, ERR_INVALID, "key %s: %s%u, must be 1 to %u",
                    reader->key, value == 0 ? "missing or " : "", value, max);
    }
    return value;
}

static float read_number(struct reader *reader, const char *name,
                         float fallback)
{
    float value = fallback;
    if (!reader->error) {
        reader->error = gguf_read_f32(reader->gguf, set_key(reader, name),
                                      fallback, reader->why, &value);
    }
    return value;
}

/* Finite and above zero, or the key last read is at fault. */
static float check_positive(struct reader *reader, float value)
{
    if (!reader->error && !(value > 0.0f && value < INFINITY)) {
        reader->error =
            why_say(reader->why, ERR_INVALID, "key %s: %g, must be above 0",
                    reader->key, (double)value);
    }
    return value;
}

static float read_positive(struct reader *reader, const char *name,
                           float fallback)
{
    return check_positive(reader, read_number(reader, name, fallback));
}

/* One that the file must say itself. */
static float read_needed(struct reader *reader, const char *name)
{
    float value = read_number(reader, name, 0.0f);
    if (!reader->error && value == 0.0f) {
        reader->error = why_say(reader->why, ERR_INVALID,
                                "key %s: missing or 0", reader->key);
    }
    return reader->error ? 1.0f : check_positive(reader, value);
}

/* Keys that change what a model computes and that we lack: only their neutral
 * value passes. */
static void refuse_count(struct reader *reader, const char *name)
{
    uint32_t value = read_u32(reader, name, 0);
    if (!reader->error && value != 0) {
        reader->error =
            why_say(reader->why, ERR_UNSUPPORTED,
                    "key %s: %u is not supported, only 0", reader->key, value);
    }
}

static void refuse_number(struct reader *reader, const char *name,
                          float neutral)
{
    float value = read_number(reader, name, neutral);
    if (!reader->error && value != neutral) {
        reader->error = why_say(reader->why, ERR_UNSUPPORTED,
                                "key %s: %g is not supported, only %g",
                                reader->key, (double)value, (double)neutral);
    }
}

static void refuse_foreign(struct reader *reader)
{
    refuse_count(reader, "expert_count");
    refuse_number(reader, "attention.clamp_kqv", 0.0f);
    refuse_number(reader, "attention.max_alibi_bias", 0.0f);
    refuse_number(reader, "attn_logit_softcapping", 0.0f);
    refuse_number(reader, "final_logit_softcapping", 0.0f);
    refuse_number(reader, "logit_scale", 1.0f);
    refuse_number(reader, "residual_scale", 1.0f);
    refuse_number(reader, "embedding_scale", 1.0f);
}

static const struct model_architecture *find_architecture(struct span name)
{
    size_t count = sizeof(ARCHITECTURES) / sizeof(ARCHITECTURES[0]);
    for (size_t i = 0; i < count; i++) {
        if (span_equals_string(name, ARCHITECTURES[i].name)) {
            return &ARCHITECTURES[i];
        }
    }
    return NULL;
}

static enum err read_architecture(const struct gguf *gguf, struct why *why,
                                  const struct model_architecture **out)
{
    struct span name;
    enum err error = gguf_read_string(gguf, "general.architecture", why, &name);
    if (error) {
        return error;
    }
    *out = find_architecture(name);
    if (*out) {
        return OK;
    }
    return why_say(why, ERR_UNSUPPORTED,
                   "key general.architecture: \"%.*s\" is not supported, only "
                   "llama, qwen2, qwen3 and gemma3",
                   (int)(name.size < 64 ? name.size : 64),
                   name.size ? (const char *)name.data : "");
}

static void read_heads(struct reader *reader, struct model_hparams *h)
{
    h->head_count =
        read_size(reader, "attention.head_count", 0, HEAD_COUNT_MAX);
    h->kv_head_count = read_size(reader, "attention.head_count_kv",
                                 h->head_count, HEAD_COUNT_MAX);
    if (!reader->error && h->head_count % h->kv_head_count != 0) {
        reader->error = why_say(reader->why, ERR_INVALID,
                                "key %s: %u does not divide %u heads",
                                reader->key, h->kv_head_count, h->head_count);
    }
    uint32_t usual = reader->error ? 0 : h->dim / h->head_count;
    h->head_dim =
        read_size(reader, "attention.key_length", usual, HEAD_DIM_MAX);
    if (!reader->error && h->head_dim % 2 != 0) {
        reader->error = why_say(reader->why, ERR_UNSUPPORTED,
                                "key %s: %u is odd", reader->key, h->head_dim);
    }
    uint32_t value_dim =
        read_size(reader, "attention.value_length", usual, HEAD_DIM_MAX);
    if (!reader->error && value_dim != h->head_dim) {
        reader->error = why_say(reader->why, ERR_UNSUPPORTED,
                                "key %s: %u differs from the key length %u",
                                reader->key, value_dim, h->head_dim);
    }
    /* The largest Gemma 3 is told by its depth alone. */
    bool is_wide = h->architecture->window == MODEL_WINDOW_PATTERN &&
                   h->layer_count == WIDE_SCALE_LAYERS;
    float scale = reader->error
                      ? 1.0f
                      : 1.0f / sqrtf((float)(is_wide ? usual : h->head_dim));
    h->attention_scale = read_positive(reader, "attention.scale", scale);
}

/* A window as long as the file's context hides nothing. */
static void read_window(struct reader *reader, uint32_t context_max,
                        struct model_hparams *h)
{
    uint32_t window = read_u32(reader, "attention.sliding_window", 0);
    enum model_window kind = h->architecture->window;
    if (kind == MODEL_WINDOW_PATTERN ||
        (kind == MODEL_WINDOW_EVERYWHERE && window < h->context_length)) {
        h->window = window;
    }
    if (!reader->error && kind == MODEL_WINDOW_REFUSED && window != 0 &&
        window < context_max) {
        reader->error =
            why_say(reader->why, ERR_UNSUPPORTED,
                    "key %s: a window of %u tokens below the context of %u",
                    reader->key, window, context_max);
    }
    if (!reader->error && kind == MODEL_WINDOW_PATTERN && window == 0) {
        reader->error = why_say(reader->why, ERR_UNSUPPORTED,
                                "key %s: missing or 0", reader->key);
    }
}

/* Every so many-th layer sees all: with 1 all do, with 0 none does. */
static void read_pattern(struct reader *reader, struct model_hparams *h)
{
    if (h->architecture->window != MODEL_WINDOW_PATTERN) {
        return;
    }
    h->window_pattern =
        read_u32(reader, "attention.sliding_window_pattern", WINDOW_PATTERN);
    if (h->window_pattern == 1) {
        h->window = 0;
    }
}

/* Llama 3 files carry their scaling as the tensor rope_freqs.weight. */
static void read_rope_scaling(struct reader *reader, struct model_hparams *h)
{
    h->rope_scale = 1.0f;
    struct span type = {0};
    if (!reader->error) {
        reader->error =
            gguf_read_string(reader->gguf, set_key(reader, "rope.scaling.type"),
                             reader->why, &type);
    }
    if (reader->error || type.size == 0 || span_equals_string(type, "none") ||
        span_equals_string(type, "llama3")) {
        return;
    }
    if (!span_equals_string(type, "linear")) {
        reader->error =
            why_say(reader->why, ERR_UNSUPPORTED,
                    "key %s: \"%.*s\" is not supported, only none, linear and "
                    "llama3",
                    reader->key, (int)(type.size < 64 ? type.size : 64),
                    (const char *)type.data);
        return;
    }
    h->rope_scale = 1.0f / read_positive(reader, "rope.scaling.factor", 1.0f);
}

static void read_rope(struct reader *reader, struct model_hparams *h)
{
    h->rope_base = read_positive(reader, "rope.freq_base", 10000.0f);
    h->rope_dims =
        read_size(reader, "rope.dimension_count", h->head_dim, HEAD_DIM_MAX);
    if (!reader->error &&
        (h->rope_dims % 2 != 0 || h->rope_dims > h->head_dim)) {
        reader->error = why_say(reader->why, ERR_INVALID,
                                "key %s: %u, must be even and at most %u",
                                reader->key, h->rope_dims, h->head_dim);
    }
    read_rope_scaling(reader, h);
    if (h->architecture->has_local_rope && h->window > 0) {
        h->local_rope_base =
            read_positive(reader, "rope.freq_base_swa", 10000.0f);
    }
}

enum err model_hparams_read(const struct gguf *gguf, uint32_t context_max,
                            struct why *why, struct model_hparams *hparams_out)
{
    struct model_hparams h = {0};
    enum err error = read_architecture(gguf, why, &h.architecture);
    if (error) {
        return error;
    }
    struct reader reader = {
        .gguf = gguf, .architecture = h.architecture->name, .why = why};
    refuse_foreign(&reader);
    h.context_length = read_size(&reader, "context_length", 0, UINT32_MAX);
    h.layer_count = read_size(&reader, "block_count", 0, LAYER_COUNT_MAX);
    h.dim = read_size(&reader, "embedding_length", 0, DIM_MAX);
    h.ffn_dim = read_size(&reader, "feed_forward_length", 0, DIM_MAX);
    h.epsilon = read_needed(&reader, "attention.layer_norm_rms_epsilon");
    h.embedding_scale =
        h.architecture->scales_embedding ? sqrtf((float)h.dim) : 1.0f;
    read_heads(&reader, &h);
    read_window(&reader, context_max, &h);
    read_pattern(&reader, &h);
    read_rope(&reader, &h);
    if (reader.error) {
        return reader.error;
    }
    *hparams_out = h;
    return OK;
}
