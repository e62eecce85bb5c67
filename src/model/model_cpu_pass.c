/* The forward pass. All threads of the team run `walk` over the same plan and
 * meet at a barrier after each phase; within a phase they take items (rows,
 * ranges of matrix rows, pieces of attention) from a common counter. Who took
 * what leaves no trace in the result: items write disjoint places, and each
 * element's sum has its order fixed by ops.
 *
 *   x = embedding
 *   each layer:  x += o(attention(norm(x)))
 *                x += down(silu(gate(norm(x))) * up(norm(x)))
 *   logits = output(norm(x))
 *
 * Gemma scales the embedding, has gelu for silu, and normalises both summands.
 *
 * In the last layer, once K and V are stored, only rows that need logits go
 * on: from there the rows are those of the tail, packed. */
#include <stdatomic.h>

#include "base/check.h"
#include "model/lives.h"
#include "model/model_cpu.h"

struct pass {
    struct model_cpu *cpu;
    const atomic_bool *cancel;
    float *logits;
    bool is_cancelled; /* written by member 0 ahead of a barrier */
    /* The phase's next item, and the next phase's, still zero. */
    atomic_uint next[2];
};

/* What one thread knows; the same on all but for `index`. */
struct member {
    struct pass *pass;
    struct model_cpu *cpu;
    uint32_t index;
    uint32_t phase;
    uint32_t row_count;
    const uint32_t *source; /* row of each packed row; NULL: the same */
    float *residual; /* (row, dim) */
    float *delta; /* (row, dim), to be added to it */
};

/* out = rows * matrix + bias */
struct product {
    const struct ops_matrix *matrix;
    const float *bias; /* NULL: none */
    float *out; /* (row, matrix->rows) */
    uint32_t slot; /* of the prepared input */
};

static bool take_item(struct member *m, uint32_t count, uint32_t *item_out)
{
    atomic_uint *next = &m->pass->next[m->phase % 2];
    uint32_t item = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
    *item_out = item;
    return item < count;
}

static void end_phase(struct member *m)
{
    if (m->index == 0) { /* nobody counts there until the barrier is passed */
        atomic_store_explicit(&m->pass->next[(m->phase + 1) % 2], 0,
                              memory_order_relaxed);
    }
    io_team_barrier(m->cpu->team);
    m->phase++;
}

static uint32_t source_row(const struct member *m, uint32_t row)
{
    return m->source ? m->source[row] : row;
}

/* Prepares one row of input for each slot that the products read. */
static void prepare_row(const struct member *m, const struct product *products,
                        uint32_t count, const float *x, uint32_t row)
{
    const struct ops *ops = m->cpu->ops;
    uint32_t done = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct ops_matrix *matrix = products[i].matrix;
        if (products[i].slot < done) {
            continue;
        }
        size_t stride = ops->row_bytes(matrix->type, matrix->columns);
        uint8_t *rows = m->cpu->space.prepared[products[i].slot];
        ops->prepare_row(matrix->type, x, matrix->columns, rows + row * stride);
        done = products[i].slot + 1;
    }
}

static void assign_slots(struct product *products, uint32_t count)
{
    const struct ops_matrix *matrices[MODEL_CPU_SLOT_COUNT];
    uint32_t slots[MODEL_CPU_SLOT_COUNT];
    CHECK(count <= MODEL_CPU_SLOT_COUNT);
    for (uint32_t i = 0; i < count; i++) {
        matrices[i] = products[i].matrix;
    }
    IGNORE(model_cpu_assign_slots(matrices, count, slots)); /* slots matter */
    for (uint32_t i = 0; i < count; i++) {
        products[i].slot = slots[i];
    }
}

/* Matrix rows an item takes: some items for each thread, so that a slow one
 * does not hold up the rest. */
static uint32_t range_size(const struct member *m,
                           const struct product *products, uint32_t count)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        rows += products[i].matrix->rows;
    }
    /* Whole panels of 32 rows, the widest that a kernel packs. */
    uint32_t size = (rows / (m->cpu->thread_count * 8) + 31) / 32 * 32;
    return size < 32 ? 32 : size > 256 ? 256 : size;
}

static void multiply_range(const struct member *m,
                           const struct product *product, uint32_t begin,
                           uint32_t end)
{
    const struct ops *ops = m->cpu->ops;
    const struct ops_matrix *matrix = product->matrix;
    ops->matmul(matrix, m->cpu->space.prepared[product->slot], m->row_count,
                product->out, matrix->rows, begin, end);
    for (uint32_t r = 0; product->bias && r < m->row_count; r++) {
        float *out = product->out + (size_t)r * matrix->rows;
        ops->add(out + begin, product->bias + begin, end - begin);
    }
}

