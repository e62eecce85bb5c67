#pragma once
/* model/ops_attention: causal attention of one KV head over pages in place,
 * for one instruction set (see ops_simd.h).
 *
 * Tokens are taken in blocks of 64 by position, whatever the pages' size. For
 * each block K is turned (head_dim, token) and V widened, once for all rows;
 * a running softmax then takes the block into each query:
 *
 *   score[t] = scale * sum over d of query[d] * key[d][t]      lanes: t
 *   peak' = max(peak, scores); c = e^(peak - peak'); p[t] = e^(score[t] - peak')
 *   total = total * c + sum of p                               a fixed tree
 *   out[d] = out[d] * c + sum over t of p[t] * value[t][d]     lanes: d
 *
 * and divides by total at the end. So a query's sums depend on positions only.
 * With a window a query sees [0, sink_end) and [first, end) of a block, and
 * takes only blocks of which it sees something. What it does not see is never
 * multiplied in, not even by zero: pages may hold anything there, and where no
 * query of a strip sees a token its table entry is not read. */
#include <math.h>

#include "model/ops.h"
#include "model/ops_simd.h"

enum {
    ATTENTION_BLOCK = 64,
    ATTENTION_DIM_MAX = 256,
    ATTENTION_QUERIES = 128, /* that share one turned block */
    ATTENTION_TILE = LANES / 4, /* queries side by side */
    ATTENTION_SPAN = 4 * LANES, /* tokens or dimensions of a tile */
};

/* Tokens of a block, counted from its beginning: [0, sink_end) and
 * [first, end). None: end is 0. */
struct attention_seen {
    uint32_t sink_end;
    uint32_t first;
    uint32_t end;
};

struct attention_block {
    uint32_t begin; /* position of its first token */
    struct attention_seen seen; /* by any query of the strip */
    float key[ATTENTION_DIM_MAX * ATTENTION_BLOCK]; /* (head_dim, token) */
    float value[ATTENTION_BLOCK * ATTENTION_DIM_MAX]; /* (token, padded_dim) */
};

struct attention_state {
    const struct ops_attention *attention;
    uint32_t padded_dim; /* head_dim up to ATTENTION_SPAN */
    struct attention_block block;
    float peak[ATTENTION_QUERIES];
    float total[ATTENTION_QUERIES];
    float out[ATTENTION_QUERIES * ATTENTION_DIM_MAX]; /* (query, padded_dim) */
};

ALWAYS const uint8_t *attention_token(const struct ops_attention *a,
                                      size_t offset, uint32_t position)
{
    size_t page = (size_t)a->pages[position / a->tokens_per_block];
    size_t slot = position % a->tokens_per_block;
    return a->pool + page * a->page_bytes + offset +
           slot * a->head_dim * sizeof(uint16_t);
}

ALWAYS vec attention_widen(const uint8_t *from, uint32_t at, uint32_t size)
{
    return size - at >= LANES ? vec_load_f16(from + 2 * at)
                              : vec_load_f16_some(from + 2 * at, size - at);
}

/* Of tokens [0, sinks) and [first, end), those of the block at `begin`. */
ALWAYS struct attention_seen attention_clip(uint32_t begin, uint32_t sinks,
                                            uint32_t first, uint32_t end)
{
    const uint32_t STOP = begin + ATTENTION_BLOCK;
    struct attention_seen seen = {
        .sink_end = (sinks < STOP ? sinks : STOP) - begin,
        .first = (first < STOP ? first : STOP) - begin,
        .end = (end < STOP ? end : STOP) - begin,
    };
    seen.sink_end = sinks > begin ? seen.sink_end : 0;
    seen.first = first > begin ? seen.first : 0;
    seen.end = end > begin ? seen.end : 0;
    if (seen.first >= seen.end) { /* the sinks are all there is */
        return (struct attention_seen){.end = seen.sink_end};
    }
    return seen;
}

ALWAYS struct attention_seen attention_see(const struct ops_attention *a,
                                           uint32_t begin, uint32_t position)
{
    uint32_t first = ops_window_first(a->window, position);
    uint32_t sinks = a->sink_tokens < first ? a->sink_tokens : first;
    return attention_clip(begin, sinks, first, position + 1);
}

