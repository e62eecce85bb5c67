#pragma once
/* model/rope: rotary position embedding. Pair i of a head turns by
 *
 *   position * rope_scale * rope_base^(-2 i / rope_dims) / factor[i]
 *
 * Windowed layers may have a base of their own, without scale and factors.
 * Angles are taken in double from the position alone, so that a row's bits do
 * not depend on what was computed before. Immutable after init: any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/weights.h"

struct model_rope {
    uint32_t pair_count;
    bool is_split; /* as in struct model_architecture */
    double *speeds; /* (pair_count), radians a position */
};

/* ERR_NO_MEMORY. */
MUST_USE enum err model_rope_init(struct model_rope *rope,
                                  const struct model_weights *weights);
/* That of windowed layers: local_rope_base must be above 0. */
MUST_USE enum err model_rope_init_local(struct model_rope *rope,
                                        const struct model_weights *weights);
void model_rope_finish(struct model_rope *rope);
/* Cosines, then sines of one position: (2, pair_count). */
void model_rope_angles(const struct model_rope *rope, uint32_t position,
                       float *angles_out);
/* Turns one head in place by what model_rope_angles gave. */
void model_rope_turn(const struct model_rope *rope, const float *angles,
                     float *head);
