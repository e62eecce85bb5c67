#include "http/connection.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    INPUT_MAX = 256 << 10, /* kept of pipelined requests; about a read more */
    OUTPUT_NOW = 64 << 10, /* what is waiting leaves at once above this */
    SHORT_BODY = 64 << 10, /* may be read before anybody looks at the head */
    WRITE_MAX = 1 << 28, /* a handler that does not listen is cut */
};
static const uint64_t STALL_NS = 30000000000u;

static void on_read(void *context, struct span bytes);
static void on_drain(void *context);
static void on_close(void *context, enum err reason, const char *text);
static void on_limit(void *context);

static const struct io_stream_handler HANDLER = {
    .on_read = on_read, .on_drain = on_drain, .on_close = on_close};

static bool is_open(const struct http_exchange *exchange)
{
    return exchange->state == CONNECTION_WORKING ||
           exchange->state == CONNECTION_STREAMING;
}

static void welcome(struct http_server *server, struct http_exchange *exchange)
{
    struct http_exchange *oldest =
        http_newcomers_add(&server->newcomers, exchange);
    if (oldest != NULL) {
        log_warn_rare("http",
                      "over %u connections have asked nothing yet: the "
                      "oldest is cut off",
                      server->newcomers.count_max);
        http_newcomers_remove(&server->newcomers, oldest);
        http_connection_reset(oldest);
    }
}

void http_connection_accept(struct http_server *server,
                            struct io_stream *stream)
{
    const struct http_server_options *options = &server->options;
    struct http_exchange *exchange = mem_new(sizeof(*exchange));
    exchange->server = server;
    exchange->stream = stream;
    exchange->timer = io_timer_create(server->loop, on_limit, exchange);
    exchange->parser = http_parser_create(&(struct http_parser_options){
        .is_request = true,
        .head_bytes_max = options->header_bytes_max,
        .body_bytes_max = options->body_bytes_max,
    });
    buf_init(&exchange->input, SIZE_MAX / 4);
    buf_init(&exchange->output, SIZE_MAX / 4);
    http_server_link(server, exchange);
    io_stream_set_handler(stream, &HANDLER, exchange);
    io_stream_set_write_max(stream, WRITE_MAX);
    io_timer_start(exchange->timer, options->keep_alive_ns);
    welcome(server, exchange);
}

static void count_held(struct http_exchange *exchange)
{
    size_t held =
        exchange->state == CONNECTION_GONE
            ? 0
            : http_parser_held(exchange->parser) + exchange->input.size;
    exchange->server->held += held;
    exchange->server->held -= exchange->held;
    exchange->held = held;
}

static bool holds_too_much(const struct http_server *server)
{
    return server->held > server->held_max;
}

static void tell_gone(struct http_exchange *exchange)
{
    bool was_open = is_open(exchange);
    exchange->state = CONNECTION_GONE;
    if (was_open) {
        exchange->server->open_count--;
        exchange->server->options.handler->on_gone(
            exchange->server->options.context, exchange);
    }
}

static void on_close(void *context, enum err reason, const char *text)
{
    (void)reason;
    (void)text;
    struct http_exchange *exchange = context;
    struct http_server *server = exchange->server;
    tell_gone(exchange);
    http_server_forget_settling(exchange);
    http_server_unlink(server, exchange);
    http_newcomers_remove(&server->newcomers, exchange);
    count_held(exchange);
    io_timer_destroy(exchange->timer);
    http_parser_destroy(exchange->parser);
    buf_finish(&exchange->input);
    buf_finish(&exchange->output);
    mem_free(exchange);
    http_server_free_if_last(server);
}

static void close_after_pending(struct http_exchange *exchange)
{
    exchange->state = CONNECTION_CLOSING;
    io_timer_stop(exchange->timer);
    io_stream_close(exchange->stream, true);
}

/* What waits in `output` leaves, then it closes. */
static void close_when_settled(struct http_exchange *exchange)
{
    exchange->state = CONNECTION_CLOSING;
    exchange->owes_end = true;
}

