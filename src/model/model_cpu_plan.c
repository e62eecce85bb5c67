/* Memory of the CPU body, and the plan of one batch. */
#include "base/check.h"
#include "base/mem.h"
#include "model/model_cpu.h"

/* Queries (rows times heads of a group) that attend in one go: enough to share
 * the pages they read, few enough to give each thread some. */
enum { PIECE_QUERIES = 128, PIECE_ROWS_MIN = 16 };

/* Carves arrays out of one block; with base NULL it only counts. */
struct carver {
    uint8_t *base;
    size_t used;
    bool is_too_large;
};

static void *carve(struct carver *carver, size_t count, size_t size)
{
    size_t bytes;
    size_t end;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(carver->used, bytes, &end) ||
        end > SIZE_MAX - 64) {
        carver->is_too_large = true;
        return NULL;
    }
    size_t begin = carver->used;
    carver->used = (end + 63) / 64 * 64;
    return carver->base ? carver->base + begin : NULL;
}

uint32_t model_cpu_assign_slots(const struct ops_matrix *const *matrices,
                                uint32_t count, uint32_t *slots_out)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        slots_out[i] = used;
        for (uint32_t j = 0; j < i; j++) {
            if (matrices[j]->type == matrices[i]->type) {
                slots_out[i] = slots_out[j];
                break;
            }
        }
        used += slots_out[i] == used;
    }
    CHECK(used <= MODEL_CPU_SLOT_COUNT);
    return used;
}

/* Slots grow to what the matrices that read one input need. */
static void widen_slots(struct model_cpu *cpu,
                        const struct ops_matrix *const *matrices,
                        uint32_t count)
{
    uint32_t slots[MODEL_CPU_SLOT_COUNT];
    IGNORE(model_cpu_assign_slots(matrices, count, slots)); /* slots matter */
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes =
            cpu->ops->row_bytes(matrices[i]->type, matrices[i]->columns);
        size_t *slot = &cpu->prepared_bytes[slots[i]];
        *slot = bytes > *slot ? bytes : *slot;
    }
}

static void size_slots(struct model_cpu *cpu)
{
    for (uint32_t i = 0; i < cpu->weights.hparams.layer_count; i++) {
        const struct model_layer *l = &cpu->weights.layers[i];
        widen_slots(cpu, (const struct ops_matrix *[]){&l->q, &l->k, &l->v}, 3);
        widen_slots(cpu, (const struct ops_matrix *[]){&l->o}, 1);
        widen_slots(cpu, (const struct ops_matrix *[]){&l->gate, &l->up}, 2);
        widen_slots(cpu, (const struct ops_matrix *[]){&l->down}, 1);
    }
    widen_slots(cpu, (const struct ops_matrix *[]){&cpu->weights.output}, 1);
}

static float *carve_floats(struct carver *carver, size_t rows, size_t columns)
{
    /* Columns are below 2^32 (hparams): the product below cannot wrap. */
    return carve(carver, rows, columns * sizeof(float));
}

static void carve_space(struct model_cpu *cpu, struct carver *carver)
{
    const struct model_hparams *h = &cpu->weights.hparams;
    struct model_cpu_space *s = &cpu->space;
    size_t rows = cpu->row_count_max;
    size_t q_size = (size_t)h->head_count * h->head_dim;
    size_t kv_size = (size_t)h->kv_head_count * h->head_dim;
    s->residual = carve_floats(carver, rows, h->dim);
    s->delta = carve_floats(carver, rows, h->dim);
    s->query = carve_floats(carver, rows, q_size);
    s->key = carve_floats(carver, rows, kv_size);
    s->value = carve_floats(carver, rows, kv_size);
    s->attended = carve_floats(carver, rows, q_size);
    s->gate = carve_floats(carver, rows, h->ffn_dim);
    s->up = carve_floats(carver, rows, h->ffn_dim);
    s->angles =
        carve_floats(carver, rows, (size_t)cpu->rope_count * h->rope_dims);
    for (uint32_t i = 0; i < MODEL_CPU_SLOT_COUNT; i++) {
        s->prepared[i] = carve(carver, rows, cpu->prepared_bytes[i]);
    }
    s->normed =
        carve_floats(carver, cpu->thread_count, (h->dim + 15) / 16 * 16);
    s->scratch = carve_floats(carver, cpu->thread_count, cpu->scratch_size);
}

static void carve_plan(struct model_cpu *cpu, struct carver *carver)
{
    struct model_cpu_plan *plan = &cpu->plan;
    size_t rows = cpu->row_count_max;
    plan->rows = carve(carver, rows, sizeof(plan->rows[0]));
    plan->pieces = carve(carver, rows, sizeof(plan->pieces[0]));
    plan->tail_rows = carve(carver, rows, sizeof(plan->tail_rows[0]));
    plan->tail_pieces = carve(carver, rows, sizeof(plan->tail_pieces[0]));
}

