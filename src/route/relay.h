#pragma once
/* route/relay: watches the bytes of an event stream go by (serve.md 2.6): has
 * it said [DONE], does it stand between two events? It changes nothing. Pure,
 * no memory beyond the struct. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

struct route_relay {
    char line[16]; /* the beginning of the current line */
    uint64_t line_size; /* of all of it */
    bool is_after_blank; /* the last whole line was empty */
    bool has_done; /* a line `data: [DONE]` went by, and no other event */
    uint64_t bytes;
};

void route_relay_feed(struct route_relay *relay, struct span bytes);
/* At the end of the stream: a last line needs no line feed. */
bool route_relay_is_complete(const struct route_relay *relay);
/* True when the next byte begins an event. */
bool route_relay_is_between(const struct route_relay *relay);
/* The event that makes a cut visible (S7), to be sent after what went by. */
void route_relay_cut(const struct route_relay *relay, const char *message,
                     struct buf *out);