void http_connection_cut(struct http_exchange *exchange)
{
    tell_gone(exchange);
    io_timer_stop(exchange->timer);
    io_stream_close(exchange->stream, false);
}

void http_connection_close_if_idle(struct http_exchange *exchange)
{
    bool is_asking =
        exchange->input.size > 0 || io_stream_is_stale(exchange->stream);
    if (exchange->state != CONNECTION_IDLE || is_asking) {
        return; /* who asks is answered, then it closes */
    }
    if (exchange->is_dirty) {
        close_when_settled(exchange);
    } else {
        close_after_pending(exchange);
    }
}

bool http_connection_is_quiet(const struct http_exchange *exchange)
{
    return exchange->state == CONNECTION_GONE ||
           (!is_open(exchange) && !exchange->is_dirty && !exchange->owes_end &&
            http_connection_pending(exchange) == 0);
}

/* The handler's, until it is answered or told to be gone. */
static void hand_over(struct http_exchange *exchange, bool keeps_alive)
{
    exchange->state = CONNECTION_WORKING;
    exchange->user = NULL;
    exchange->keeps_alive = keeps_alive;
    exchange->server->open_count++;
}

static void answer_refusal(struct http_exchange *exchange,
                           struct http_refusal refusal)
{
    static const struct http_header later[] = {{"Retry-After", "1"}, {0}};
    struct http_server *server = exchange->server;
    const struct http_handler *handler = server->options.handler;
    struct buf body;
    buf_init(&body, 64 << 10);
    if (handler->describe_error != NULL) {
        handler->describe_error(server->options.context, refusal.status,
                                refusal.message, &body);
    } else {
        buf_printf(&body, "{\"error\":{\"message\":\"%s\",\"code\":%d}}",
                   refusal.message, refusal.status);
    }
    hand_over(exchange, false);
    http_exchange_reply(exchange, refusal.status, "application/json",
                        refusal.status == 503 ? later : NULL, buf_span(&body));
    buf_finish(&body);
}

static void request_is_whole(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    const struct http_head *head = http_parser_head(exchange->parser);
    io_timer_stop(exchange->timer);
    exchange->is_head = span_equals_string(head->method, "HEAD");
    hand_over(exchange, http_parser_keeps_alive(exchange->parser) &&
                            !server->is_winding_down);
    server->options.handler->on_request(server->options.context, exchange);
}

/* A short body is read first: then the connection can go on after a refusal. */
static bool is_refused_by_head(struct http_exchange *exchange,
                               const struct http_head *head)
{
    struct http_server *server = exchange->server;
    const struct http_handler *handler = server->options.handler;
    bool is_short = !head->is_chunked && head->length <= SHORT_BODY;
    if (handler->on_head == NULL || (is_short && !head->expects_continue)) {
        return false;
    }
    exchange->is_head = span_equals_string(head->method, "HEAD");
    hand_over(exchange, false);
    if (handler->on_head(server->options.context, exchange)) {
        return true;
    }
    exchange->state = CONNECTION_RECEIVING;
    server->open_count--;
    return false;
}

static void start_rest_of_time(struct http_exchange *exchange)
{
    uint64_t max = exchange->server->options.request_ns_max;
    uint64_t used = io_loop_now(exchange->server->loop) - exchange->arrival_ns;
    io_timer_start(exchange->timer, used < max ? max - used : 1);
}

static void head_is_here(struct http_exchange *exchange)
{
    http_newcomers_remove(&exchange->server->newcomers, exchange);
    const struct http_head *head = http_parser_head(exchange->parser);
    bool has_body = head->length > 0 || head->is_chunked;
    if (!has_body || is_refused_by_head(exchange, head)) {
        return;
    }
    start_rest_of_time(exchange);
    if (head->expects_continue && head->minor > 0) {
        /* In line behind the answer that may still be waiting there. */
        buf_add_string(&exchange->output, "HTTP/1.1 100 Continue\r\n\r\n");
        http_server_settle_later(exchange);
    }
}