static void multiply(struct member *m, const struct product *products,
                     uint32_t count)
{
    uint32_t size = range_size(m, products, count);
    uint32_t item_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        item_count += (products[i].matrix->rows + size - 1) / size;
    }
    uint32_t item;
    while (take_item(m, item_count, &item)) {
        const struct product *product = products;
        uint32_t begin = item * size;
        while (begin >= (product->matrix->rows + size - 1) / size * size) {
            begin -= (product->matrix->rows + size - 1) / size * size;
            product++;
        }
        uint32_t left = product->matrix->rows - begin;
        multiply_range(m, product, begin, begin + (left < size ? left : size));
    }
    end_phase(m);
}

static float *angles_of(const struct model_cpu *cpu, uint32_t row,
                        uint32_t rope)
{
    return cpu->space.angles + ((size_t)row * cpu->rope_count + rope) *
                                   cpu->weights.hparams.rope_dims;
}

static void embed_row(struct member *m, uint32_t row)
{
    struct model_cpu *cpu = m->cpu;
    const struct model_hparams *h = &cpu->weights.hparams;
    const struct model_cpu_row *at = &cpu->plan.rows[row];
    float *x = m->residual + (size_t)row * h->dim;
    cpu->ops->get_row(&cpu->weights.embedding, (uint32_t)at->token, x);
    for (uint32_t i = 0; h->embedding_scale != 1.0f && i < h->dim; i++) {
        x[i] *= h->embedding_scale;
    }
    for (uint32_t i = 0; i < cpu->rope_count; i++) {
        model_rope_angles(&cpu->ropes[i], at->position, angles_of(cpu, row, i));
    }
}

static void embed(struct member *m)
{
    uint32_t row;
    while (take_item(m, m->row_count, &row)) {
        embed_row(m, row);
    }
    end_phase(m);
}

/* Normalises one row into the thread's own place. */
static const float *normalise(const struct member *m, const float *x,
                              const float *weight)
{
    const struct model_hparams *h = &m->cpu->weights.hparams;
    float *out =
        m->cpu->space.normed + (size_t)m->index * ((h->dim + 15) / 16 * 16);
    m->cpu->ops->rms_norm(x, weight, h->dim, h->epsilon, out);
    return out;
}

/* What is to be added, normalised where the architecture does. */
static float *finish_delta(struct member *m, uint32_t row,
                           const float *post_norm)
{
    const struct model_hparams *h = &m->cpu->weights.hparams;
    float *x = m->delta + (size_t)row * h->dim;
    if (post_norm) {
        m->cpu->ops->rms_norm(x, post_norm, h->dim, h->epsilon, x);
    }
    return x;
}

/* residual += delta (but before the first layer), then its norm prepared.
 * `layer` is the one that comes; the delta is the one's before. */
static void absorb_delta(struct member *m, uint32_t layer, const float *norm,
                         const struct product *products, uint32_t count)
{
    const struct model_layer *layers = m->cpu->weights.layers;
    uint32_t dim = m->cpu->weights.hparams.dim;
    uint32_t row;
    while (take_item(m, m->row_count, &row)) {
        float *x = m->residual + (size_t)row * dim;
        if (layer > 0) {
            const float *delta =
                finish_delta(m, row, layers[layer - 1].ffn_post_norm);
            m->cpu->ops->add(x, delta, dim);
        }
        prepare_row(m, products, count, normalise(m, x, norm), row);
    }
    end_phase(m);
}

/* The same in the middle of a layer, where rows may just have been packed: the
 * sum is taken in delta, and the two change places. */
static void absorb_packed(struct member *m, const struct model_layer *l,
                          const struct product *products, uint32_t count)
{
    uint32_t dim = m->cpu->weights.hparams.dim;
    uint32_t row;
    while (take_item(m, m->row_count, &row)) {
        float *x = finish_delta(m, row, l->attention_post_norm);
        m->cpu->ops->add(x, m->residual + (size_t)source_row(m, row) * dim,
                         dim);
        prepare_row(m, products, count, normalise(m, x, l->ffn_norm), row);
    }
    float *sum = m->delta;
    m->delta = m->residual;
    m->residual = sum;
    m->source = NULL;
    end_phase(m);
}

/* Head by head: its norm where the architecture has one, then its turn. */
static void turn_heads(const struct member *m, float *heads, uint32_t count,
                       const float *norm, const float *angles)
{
    const struct model_hparams *h = &m->cpu->weights.hparams;
    for (uint32_t i = 0; i < count; i++) {
        float *head = heads + (size_t)i * h->head_dim;
        if (norm) {
            m->cpu->ops->rms_norm(head, norm, h->head_dim, h->epsilon, head);
        }
        model_rope_turn(&m->cpu->ropes[0], angles, head);
    }
}

