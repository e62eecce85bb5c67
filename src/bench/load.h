#pragma once
/* bench/load: drives a running server with streaming requests and reports what
 * a client sees (serve.md 5.3). One loop, one thread. */
#include <stdint.h>

#include "base/err.h"
#include "bench/stats.h"

struct bench_load_options {
    const char *host;
    uint16_t port;
    const char *api_key; /* NULL: none */
    const char *model;
    uint32_t request_count;
    uint32_t concurrency; /* open requests at most */
    double rate; /* a second; 0: as fast as concurrency lets */
    double burstiness; /* 1: Poisson */
    uint32_t input_words; /* of random prompt words */
    uint32_t shared_words; /* of them at the front, the same in all */
    uint32_t output_tokens;
    bool ignore_end;
    uint64_t seed;
    bool warm_up; /* one request first, not counted */
    struct bench_goal goal;
    bool as_json;
};
/* Prints the report on standard output. ERR_IO: no request succeeded. */
MUST_USE enum err bench_load_run(const struct bench_load_options *options,
                                 struct why *why);
