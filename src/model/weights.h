#pragma once
/* model/weights: what a GGUF file of a supported architecture says, checked
 * and laid out for the forward pass.
 *
 * Nothing is copied: matrices and vectors point into the file's map, which
 * outlives this. All that would make us compute something else than the file
 * means is refused by the name of the key or tensor: unknown architectures,
 * experts, unknown rope scaling, tensors that we would not use. Immutable
 * after load: any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf.h"
#include "model/ops.h"

/* What a window in the file means. */
enum model_window {
    MODEL_WINDOW_REFUSED, /* below the context */
    MODEL_WINDOW_EVERYWHERE, /* all layers have it */
    MODEL_WINDOW_PATTERN /* but for every so many-th; the file must have one */
};

struct model_architecture {
    const char *name;
    enum model_window window;
    bool is_split_rope; /* pairs (i, i + n / 2) rather than (2 i, 2 i + 1) */
    bool has_head_norms; /* q and k are normalised head by head */
    /* Gemma: */
    bool has_post_norms; /* what a half layer adds is normalised first */
    bool has_gelu; /* the gate's activation, rather than silu */
    bool scales_embedding; /* by sqrt(dim) */
    bool has_local_rope; /* windowed layers turn at a speed of their own */
};

struct model_hparams {
    const struct model_architecture *architecture;
    uint32_t context_length;
    uint32_t layer_count;
    uint32_t dim;
    uint32_t head_count;
    uint32_t kv_head_count; /* divides head_count */
    uint32_t head_dim; /* even; of keys and of values */
    uint32_t ffn_dim;
    uint32_t vocab_size;
    float epsilon;
    float attention_scale;
    uint32_t window; /* tokens that a windowed layer sees; 0: no layer is */
    uint32_t window_pattern; /* every so many-th layer sees all; 0: none */
    uint32_t rope_dims; /* even; the first so many of each head turn */
    float rope_base;
    float rope_scale; /* positions are multiplied by it */
    float local_rope_base; /* of windowed layers, never scaled; 0: as others */
    float embedding_scale;
};

/* Biases and norms that the file lacks are NULL. */
struct model_layer {
    const float *attention_norm; /* (dim) */
    const float *ffn_norm; /* (dim) */
    const float *attention_post_norm; /* (dim) */
    const float *ffn_post_norm; /* (dim) */
    const float *q_norm; /* (head_dim) */
    const float *k_norm; /* (head_dim) */
    const float *q_bias; /* (head_count * head_dim) */
    const float *k_bias; /* (kv_head_count * head_dim) */
    const float *v_bias;
    const float *o_bias; /* (dim) */
    const float *gate_bias; /* (ffn_dim) */
    const float *up_bias;
    const float *down_bias; /* (dim) */
    struct ops_matrix q; /* (head_count * head_dim, dim) */
    struct ops_matrix k; /* (kv_head_count * head_dim, dim) */
    struct ops_matrix v;
    struct ops_matrix o; /* (dim, head_count * head_dim) */
    struct ops_matrix gate; /* (ffn_dim, dim) */
    struct ops_matrix up;
    struct ops_matrix down; /* (dim, ffn_dim) */
};

struct model_weights {
    struct model_hparams hparams;
    struct ops_matrix embedding; /* (vocab_size, dim) */
    struct ops_matrix output; /* the embedding where the file has none */
    const float *output_norm; /* (dim) */
    const float *rope_factors; /* (rope_dims / 2), or NULL: all one */
    struct model_layer *layers; /* (layer_count) */
    uint64_t parameter_count;
};

/* Reads the keys alone. `context_max` is the longest sequence that will be
 * asked for: where the architecture has no windows, one below it is refused.
 * ERR_UNSUPPORTED, ERR_INVALID. */
MUST_USE enum err model_hparams_read(const struct gguf *gguf,
                                     uint32_t context_max, struct why *why,
                                     struct model_hparams *hparams_out);

/* Keys and tensors. Also ERR_NO_MEMORY. Ended by model_weights_finish. */
MUST_USE enum err model_weights_load(const struct gguf *gguf,
                                     uint32_t context_max, struct why *why,
                                     struct model_weights *weights_out);
void model_weights_finish(struct model_weights *weights);
