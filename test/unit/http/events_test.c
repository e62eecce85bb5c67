/* One stream cut in all ways, against what its data lines hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/events.h"

static void note(void *context, struct span data)
{
    struct buf *out = context;
    buf_add_byte(out, '<');
    buf_add_span(out, data);
    buf_add_byte(out, '>');
}

static const char STREAM[] = ": a comment\n"
                             "data: {\"a\":1}\n\n"
                             "event: x\r\ndata: b \r\n\r\n"
                             "data:c\ndata:\ndata: \n"
                             "datum: d\n data: e\n"
                             "data: a line that is longer than the bound\n"
                             "data:  f\n\ndata: [DONE]\n\ndata: no end";

/* Proof: cut into two pieces at every place, the values are the same. */
static void values_come_whole_however_the_bytes_are_cut(void **state)
{
    (void)state;
    struct span bytes = span_of_string(STREAM);
    for (size_t cut = 0; cut <= bytes.size; cut++) {
        struct http_events events;
        struct buf out;
        http_events_init(&events, 32);
        buf_init(&out, 1024);
        http_events_feed(&events, span_slice(bytes, 0, cut), note, &out);
        http_events_feed(&events, span_slice(bytes, cut, bytes.size), note,
                         &out);
        assert_string_equal(buf_string(&out),
                            "<{\"a\":1}><b ><c><><>< f><[DONE]>");
        buf_finish(&out);
        http_events_finish(&events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_whole_however_the_bytes_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
