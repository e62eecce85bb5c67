#pragma once
/* model/lives: which layers share a life cycle of the cache (kv/view.h).
 *
 * Layers that see all tokens are life cycle 0 where there are any; windowed
 * ones are the next. Within a life cycle layers keep their order. Pure. */
#include <stdint.h>

#include "kv/view.h"
#include "model/weights.h"

struct model_lives_place {
    uint32_t life;
    uint32_t layer; /* of that life cycle */
};
struct model_lives_place model_lives_place(const struct model_hparams *hparams,
                                           uint32_t layer);
bool model_lives_is_windowed(const struct model_hparams *hparams,
                             uint32_t layer);
struct kv_shape model_lives_shape(const struct model_hparams *hparams,
                                  uint32_t tokens_per_block);
