/* Envelopes byte by byte, and worker errors as they come in the wild. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/error.h"

static void the_envelope_has_a_detail_copy(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    api_error_body(400, "invalid_request_error", "a \"b\"\n", "stop", NULL,
                   &out);
    assert_string_equal(buf_string(&out),
                        "{\"error\":{\"message\":\"a \\\"b\\\"\\n\",\"type\":"
                        "\"invalid_request_error\",\"param\":\"stop\",\"code\":"
                        "400},\"detail\":\"a \\\"b\\\"\\n\"}");
    buf_reset(&out);
    api_error_body(503, "x", "m", NULL, "starting", &out);
    assert_non_null(
        strstr(buf_string(&out), "\"param\":null,\"code\":\"starting\""));
    buf_finish(&out);
}

/* Each code maps to an error status and a type of its own. */
static void every_code_has_a_status(void **state)
{
    (void)state;
    for (int code = OK + 1; code < ERR_COUNT; code++) {
        struct api_error_kind kind = api_error_of((enum err)code);
        assert_in_range(kind.status, 400, 599);
        assert_true(strlen(kind.type) > 0);
    }
    assert_int_equal(api_error_of(ERR_INVALID).status, 400);
    assert_int_equal(api_error_of(ERR_FULL).status, 429);
    assert_int_equal(api_error_of(ERR_TIMEOUT).status, 504);
    assert_string_equal(api_error_type_of_status(418), "invalid_request_error");
    assert_string_equal(api_error_type_of_status(500), "server_error");
}

static void check_unwrap(const char *body, const char *wanted)
{
    struct buf out;
    buf_init(&out, 4096);
    api_error_unwrap(span_of_string(body), &out);
    assert_string_equal(buf_string(&out), wanted);
    buf_finish(&out);
}

/* [serve T21] message, else detail, else error, else the raw text. */
static void a_worker_error_is_unwrapped(void **state)
{
    (void)state;
    check_unwrap("{\"object\":\"error\",\"message\":\"x\",\"code\":400}", "x");
    check_unwrap("{\"error\":{\"message\":\"y\"},\"detail\":\"z\"}", "z");
    check_unwrap("{\"error\":{\"message\":\"y\"}}", "y");
    check_unwrap("{\"error\":\"w\",\"detail\":null}", "w");
    check_unwrap("plain text", "plain text");
    check_unwrap("{\"a\":1}", "{\"a\":1}");
    check_unwrap("", "");
}

/* [serve T21] nothing of the inside network reaches a client. */
static void addresses_and_traces_are_taken_out(void **state)
{
    (void)state;
    check_unwrap("cannot reach http://10.1.2.3:8000/v1 (gpu7.lan:9000), "
                 "10.0.0.9: tcp://h:1.",
                 "cannot reach [address] ([address]), [address]: [address].");
    check_unwrap("at 12:30 ratio 3:4 v1.2.3 a:b",
                 "at 12:30 ratio 3:4 v1.2.3 a:b");
    check_unwrap("bad\nTraceback (most recent call last)\n secret", "bad\n");
}

/* [serve T22] 2,048 characters at most, no character cut in two. */
static void a_long_error_is_cut(void **state)
{
    char body[5000];
    struct buf out;
    (void)state;
    memset(body, 'a', sizeof(body));
    buf_init(&out, 8192);
    api_error_unwrap(span_of(body, 4000), &out);
    assert_int_equal(out.size, 2048);
    buf_reset(&out);
    memcpy(body + 2047, "\xc3\xa9", 2);
    api_error_unwrap(span_of(body, 4000), &out);
    assert_int_equal(out.size, 2047);
    buf_reset(&out);
    api_error_unwrap(span_of(body, 2047), &out);
    assert_int_equal(out.size, 2047);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_envelope_has_a_detail_copy),
        cmocka_unit_test(every_code_has_a_status),
        cmocka_unit_test(a_worker_error_is_unwrapped),
        cmocka_unit_test(addresses_and_traces_are_taken_out),
        cmocka_unit_test(a_long_error_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
