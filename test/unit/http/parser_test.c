#include "unit/io/test.h"

#include <stdio.h>

#include "http/parser.h"

static struct buf answer_body;

static void add_body(void *context, struct span bytes)
{
    buf_add_span(context, bytes);
}

static struct http_parser *request_parser(void)
{
    return http_parser_create(&(struct http_parser_options){
        .is_request = true, .head_bytes_max = 4096, .body_bytes_max = 100});
}

static struct http_parser *answer_parser(void)
{
    buf_init(&answer_body, 4096);
    return http_parser_create(&(struct http_parser_options){
        .head_bytes_max = 4096, .on_body = add_body, .context = &answer_body});
}

/* Feeds pieces of `piece` bytes until the message ends; returns what is left.
 */
static enum http_parse feed_all(struct http_parser *parser, const char *text,
                                size_t size, size_t piece, size_t *rest_out)
{
    struct span bytes = span_of(text, size);
    enum http_parse got = HTTP_PARSE_MORE;
    while (got == HTTP_PARSE_MORE || got == HTTP_PARSE_HEAD) {
        struct span now = span_slice(bytes, 0, piece);
        size_t taken;
        got = http_parser_feed(parser, now, &taken);
        bytes = span_slice(bytes, taken, bytes.size);
        if (got == HTTP_PARSE_MORE && bytes.size == 0) {
            break;
        }
    }
    *rest_out = bytes.size;
    return got;
}

/* The status a request is refused with, 0 when it is taken whole, -1 when more
 * is wanted; the same however it is cut. */
static int judge(const char *text, size_t size)
{
    int first = 0;
    for (size_t piece = 1; piece <= size; piece += piece < 4 ? 1 : size) {
        struct http_parser *parser = request_parser();
        size_t rest;
        enum http_parse got = feed_all(parser, text, size, piece, &rest);
        int verdict = got == HTTP_PARSE_REFUSED
                          ? http_parser_refusal(parser).status
                      : got == HTTP_PARSE_COMPLETE ? 0
                                                   : -1;
        if (piece > 1) {
            assert_int_equal(verdict, first);
        }
        first = verdict;
        http_parser_destroy(parser);
    }
    return first;
}

#define JUDGE(text) judge(text, sizeof(text) - 1)