static void request_begins(struct http_exchange *exchange)
{
    exchange->state = CONNECTION_RECEIVING;
    exchange->is_head = false;
    exchange->arrival_ns = io_loop_now(exchange->server->loop);
    const struct http_server_options *options = &exchange->server->options;
    io_timer_start(exchange->timer,
                   options->head_ns_max < options->request_ns_max
                       ? options->head_ns_max
                       : options->request_ns_max);
}

/* Takes what belongs to the present request; returns how much that was. */
static size_t take_request(struct http_exchange *exchange, struct span bytes)
{
    struct http_server *server = exchange->server;
    size_t taken;
    enum http_parse got = http_parser_feed(exchange->parser, bytes, &taken);
    if (exchange->state == CONNECTION_IDLE &&
        http_parser_has_begun(exchange->parser)) {
        request_begins(exchange);
    }
    count_held(exchange);
    if (got == HTTP_PARSE_REFUSED) {
        answer_refusal(exchange, http_parser_refusal(exchange->parser));
    } else if (holds_too_much(server) &&
               http_parser_held(exchange->parser) > 0) {
        answer_refusal(exchange, (struct http_refusal){
                                     503, "too many request bodies at once"});
    } else if (got == HTTP_PARSE_HEAD) {
        head_is_here(exchange);
        /* Without a body it is complete already. */
        size_t none;
        if (exchange->state == CONNECTION_RECEIVING &&
            http_parser_feed(exchange->parser, span_of(NULL, 0), &none) ==
                HTTP_PARSE_COMPLETE) {
            request_is_whole(exchange);
        }
    } else if (got == HTTP_PARSE_COMPLETE) {
        request_is_whole(exchange);
    }
    return taken;
}

static bool wants_request(const struct http_exchange *exchange)
{
    return exchange->state == CONNECTION_IDLE ||
           exchange->state == CONNECTION_RECEIVING;
}

/* Keeps what came early; above the bound the kernel keeps the rest. */
static void keep_input(struct http_exchange *exchange, struct span bytes)
{
    if (!is_open(exchange)) {
        return;
    }
    buf_add_span(&exchange->input, bytes);
    count_held(exchange);
    if (buf_error(&exchange->input) != OK) {
        http_connection_reset(exchange);
    } else if (exchange->input.size >= INPUT_MAX ||
               holds_too_much(exchange->server)) {
        io_stream_set_reading(exchange->stream, false);
    }
}

static void on_read(void *context, struct span bytes)
{
    struct http_exchange *exchange = context;
    while (bytes.size > 0 && wants_request(exchange) &&
           exchange->input.size == 0) {
        size_t taken = take_request(exchange, bytes);
        bytes = span_slice(bytes, taken, bytes.size);
    }
    if (bytes.size > 0 && wants_request(exchange)) {
        buf_add_span(&exchange->input, bytes); /* behind what waits already */
        http_server_settle_later(exchange);
    } else if (bytes.size > 0) {
        keep_input(exchange, bytes);
    }
}

static void read_kept(struct http_exchange *exchange)
{
    size_t done = 0;
    while (done < exchange->input.size && wants_request(exchange)) {
        done += take_request(exchange, span_slice(buf_span(&exchange->input),
                                                  done, exchange->input.size));
    }
    buf_drop_front(&exchange->input, done);
    if (exchange->input.size == 0) {
        buf_finish(&exchange->input);
    }
    count_held(exchange);
    if (exchange->input.size < INPUT_MAX &&
        exchange->state != CONNECTION_GONE) {
        io_stream_set_reading(exchange->stream, true);
    }
}

static void send_output(struct http_exchange *exchange)
{
    if (exchange->output.size == 0) {
        return;
    }
    enum err e = io_stream_write(exchange->stream, buf_span(&exchange->output));
    if (exchange->output.size > OUTPUT_NOW) {
        buf_finish(&exchange->output);
    }
    buf_reset(&exchange->output);
    exchange->is_lost |= e == ERR_FULL || e == ERR_NO_MEMORY;
    /* After ERR_CLOSED the stream tells the end by itself. */
}