ALWAYS bool attention_sees(const struct attention_seen *seen, uint32_t token)
{
    return token < seen->sink_end ||
           (token >= seen->first && token < seen->end);
}

/* To walk what is seen: from the first token on, past the gap to the window. */
ALWAYS uint32_t attention_start(const struct attention_seen *seen)
{
    return seen->sink_end > 0 ? 0 : seen->first;
}

/* Where the gap begins, or further than any block reaches. */
ALWAYS uint32_t attention_gap(const struct attention_seen *seen)
{
    bool has_gap = seen->sink_end > 0 && seen->sink_end < seen->first;
    return has_gap ? seen->sink_end : UINT32_MAX;
}

/* LANES tokens from `first`; another's where nobody looks. */
static void attention_turn_keys(const struct ops_attention *a,
                                struct attention_block *block, uint32_t first)
{
    const uint8_t *tokens[LANES];
    for (uint32_t t = 0; t < LANES; t++) {
        uint32_t at = attention_sees(&block->seen, first + t)
                          ? first + t
                          : block->seen.end - 1;
        tokens[t] = attention_token(a, a->key_offset, block->begin + at);
    }
    for (uint32_t d = 0; d < a->head_dim; d += LANES) {
        vec v[LANES];
        UNROLL
        for (uint32_t t = 0; t < LANES; t++) {
            v[t] = attention_widen(tokens[t], d, a->head_dim);
        }
        vec_transpose(v);
        uint32_t rows = a->head_dim - d < LANES ? a->head_dim - d : LANES;
        for (uint32_t i = 0; i < rows; i++) {
            vec_store(&block->key[(d + i) * ATTENTION_BLOCK + first], v[i]);
        }
    }
}

static void attention_load_block(struct attention_state *s)
{
    const struct ops_attention *a = s->attention;
    struct attention_block *block = &s->block;
    for (uint32_t t = 0; t < ATTENTION_BLOCK; t += LANES) {
        attention_turn_keys(a, block, t);
    }
    const uint32_t GAP = attention_gap(&block->seen);
    for (uint32_t t = attention_start(&block->seen); t < block->seen.end; t++) {
        t = t == GAP ? block->seen.first : t;
        const uint8_t *from =
            attention_token(a, a->value_offset, block->begin + t);
        float *to = block->value + (size_t)t * s->padded_dim;
        for (uint32_t d = 0; d < s->padded_dim; d += LANES) {
            vec v = d < a->head_dim ? attention_widen(from, d, a->head_dim)
                                    : vec_zero();
            vec_store(to + d, v);
        }
    }
}

/* scores (query, ATTENTION_BLOCK) of `count` queries. */
ALWAYS void attention_score(const struct attention_state *s, uint32_t count,
                            const float *const *query, float *scores)
{
    const struct ops_attention *a = s->attention;
    vec scale = vec_all(a->scale);
    for (uint32_t t = 0; t < ATTENTION_BLOCK; t += ATTENTION_SPAN) {
        vec sums[ATTENTION_TILE][4];
        UNROLL
        for (uint32_t q = 0; q < count; q++) {
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                sums[q][i] = vec_zero();
            }
        }
        const float *key = s->block.key + t;
        for (uint32_t d = 0; d < a->head_dim; d++) {
            UNROLL
            for (uint32_t q = 0; q < count; q++) {
                vec x = vec_all(query[q][d]);
                UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    sums[q][i] =
                        vec_fma(x, vec_load(key + i * LANES), sums[q][i]);
                }
            }
            key += ATTENTION_BLOCK;
        }
        UNROLL
        for (uint32_t q = 0; q < count; q++) {
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                vec_store(scores + q * ATTENTION_BLOCK + t + i * LANES,
                          vec_mul(sums[q][i], scale));
            }
        }
    }
}

/* LANES values of tokens from `at` on; `other` where the query does not see. */
ALWAYS vec attention_hide(vec v, const struct attention_seen *seen, uint32_t at,
                          vec other)
{
    v = vec_keep(v, seen->end - at, other);
    if (seen->first <= at || seen->sink_end >= at + LANES) {
        return v;
    }
    vec tail = vec_keep(other, seen->first - at, v);
    return seen->sink_end > at ? vec_keep(v, seen->sink_end - at, tail) : tail;
}

