#pragma once
/* http/parser: one message after the other out of a stream of bytes, requests
 * or answers. Pure: fed by whoever has the bytes. Private to http.
 *
 *   MORE* -> HEAD -> MORE* -> COMPLETE -> (reset) -> MORE* ...
 *                 \-> REFUSED: for ever
 *
 * The head is read by http/head first, then by the library, which also unwraps
 * the body and stops at its end. What is taken and what is refused does not
 * depend on how the stream was cut into pieces. */
#include "base/buf.h"
#include "http/head.h"

enum http_parse {
    HTTP_PARSE_MORE, /* all taken, not there yet */
    HTTP_PARSE_HEAD, /* once a message: the head can be read */
    HTTP_PARSE_COMPLETE, /* the rest belongs to the next message */
    HTTP_PARSE_REFUSED, /* see http_parser_refusal */
};

struct http_parser;
struct http_parser_options {
    bool is_request;
    size_t head_bytes_max;
    /* Bodies of requests are kept, up to this; 0 for answers, whose bytes go
     * to `on_body` as they come. */
    size_t body_bytes_max;
    void (*on_body)(void *context, struct span bytes);
    void *context;
};
struct http_parser *http_parser_create(
    const struct http_parser_options *options);
void http_parser_destroy(struct http_parser *parser); /* NULL is fine */
/* Forgets the message; what pointed into it dangles. */
void http_parser_reset(struct http_parser *parser);
/* The answer to come has a head only: it answers HEAD. */
void http_parser_expect_no_body(struct http_parser *parser);

enum http_parse http_parser_feed(struct http_parser *parser, struct span bytes,
                                 size_t *taken_out);
/* The stream ended: COMPLETE when that ends the answer, else REFUSED. */
enum http_parse http_parser_finish(struct http_parser *parser);

/* From HEAD on. */
const struct http_head *http_parser_head(const struct http_parser *parser);
/* From COMPLETE on, when kept. */
struct span http_parser_body(const struct http_parser *parser);
bool http_parser_keeps_alive(const struct http_parser *parser);
struct http_refusal http_parser_refusal(const struct http_parser *parser);
/* True from the first byte of a message on. */
bool http_parser_has_begun(const struct http_parser *parser);
/* Bytes of body kept so far. */
size_t http_parser_held(const struct http_parser *parser);
