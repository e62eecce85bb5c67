/* The stream scanner: the borders of the pieces change nothing. The first byte
 * of the input is the size of a piece. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "route/answer.h"
#include "route/relay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same bytes as a worker's answer: judged, cleaned, told, never trusted. */
static void answer(struct span body)
{
    struct route_answer read;
    struct api_usage usage = {1, 2, 3, 0};
    struct buf out;
    buf_init(&out, 1 << 20);
    IGNORE(route_answer_read(body, 1, NULL, &read));
    IGNORE(route_answer_clean(body, &usage, NULL, &out));
    buf_reset(&out);
    IGNORE(route_answer_stream(body, true, true, NULL, &out));
    IGNORE(route_answer_stream(body, false, false, NULL, &out));
    buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct route_relay whole = {0}, parts = {0};
    if (size < 1) {
        return 0;
    }
    size_t piece = data[0] % 16 + 1u;
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    struct span text = span_of(copy, size - 1);
    route_relay_feed(&whole, text);
    for (size_t at = 0; at < text.size; at += piece) {
        route_relay_feed(&parts, span_slice(text, at, at + piece));
    }
    CHECK(route_relay_is_complete(&whole) == route_relay_is_complete(&parts));
    CHECK(route_relay_is_between(&whole) == route_relay_is_between(&parts));
    CHECK(whole.bytes == parts.bytes);
    answer(text);
    free(copy);
    return 0;
}