/* Every shape by which two readers may come to disagree. [serve T104] */
static void smuggling_shapes_are_refused(void **state)
{
    (void)state;
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
    assert_int_equal(JUDGE(POST "Content-Length: 1\r\nContent-Length: 1\r\n"
                                "\r\nx"),
                     400);
    assert_int_equal(JUDGE(POST "Content-Length: 1\r\nContent-Length: 2\r\n"
                                "\r\nxx"),
                     400);
    assert_int_equal(JUDGE(POST "Content-Length: 1\r\nTransfer-Encoding: "
                                "chunked\r\n\r\n0\r\n\r\n"),
                     400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding: chunked\r\n"
                                "Content-Length: 1\r\n\r\n0\r\n\r\n"),
                     400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding: chunked\r\nTransfer-"
                                "Encoding: chunked\r\n\r\n0\r\n\r\n"),
                     400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding: xchunked\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
                     400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding: identity\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding : chunked\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST "Transfer-Encoding:\x0b"
                                "chunked\r\n\r\n"),
                     400);
    assert_int_equal(JUDGE(POST "Content-Length: +1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "Content-Length: 1, 1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "Content-Length: 0x1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "Content-Length: -1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "Content-Length:\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST "Content-Length: 99999999999999999999\r\n\r\n"),
                     400);
    assert_int_equal(JUDGE(POST "Content-Length : 1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST " Content-Length: 1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "X: a\r\n Content-Length: 1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "X: a\nContent-Length: 1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "X: a\rContent-Length: 1\r\n\r\nx"), 400);
    assert_int_equal(JUDGE(POST "X\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST ": a\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST "X: a\0b\r\n\r\n"), 400);
    assert_int_equal(JUDGE(POST "Host: b\r\n\r\n"), 400);
    assert_int_equal(JUDGE("POST / HTTP/1.1\r\n\r\n"), 400);
    assert_int_equal(JUDGE("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    assert_int_equal(JUDGE("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"), 400);
    assert_int_equal(JUDGE("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n"
                           "\r\n0\r\n\r\n"),
                     400);
}

/* Chunks in any other spelling than the plain one. [serve T104] */
static void malformed_chunks_are_refused(void **state)
{
    (void)state;
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
    assert_int_equal(JUDGE(CHUNKED "1\r\nx\r\n0\r\n\r\n"), 0);
    assert_int_equal(JUDGE(CHUNKED "1;a=b\r\nx\r\n0\r\nT: v\r\n\r\n"), 0);
    assert_int_equal(JUDGE(CHUNKED "1\nx\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "1\r\nxy\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "1\r\nx0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "3\r\nabcdef\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "1\r\nx\rf\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "ffffffffffffffff\r\nx"), 413);
    assert_int_equal(JUDGE(CHUNKED "-1\r\nx\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "0x1\r\nx\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "g\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "fffffffffffffffff\r\nx"), 400);
    assert_int_equal(JUDGE(CHUNKED "1 \r\nx\r\n0\r\n\r\n"), 400);
    assert_int_equal(JUDGE(CHUNKED "1\r\nx\n0\r\n\r\n"), 400);
}

static void malformed_lines_are_refused(void **state)
{
    (void)state;
#define TAIL "\r\nHost: a\r\n\r\n"
    assert_int_equal(JUDGE("GET / HTTP/1.1" TAIL), 0);
    assert_int_equal(JUDGE("\r\nGET / HTTP/1.1" TAIL), 0);
    assert_int_equal(JUDGE("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_int_equal(JUDGE("GET http://a/b HTTP/1.1" TAIL), 0);
    assert_int_equal(JUDGE("OPTIONS * HTTP/1.1" TAIL), 0);
    assert_int_equal(JUDGE("GET * HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET /" TAIL), 400);
    assert_int_equal(JUDGE("GET  / HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET / x HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET / HTTP/1.1 " TAIL), 400);
    assert_int_equal(JUDGE("GET /\x01 HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET /\xff HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET x HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET / http/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET / HTTP/1.2" TAIL), 505);
    assert_int_equal(JUDGE("PRI * HTTP/2.0\r\n\r\n"), 505);
    assert_int_equal(JUDGE("CONNECT a:1 HTTP/1.1" TAIL), 501);
    assert_int_equal(JUDGE("BREW / HTTP/1.1" TAIL), 501);
    assert_int_equal(JUDGE("G(T / HTTP/1.1" TAIL), 400);
    assert_int_equal(JUDGE("GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"),
                     417);
    /* An offer to change protocols is ignored. */
    assert_int_equal(JUDGE("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r"
                           "\nUpgrade: h2c\r\n\r\n"),
                     0);
}

/* Head, target, fields and body at their limits; a length that is too large is
 * refused before its body comes. [serve T104] */
static void limits_are_answers(void **state)
{
    (void)state;
    char text[8192];
    memset(text, 'a', sizeof(text));
    memcpy(text, "GET /", 5);
    assert_int_equal(judge(text, 4096), 414);
    memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
    assert_int_equal(judge(text, 4095), -1);
    assert_int_equal(judge(text, 4096), 431);
    assert_int_equal(JUDGE(POST "Content-Length: 101\r\n\r\n"), 413);
    assert_int_equal(JUDGE(CHUNKED "64\r\n"), -1);
    assert_int_equal(JUDGE(CHUNKED "65\r\n"), 413);
    char body[200];
    int size = snprintf(body, sizeof(body), "%s65\r\n%0101d", CHUNKED, 1);
    assert_int_equal(judge(body, (size_t)size), 413);
    size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 128; i++) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, "a: b\r\n");
    }
    size += snprintf(text + size, sizeof(text) - (size_t)size, "\r\n");
    assert_int_equal(judge(text, (size_t)size), 431);
}

/* Trailers go on for ever: stopped at the size of a head. */
static void endless_trailers_are_refused(void **state)
{
    (void)state;
    char text[8192];
    int size = snprintf(text, sizeof(text), "%s0\r\nT: ", CHUNKED);
    memset(text + size, 'a', sizeof(text) - (size_t)size);
    assert_int_equal(judge(text, sizeof(text)), 431);
}

/* Two requests in one piece: the first ends where the second begins. */
static void pipelined_requests_come_one_by_one(void **state)
{
    (void)state;
    static const char TEXT[] = POST "Content-Length: 3\r\n\r\nabc"
                                    "GET /x?y=z HTTP/1.1\r\nHost:  h\t\r\n\r\n";
    struct http_parser *parser = request_parser();
    size_t rest;
    assert_int_equal(feed_all(parser, TEXT, sizeof(TEXT) - 1, 4096, &rest),
                     HTTP_PARSE_COMPLETE);
    assert_true(span_equals_string(http_parser_body(parser), "abc"));
    assert_true(http_parser_keeps_alive(parser));
    http_parser_reset(parser);
    assert_int_equal(
        feed_all(parser, TEXT + sizeof(TEXT) - 1 - rest, rest, 4096, &rest),
        HTTP_PARSE_COMPLETE);
    assert_int_equal(rest, 0);
    const struct http_head *head = http_parser_head(parser);
    struct span value;
    assert_true(span_equals_string(head->method, "GET"));
    assert_true(span_equals_string(head->path, "/x"));
    assert_true(span_equals_string(head->query, "y=z"));
    assert_true(http_head_find(head, "hOST", &value));
    assert_true(span_equals_string(value, "h"));
    http_parser_destroy(parser);
}

static void expect_keep_alive(const char *text, bool expected)
{
    struct http_parser *parser = request_parser();
    size_t rest;
    assert_int_equal(feed_all(parser, text, strlen(text), 4096, &rest),
                     HTTP_PARSE_COMPLETE);
    assert_int_equal(http_parser_keeps_alive(parser), expected);
    http_parser_destroy(parser);
}

/* 1.1 stays unless told, 1.0 goes unless told. */
static void keep_alive_follows_version_and_header(void **state)
{
    (void)state;
    expect_keep_alive("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true);
    expect_keep_alive("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                      false);
    expect_keep_alive("GET / HTTP/1.0\r\n\r\n", false);
    expect_keep_alive("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true);
}

static void expect_answer(const char *text, bool is_head, enum http_parse fed,
                          enum http_parse finished, const char *body)
{
    for (size_t piece = 1; piece < 600; piece += 299) {
        struct http_parser *parser = answer_parser();
        if (is_head) {
            http_parser_expect_no_body(parser);
        }
        size_t rest;
        assert_int_equal(feed_all(parser, text, strlen(text), piece, &rest),
                         fed);
        assert_int_equal(http_parser_finish(parser), finished);
        assert_string_equal(buf_string(&answer_body), body);
        http_parser_destroy(parser);
        buf_finish(&answer_body);
    }
}

/* By length, by chunks, by the end of the stream, and none at all. */
static void answers_end_where_they_say(void **state)
{
    (void)state;
    expect_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false,
                  HTTP_PARSE_COMPLETE, HTTP_PARSE_COMPLETE, "hi");
    expect_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "2\r\nhi\r\n0\r\n\r\n",
                  false, HTTP_PARSE_COMPLETE, HTTP_PARSE_COMPLETE, "hi");
    expect_answer("HTTP/1.1 200\r\n\r\nhi", false, HTTP_PARSE_MORE,
                  HTTP_PARSE_COMPLETE, "hi");
    expect_answer("HTTP/1.1 204 No Content\r\n\r\n", false, HTTP_PARSE_COMPLETE,
                  HTTP_PARSE_COMPLETE, "");
    expect_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", true,
                  HTTP_PARSE_COMPLETE, HTTP_PARSE_COMPLETE, "");
}

/* Cut in head, body or chunk, and plain nonsense. */
static void cut_or_foreign_answers_are_refused(void **state)
{
    (void)state;
    expect_answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", false,
                  HTTP_PARSE_MORE, HTTP_PARSE_REFUSED, "hi");
    expect_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "2\r\nhi\r\n",
                  false, HTTP_PARSE_MORE, HTTP_PARSE_REFUSED, "hi");
    expect_answer("HTTP/1.1 200 OK\r\n", false, HTTP_PARSE_MORE,
                  HTTP_PARSE_REFUSED, "");
    expect_answer("SSH-2.0-x\r\n\r\n", false, HTTP_PARSE_REFUSED,
                  HTTP_PARSE_REFUSED, "");
    expect_answer("HTTP/1.1 2000 OK\r\n\r\n", false, HTTP_PARSE_REFUSED,
                  HTTP_PARSE_REFUSED, "");
    expect_answer("HTTP/1.1 abc OK\r\n\r\n", false, HTTP_PARSE_REFUSED,
                  HTTP_PARSE_REFUSED, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smuggling_shapes_are_refused),
        cmocka_unit_test(malformed_chunks_are_refused),
        cmocka_unit_test(malformed_lines_are_refused),
        cmocka_unit_test(limits_are_answers),
        cmocka_unit_test(endless_trailers_are_refused),
        cmocka_unit_test(pipelined_requests_come_one_by_one),
        cmocka_unit_test(keep_alive_follows_version_and_header),
        cmocka_unit_test(answers_end_where_they_say),
        cmocka_unit_test(cut_or_foreign_answers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
