#pragma once
/* route/body: the client's body read once, and the bodies of both legs made
 * from it by edits only (serve.md 2.4, 2.9 to 2.11). Every byte that is not
 * ours stays the client's. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "api/scan.h"
#include "base/buf.h"
#include "base/err.h"
#include "config/route.h"
#include "route/answer.h"
#include "route/peer.h"

enum { ROUTE_CONVERSATION_SIZE_MAX = 256 };

struct route_body {
    struct api_object object; /* into the client's bytes */
    bool is_chat;
    bool is_stream;
    bool wants_usage; /* stream_options.include_usage */
    bool is_whole; /* nothing is left for a generation server */
    struct span prompt; /* completions: an unwrapped prompt; else no data */
    struct buf conversation; /* `conversation_params` for both legs; or empty */
};

/* Looks up a header of the client's request; false: absent. */
typedef bool route_header_get(const void *context, const char *name,
                              struct span *value_out);

struct route_body_options {
    const struct config_route *config;
    bool is_chat;
    route_header_get *header;
    const void *header_context;
};
/* ERR_INVALID: `why` names the field. ERR_NOT_FOUND: no such model. The body
 * bytes stay the caller's for as long as `body` is used. */
MUST_USE enum err route_body_read(struct span bytes,
                                  const struct route_body_options *options,
                                  struct why *why, struct route_body *body);
void route_body_finish(struct route_body *body);

/* For one worker that does both phases. */
void route_body_whole(const struct route_body *body, struct buf *out);
void route_body_context(const struct route_body *body, int64_t id,
                        bool wants_base64, struct buf *out);
/* Generation-first (serve.md 2.13): the context leg's answer is not looked at,
 * and the generation leg goes to meet `peer`, the context worker. */
void route_body_pair_context(const struct route_body *body, int64_t id,
                             struct buf *out);
MUST_USE enum err route_body_pair_generation(const struct route_body *body,
                                             int64_t id,
                                             const struct route_peer *peer,
                                             struct why *why, struct buf *out);
/* ERR_INVALID: the context answer lacks the prompt's ids. */
MUST_USE enum err route_body_generation(const struct route_body *body,
                                        const struct route_answer *answer,
                                        bool strip_history, struct why *why,
                                        struct buf *out);
