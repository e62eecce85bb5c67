#include "http/client.h"

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "http/pool.h"
#include "http/words.h"

enum { REQUEST_HEAD_MAX = 256 << 10 };

struct http_call {
    struct http_link *link;
    const struct http_call_handler *handler;
    void *context;
    bool is_reused;
    bool is_head;
    bool has_head; /* of the final answer */
    bool has_bytes; /* anything at all was answered */
    bool is_reading;
    bool is_inside; /* in our own loop over bytes: freed at its end */
    bool is_over;
    uint64_t size; /* of the request, head and body */
    uint64_t sent_before; /* by the stream, for earlier calls */
    uint64_t total_due; /* 0: none */
    uint64_t idle_ns_max;
    uint64_t last_ns; /* when something last happened */
};

static uint64_t sent_of(const struct http_call *call)
{
    return call->link->stream == NULL
               ? 0
               : io_stream_sent(call->link->stream) - call->sent_before;
}

static void free_call(struct http_call *call)
{
    if (!call->is_inside) {
        mem_free(call);
    }
}

/* Takes the call off its link and tells the end. */
static void finish(struct http_call *call, enum http_call_end end,
                   const char *text)
{
    struct http_link *link = call->link;
    io_timer_stop(link->timer);
    call->is_over = true;
    call->handler->on_end(call->context, call, end, text);
    link->call = NULL;
    free_call(call);
}

static void finish_and_close(struct http_call *call, enum http_call_end end,
                             const char *text)
{
    struct http_link *link = call->link;
    finish(call, end, text);
    http_pool_end(link);
}

static void start_timer(struct http_call *call)
{
    uint64_t now = io_loop_now(call->link->client->loop);
    uint64_t due = call->total_due == 0 ? UINT64_MAX : call->total_due;
    if (call->idle_ns_max > 0 && call->is_reading) {
        uint64_t idle_due = call->last_ns + call->idle_ns_max;
        due = idle_due < due ? idle_due : due;
    }
    if (due != UINT64_MAX) {
        io_timer_start(call->link->timer, due > now ? due - now : 0);
    }
}

static const char *late_text(const struct http_call *call)
{
    const struct io_stream *stream = call->link->stream;
    const char *obstacle = stream == NULL ? NULL : io_stream_obstacle(stream);
    return obstacle == NULL ? "no answer in time" : obstacle;
}

void http_call_on_time(struct http_call *call)
{
    uint64_t now = io_loop_now(call->link->client->loop);
    if (call->total_due != 0 && now >= call->total_due) {
        finish_and_close(call, HTTP_CALL_TIMEOUT, late_text(call));
    } else if (call->idle_ns_max > 0 && call->is_reading &&
               now >= call->last_ns + call->idle_ns_max) {
        finish_and_close(call, HTTP_CALL_TIMEOUT, "silent for too long");
    } else {
        start_timer(call);
    }
}

static void touch(struct http_call *call)
{
    call->last_ns = io_loop_now(call->link->client->loop);
}

void http_call_on_open(struct http_call *call)
{
    touch(call);
}

/* The answer is whole and `rest_size` bytes came behind it. */
static void answer_is_whole(struct http_call *call, size_t rest_size)
{
    struct http_link *link = call->link;
    bool is_clean = http_parser_keeps_alive(link->parser) && rest_size == 0 &&
                    sent_of(call) == call->size;
    finish(call, HTTP_CALL_COMPLETE, "complete");
    if (is_clean) {
        http_pool_give_back(link);
    } else {
        http_pool_end(link);
    }
}

/* 1xx only announces; the answer proper follows on the same call. */
static bool is_announcement(const struct http_call *call)
{
    int status = http_parser_head(call->link->parser)->status;
    return status < 200 && status != 101;
}

static void head_is_here(struct http_call *call)
{
    if (is_announcement(call)) {
        return;
    }
    call->has_head = true;
    if (call->handler->on_head != NULL) {
        call->handler->on_head(call->context, call);
    }
}

void http_call_on_body(struct http_call *call, struct span bytes)
{
    if (!call->is_over && call->handler->on_body != NULL) {
        call->handler->on_body(call->context, call, bytes);
    }
}

static void next_message(struct http_call *call)
{
    http_parser_reset(call->link->parser);
    if (call->is_head) {
        http_parser_expect_no_body(call->link->parser);
    }
}

/* One step of the parser; returns the bytes it took. */
static size_t take_answer(struct http_call *call, struct span bytes)
{
    struct http_parser *parser = call->link->parser;
    size_t taken;
    enum http_parse got = http_parser_feed(parser, bytes, &taken);
    if (got == HTTP_PARSE_HEAD) {
        head_is_here(call);
        size_t none;
        got = call->is_over ? HTTP_PARSE_MORE
                            : http_parser_feed(parser, span_of(NULL, 0), &none);
    }
    if (call->is_over) {
        return taken;
    }
    if (got == HTTP_PARSE_REFUSED) {
        finish_and_close(call, HTTP_CALL_PROTOCOL,
                         http_parser_refusal(parser).message);
    } else if (got == HTTP_PARSE_COMPLETE && is_announcement(call)) {
        next_message(call);
    } else if (got == HTTP_PARSE_COMPLETE) {
        answer_is_whole(call, bytes.size - taken);
    }
    return taken;
}

void http_call_on_bytes(struct http_call *call, struct span bytes)
{
    call->has_bytes = true;
    touch(call);
    call->is_inside = true;
    while (bytes.size > 0 && !call->is_over) {
        size_t taken = take_answer(call, bytes);
        bytes = span_slice(bytes, taken, bytes.size);
    }
    call->is_inside = false;
    if (call->is_over) {
        free_call(call);
    }
}

