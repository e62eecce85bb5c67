#pragma once
/* serve/stats: a worker's metrics (names in test/golden/names). Owns the
 * registry; the loop's thread. */
#include <stdint.h>

#include "api/openai_request.h"
#include "base/buf.h"
#include "engine/port.h"

struct serve_stats;
struct serve_stats *serve_stats_create(void);
void serve_stats_destroy(struct serve_stats *stats); /* NULL is fine */

void serve_stats_count_request(struct serve_stats *stats,
                               enum openai_route route);
void serve_stats_count_failure(struct serve_stats *stats, int status);
void serve_stats_count_gone(struct serve_stats *stats);
void serve_stats_count_recomputed(struct serve_stats *stats);
void serve_stats_add_first_token(struct serve_stats *stats, uint64_t ns);
void serve_stats_add_gap(struct serve_stats *stats, uint64_t ns);

struct serve_stats_end {
    enum engine_kind kind;
    const char *reason; /* "stop" or "length" */
    uint64_t total_ns;
    uint32_t prompt_tokens, completion_tokens;
    const struct engine_journey *journey;
};
/* What a hand-off moved: a receiver's with its end, a sender's when it is
 * through, after its answer. */
void serve_stats_add_moved(struct serve_stats *stats,
                           const struct engine_journey *journey);
void serve_stats_add_end(struct serve_stats *stats,
                         const struct serve_stats_end *end);

/* What came to the transfer port that was no good, since start. */
struct serve_peer_stats {
    uint64_t refused; /* models, layouts or versions that differ */
    uint64_t denied; /* internal keys that differ */
    uint64_t strangers_cut; /* never said who they are */
    uint64_t connections_dropped, frames_dropped; /* of peers */
};

/* Prometheus text. `engine` and `peers` are fresh copies of the counters. */
void serve_stats_print(struct serve_stats *stats, uint32_t open_count,
                       const struct engine_stats *engine,
                       const struct serve_peer_stats *peers, struct buf *out);
