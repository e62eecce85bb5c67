#include "base/rng.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/check.h"

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t v)
{
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

uint64_t rng_at(uint64_t key, uint64_t stream, uint64_t counter)
{
    const uint64_t GOLDEN = 0x9e3779b97f4a7c15u;
    uint64_t v = mix(key + GOLDEN);
    v = mix(v ^ (stream + 1) * GOLDEN);
    return mix(v + (counter + 1) * GOLDEN);
}

float rng_unit_at(uint64_t key, uint64_t stream, uint64_t counter)
{
    return (float)(rng_at(key, stream, counter) >> 40) * 0x1p-24f;
}

struct rng rng_from_seed(uint64_t seed)
{
    return (struct rng){.key = mix(seed + 1)};
}

uint64_t rng_next(struct rng *rng)
{
    return rng_at(rng->key, 0, rng->counter++);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    CHECK(bound > 0);
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}

struct rng rng_child(const struct rng *rng, uint64_t label)
{
    return (struct rng){.key = rng_at(rng->key, 1, label)};
}

uint64_t rng_system(void)
{
    uint64_t value = 0;
    while (value == 0) {
        ssize_t size = getrandom(&value, sizeof(value), 0);
        CHECK(size == sizeof(value));
    }
    return value;
}

void rng_system_bytes(void *out, size_t size)
{
    uint8_t *bytes = out;
    while (size > 0) {
        ssize_t got = getrandom(bytes, size, 0);
        CHECK(got > 0);
        bytes += got;
        size -= (size_t)got;
    }
}
