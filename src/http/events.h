#pragma once
/* http/events: an event stream read: the value of each `data` line, out of
 * bytes that come in any pieces. Lines end with LF or CRLF; comments, other
 * fields and lines longer than the bound are passed over. Pure. */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/span.h"

struct http_events {
    /* private */
    struct buf line; /* the part of a line that came */
};

/* `data` lives during the call. */
typedef void http_events_data(void *context, struct span data);

void http_events_init(struct http_events *events, size_t line_size_max);
void http_events_finish(struct http_events *events);
void http_events_feed(struct http_events *events, struct span bytes,
                      http_events_data *on_data, void *context);
