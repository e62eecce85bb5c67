#pragma once
/* kv/retention: what a request asks for its pages (engine.md 1.10): a priority
 * for ranges of its prompt and one for what it generates, each for some time
 * from when the page is first cached. Where several rules touch a block the
 * highest counts; outside of all of them, and afterwards, the default does. */
#include <stdbool.h>
#include <stdint.h>

struct kv_retention {
    uint32_t first_token, end_token; /* of the prompt; UINT32_MAX: open */
    uint8_t priority; /* 0 .. KV_PRIORITY_MAX */
    uint64_t duration_ms; /* UINT64_MAX: for good */
};
enum { KV_RETENTION_COUNT_MAX = 16 };

struct kv_retention_plan {
    uint32_t rule_count;
    struct kv_retention rules[KV_RETENTION_COUNT_MAX];
    bool has_generated;
    struct kv_retention generated; /* its range says nothing */
};