/* Why it broke, by what the kernel took and what came back (serve.md 4.2). */
static enum http_call_end broken_end(const struct http_call *call)
{
    if (!call->link->is_open) {
        return HTTP_CALL_REFUSED;
    }
    if (call->has_bytes) {
        return HTTP_CALL_PROTOCOL;
    }
    return sent_of(call) < call->size ? HTTP_CALL_UNDELIVERED : HTTP_CALL_LOST;
}

void http_call_on_closed(struct http_call *call, enum err reason,
                         const char *text)
{
    (void)reason;
    struct http_parser *parser = call->link->parser;
    bool has_ended =
        call->link->stream != NULL && io_stream_has_ended(call->link->stream);
    if (call->has_head && has_ended &&
        http_parser_finish(parser) == HTTP_PARSE_COMPLETE) {
        finish(call, HTTP_CALL_COMPLETE, "complete");
    } else {
        finish(call, broken_end(call), text);
    }
}

static bool is_clean_text(const char *text)
{
    for (const char *at = text; *at != 0; at++) {
        if ((uint8_t)*at <= 0x20 || (uint8_t)*at >= 0x7f) {
            return false;
        }
    }
    return text[0] != 0;
}

static bool are_options_valid(const struct http_call_options *options)
{
    if (options->host == NULL || !is_clean_text(options->host) ||
        strlen(options->host) > 255 || options->port == 0 ||
        !http_head_is_token(span_of_string(options->method)) ||
        !is_clean_text(options->path) || options->path[0] != '/') {
        return false;
    }
    if (options->content_type != NULL &&
        !http_head_is_value(span_of_string(options->content_type))) {
        return false;
    }
    const struct http_header *at = options->headers;
    for (; at != NULL && at->name != NULL; at++) {
        if (!http_head_is_token(span_of_string(at->name)) ||
            !http_head_is_value(span_of_string(at->value))) {
            return false;
        }
    }
    return true;
}

static void add_request_head(struct buf *out,
                             const struct http_call_options *options)
{
    bool is_v6 = strchr(options->host, ':') != NULL;
    buf_printf(out, "%s %s HTTP/1.1\r\n", options->method, options->path);
    buf_printf(out, is_v6 ? "Host: [%s]:%u\r\n" : "Host: %s:%u\r\n",
               options->host, options->port);
    if (options->content_type != NULL) {
        http_add_field(out, "Content-Type", options->content_type);
        buf_printf(out, "Content-Length: %zu\r\n", options->body.size);
    } else if (strcmp(options->method, "POST") == 0) {
        buf_add_string(out, "Content-Length: 0\r\n");
    }
    const struct http_header *at = options->headers;
    for (; at != NULL && at->name != NULL; at++) {
        http_add_field(out, at->name, at->value);
    }
    buf_add_string(out, "\r\n");
}

static struct http_call *call_create(struct http_client *client,
                                     const struct http_call_options *options)
{
    struct http_call *call = mem_new(sizeof(*call));
    uint64_t now = io_loop_now(client->loop);
    call->handler = options->handler;
    call->context = options->context;
    call->is_head = strcmp(options->method, "HEAD") == 0;
    call->is_reading = true;
    call->total_due =
        options->total_ns_max == 0 ? 0 : now + options->total_ns_max;
    call->idle_ns_max = options->idle_ns_max;
    call->last_ns = now;
    return call;
}

static void send_request(struct http_call *call, struct span head,
                         struct span body)
{
    struct io_stream *stream = call->link->stream;
    if (stream == NULL) {
        return;
    }
    call->sent_before = io_stream_sent(stream);
    if (io_stream_write2(stream, head, body) == ERR_FULL) {
        /* Ends the call as undelivered: nothing of it left. */
        io_stream_reset(stream);
    }
    /* After ERR_CLOSED the stream tells its end by itself. */
}

enum err http_call_start(struct http_client *client,
                         const struct http_call_options *options,
                         struct http_call **call_out)
{
    if (!are_options_valid(options)) {
        return ERR_INVALID;
    }
    struct span body =
        options->content_type == NULL ? span_of(NULL, 0) : options->body;
    struct buf head;
    buf_init(&head, REQUEST_HEAD_MAX);
    add_request_head(&head, options);
    if (buf_error(&head) != OK) {
        buf_finish(&head);
        return ERR_INVALID;
    }
    struct http_call *call = call_create(client, options);
    call->link = http_pool_take(client, options, &call->is_reused);
    call->link->call = call;
    call->size = head.size + body.size;
    next_message(call);
    send_request(call, buf_span(&head), body);
    start_timer(call);
    buf_finish(&head);
    *call_out = call;
    return OK;
}

int http_call_status(const struct http_call *call)
{
    return http_parser_head(call->link->parser)->status;
}

bool http_call_header(const struct http_call *call, const char *name,
                      struct span *value_out)
{
    return http_head_find(http_parser_head(call->link->parser), name,
                          value_out);
}

bool http_call_is_reused(const struct http_call *call)
{
    return call->is_reused;
}

void http_call_set_reading(struct http_call *call, bool on)
{
    if (call->is_over || call->link->stream == NULL) {
        return;
    }
    call->is_reading = on;
    touch(call);
    io_stream_set_reading(call->link->stream, on);
    start_timer(call);
}

void http_call_cancel(struct http_call *call)
{
    if (call->is_over) {
        return; /* it is ending just now */
    }
    struct http_link *link = call->link;
    call->is_over = true;
    link->call = NULL;
    http_pool_end(link);
    free_call(call);
}
