#pragma once
/* model/sampler_logprob: what the sampler computes with, and the logarithms it
 * reports. Rows of logits hold neither NaN nor +infinity here (sampler_tame);
 * -infinity is an impossible token. Pure: any thread. */
#include <stdint.h>

#include "model/sampler.h"

/* e^x for x <= 0, the same bits on any CPU; 0 below -700. */
double sampler_exp(double x);
/* NaN becomes -infinity, +infinity the largest float. */
float sampler_tame(float logit);
/* The largest logit; -infinity when all are impossible. */
float sampler_peak(const float *logits, uint32_t size);
/* Logarithm of the sum of e^logit. */
double sampler_log_sum(const float *logits, uint32_t size);
/* Log probability of a logit under `total`, from sampler_log_sum; finite. */
float sampler_logprob(float logit, double total);
/* The `wanted` best of the row, at most SAMPLER_TOP_COUNT_MAX, into result. */
void sampler_find_top(const float *logits, uint32_t size, uint32_t wanted,
                      double total, struct sampler_result *result);
