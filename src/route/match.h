#pragma once
/* route/match: which workers serve the same model. Each says two marks in
 * `/server_info`: of what its KV is computed with, and of what its ids mean. KV
 * of another model is no KV, and a request must not get another model's answer
 * by whose turn it is, so whoever differs from most gets no requests. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

enum { ROUTE_MARK_SIZE = 72 };

/* Open; all zero says nothing. */
struct route_marks {
    char model[ROUTE_MARK_SIZE]; /* hex; "": unknown, fits any */
    char tokenizer[ROUTE_MARK_SIZE];
};
/* What is missing, or is no hex, is unknown. */
void route_marks_read(struct span server_info, struct route_marks *marks_out);

enum route_misfit {
    ROUTE_FITS,
    ROUTE_MISFIT_MODEL,
    ROUTE_MISFIT_TOKENIZER,
};
/* The marks that most of the voters have, each by itself; among equally many
 * those of the first. `voters` may be NULL where somebody has no say. */
struct route_marks route_match_most(const struct route_marks *const *voters,
                                    uint32_t voter_count);
enum route_misfit route_match_judge(const struct route_marks *marks,
                                    const struct route_marks *most);
/* "it serves another model (model_mark 0123456789ab) than most (...)". Nothing
 * for who fits. */
void route_match_describe(enum route_misfit misfit,
                          const struct route_marks *marks,
                          const struct route_marks *most, struct buf *out);