/* Turns scores into weights; gives the factor for what was summed before. */
static float attention_weigh(float *scores, const struct attention_seen *seen,
                             float *peak, float *total)
{
    vec least = vec_all(-INFINITY);
    vec highest = least;
    for (uint32_t t = 0; t < seen->end; t += LANES) {
        vec v = attention_hide(vec_load(scores + t), seen, t, least);
        highest = vec_max(highest, v);
    }
    float top = vec_max_lane(highest);
    top = top > *peak ? top : *peak;
    vec sum = vec_zero();
    for (uint32_t t = 0; t < seen->end; t += LANES) {
        vec p = vec_exp(vec_sub(vec_load(scores + t), vec_all(top)));
        p = attention_hide(p, seen, t, vec_zero());
        vec_store(scores + t, p);
        sum = vec_add(sum, p);
    }
    float c =
        *peak == -INFINITY ? 0.0f : vec_first(vec_exp(vec_all(*peak - top)));
    *total = *total * c + vec_sum(sum);
    *peak = top;
    return c;
}

/* out = out * factor + weights * value */
ALWAYS void attention_mix(const struct attention_state *s, uint32_t count,
                          const float *weights,
                          const struct attention_seen *seen,
                          const float *factors, float *out)
{
    const uint32_t START = attention_start(seen);
    const uint32_t GAP = attention_gap(seen);
    for (uint32_t d = 0; d < s->padded_dim; d += ATTENTION_SPAN) {
        vec sums[ATTENTION_TILE][4];
        UNROLL
        for (uint32_t q = 0; q < count; q++) {
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                vec old = vec_load(out + q * s->padded_dim + d + i * LANES);
                sums[q][i] = vec_mul(old, vec_all(factors[q]));
            }
        }
        const float *value = s->block.value + d + (size_t)START * s->padded_dim;
        for (uint32_t t = START; t < seen->end; t++) {
            if (t == GAP) {
                value += (size_t)(seen->first - t) * s->padded_dim;
                t = seen->first;
            }
            UNROLL
            for (uint32_t q = 0; q < count; q++) {
                vec p = vec_all(weights[q * ATTENTION_BLOCK + t]);
                UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    sums[q][i] =
                        vec_fma(p, vec_load(value + i * LANES), sums[q][i]);
                }
            }
            value += s->padded_dim;
        }
        UNROLL
        for (uint32_t q = 0; q < count; q++) {
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                vec_store(out + q * s->padded_dim + d + i * LANES, sums[q][i]);
            }
        }
    }
}

/* `count` queries that all see the same of the block. */
ALWAYS void attention_tile(struct attention_state *s, uint32_t count,
                           const float *const *query, uint32_t index,
                           const struct attention_seen *seen)
{
    float scores[ATTENTION_TILE * ATTENTION_BLOCK];
    float factors[ATTENTION_TILE];
    attention_score(s, count, query, scores);
    for (uint32_t q = 0; q < count; q++) {
        factors[q] = attention_weigh(scores + q * ATTENTION_BLOCK, seen,
                                     &s->peak[index + q], &s->total[index + q]);
    }
    attention_mix(s, count, scores, seen, factors,
                  s->out + (size_t)index * s->padded_dim);
}

ALWAYS const float *attention_query(const struct ops_attention *a, uint32_t row,
                                    uint32_t head)
{
    return a->query + row * a->query_stride + (size_t)head * a->head_dim;
}

ALWAYS struct attention_seen attention_row_sees(const struct attention_state *s,
                                                uint32_t row)
{
    return attention_see(s->attention, s->block.begin,
                         s->attention->position + row);
}

ALWAYS bool attention_seen_equals(const struct attention_seen *a,
                                  const struct attention_seen *b)
{
    return a->end == b->end && a->first == b->first &&
           a->sink_end == b->sink_end;
}

/* All queries of a strip, (row, head) by (row, head); neighbours that see the
 * same tokens go together. */