void http_connection_send(struct http_exchange *exchange, struct span bytes)
{
    if (exchange->output.size + bytes.size <= OUTPUT_NOW) {
        buf_add_span(&exchange->output, bytes);
        return;
    }
    enum err e =
        io_stream_write2(exchange->stream, buf_span(&exchange->output), bytes);
    buf_finish(&exchange->output);
    if (e == ERR_FULL || e == ERR_NO_MEMORY) {
        exchange->is_lost = true;
        http_server_settle_later(exchange);
    }
}

size_t http_connection_pending(const struct http_exchange *exchange)
{
    return exchange->output.size + io_stream_pending(exchange->stream);
}

void http_connection_reset(struct http_exchange *exchange)
{
    tell_gone(exchange);
    io_timer_stop(exchange->timer);
    io_stream_reset(exchange->stream);
}

static void watch_slow_reader(struct http_exchange *exchange)
{
    if (io_stream_pending(exchange->stream) > 0 && is_open(exchange)) {
        exchange->sent_seen = io_stream_sent(exchange->stream);
        io_timer_start(exchange->timer, STALL_NS);
    }
}

static void tell_drained(struct http_exchange *exchange)
{
    const struct http_server *server = exchange->server;
    if (exchange->state != CONNECTION_STREAMING || !exchange->is_over_mark) {
        return;
    }
    exchange->is_over_mark = false;
    if (server->options.handler->on_drain != NULL) {
        server->options.handler->on_drain(server->options.context, exchange);
    }
}

static void on_drain(void *context)
{
    tell_drained(context);
}

void http_connection_settle(struct http_exchange *exchange)
{
    if (exchange->state == CONNECTION_GONE) {
        return;
    }
    send_output(exchange);
    if (exchange->is_lost) {
        http_connection_reset(exchange);
    } else if (exchange->state == CONNECTION_CLOSING) {
        close_after_pending(exchange);
    } else if (is_open(exchange)) {
        watch_slow_reader(exchange);
        if (io_stream_pending(exchange->stream) == 0) {
            tell_drained(exchange);
        }
    } else if (exchange->input.size > 0) {
        read_kept(exchange);
    }
}

void http_connection_answered(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    CHECK(server->open_count > 0);
    server->open_count--;
    exchange->user = NULL;
    exchange->is_over_mark = false;
    http_parser_reset(exchange->parser);
    count_held(exchange);
    http_server_settle_later(exchange);
    if (!exchange->keeps_alive || server->is_draining) {
        close_when_settled(exchange);
        return;
    }
    exchange->state = CONNECTION_IDLE;
    exchange->sent_seen = io_stream_sent(exchange->stream);
    /* Who still reads the answer is not idle, only perhaps slow. */
    bool is_read = io_stream_pending(exchange->stream) > 0;
    io_timer_start(exchange->timer,
                   is_read ? STALL_NS : server->options.keep_alive_ns);
}

/* Nothing was taken of what we want to send for a whole interval. */
static bool is_stalled(struct http_exchange *exchange)
{
    uint64_t seen = exchange->sent_seen;
    exchange->sent_seen = io_stream_sent(exchange->stream);
    return seen == exchange->sent_seen;
}

static void on_limit(void *context)
{
    struct http_exchange *exchange = context;
    if (exchange->state == CONNECTION_RECEIVING) {
        answer_refusal(exchange,
                       (struct http_refusal){408, "the request took too long"});
    } else if (io_stream_pending(exchange->stream) > 0) {
        if (is_stalled(exchange)) {
            log_info_rare("http",
                          "a client that took nothing for %d s is cut off",
                          (int)(STALL_NS / 1000000000u));
            http_connection_cut(exchange);
        } else {
            io_timer_start(exchange->timer, STALL_NS);
        }
    } else if (exchange->state == CONNECTION_IDLE &&
               io_stream_is_stale(exchange->stream)) {
        /* We were away for longer than the limit and something came meanwhile:
         * it is read in this turn. Closing would drop a request unread. */
        io_timer_start(exchange->timer,
                       exchange->server->options.keep_alive_ns);
    } else if (exchange->state == CONNECTION_IDLE) {
        close_after_pending(exchange);
    }
}
