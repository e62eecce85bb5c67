#pragma once
/* test/unit/model/slow: the forward pass by the papers, in double: one sequence,
 * all tokens, everything kept. For files of F32. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/half.h"
#include "model/weights.h"

enum { SLOW_CONTEXT = 512, SLOW_WIDE = 1024 };

static inline void slow_multiply(const struct ops_matrix *m, const float *bias,
                                 const double *x, double *out)
{
    const float *w = (const float *)(const void *)m->data;
    for (uint32_t i = 0; i < m->rows; i++) {
        out[i] = bias ? bias[i] : 0.0;
        for (uint32_t j = 0; j < m->columns; j++) {
            out[i] += (double)w[(size_t)i * m->columns + j] * x[j];
        }
    }
}

static inline void slow_norm(const double *x, const float *weight,
                             uint32_t size, double epsilon, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < size; i++) {
        sum += x[i] * x[i];
    }
    for (uint32_t i = 0; i < size; i++) {
        out[i] = x[i] / sqrt(sum / size + epsilon) * weight[i];
    }
}

/* Whether the layer's window hides what lies far back. */
static inline bool slow_is_local(const struct model_hparams *h, uint32_t layer)
{
    return h->window > 0 &&
           (h->window_pattern == 0 ||
            layer % h->window_pattern != h->window_pattern - 1);
}

static inline void slow_rope(const struct model_weights *w, uint32_t layer,
                             double *head, uint32_t position)
{
    const struct model_hparams *h = &w->hparams;
    uint32_t n = h->rope_dims;
    bool is_local = slow_is_local(h, layer) && h->local_rope_base > 0;
    double base = (double)(is_local ? h->local_rope_base : h->rope_base);
    double scale = is_local ? 1.0 : (double)h->rope_scale;
    for (uint32_t i = 0; i < n / 2; i++) {
        double factor = w->rope_factors ? (double)w->rope_factors[i] : 1.0;
        double angle = position * scale * pow(base, -2.0 * i / n) / factor;
        bool split = strcmp(h->architecture->name, "llama") != 0;
        double *a = &head[split ? i : 2 * i];
        double *b = &head[split ? i + n / 2 : 2 * i + 1];
        double x = *a;
        double y = *b;
        *a = x * cos(angle) - y * sin(angle);
        *b = x * sin(angle) + y * cos(angle);
    }
}

static inline void slow_heads(const struct model_weights *w, uint32_t layer,
                              double *heads, uint32_t count, const float *norm,
                              uint32_t position)
{
    uint32_t size = w->hparams.head_dim;
    for (uint32_t i = 0; i < count; i++) {
        if (norm) {
            slow_norm(heads + i * size, norm, size, (double)w->hparams.epsilon,
                      heads + i * size);
        }
        slow_rope(w, layer, heads + i * size, position);
    }
}

/* One token over all that were kept so far: keys and values are
 * (token, kv_head, head_dim), as F16 keeps them. */
static inline void slow_attention(const struct model_hparams *h,
                                  const double *query, const double *keys,
                                  const double *values, uint32_t first,
                                  uint32_t token_count, double *out)
{
    uint32_t d = h->head_dim;
    size_t stride = (size_t)h->kv_head_count * d;
    for (uint32_t head = 0; head < h->head_count; head++) {
        size_t kv = (size_t)head / (h->head_count / h->kv_head_count) * d;
        double weights[SLOW_CONTEXT];
        double total = 0;
        for (uint32_t t = first; t < token_count; t++) {
            double score = 0;
            for (uint32_t i = 0; i < d; i++) {
                score += query[head * d + i] * keys[t * stride + kv + i];
            }
            weights[t] = exp(score * (double)h->attention_scale);
            total += weights[t];
        }
        for (uint32_t i = 0; i < d; i++) {
            out[head * d + i] = 0;
            for (uint32_t t = first; t < token_count; t++) {
                out[head * d + i] +=
                    weights[t] / total * values[t * stride + kv + i];
            }
        }
    }
}

