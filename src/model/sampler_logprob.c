#include "model/sampler_logprob.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* e^x for x <= 0 in plain arithmetic: the system's expf may round differently
 * on another CPU, and a draw must come out the same on any server. Error below
 * 1e-12; 0 below -700. */
double sampler_exp(double x)
{
    static const double TERMS[] = {1.0 / 6227020800,
                                   1.0 / 479001600,
                                   1.0 / 39916800,
                                   1.0 / 3628800,
                                   1.0 / 362880,
                                   1.0 / 40320,
                                   1.0 / 5040,
                                   1.0 / 720,
                                   1.0 / 120,
                                   1.0 / 24,
                                   1.0 / 6,
                                   0.5,
                                   1.0,
                                   1.0};
    const double LN2 = 0.69314718055994530942;
    if (!(x > -700.0)) {
        return 0.0;
    }
    double n = (double)(int)(x * (1.0 / LN2) - 0.5);
    double r = x - n * LN2;
    double sum = TERMS[0];
    for (size_t i = 1; i < sizeof(TERMS) / sizeof(TERMS[0]); i++) {
        sum = sum * r + TERMS[i];
    }
    uint64_t bits = (uint64_t)(int64_t)(n + 1023.0) << 52;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return sum * power;
}

/* NaN counts as impossible, infinity as very large. */
float sampler_tame(float logit)
{
    if (isnan(logit)) {
        return -INFINITY;
    }
    return logit > FLT_MAX ? FLT_MAX : logit;
}

float sampler_peak(const float *logits, uint32_t size)
{
    float peak = -INFINITY;
    for (uint32_t i = 0; i < size; i++) {
        peak = logits[i] > peak ? logits[i] : peak;
    }
    return peak;
}

static void insert_top(struct sampler_result *result, uint32_t wanted,
                       struct sampler_top top)
{
    uint32_t at = result->top_count;
    while (at > 0 && result->top[at - 1].logprob < top.logprob) {
        at--;
    }
    if (at == wanted) {
        return;
    }
    uint32_t kept = result->top_count < wanted ? result->top_count : wanted - 1;
    memmove(&result->top[at + 1], &result->top[at],
            (kept - at) * sizeof(result->top[0]));
    result->top[at] = top;
    result->top_count = kept + 1;
}

/* log of the sum of e^logit; all impossible: any number will do. */
double sampler_log_sum(const float *logits, uint32_t size)
{
    double peak = (double)sampler_peak(logits, size);
    if (peak < -(double)FLT_MAX) {
        return 0.0;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < size; i++) {
        sum += sampler_exp((double)logits[i] - peak);
    }
    return peak + log(sum);
}

/* JSON has no minus infinity: nothing is reported below this. */
float sampler_logprob(float logit, double total)
{
    const double LOWEST = -9999.0;
    double value = (double)logit - total;
    return (float)(value > LOWEST ? value : LOWEST);
}

void sampler_find_top(const float *logits, uint32_t size, uint32_t wanted,
                      double total, struct sampler_result *result)
{
    result->top_count = 0;
    float floor = -INFINITY;
    for (uint32_t i = 0; i < size && wanted > 0; i++) {
        bool has_room = result->top_count < wanted;
        if (has_room || logits[i] > floor) {
            struct sampler_top top = {(int32_t)i, logits[i]};
            insert_top(result, wanted, top);
            floor = result->top[result->top_count - 1].logprob;
        }
    }
    for (uint32_t i = 0; i < result->top_count; i++) {
        result->top[i].logprob = sampler_logprob(result->top[i].logprob, total);
    }
}
