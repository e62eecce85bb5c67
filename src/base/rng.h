#pragma once
/* base/rng: chance that can be replayed.
 *
 * `rng_at` is a pure function of a key and a counter: what it gives depends on
 * nothing that happened before, so the process that draws does not matter. The
 * sampler keys it by (seed, choice) and counts by position; a hand-off between
 * servers cannot change a draw. `struct rng` is a stream over it for tests,
 * back-off and the simulator. */
#include <stddef.h>
#include <stdint.h>

/* 64 mixed bits for (key, stream, counter). */
uint64_t rng_at(uint64_t key, uint64_t stream, uint64_t counter);
/* The same, as a float in [0, 1) with 24 bits. */
float rng_unit_at(uint64_t key, uint64_t stream, uint64_t counter);

struct rng {
    uint64_t key;
    uint64_t counter;
};

struct rng rng_from_seed(uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* Uniform in [0, bound), bound > 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
/* An independent generator for a part named by `label`. */
struct rng rng_child(const struct rng *rng, uint64_t label);
/* 64 bits from the system, for incarnations and keys; never 0. */
uint64_t rng_system(void);
/* As many bytes from there, for nonces. */
void rng_system_bytes(void *out, size_t size);