enum err model_cpu_reserve(struct model_cpu *cpu)
{
    const struct model_hparams *h = &cpu->weights.hparams;
    size_slots(cpu);
    size_t scratch = ops_attention_scratch(
        cpu->context_max, h->head_count / h->kv_head_count, h->head_dim);
    cpu->scratch_size = (scratch + 15) / 16 * 16;
    struct carver carver = {0};
    carve_space(cpu, &carver);
    carve_plan(cpu, &carver);
    cpu->memory = carver.is_too_large ? NULL : mem_try_aligned(64, carver.used);
    if (!cpu->memory) {
        return ERR_NO_MEMORY;
    }
    carver = (struct carver){.base = cpu->memory};
    carve_space(cpu, &carver);
    carve_plan(cpu, &carver);
    return OK;
}

static enum err check_run(const struct model_cpu *cpu,
                          const struct model_run *run)
{
    if (run->token_count > cpu->row_count_max - cpu->plan.row_count) {
        return ERR_FULL;
    }
    if (run->logit_count > run->token_count ||
        run->token_count > cpu->context_max ||
        run->position > cpu->context_max - run->token_count) {
        return ERR_INVALID;
    }
    for (uint32_t i = 0; i < run->token_count; i++) {
        if (run->tokens[i] < 0 ||
            (uint32_t)run->tokens[i] >= cpu->base.info.vocab_size) {
            return ERR_INVALID;
        }
    }
    return OK;
}

/* The blocks of tokens [begin, end) are pages of the pool. */
static void check_blocks(const struct kv_pool_view *pool,
                         const kv_page_id *pages, uint32_t begin, uint32_t end)
{
    uint32_t tokens_per_block = pool->layout.tokens_per_block;
    for (uint32_t i = begin / tokens_per_block;
         i * (uint64_t)tokens_per_block < end; i++) {
        CHECK(pages[i] >= 0);
        CHECK((uint32_t)pages[i] < pool->page_count);
    }
}

/* Each table reaches as far as the run, and back as far as it sees. */
static void check_pages(const struct model_cpu *cpu,
                        const struct model_run *run)
{
    const struct kv_shape *shape = &cpu->base.info.shape;
    uint32_t end = run->position + run->token_count;
    for (uint32_t i = 0; i < shape->life_count; i++) {
        const struct kv_life *life = &shape->lives[i];
        uint32_t first = ops_window_first(life->window, run->position);
        uint32_t sinks = life->sink_tokens < first ? life->sink_tokens : first;
        check_blocks(&cpu->pools[i], run->pages[i], 0, sinks);
        check_blocks(&cpu->pools[i], run->pages[i], first, end);
    }
}

static uint32_t piece_rows(const struct model_cpu *cpu)
{
    const struct model_hparams *h = &cpu->weights.hparams;
    uint32_t rows = PIECE_QUERIES / (h->head_count / h->kv_head_count);
    return rows < PIECE_ROWS_MIN ? PIECE_ROWS_MIN : rows;
}

static void add_pieces(struct model_cpu_piece *pieces, uint32_t *count,
                       uint32_t rows, uint32_t begin, uint32_t end)
{
    for (uint32_t row = begin; row < end; row += rows) {
        uint32_t left = end - row;
        pieces[(*count)++] = (struct model_cpu_piece){
            .first_row = row, .row_count = left < rows ? left : rows};
    }
}

static void add_run(struct model_cpu *cpu, const struct model_run *run)
{
    struct model_cpu_plan *plan = &cpu->plan;
    uint32_t rows = piece_rows(cpu);
    uint32_t begin = plan->row_count;
    uint32_t end = begin + run->token_count;
    for (uint32_t i = 0; i < run->token_count; i++) {
        plan->rows[begin + i] = (struct model_cpu_row){
            .token = run->tokens[i], .position = run->position + i, .run = run};
    }
    add_pieces(plan->pieces, &plan->piece_count, rows, begin, end);
    add_pieces(plan->tail_pieces, &plan->tail_piece_count, rows,
               end - run->logit_count, end);
    for (uint32_t row = end - run->logit_count; row < end; row++) {
        plan->tail_rows[plan->tail_count++] = row;
    }
    plan->row_count = end;
}

enum err model_cpu_make_plan(struct model_cpu *cpu,
                             const struct model_batch *batch)
{
    struct model_cpu_plan *plan = &cpu->plan;
    plan->row_count = 0;
    plan->piece_count = 0;
    plan->tail_count = 0;
    plan->tail_piece_count = 0;
    for (uint32_t i = 0; i < batch->run_count; i++) {
        enum err error = check_run(cpu, &batch->runs[i]);
        if (error) {
            return error;
        }
        check_pages(cpu, &batch->runs[i]);
        add_run(cpu, &batch->runs[i]);
    }
    return OK;
}
