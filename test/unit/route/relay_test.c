/* The scanner sees the same whatever the borders of the pieces are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "route/relay.h"

static const struct {
    const char *text;
    bool is_complete, is_between;
} CASES[] = {
    {"", false, true},
    {"data: {}\n\ndata: [DONE]\n\n", true, true},
    {"data: {}\r\n\r\ndata: [DONE]\r\n\r\n", true, true},
    {"data:[DONE]\n\n", true, true},
    {"data: [DONE]", true, false},
    {"data: [DONE]\n\n: ping\n\n", true, true},
    {"data: [DONE]\n\ndata: {}\n\n", false, true},
    {"data: \"data: [DONE]\"\n\n", false, true},
    {"data: [DONE] x\n\n", false, true},
    {"data: {\"a\":", false, false},
    {"data: {}\n", false, false},
    {"x data: [DONE]\n\n", false, true},
};

static void pieces_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct span text = span_of_string(CASES[i].text);
        for (size_t cut = 0; cut <= text.size; cut++) {
            struct route_relay relay = {0};
            route_relay_feed(&relay, span_slice(text, 0, cut));
            route_relay_feed(&relay, span_slice(text, cut, text.size));
            assert_int_equal(route_relay_is_complete(&relay),
                             CASES[i].is_complete);
            assert_int_equal(route_relay_is_between(&relay),
                             CASES[i].is_between);
        }
    }
}

/* I7: the error is an event of its own, wherever the stream was cut. */
static void a_cut_is_an_event_of_its_own(void **state)
{
    struct route_relay relay = {0};
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    route_relay_feed(&relay, span_of_string("data: {\"a"));
    route_relay_cut(&relay, "x", &out);
    assert_string_equal(
        buf_string(&out),
        "\n\ndata: {\"error\":{\"message\":\"x\",\"type\":\"upstream_error\","
        "\"param\":null,\"code\":502}}\n\n");
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(a_cut_is_an_event_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
