#pragma once
/* route/answer: what a worker answered: the checks of a context answer (serve.md
 * 2.11 steps 6 to 8), and answers made fit for clients (2.5, 2.12). Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "api/handoff.h"
#include "api/scan.h"
#include "base/buf.h"
#include "base/err.h"

/* Spans point into the context worker's body; no data: absent or null. */
struct route_answer {
    struct api_json params; /* of choice 0 */
    struct api_handoff handoff;
    bool is_final; /* all choices are finished: no generation leg */
    int64_t id; /* the hand-off's, adopted from the answer */
    struct span usage;
    struct api_usage usage_counts;
    struct span prompt_ids; /* JSON list */
    struct span prompt_base64; /* JSON string */
};
/* `id` is what we asked with. ERR_CORRUPT: `why` names the choice. */
MUST_USE enum err route_answer_read(struct span body, int64_t id,
                                    struct why *why,
                                    struct route_answer *answer_out);

/* A copy without what is internal. With `context` its prompt numbers replace
 * the worker's. ERR_CORRUPT: not an answer. */
MUST_USE enum err route_answer_clean(struct span body,
                                     const struct api_usage *context,
                                     struct why *why, struct buf *out);
/* The final context answer as the event stream the client asked for. */
MUST_USE enum err route_answer_stream(struct span body, bool is_chat,
                                      bool wants_usage, struct why *why,
                                      struct buf *out);
