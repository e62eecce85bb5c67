/* Building and ending the CPU body, and its table. */
#include "model/model_cpu.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "model/lives.h"

static struct model_cpu *cpu_of(struct model *model)
{
    return (struct model_cpu *)(void *)model;
}

static void cpu_destroy(struct model *model)
{
    if (!model) {
        return;
    }
    struct model_cpu *cpu = cpu_of(model);
    io_team_destroy(cpu->team);
    for (uint32_t i = 0; i < cpu->rope_count; i++) {
        model_rope_finish(&cpu->ropes[i]);
    }
    model_weights_finish(&cpu->weights);
    mem_free(cpu->memory);
    mem_free(cpu);
}

static bool layout_equals(const struct kv_layout *a, const struct kv_layout *b)
{
    return a->layer_count == b->layer_count &&
           a->kv_head_count == b->kv_head_count && a->head_dim == b->head_dim &&
           a->tokens_per_block == b->tokens_per_block &&
           a->element_bytes == b->element_bytes;
}

static void cpu_set_pool(struct model *model, const struct kv_pool_view *pools)
{
    const struct kv_shape *shape = &model->info.shape;
    for (uint32_t i = 0; i < shape->life_count; i++) {
        CHECK(layout_equals(&pools[i].layout, &shape->layouts[i]));
        CHECK(pools[i].page_bytes >= kv_layout_page_bytes(&shape->layouts[i]));
        cpu_of(model)->pools[i] = pools[i];
    }
}

static enum err cpu_forward(struct model *model,
                            const struct model_batch *batch, float *logits_out)
{
    struct model_cpu *cpu = cpu_of(model);
    CHECK(cpu->pools[0].base);
    enum err error = model_cpu_make_plan(cpu, batch);
    if (error || cpu->plan.row_count == 0) {
        return error;
    }
    return model_cpu_run(cpu, batch, logits_out);
}

static const struct model_ops CPU_OPS = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .forward = cpu_forward,
    .set_pool = cpu_set_pool,
};

static void fill_info(struct model_cpu *cpu,
                      const struct model_cpu_options *options)
{
    const struct model_hparams *h = &cpu->weights.hparams;
    struct model_info *info = &cpu->base.info;
    snprintf(info->architecture, sizeof(info->architecture), "%s",
             h->architecture->name);
    info->vocab_size = h->vocab_size;
    info->context_length = h->context_length;
    info->parameter_count = cpu->weights.parameter_count;
    info->weight_bytes = gguf_tensor_bytes(options->gguf);
    info->shape = model_lives_shape(h, options->tokens_per_block);
}

static enum err init_ropes(struct model_cpu *cpu)
{
    cpu->rope_count = cpu->weights.hparams.local_rope_base > 0.0f ? 2 : 1;
    enum err error = model_rope_init(&cpu->ropes[0], &cpu->weights);
    if (!error && cpu->rope_count == 2) {
        error = model_rope_init_local(&cpu->ropes[1], &cpu->weights);
    }
    return error;
}

static enum err build(struct model_cpu *cpu,
                      const struct model_cpu_options *options, struct why *why)
{
    enum err error = model_weights_load(options->gguf, options->context_max,
                                        why, &cpu->weights);
    if (error) {
        return error;
    }
    fill_info(cpu, options);
    error = init_ropes(cpu);
    if (!error) {
        error = model_cpu_reserve(cpu);
    }
    if (!error) {
        error = io_team_create(cpu->thread_count, &cpu->team);
    }
    if (error) {
        return why_say(why, error, "no room for %u threads and %u rows",
                       cpu->thread_count, cpu->row_count_max);
    }
    return OK;
}

enum err model_cpu_create_with(const struct model_cpu_options *options,
                               const struct ops *ops, struct why *why,
                               struct model **model_out)
{
    CHECK(options->tokens_per_block > 0);
    CHECK(options->thread_count > 0);
    CHECK(options->row_count_max > 0);
    CHECK(options->context_max > 0);
    struct model_cpu *cpu = mem_new(sizeof(*cpu));
    cpu->base.ops = &CPU_OPS;
    cpu->ops = ops;
    cpu->thread_count = options->thread_count;
    cpu->row_count_max = options->row_count_max;
    cpu->context_max = options->context_max;
    enum err error = build(cpu, options, why);
    if (error) {
        cpu_destroy(&cpu->base);
        return error;
    }
    *model_out = &cpu->base;
    return OK;
}

enum err model_cpu_create(const struct model_cpu_options *options,
                          struct why *why, struct model **model_out)
{
    const struct ops *ops = options->reference_ops ? &OPS_REF : ops_fast();
    return model_cpu_create_with(options, ops, why, model_out);
}

uint64_t model_copied_kv_bytes(void)
{
    return 0; /* attention reads pages where they lie; there is no copy to count */
}
