#include "model/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/sampler_logprob.h"

/* A token that may still be drawn. */
struct candidate {
    float logit;
    int32_t token;
};

struct sampler {
    uint32_t vocab_size;
    struct candidate *heap; /* (vocab_size) */
    uint32_t *counts; /* (vocab_size), zero between calls */
    float *original; /* (vocab_size) logits as they came */
};

struct sampler *sampler_create(uint32_t vocab_size)
{
    CHECK(vocab_size > 0);
    struct sampler *sampler = mem_new(sizeof(*sampler));
    sampler->vocab_size = vocab_size;
    sampler->heap = mem_new_array(vocab_size, sizeof(sampler->heap[0]));
    sampler->counts = mem_new_array(vocab_size, sizeof(sampler->counts[0]));
    sampler->original = mem_new_array(vocab_size, sizeof(float));
    return sampler;
}

void sampler_destroy(struct sampler *sampler)
{
    if (!sampler) {
        return;
    }
    mem_free(sampler->heap);
    mem_free(sampler->counts);
    mem_free(sampler->original);
    mem_free(sampler);
}

/* Larger logit first, then smaller id. */
static bool is_better(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

static uint32_t top_wanted(int32_t logprob_count, uint32_t vocab_size)
{
    uint32_t wanted = logprob_count < 0 ? 0 : (uint32_t)logprob_count;
    wanted = wanted > SAMPLER_TOP_COUNT_MAX ? SAMPLER_TOP_COUNT_MAX : wanted;
    return wanted > vocab_size ? vocab_size : wanted;
}

/* ---- biases and penalties ---- */

static bool is_in_vocabulary(const struct sampler_input *input, int32_t token)
{
    return token >= 0 && (uint32_t)token < input->vocab_size;
}

static void apply_biases(const struct sampler_options *options,
                         const struct sampler_input *input)
{
    for (uint32_t i = 0; i < options->bias_count; i++) {
        const struct sampler_bias *bias = &options->biases[i];
        if (is_in_vocabulary(input, bias->token)) {
            input->logits[bias->token] += bias->bias;
        }
    }
}

/* Each token of the history once: the counter marks those already seen. */
static void apply_repetition(struct sampler *sampler, float penalty,
                             const struct sampler_input *input)
{
    for (uint32_t i = 0; i < input->history_count; i++) {
        int32_t token = input->history[i];
        if (!is_in_vocabulary(input, token) || sampler->counts[token]++ > 0) {
            continue;
        }
        float *logit = &input->logits[token];
        *logit = *logit > 0.0f ? *logit / penalty : *logit * penalty;
    }
}

static void clear_counts(struct sampler *sampler,
                         const struct sampler_input *input)
{
    for (uint32_t i = 0; i < input->history_count; i++) {
        if (is_in_vocabulary(input, input->history[i])) {
            sampler->counts[input->history[i]] = 0;
        }
    }
}

/* Counts first, then one subtraction a token, so that the order in which
 * tokens came does not matter. */
static void apply_counts(struct sampler *sampler,
                         const struct sampler_options *options,
                         const struct sampler_input *input)
{
    for (uint32_t i = input->prompt_count; i < input->history_count; i++) {
        if (is_in_vocabulary(input, input->history[i])) {
            sampler->counts[input->history[i]]++;
        }
    }
    for (uint32_t i = input->prompt_count; i < input->history_count; i++) {
        int32_t token = input->history[i];
        if (!is_in_vocabulary(input, token) || sampler->counts[token] == 0) {
            continue;
        }
        input->logits[token] -=
            options->presence_penalty +
            options->frequency_penalty * (float)sampler->counts[token];
        sampler->counts[token] = 0;
    }
}

static void forbid(const struct sampler_input *input)
{
    for (uint32_t i = 0; input->forbid_end && i < input->end_count; i++) {
        if (is_in_vocabulary(input, input->end_tokens[i])) {
            input->logits[input->end_tokens[i]] = -INFINITY;
        }
    }
}

static void adjust(struct sampler *sampler,
                   const struct sampler_options *options,
                   const struct sampler_input *input)
{
    apply_biases(options, input);
    if (options->repetition_penalty != 1.0f) {
        apply_repetition(sampler, options->repetition_penalty, input);
        clear_counts(sampler, input);
    }
    if (options->presence_penalty != 0.0f ||
        options->frequency_penalty != 0.0f) {
        apply_counts(sampler, options, input);
    }
    for (uint32_t i = 0; i < input->vocab_size; i++) {
        input->logits[i] = sampler_tame(input->logits[i]);
    }
    forbid(input);
}

/* ---- choosing ---- */

static bool is_forbidden(const struct sampler_input *input, int32_t token)
{
    for (uint32_t i = 0; input->forbid_end && i < input->end_count; i++) {
        if (input->end_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

/* The smallest id among the best. Where nothing is possible, still a token
 * that is not forbidden. */
static int32_t choose_best(const struct sampler_input *input)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < input->vocab_size; i++) {
        bool is_ahead = best < 0 || input->logits[i] > input->logits[best];
        if (is_ahead && !is_forbidden(input, (int32_t)i)) {
            best = (int32_t)i;
        }
    }
    return best < 0 ? 0 : best;
}

static void sift_down(struct candidate *heap, uint32_t size, uint32_t at)
{
    struct candidate moved = heap[at];
    while (2 * at + 1 < size) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < size && is_better(heap[child + 1], heap[child])) {
            child++;
        }
        if (!is_better(heap[child], moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void build_heap(struct candidate *heap, uint32_t size)
{
    for (uint32_t i = size / 2; i > 0; i--) {
        sift_down(heap, size, i - 1);
    }
}

/* What one draw works on. Weights are e^((logit - peak) / temperature). */
struct draw {
    const struct sampler_options *options;
    const struct sampler_input *input;
    struct sampler *sampler;
    double peak;
    double unit; /* in [0, 1) */
};

static double weight_of(const struct draw *draw, float logit)
{
    return sampler_exp(((double)logit - draw->peak) /
                       (double)draw->options->temperature);
}

/* All candidates with at least `floor` of weight, in id order. Most fall to
 * the comparison of logits, which is coarse on the safe side. */
static uint32_t collect(const struct draw *draw, double floor)
{
    const struct sampler_input *input = draw->input;
    double coarse =
        draw->peak + (log(floor) - 1e-3) * (double)draw->options->temperature;
    uint32_t count = 0;
    for (uint32_t i = 0; i < input->vocab_size; i++) {
        float logit = input->logits[i];
        if ((double)logit >= coarse && weight_of(draw, logit) >= floor) {
            draw->sampler->heap[count++] =
                (struct candidate){logit, (int32_t)i};
        }
    }
    return count;
}

static double sum_all(const struct draw *draw)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < draw->input->vocab_size; i++) {
        sum += weight_of(draw, draw->input->logits[i]);
    }
    return sum;
}

/* Takes the best ones off the heap until `count_max` of them are out or their
 * weight reaches `mass`. They gather at the array's end, best last. */
static uint32_t pop_best(const struct draw *draw, uint32_t size,
                         uint32_t count_max, double mass, double *sum_out)
{
    struct candidate *heap = draw->sampler->heap;
    uint32_t popped = 0;
    double sum = 0.0;
    while (popped < size && popped < count_max && (popped == 0 || sum < mass)) {
        struct candidate best = heap[0];
        uint32_t last = size - 1 - popped;
        heap[0] = heap[last];
        heap[last] = best;
        sift_down(heap, last, 0);
        sum += weight_of(draw, best.logit);
        popped++;
    }
    *sum_out = sum;
    return popped;
}

/* Draws among `count` candidates, walked by `step` from `first`. */
static int32_t pick(const struct draw *draw, const struct candidate *first,
                    int step, uint32_t count)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weight_of(draw, first[(int64_t)i * step].logit);
    }
    double target = draw->unit * sum;
    for (uint32_t i = 0; i + 1 < count; i++) {
        target -= weight_of(draw, first[(int64_t)i * step].logit);
        if (target < 0.0) {
            return first[(int64_t)i * step].token;
        }
    }
    return first[(int64_t)(count - 1) * step].token;
}

