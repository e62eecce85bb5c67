#pragma once
/* route/identity: which conversation a request belongs to (serve.md 2.9). Pure. */
#include "route/body.h"

/* Adds the `conversation_params` object for both legs, with every other member
 * the client put there; nothing when the request names no conversation.
 * ERR_INVALID: an explicit id that is null or blank, an internal field. */
MUST_USE enum err route_identity_read(const struct api_object *body,
                                      route_header_get *header,
                                      const void *header_context,
                                      struct why *why, struct buf *out);