static void store_heads(const struct member *m, uint32_t layer, uint32_t row)
{
    struct model_cpu *cpu = m->cpu;
    struct model_lives_place place =
        model_lives_place(&cpu->weights.hparams, layer);
    const struct kv_pool_view *pool = &cpu->pools[place.life];
    const struct kv_layout *layout = &pool->layout;
    const struct model_cpu_row *at = &cpu->plan.rows[row];
    const kv_page_id *pages = at->run->pages[place.life];
    size_t page = (size_t)pages[at->position / layout->tokens_per_block];
    uint32_t slot = at->position % layout->tokens_per_block;
    uint8_t *base = pool->base + page * pool->page_bytes;
    for (uint32_t i = 0; i < layout->kv_head_count; i++) {
        size_t from =
            ((size_t)row * layout->kv_head_count + i) * layout->head_dim;
        uint8_t *key = base + kv_layout_key_offset(layout, place.layer, i) +
                       (size_t)slot * layout->head_dim * layout->element_bytes;
        uint8_t *value = key + kv_layout_layer_bytes(layout) / 2;
        cpu->ops->store_f16(cpu->space.key + from, layout->head_dim,
                            (uint16_t *)(void *)key);
        cpu->ops->store_f16(cpu->space.value + from, layout->head_dim,
                            (uint16_t *)(void *)value);
    }
}

static void place(struct member *m, uint32_t layer)
{
    const struct model_hparams *h = &m->cpu->weights.hparams;
    const struct model_layer *l = &m->cpu->weights.layers[layer];
    struct model_cpu_space *space = &m->cpu->space;
    bool is_local = m->cpu->rope_count > 1 && model_lives_is_windowed(h, layer);
    uint32_t row;
    while (take_item(m, m->row_count, &row)) {
        const float *angles = angles_of(m->cpu, row, is_local);
        size_t at = (size_t)row * h->head_dim;
        turn_heads(m, space->query + at * h->head_count, h->head_count,
                   l->q_norm, angles);
        turn_heads(m, space->key + at * h->kv_head_count, h->kv_head_count,
                   l->k_norm, angles);
        store_heads(m, layer, row);
    }
    end_phase(m);
}

static void attend_piece(const struct member *m, uint32_t layer,
                         const struct model_cpu_piece *piece, uint32_t kv_head)
{
    struct model_cpu *cpu = m->cpu;
    const struct model_hparams *h = &cpu->weights.hparams;
    const struct model_cpu_row *first = &cpu->plan.rows[piece->first_row];
    struct model_lives_place place = model_lives_place(h, layer);
    const struct kv_pool_view *pool = &cpu->pools[place.life];
    size_t key = kv_layout_key_offset(&pool->layout, place.layer, kv_head);
    uint32_t group = h->head_count / h->kv_head_count;
    size_t stride = (size_t)h->head_count * h->head_dim;
    size_t begin =
        piece->first_row * stride + (size_t)kv_head * group * h->head_dim;
    struct ops_attention attention = {
        .pool = pool->base,
        .page_bytes = pool->page_bytes,
        .pages = first->run->pages[place.life],
        .key_offset = key,
        .value_offset = key + kv_layout_layer_bytes(&pool->layout) / 2,
        .tokens_per_block = pool->layout.tokens_per_block,
        .head_dim = h->head_dim,
        .group_size = group,
        .scale = h->attention_scale,
        .query = cpu->space.query + begin,
        .query_stride = stride,
        .out = cpu->space.attended + begin,
        .out_stride = stride,
        .position = first->position,
        .window = cpu->base.info.shape.lives[place.life].window,
        .sink_tokens = cpu->base.info.shape.lives[place.life].sink_tokens,
        .scratch = cpu->space.scratch + m->index * cpu->scratch_size,
    };
    cpu->ops->attention(&attention, 0, piece->row_count);
}

/* Last pieces first: they see most, and the end of a phase is best short. */
static void attend(struct member *m, uint32_t layer,
                   const struct model_cpu_piece *pieces, uint32_t count)
{
    uint32_t kv_heads = m->cpu->weights.hparams.kv_head_count;
    uint32_t item_count = count * kv_heads;
    uint32_t item;
    while (take_item(m, item_count, &item)) {
        uint32_t from_end = item_count - 1 - item;
        attend_piece(m, layer, &pieces[from_end / kv_heads],
                     from_end % kv_heads);
    }
    end_phase(m);
}

static void prepare_attended(struct member *m, const struct product *product)
{
    uint32_t row;
    while (take_item(m, m->row_count, &row)) {
        const float *x = m->cpu->space.attended +
                         (size_t)source_row(m, row) * product->matrix->columns;
        prepare_row(m, product, 1, x, row);
    }
    end_phase(m);
}