static void attention_sweep(struct attention_state *s, uint32_t row_begin,
                            uint32_t query_count, uint32_t head_begin,
                            uint32_t head_count)
{
    const struct ops_attention *a = s->attention;
    for (uint32_t i = 0; i < query_count;) {
        const float *query[ATTENTION_TILE];
        uint32_t count = 0;
        struct attention_seen seen =
            attention_row_sees(s, row_begin + i / head_count);
        while (count < ATTENTION_TILE && i + count < query_count) {
            uint32_t row = row_begin + (i + count) / head_count;
            struct attention_seen other = attention_row_sees(s, row);
            if (!attention_seen_equals(&other, &seen)) {
                break;
            }
            uint32_t head = head_begin + (i + count) % head_count;
            query[count] = attention_query(a, row, head);
            count++;
        }
        bool is_whole = count == ATTENTION_TILE;
        for (uint32_t q = 0; seen.end > 0 && !is_whole && q < count; q++) {
            attention_tile(s, 1, query + q, i + q, &seen);
        }
        if (seen.end > 0 && is_whole) {
            attention_tile(s, ATTENTION_TILE, query, i, &seen);
        }
        i += count;
    }
}

static void attention_finish(const struct attention_state *s, uint32_t query,
                             float *out)
{
    const float *from = s->out + (size_t)query * s->padded_dim;
    uint32_t size = s->attention->head_dim;
    vec total = vec_all(s->total[query]);
    for (uint32_t d = 0; d < size; d += LANES) {
        vec_store_some(out + d, size - d, vec_div(vec_load(from + d), total));
    }
}

/* Together the rows see what the first sees of old tokens and the last of new
 * ones. False: nobody sees anything of it. */
static bool attention_open_block(struct attention_state *s, uint32_t begin,
                                 uint32_t row_begin, uint32_t row_end)
{
    const struct ops_attention *a = s->attention;
    uint32_t oldest = ops_window_first(a->window, a->position + row_begin);
    uint32_t sinks = a->sink_tokens < oldest ? a->sink_tokens : oldest;
    s->block.begin = begin;
    s->block.seen = attention_clip(begin, sinks, oldest, a->position + row_end);
    return s->block.seen.end > 0;
}

static void attention_strip(struct attention_state *s, uint32_t row_begin,
                            uint32_t row_end, uint32_t head_begin,
                            uint32_t head_count)
{
    const struct ops_attention *a = s->attention;
    uint32_t query_count = (row_end - row_begin) * head_count;
    for (uint32_t q = 0; q < query_count; q++) {
        s->peak[q] = -INFINITY;
        s->total[q] = 0;
    }
    memset(s->out, 0, (size_t)query_count * s->padded_dim * sizeof(float));
    uint32_t end = a->position + row_end;
    for (uint32_t at = 0; at < end; at += ATTENTION_BLOCK) {
        if (!attention_open_block(s, at, row_begin, row_end)) {
            continue;
        }
        attention_load_block(s);
        attention_sweep(s, row_begin, query_count, head_begin, head_count);
    }
    for (uint32_t q = 0; q < query_count; q++) {
        uint32_t row = row_begin + q / head_count;
        uint32_t head = head_begin + q % head_count;
        attention_finish(
            s, q, a->out + row * a->out_stride + (size_t)head * a->head_dim);
    }
}

static void attention_run(const struct ops_attention *attention,
                          uint32_t row_begin, uint32_t row_end)
{
    if (attention->head_dim > ATTENTION_DIM_MAX) { /* none that we know of */
        OPS_REF.attention(attention, row_begin, row_end);
        return;
    }
    struct attention_state s;
    s.attention = attention;
    s.padded_dim = (attention->head_dim + ATTENTION_SPAN - 1) / ATTENTION_SPAN *
                   ATTENTION_SPAN;
    uint32_t group = attention->group_size;
    for (uint32_t head = 0; head < group; head += ATTENTION_QUERIES) {
        uint32_t heads =
            group - head < ATTENTION_QUERIES ? group - head : ATTENTION_QUERIES;
        uint32_t strip = ATTENTION_QUERIES / heads;
        for (uint32_t r = row_begin; r < row_end; r += strip) {
            uint32_t stop = row_end - r < strip ? row_end : r + strip;
            attention_strip(&s, r, stop, head, heads);
        }
    }
}