/* How many of the best, walked downwards from `best`, top_p and min_p keep. */
static uint32_t cut(const struct draw *draw, const struct candidate *best,
                    uint32_t count, double mass)
{
    uint32_t kept = 0;
    double sum = 0.0;
    while (kept < count && (kept == 0 || sum < mass)) {
        double weight = weight_of(draw, best[-(int64_t)kept].logit);
        if (kept > 0 && weight < (double)draw->options->min_p) {
            break;
        }
        sum += weight;
        kept++;
    }
    return kept;
}

/* top_k, then top_p of what it left, then min_p. */
static int32_t draw_among_best(const struct draw *draw)
{
    const struct sampler_options *options = draw->options;
    uint32_t vocab_size = draw->input->vocab_size;
    double top_p = (double)options->top_p;
    bool has_k = options->top_k > 0 && (uint32_t)options->top_k < vocab_size;
    double mass = INFINITY;
    double floor = DBL_MIN;
    uint32_t count_max = has_k ? (uint32_t)options->top_k : vocab_size;
    if (!has_k) { /* tokens this light cannot be in: together below 1 - top_p */
        double total = sum_all(draw);
        mass = top_p * total;
        floor = fmax(floor, (1.0 - top_p) * total / vocab_size);
        floor = fmin(floor, 1.0); /* the best has weight 1 and stays */
    }
    uint32_t size = collect(draw, floor);
    build_heap(draw->sampler->heap, size);
    double sum;
    uint32_t count = pop_best(draw, size, count_max, mass, &sum);
    const struct candidate *best = &draw->sampler->heap[size - 1];
    if (has_k) {
        mass = top_p < 1.0 ? top_p * sum : INFINITY;
    }
    count = cut(draw, best, count, mass);
    return pick(draw, best, -1, count);
}

