#include "model/lives.h"

#include "base/check.h"

/* Layers below `layer` that see all tokens. */
static uint32_t count_full(const struct model_hparams *h, uint32_t layer)
{
    if (h->window == 0) {
        return layer;
    }
    return h->window_pattern == 0 ? 0 : layer / h->window_pattern;
}

bool model_lives_is_windowed(const struct model_hparams *hparams,
                             uint32_t layer)
{
    return count_full(hparams, layer + 1) == count_full(hparams, layer);
}

struct model_lives_place model_lives_place(const struct model_hparams *hparams,
                                           uint32_t layer)
{
    CHECK(layer < hparams->layer_count);
    uint32_t full = count_full(hparams, layer);
    if (!model_lives_is_windowed(hparams, layer)) {
        return (struct model_lives_place){.life = 0, .layer = full};
    }
    return (struct model_lives_place){
        .life = count_full(hparams, hparams->layer_count) > 0,
        .layer = layer - full,
    };
}

static void add_life(struct kv_shape *shape, const struct model_hparams *h,
                     uint32_t tokens_per_block, uint32_t window,
                     uint32_t layer_count)
{
    if (layer_count == 0) {
        return;
    }
    uint32_t life = shape->life_count++;
    shape->lives[life] = (struct kv_life){.window = window};
    shape->layouts[life] = (struct kv_layout){
        .layer_count = layer_count,
        .kv_head_count = h->kv_head_count,
        .head_dim = h->head_dim,
        .tokens_per_block = tokens_per_block,
        .element_bytes = 2,
    };
}

struct kv_shape model_lives_shape(const struct model_hparams *hparams,
                                  uint32_t tokens_per_block)
{
    struct kv_shape shape = {0};
    uint32_t full = count_full(hparams, hparams->layer_count);
    add_life(&shape, hparams, tokens_per_block, 0, full);
    add_life(&shape, hparams, tokens_per_block, hparams->window,
             hparams->layer_count - full);
    return shape;
}
