#include "model/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* Walks the tensors by name; the first trouble sticks. */
struct loader {
    const struct gguf *gguf;
    struct why *why;
    enum err error;
    uint32_t found_count;
    uint32_t limit; /* tensors in the file: found_count never passes it */
    const struct gguf_tensor **found; /* those we use; (limit) */
    char name[96];
};

enum need { NEEDED, OPTIONAL };

static const struct gguf_tensor *find(struct loader *loader, enum need need)
{
    const struct gguf_tensor *tensor =
        gguf_find_tensor(loader->gguf, loader->name);
    if (tensor) {
        CHECK(loader->found_count < loader->limit);
        loader->found[loader->found_count++] = tensor;
    } else if (need == NEEDED) {
        loader->error = why_say(loader->why, ERR_INVALID,
                                "tensor %s is missing", loader->name);
    }
    return tensor;
}

static bool has_shape(const struct gguf_tensor *tensor, uint64_t columns,
                      uint64_t rows)
{
    return tensor->dimensions[0] == columns && tensor->dimensions[1] == rows &&
           tensor->dimensions[2] == 1 && tensor->dimensions[3] == 1;
}

static void refuse_shape(struct loader *loader,
                         const struct gguf_tensor *tensor, uint64_t columns,
                         uint64_t rows)
{
    loader->error = why_say(
        loader->why, ERR_INVALID,
        "tensor %s has shape %llu x %llu x %llu x %llu, expected %llu x %llu",
        loader->name, (unsigned long long)tensor->dimensions[0],
        (unsigned long long)tensor->dimensions[1],
        (unsigned long long)tensor->dimensions[2],
        (unsigned long long)tensor->dimensions[3], (unsigned long long)columns,
        (unsigned long long)rows);
}

/* The bytes must be what shape and type say, or we would read past them. */
static void check_data(struct loader *loader, const struct gguf_tensor *tensor)
{
    const struct gguf_type_info *info = gguf_type_info(tensor->type);
    if (!info->name) {
        loader->error = why_say(loader->why, ERR_UNSUPPORTED,
                                "tensor %s has a type we lack: %u",
                                loader->name, tensor->type);
        return;
    }
    uint64_t columns = tensor->dimensions[0];
    uint64_t size = columns / info->block_elements * info->block_bytes *
                    tensor->dimensions[1];
    if (columns % info->block_elements != 0 || tensor->data.size < size) {
        loader->error = why_say(
            loader->why, ERR_INVALID,
            "tensor %s: %llu columns of type %s do not fit its %zu bytes",
            loader->name, (unsigned long long)columns, info->name,
            tensor->data.size);
    }
}

static void load_matrix(struct loader *loader, enum need need, uint32_t rows,
                        uint32_t columns, struct ops_matrix *out)
{
    if (loader->error) {
        return;
    }
    const struct gguf_tensor *tensor = find(loader, need);
    if (!tensor) {
        return;
    }
    if (!has_shape(tensor, columns, rows)) {
        refuse_shape(loader, tensor, columns, rows);
        return;
    }
    check_data(loader, tensor);
    *out = (struct ops_matrix){.type = tensor->type,
                               .rows = rows,
                               .columns = columns,
                               .data = tensor->data.data};
}

static void load_vector(struct loader *loader, enum need need, uint32_t size,
                        const float **out)
{
    if (loader->error) {
        return;
    }
    const struct gguf_tensor *tensor = find(loader, need);
    if (!tensor) {
        return;
    }
    if (!has_shape(tensor, size, 1)) {
        refuse_shape(loader, tensor, size, 1);
        return;
    }
    check_data(loader, tensor);
    bool is_aligned = (uintptr_t)tensor->data.data % _Alignof(float) == 0;
    if (!loader->error && (tensor->type != GGUF_F32 || !is_aligned)) {
        loader->error = why_say(loader->why, ERR_UNSUPPORTED,
                                "tensor %s: only aligned F32 is supported here",
                                loader->name);
        return;
    }
    *out = (const float *)(const void *)tensor->data.data;
}

static void set_name(struct loader *loader, const char *name)
{
    snprintf(loader->name, sizeof(loader->name), "%s", name);
}

static void layer_name(struct loader *loader, uint32_t layer, const char *part,
                       const char *kind)
{
    snprintf(loader->name, sizeof(loader->name), "blk.%u.%s.%s", layer, part,
             kind);
}

static void layer_vector(struct loader *loader, uint32_t layer,
                         const char *part, enum need need, uint32_t size,
                         const float **out)
{
    layer_name(loader, layer, part, "weight");
    load_vector(loader, need, size, out);
}

/* A matrix and the bias that may come with it. */
static void layer_matrix(struct loader *loader, uint32_t layer,
                         const char *part, uint32_t rows, uint32_t columns,
                         struct ops_matrix *out, const float **bias_out)
{
    layer_name(loader, layer, part, "weight");
    load_matrix(loader, NEEDED, rows, columns, out);
    layer_name(loader, layer, part, "bias");
    load_vector(loader, OPTIONAL, rows, bias_out);
}