static void activate(struct member *m, const struct product *product)
{
    uint32_t ffn_dim = m->cpu->weights.hparams.ffn_dim;
    uint32_t row;
    while (take_item(m, m->row_count, &row)) {
        float *gate = m->cpu->space.gate + (size_t)row * ffn_dim;
        const float *up = m->cpu->space.up + (size_t)row * ffn_dim;
        if (m->cpu->weights.hparams.architecture->has_gelu) {
            m->cpu->ops->gelu_multiply(gate, up, ffn_dim);
        } else {
            m->cpu->ops->silu_multiply(gate, up, ffn_dim);
        }
        prepare_row(m, product, 1, gate, row);
    }
    end_phase(m);
}

/* Queries, keys and values of all rows; K and V end up in their pages. */
static void project(struct member *m, uint32_t layer)
{
    const struct model_layer *l = &m->cpu->weights.layers[layer];
    struct model_cpu_space *space = &m->cpu->space;
    struct product products[] = {
        {.matrix = &l->q, .bias = l->q_bias, .out = space->query},
        {.matrix = &l->k, .bias = l->k_bias, .out = space->key},
        {.matrix = &l->v, .bias = l->v_bias, .out = space->value},
    };
    assign_slots(products, 3);
    absorb_delta(m, layer, l->attention_norm, products, 3);
    multiply(m, products, 3);
    place(m, layer);
}

static void start_tail(struct member *m)
{
    m->row_count = m->cpu->plan.tail_count;
    m->source = m->cpu->plan.tail_rows;
}

static void attend_layer(struct member *m, uint32_t layer)
{
    const struct model_cpu_plan *plan = &m->cpu->plan;
    const struct model_layer *l = &m->cpu->weights.layers[layer];
    bool is_last = layer + 1 == m->cpu->weights.hparams.layer_count;
    if (is_last) {
        start_tail(m);
        attend(m, layer, plan->tail_pieces, plan->tail_piece_count);
    } else {
        attend(m, layer, plan->pieces, plan->piece_count);
    }
    struct product product = {
        .matrix = &l->o, .bias = l->o_bias, .out = m->delta};
    prepare_attended(m, &product);
    multiply(m, &product, 1);
}

static void look_at_cancel(struct member *m)
{
    struct pass *pass = m->pass;
    if (m->index == 0 && pass->cancel) {
        pass->is_cancelled =
            atomic_load_explicit(pass->cancel, memory_order_relaxed);
    }
}

static void feed_forward(struct member *m, uint32_t layer)
{
    const struct model_layer *l = &m->cpu->weights.layers[layer];
    struct model_cpu_space *space = &m->cpu->space;
    struct product pair[] = {
        {.matrix = &l->gate, .bias = l->gate_bias, .out = space->gate},
        {.matrix = &l->up, .bias = l->up_bias, .out = space->up},
    };
    assign_slots(pair, 2);
    absorb_packed(m, l, pair, 2);
    multiply(m, pair, 2);
    struct product down = {
        .matrix = &l->down, .bias = l->down_bias, .out = m->delta};
    activate(m, &down);
    look_at_cancel(m);
    multiply(m, &down, 1);
}

static void finish(struct member *m)
{
    const struct model_weights *w = &m->cpu->weights;
    struct product product = {.matrix = &w->output, .out = m->pass->logits};
    absorb_delta(m, w->hparams.layer_count, w->output_norm, &product, 1);
    multiply(m, &product, 1);
}

static void walk(void *context, uint32_t index)
{
    struct pass *pass = context;
    struct model_cpu *cpu = pass->cpu;
    struct member m = {.pass = pass,
                       .cpu = cpu,
                       .index = index,
                       .row_count = cpu->plan.row_count,
                       .residual = cpu->space.residual,
                       .delta = cpu->space.delta};
    uint32_t layer_count = cpu->weights.hparams.layer_count;
    embed(&m);
    for (uint32_t layer = 0; layer < layer_count; layer++) {
        project(&m, layer);
        if (layer + 1 == layer_count && cpu->plan.tail_count == 0) {
            return;
        }
        attend_layer(&m, layer);
        feed_forward(&m, layer);
        if (pass->is_cancelled) {
            return;
        }
    }
    finish(&m);
}

enum err model_cpu_run(struct model_cpu *cpu, const struct model_batch *batch,
                       float *logits_out)
{
    struct pass pass = {
        .cpu = cpu, .cancel = batch->cancel, .logits = logits_out};
    if (batch->cancel && atomic_load(batch->cancel)) {
        return ERR_CANCELLED;
    }
    io_team_run(cpu->team, walk, &pass);
    return pass.is_cancelled ? ERR_CANCELLED : OK;
}
