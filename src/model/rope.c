#include "model/rope.h"

#include <math.h>

#include "base/check.h"
#include "base/mem.h"

static enum err init(struct model_rope *rope, const struct model_hparams *h,
                     double base, double scale, const float *factors)
{
    rope->pair_count = h->rope_dims / 2;
    rope->is_split = h->architecture->is_split_rope;
    rope->speeds = mem_try_array(rope->pair_count, sizeof(rope->speeds[0]));
    if (!rope->speeds) {
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < rope->pair_count; i++) {
        double exponent = -2.0 * i / h->rope_dims;
        double factor = factors ? (double)factors[i] : 1.0;
        rope->speeds[i] = scale * pow(base, exponent) / factor;
    }
    return OK;
}

enum err model_rope_init(struct model_rope *rope,
                         const struct model_weights *weights)
{
    const struct model_hparams *h = &weights->hparams;
    return init(rope, h, (double)h->rope_base, (double)h->rope_scale,
                weights->rope_factors);
}

enum err model_rope_init_local(struct model_rope *rope,
                               const struct model_weights *weights)
{
    const struct model_hparams *h = &weights->hparams;
    CHECK(h->local_rope_base > 0.0f);
    return init(rope, h, (double)h->local_rope_base, 1.0, NULL);
}

void model_rope_finish(struct model_rope *rope)
{
    mem_free(rope->speeds);
    *rope = (struct model_rope){0};
}

void model_rope_angles(const struct model_rope *rope, uint32_t position,
                       float *angles_out)
{
    for (uint32_t i = 0; i < rope->pair_count; i++) {
        double angle = position * rope->speeds[i];
        angles_out[i] = (float)cos(angle);
        angles_out[rope->pair_count + i] = (float)sin(angle);
    }
}

void model_rope_turn(const struct model_rope *rope, const float *angles,
                     float *head)
{
    uint32_t pair_count = rope->pair_count;
    uint32_t step = rope->is_split ? 1 : 2;
    float *second = head + (rope->is_split ? pair_count : 1);
    for (uint32_t i = 0; i < pair_count; i++) {
        float c = angles[i];
        float s = angles[pair_count + i];
        float x = head[i * step];
        float y = second[i * step];
        head[i * step] = x * c - y * s;
        second[i * step] = x * s + y * c;
    }
}