static void load_layer(struct loader *loader, const struct model_hparams *h,
                       uint32_t i, struct model_layer *l)
{
    uint32_t q_size = h->head_count * h->head_dim;
    uint32_t kv_size = h->kv_head_count * h->head_dim;
    layer_vector(loader, i, "attn_norm", NEEDED, h->dim, &l->attention_norm);
    layer_matrix(loader, i, "attn_q", q_size, h->dim, &l->q, &l->q_bias);
    layer_matrix(loader, i, "attn_k", kv_size, h->dim, &l->k, &l->k_bias);
    layer_matrix(loader, i, "attn_v", kv_size, h->dim, &l->v, &l->v_bias);
    layer_matrix(loader, i, "attn_output", h->dim, q_size, &l->o, &l->o_bias);
    if (h->architecture->has_head_norms) {
        layer_vector(loader, i, "attn_q_norm", NEEDED, h->head_dim, &l->q_norm);
        layer_vector(loader, i, "attn_k_norm", NEEDED, h->head_dim, &l->k_norm);
    }
    if (h->architecture->has_post_norms) {
        layer_vector(loader, i, "post_attention_norm", NEEDED, h->dim,
                     &l->attention_post_norm);
        layer_vector(loader, i, "post_ffw_norm", NEEDED, h->dim,
                     &l->ffn_post_norm);
    }
    layer_vector(loader, i, "ffn_norm", NEEDED, h->dim, &l->ffn_norm);
    layer_matrix(loader, i, "ffn_gate", h->ffn_dim, h->dim, &l->gate,
                 &l->gate_bias);
    layer_matrix(loader, i, "ffn_up", h->ffn_dim, h->dim, &l->up, &l->up_bias);
    layer_matrix(loader, i, "ffn_down", h->dim, h->ffn_dim, &l->down,
                 &l->down_bias);
}

/* The vocabulary is as large as the embedding has rows. */
static void load_embedding(struct loader *loader, struct model_weights *w)
{
    enum { VOCAB_MAX = 1 << 24 };
    set_name(loader, "token_embd.weight");
    const struct gguf_tensor *tensor =
        gguf_find_tensor(loader->gguf, loader->name);
    uint64_t rows = tensor ? tensor->dimensions[1] : 1;
    if (rows == 0 || rows > VOCAB_MAX) {
        loader->error =
            why_say(loader->why, ERR_INVALID, "tensor %s: %llu rows",
                    loader->name, (unsigned long long)rows);
        return;
    }
    w->hparams.vocab_size = (uint32_t)rows;
    load_matrix(loader, NEEDED, (uint32_t)rows, w->hparams.dim, &w->embedding);
}

static void load_ends(struct loader *loader, struct model_weights *w)
{
    const struct model_hparams *h = &w->hparams;
    load_embedding(loader, w);
    set_name(loader, "output_norm.weight");
    load_vector(loader, NEEDED, h->dim, &w->output_norm);
    w->output = w->embedding;
    set_name(loader, "output.weight");
    load_matrix(loader, OPTIONAL, h->vocab_size, h->dim, &w->output);
    if (!h->architecture->has_local_rope) { /* whose layers have none */
        set_name(loader, "rope_freqs.weight");
        load_vector(loader, OPTIONAL, h->rope_dims / 2, &w->rope_factors);
    }
}

static void check_factors(struct loader *loader, const struct model_weights *w)
{
    for (uint32_t i = 0; w->rope_factors && i < w->hparams.rope_dims / 2; i++) {
        if (!(w->rope_factors[i] > 0.0f)) {
            loader->error = why_say(
                loader->why, ERR_INVALID,
                "tensor rope_freqs.weight: element %u is not above 0", i);
            return;
        }
    }
}

static bool is_found(const struct loader *loader,
                     const struct gguf_tensor *tensor)
{
    for (uint32_t i = 0; i < loader->found_count; i++) {
        if (loader->found[i] == tensor) {
            return true;
        }
    }
    return false;
}

/* A tensor that we would leave out is a computation that we would leave out. */
static void refuse_leftovers(struct loader *loader)
{
    uint32_t count = gguf_tensor_count(loader->gguf);
    for (uint32_t i = 0; i < count && loader->found_count < count; i++) {
        const struct gguf_tensor *tensor = gguf_tensor_at(loader->gguf, i);
        if (!is_found(loader, tensor)) {
            loader->error = why_say(
                loader->why, ERR_UNSUPPORTED,
                "tensor %.*s is not known for this architecture",
                (int)(tensor->name.size < 96 ? tensor->name.size : 96),
                tensor->name.size ? (const char *)tensor->name.data : "");
            return;
        }
    }
}

static uint64_t count_parameters(const struct gguf *gguf)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(gguf, i);
        sum += t->dimensions[0] * t->dimensions[1] * t->dimensions[2] *
               t->dimensions[3];
    }
    return sum;
}

static void load_all(struct loader *loader, struct model_weights *w)
{
    load_ends(loader, w);
    for (uint32_t i = 0; i < w->hparams.layer_count && !loader->error; i++) {
        load_layer(loader, &w->hparams, i, &w->layers[i]);
    }
    if (!loader->error) {
        check_factors(loader, w);
    }
    if (!loader->error) {
        refuse_leftovers(loader);
    }
}

enum err model_weights_load(const struct gguf *gguf, uint32_t context_max,
                            struct why *why, struct model_weights *weights_out)
{
    struct model_weights w = {0};
    enum err error = model_hparams_read(gguf, context_max, why, &w.hparams);
    if (error) {
        return error;
    }
    struct loader loader = {
        .gguf = gguf, .why = why, .limit = gguf_tensor_count(gguf)};
    w.layers = mem_try_array(w.hparams.layer_count, sizeof(w.layers[0]));
    loader.found =
        mem_try_array((size_t)loader.limit + 1, sizeof(loader.found[0]));
    if (!w.layers || !loader.found) {
        loader.error = why_say(why, ERR_NO_MEMORY, "no memory for %u layers",
                               w.hparams.layer_count);
    } else {
        load_all(&loader, &w);
    }
    mem_free(loader.found);
    if (loader.error) {
        model_weights_finish(&w);
        return loader.error;
    }
    w.parameter_count = count_parameters(gguf);
    *weights_out = w;
    return OK;
}

void model_weights_finish(struct model_weights *weights)
{
    mem_free(weights->layers);
    *weights = (struct model_weights){0};
}
