#include <stdio.h>

#include "unit/io/test.h"

#include "http/head.h"

static struct http_head head;

/* All parts of a request, as views into its bytes. */
static void request_is_read_into_views(void **state)
{
    (void)state;
    static const char TEXT[] = "POST /v1/a?b=c?d HTTP/1.1\r\nHost: [::1]:80\r\n"
                               "content-LENGTH:  42\t\r\nX:\r\n"
                               "Expect: 100-Continue\r\n\r\n";
    struct http_refusal refusal;
    struct span value;
    assert_true(http_head_read_request(span_of_string(TEXT), &head, &refusal));
    assert_true(span_equals_string(head.method, "POST"));
    assert_true(span_equals_string(head.path, "/v1/a"));
    assert_true(span_equals_string(head.query, "b=c?d"));
    assert_true(head.has_length);
    assert_int_equal(head.length, 42);
    assert_int_equal(head.minor, 1);
    assert_true(head.expects_continue);
    assert_false(head.is_chunked);
    assert_int_equal(head.count, 4);
    assert_true(http_head_find(&head, "x", &value));
    assert_int_equal(value.size, 0);
    assert_false(http_head_find(&head, "xx", &value));
    assert_false(http_head_find(&head, "", &value));
    assert_true(head.fields[0].name.data > (const uint8_t *)TEXT);
}

static void target_is(const char *target, const char *path, const char *query)
{
    char text[256];
    struct http_refusal refusal;
    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
    bool is_good =
        http_head_read_request(span_of_string(text), &head, &refusal);
    assert_int_equal(is_good, path != NULL);
    if (path != NULL) {
        assert_true(span_equals_string(head.path, path));
        assert_true(span_equals_string(head.query, query));
    }
}

/* Proof: what a proxy is sent is the same request (RFC 9112, 3.2.2), whatever
 * the case of its scheme; without a path it is the root. */
static void a_whole_url_is_its_path(void **state)
{
    (void)state;
    target_is("http://b:80/c?d", "/c", "d");
    target_is("HTTP://b/c", "/c", "");
    target_is("http://b", "/", "");
    target_is("http://b?c/d", "/", "c/d");
    target_is("http:///c", NULL, NULL);
    target_is("https://b/c", NULL, NULL);
    target_is("c", NULL, NULL);
    target_is("*", NULL, NULL);
}

static void answer_is_read(void **state)
{
    (void)state;
    struct http_refusal refusal;
    assert_true(http_head_read_answer(
        span_of_string("HTTP/1.0 404\r\nTransfer-Encodin: x\r\n\r\n"), &head,
        &refusal));
    assert_int_equal(head.status, 404);
    assert_int_equal(head.minor, 0);
    assert_false(http_head_read_answer(span_of_string("HTTP/1.1 099 X\r\n\r\n"),
                                       &head, &refusal));
    assert_int_equal(refusal.status, 502);
}

/* The refusal says which rule was broken. */
static void refusal_names_the_rule(void **state)
{
    (void)state;
    struct http_refusal refusal;
    assert_false(http_head_read_request(
        span_of_string("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), &head,
        &refusal));
    assert_string_equal(refusal.message, "two Host fields");
}

static void words_compare_without_case(void **state)
{
    (void)state;
    assert_true(http_head_is(span_of_string("ChUnKeD"), "chunked"));
    assert_false(http_head_is(span_of_string("chunke"), "chunked"));
    assert_false(http_head_is(span_of_string("chunkedd"), "chunked"));
    assert_true(http_head_is(span_of(NULL, 0), ""));
    /* Only letters have two cases. */
    assert_false(http_head_is(span_of_string("["), "{"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_read_into_views),
        cmocka_unit_test(a_whole_url_is_its_path),
        cmocka_unit_test(answer_is_read),
        cmocka_unit_test(refusal_names_the_rule),
        cmocka_unit_test(words_compare_without_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