static int32_t choose(struct sampler *sampler,
                      const struct sampler_options *options,
                      const struct sampler_input *input)
{
    float peak = sampler_peak(input->logits, input->vocab_size);
    if (options->temperature == 0.0f || peak < -FLT_MAX) {
        return choose_best(input);
    }
    struct draw draw = {
        .options = options,
        .input = input,
        .sampler = sampler,
        .peak = (double)peak,
        .unit = (double)rng_unit_at(options->seed, input->choice,
                                    input->history_count),
    };
    bool has_k =
        options->top_k > 0 && (uint32_t)options->top_k < input->vocab_size;
    if (has_k || options->top_p < 1.0f) {
        return draw_among_best(&draw);
    }
    uint32_t count = collect(&draw, fmax((double)options->min_p, DBL_MIN));
    return pick(&draw, sampler->heap, 1, count);
}

/* Keeps tame logits as they came, for what is reported of them. */
static void keep_original(struct sampler *sampler, const float *logits)
{
    for (uint32_t i = 0; i < sampler->vocab_size; i++) {
        sampler->original[i] = sampler_tame(logits[i]);
    }
}

/* Fills all but the token of a result from the original logits. */
static void report(const struct sampler *sampler, int32_t token,
                   int32_t logprob_count, struct sampler_result *result)
{
    double total = sampler_log_sum(sampler->original, sampler->vocab_size);
    sampler_find_top(sampler->original, sampler->vocab_size,
                     top_wanted(logprob_count, sampler->vocab_size), total,
                     result);
    result->logprob = sampler_logprob(sampler->original[token], total);
}

void sampler_run(struct sampler *sampler, const struct sampler_options *options,
                 const struct sampler_input *input,
                 struct sampler_result *result_out)
{
    CHECK(input->vocab_size == sampler->vocab_size);
    CHECK(input->prompt_count <= input->history_count);
    struct sampler_result result = {0};
    if (input->logprob_count >= 0) {
        keep_original(sampler, input->logits);
    }
    adjust(sampler, options, input);
    result.token = choose(sampler, options, input);
    if (input->logprob_count >= 0) {
        report(sampler, result.token, input->logprob_count, &result);
    }
    *result_out = result;
}

void sampler_score(struct sampler *sampler, const float *logits, int32_t target,
                   int32_t logprob_count, struct sampler_result *result_out)
{
    CHECK(target >= 0);
    CHECK((uint32_t)target < sampler->vocab_size);
    struct sampler_result result = {.token = target};
    keep_original(sampler, logits);
    report(sampler, target, logprob_count, &result);
    *result_out = result;
}
