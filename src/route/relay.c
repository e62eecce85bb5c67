#include "route/relay.h"

#include <string.h>

/* The field `data` with this value, with or without the blank. */
static bool is_done_line(const struct route_relay *relay)
{
    size_t size = relay->line_size < sizeof(relay->line)
                      ? (size_t)relay->line_size
                      : sizeof(relay->line);
    struct span line = span_of(relay->line, size);
    if (relay->line_size > 0 && relay->line_size < sizeof(relay->line) &&
        line.data[size - 1] == '\r') {
        line = span_slice(line, 0, size - 1);
    }
    return span_equals_string(line, "data: [DONE]") ||
           span_equals_string(line, "data:[DONE]");
}

static void end_line(struct route_relay *relay)
{
    bool is_blank = relay->line_size == 0 ||
                    (relay->line_size == 1 && relay->line[0] == '\r');
    if (is_done_line(relay)) {
        relay->has_done = true;
    } else if (!is_blank && relay->line[0] != ':') {
        /* Something came behind it: then it was not the end. */
        relay->has_done = false;
    }
    relay->is_after_blank = is_blank;
    relay->line_size = 0;
}

static void add_to_line(struct route_relay *relay, struct span piece)
{
    if (relay->line_size < sizeof(relay->line)) {
        size_t room = sizeof(relay->line) - (size_t)relay->line_size;
        memcpy(relay->line + relay->line_size, piece.data,
               piece.size < room ? piece.size : room);
    }
    relay->line_size += piece.size;
}

void route_relay_feed(struct route_relay *relay, struct span bytes)
{
    relay->bytes += bytes.size;
    while (bytes.size > 0) {
        const uint8_t *feed = memchr(bytes.data, '\n', bytes.size);
        size_t size = feed == NULL ? bytes.size : (size_t)(feed - bytes.data);
        if (size > 0) {
            add_to_line(relay, span_slice(bytes, 0, size));
        }
        if (feed == NULL) {
            return;
        }
        end_line(relay);
        bytes = span_slice(bytes, size + 1, bytes.size);
    }
}

bool route_relay_is_complete(const struct route_relay *relay)
{
    return relay->line_size > 0 ? is_done_line(relay) : relay->has_done;
}

bool route_relay_is_between(const struct route_relay *relay)
{
    return relay->bytes == 0 ||
           (relay->line_size == 0 && relay->is_after_blank);
}

void route_relay_cut(const struct route_relay *relay, const char *message,
                     struct buf *out)
{
    if (!route_relay_is_between(relay)) {
        buf_add_string(out, "\n\n");
    }
    buf_add_string(out, "data: {\"error\":{\"message\":");
    buf_add_json_string(out, span_of_string(message));
    buf_add_string(out,
                   ",\"type\":\"upstream_error\",\"param\":null,\"code\":502}}"
                   "\n\n");
}