static inline void slow_keep_f16(const double *from, uint32_t size, double *to)
{
    for (uint32_t i = 0; i < size; i++) {
        to[i] = (double)half_to_f32(half_from_f32((float)from[i]));
    }
}

static inline double slow_activate(const struct model_hparams *h, double x)
{
    if (h->architecture->has_gelu) {
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    return x / (1 + exp(-x));
}

/* x += y, normalised where there is a weight for it */
static inline void slow_add(const struct model_hparams *h, double *y,
                            const float *norm, double *x)
{
    if (norm) {
        slow_norm(y, norm, h->dim, (double)h->epsilon, y);
    }
    for (uint32_t i = 0; i < h->dim; i++) {
        x[i] += y[i];
    }
}

static inline void slow_layer(const struct model_weights *w, uint32_t layer,
                              uint32_t position, double *keys, double *values,
                              double *x)
{
    const struct model_hparams *h = &w->hparams;
    const struct model_layer *l = &w->layers[layer];
    double n[SLOW_WIDE], q[SLOW_WIDE], k[SLOW_WIDE], v[SLOW_WIDE], a[SLOW_WIDE],
        b[SLOW_WIDE];
    uint32_t kv_size = h->kv_head_count * h->head_dim;
    slow_norm(x, l->attention_norm, h->dim, (double)h->epsilon, n);
    slow_multiply(&l->q, l->q_bias, n, q);
    slow_multiply(&l->k, l->k_bias, n, k);
    slow_multiply(&l->v, l->v_bias, n, v);
    slow_heads(w, layer, q, h->head_count, l->q_norm, position);
    slow_heads(w, layer, k, h->kv_head_count, l->k_norm, position);
    slow_keep_f16(k, kv_size, keys + (size_t)position * kv_size);
    slow_keep_f16(v, kv_size, values + (size_t)position * kv_size);
    uint32_t first = slow_is_local(h, layer) && position >= h->window
                         ? position + 1 - h->window
                         : 0;
    slow_attention(h, q, keys, values, first, position + 1, a);
    slow_multiply(&l->o, NULL, a, b);
    slow_add(h, b, l->attention_post_norm, x);
    slow_norm(x, l->ffn_norm, h->dim, (double)h->epsilon, n);
    slow_multiply(&l->gate, NULL, n, a);
    slow_multiply(&l->up, NULL, n, b);
    for (uint32_t i = 0; i < h->ffn_dim; i++) {
        a[i] = slow_activate(h, a[i]) * b[i];
    }
    slow_multiply(&l->down, NULL, a, b);
    slow_add(h, b, l->ffn_post_norm, x);
}

/* Logits after each token: (token, vocab). */
static inline void slow_forward(const struct model_weights *w,
                                const int32_t *tokens, uint32_t count,
                                double *logits)
{
    const struct model_hparams *h = &w->hparams;
    size_t layer_size = (size_t)SLOW_CONTEXT * h->kv_head_count * h->head_dim;
    double *keys = calloc(h->layer_count * layer_size, sizeof(double));
    double *values = calloc(h->layer_count * layer_size, sizeof(double));
    const float *embedding = (const float *)(const void *)w->embedding.data;
    for (uint32_t t = 0; t < count; t++) {
        double x[SLOW_WIDE], n[SLOW_WIDE];
        for (uint32_t i = 0; i < h->dim; i++) {
            x[i] = (double)h->embedding_scale *
                   (double)embedding[(size_t)tokens[t] * h->dim + i];
        }
        for (uint32_t layer = 0; layer < h->layer_count; layer++) {
            slow_layer(w, layer, t, keys + layer * layer_size,
                       values + layer * layer_size, x);
        }
        slow_norm(x, w->output_norm, h->dim, (double)h->epsilon, n);
        slow_multiply(&w->output, NULL, n, logits + (size_t)t * h->vocab_size);
    }
    free(keys);
    free(values);
}
