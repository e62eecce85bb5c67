#pragma once
/* route/match: which workers serve the same. Each says in `/server_info` what
 * its KV is computed with, what its ids mean, by what it moves KV, how it writes
 * a chat and by which names it is asked for. KV of another model is no KV, and whether a request is
 * served, and how, must not hang on whose turn it is, so whoever differs from
 * most gets no requests. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

enum {
    ROUTE_MARK_SIZE = 72,
    ROUTE_NAMES_SIZE = 1024,
    ROUTE_INCARNATION_SIZE = 24
};

/* Open; all zero says nothing. "" is unknown and fits any. */
struct route_marks {
    char model[ROUTE_MARK_SIZE]; /* hex */
    char tokenizer[ROUTE_MARK_SIZE];
    char backend[ROUTE_MARK_SIZE];
    char chat[ROUTE_MARK_SIZE];
    char names[ROUTE_NAMES_SIZE]; /* a JSON list, as it is spelt */
    uint32_t max_seq; /* tokens of prompt and answer; 0: unknown */
    char
        incarnation[ROUTE_INCARNATION_SIZE]; /* digits: which process says so */
};
/* What is missing, or is of another kind, is unknown. */
void route_marks_read(struct span server_info, struct route_marks *marks_out);

enum route_misfit {
    ROUTE_FITS,
    ROUTE_MISFIT_MODEL,
    ROUTE_MISFIT_TOKENIZER,
    ROUTE_MISFIT_BACKEND,
    ROUTE_MISFIT_CHAT,
    ROUTE_MISFIT_NAMES,
    ROUTE_MISFIT_COUNT
};
/* The marks that most of the voters have, each by itself; among equally many
 * those of the first. `voters` may be NULL where somebody has no say. Of
 * `max_seq` and `incarnation` there is no most. */
struct route_marks route_match_most(const struct route_marks *const *voters,
                                    uint32_t voter_count);
enum route_misfit route_match_judge(const struct route_marks *marks,
                                    const struct route_marks *most);
/* "it serves another model (model_mark 0123456789ab) than most (...)". Nothing
 * for who fits. */
void route_match_describe(enum route_misfit misfit,
                          const struct route_marks *marks,
                          const struct route_marks *most, struct buf *out);
