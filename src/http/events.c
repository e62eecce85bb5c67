#include "http/events.h"

#include <string.h>

void http_events_init(struct http_events *events, size_t line_size_max)
{
    buf_init(&events->line, line_size_max);
}

void http_events_finish(struct http_events *events)
{
    buf_finish(&events->line);
}

/* One blank after the colon is no part of the value. */
static void end_line(struct http_events *events, http_events_data *on_data,
                     void *context)
{
    struct span line = buf_span(&events->line);
    if (buf_error(&events->line) == OK && span_starts_with(line, "data:")) {
        bool has_end = line.data[line.size - 1] == '\r';
        line = span_slice(line, 5, line.size - has_end);
        bool has_blank = line.size > 0 && line.data[0] == ' ';
        on_data(context, span_slice(line, has_blank, line.size));
    }
    buf_reset(&events->line);
}

void http_events_feed(struct http_events *events, struct span bytes,
                      http_events_data *on_data, void *context)
{
    while (bytes.size > 0) {
        const uint8_t *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end == NULL ? bytes.size : (size_t)(end - bytes.data);
        buf_add(&events->line, bytes.data, size);
        if (end == NULL) {
            return;
        }
        end_line(events, on_data, context);
        bytes = span_slice(bytes, size + 1, bytes.size);
    }
}
