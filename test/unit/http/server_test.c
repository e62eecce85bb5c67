#include <stdio.h>
#include <stdlib.h>

#include "unit/io/test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "http/server.h"
#include "io/tcp.h"

/* A raw client: what it got, and whether the server closed. */
struct raw {
    struct io_stream *stream;
    struct buf got;
    bool is_closed;
};

static struct io_loop *loop;
static struct http_server *server;
static struct raw raw;
static struct http_exchange *held; /* by handlers that answer later */
static int request_count;
static int head_count;
static struct http_exchange *kept[16]; /* by handlers of many */
static int kept_count;
static int gone_count;
static int drain_count;
static char last_path[64];
static void (*handle)(struct http_exchange *exchange);

static void raw_on_read(void *context, struct span bytes)
{
    buf_add_span(&((struct raw *)context)->got, bytes);
}

static void raw_on_close(void *context, enum err reason, const char *text)
{
    (void)reason;
    (void)text;
    ((struct raw *)context)->is_closed = true;
    ((struct raw *)context)->stream = NULL;
}

static const struct io_stream_handler RAW = {.on_read = raw_on_read,
                                             .on_close = raw_on_close};

static void on_request(void *context, struct http_exchange *exchange)
{
    (void)context;
    request_count++;
    struct span path = http_exchange_path(exchange);
    snprintf(last_path, sizeof(last_path), "%.*s", (int)path.size,
             (const char *)path.data);
    handle(exchange);
}

static void on_gone(void *context, struct http_exchange *exchange)
{
    (void)context;
    gone_count++;
    if (kept_count > 0) {
        return;
    }
    assert_ptr_equal(exchange, held);
    assert_ptr_equal(http_exchange_user(exchange), &held);
    held = NULL;
}

static void on_drain(void *context, struct http_exchange *exchange)
{
    (void)context;
    (void)exchange;
    drain_count++;
}

static void describe_error(void *context, int status, const char *message,
                           struct buf *body_out)
{
    (void)context;
    buf_printf(body_out, "{%d:%s}", status, message);
}

static bool on_head(void *context, struct http_exchange *exchange)
{
    (void)context;
    head_count++;
    if (!span_starts_with(http_exchange_path(exchange), "/no")) {
        return false;
    }
    http_exchange_reply(exchange, 403, "text/plain", NULL, span_of("no", 2));
    return true;
}

static const struct http_handler HANDLER = {
    .on_request = on_request,
    .on_head = on_head,
    .on_gone = on_gone,
    .on_drain = on_drain,
    .describe_error = describe_error,
};

static void echo(struct http_exchange *exchange)
{
    http_exchange_reply(exchange, 200, "text/plain", NULL,
                        http_exchange_body(exchange));
}

static void hold(struct http_exchange *exchange)
{
    held = exchange;
    http_exchange_set_user(exchange, &held);
}

static void keep(struct http_exchange *exchange)
{
    kept[kept_count++] = exchange;
}

static int set_up_with(struct http_server_options options)
{
    raw = (struct raw){0};
    buf_init(&raw.got, 64 << 20);
    held = NULL;
    kept_count = 0;
    request_count = head_count = gone_count = drain_count = 0;
    handle = echo;
    options.host = "127.0.0.1";
    options.handler = &HANDLER;
    return io_loop_create(&loop) == OK &&
                   http_server_open(loop, &options, NULL, &server) == OK
               ? 0
               : -1;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with((struct http_server_options){0});
}

static int set_up_hasty(void **state)
{
    (void)state;
    return set_up_with((struct http_server_options){.request_ns_max = 20000000,
                                                    .keep_alive_ns = 20000000,
                                                    .body_bytes_max = 1000});
}

static int set_up_small(void **state)
{
    (void)state;
    return set_up_with((struct http_server_options){.body_bytes_max = 1000});
}

static int tear_down(void **state)
{
    (void)state;
    http_server_close(server);
    if (raw.stream != NULL) {
        io_stream_close(raw.stream, false);
    }
    io_loop_destroy(loop);
    buf_finish(&raw.got);
    return 0;
}

static void open_one(struct raw *one)
{
    const struct io_stream_options options = {
        .handler = &RAW, .context = one, .write_max = 64 << 20};
    one->is_closed = false;
    assert_int_equal(io_stream_connect(loop, "127.0.0.1",
                                       http_server_port(server), &options, NULL,
                                       &one->stream),
                     OK);
}

static void open_raw(void)
{
    open_one(&raw);
}

static void say(const char *text)
{
    if (raw.stream == NULL) {
        open_raw();
    }
    assert_int_equal(io_stream_write(raw.stream, span_of_string(text)), OK);
}

static bool has(const char *text)
{
    return raw.got.size > 0 &&
           memmem(raw.got.data, raw.got.size, text, strlen(text)) != NULL;
}

static bool ends_with(const char *text)
{
    size_t size = strlen(text);
    return raw.got.size >= size &&
           memcmp(raw.got.data + raw.got.size - size, text, size) == 0;
}

#define GET "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"

/* Length, type, body; then a second request on the same connection. */
static void answer_is_whole_and_connection_stays(void **state)
{
    (void)state;
    say("POST /a/b?c=d HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    TURN_UNTIL(loop, ends_with("hello"));
    assert_memory_equal(raw.got.data, "HTTP/1.1 200 OK\r\n", 17);
    assert_true(has("\r\nContent-Length: 5\r\n"));
    assert_true(has("\r\nContent-Type: text/plain\r\n"));
    assert_true(has("\r\nDate: "));
    assert_false(has("\r\nConnection: "));
    assert_string_equal(last_path, "/a/b");
    buf_reset(&raw.got);
    say(GET);
    TURN_UNTIL(loop, has("Content-Length: 0\r\n\r\n"));
    assert_int_equal(request_count, 2);
    assert_false(raw.is_closed);
}

#define LONG "Content-Length: 100000\r\n\r\n"

/* Proof: of a long body not one byte is waited for, and of one that waits for
 * 100 Continue neither; a short one is read, and the connection goes on. */
static void a_refusal_by_the_head_needs_no_body(void **state)
{
    (void)state;
    say("POST /no HTTP/1.1\r\nHost: a\r\n" LONG);
    TURN_UNTIL(loop, raw.is_closed);
    assert_memory_equal(raw.got.data, "HTTP/1.1 403 ", 13);
    assert_true(has("\r\nConnection: close\r\n"));
    assert_int_equal(head_count, 1);
    buf_reset(&raw.got);
    say("POST /no HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
        "Content-Length: 5\r\n\r\n");
    TURN_UNTIL(loop, raw.is_closed);
    assert_memory_equal(raw.got.data, "HTTP/1.1 403 ", 13);
    buf_reset(&raw.got);
    say("POST /no HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    TURN_UNTIL(loop, raw.is_closed);
    assert_memory_equal(raw.got.data, "HTTP/1.1 403 ", 13);
    assert_int_equal(head_count, 3);
    assert_int_equal(request_count, 0);
    buf_reset(&raw.got);
    say("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    TURN_UNTIL(loop, ends_with("hello"));
    assert_int_equal(head_count, 3);
    assert_int_equal(http_server_open_exchanges(server), 0);
}

/* Proof: what the head lets in goes on as if nobody had looked, 100 Continue
 * first. */
static void a_long_body_is_shown_by_its_head_first(void **state)
{
    (void)state;
    enum { SIZE = 100000 };
    char *body = mem_new(SIZE + 1);
    memset(body, 'b', SIZE);
    say("POST /yes HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" LONG);
    TURN_UNTIL(loop, ends_with("100 Continue\r\n\r\n"));
    say(body);
    TURN_UNTIL(loop, raw.got.size > SIZE && ends_with("bbb"));
    mem_free(body);
    assert_int_equal(head_count, 1);
    assert_int_equal(request_count, 1);
    assert_false(raw.is_closed);
}

static void say_body(struct raw *one, int size)
{
    char text[2000];
    int head = snprintf(text, sizeof(text),
                        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: "
                        "%d\r\n\r\n",
                        size);
    memset(text + head, 'b', (size_t)size);
    open_one(one);
    assert_int_equal(
        io_stream_write(one->stream, span_of(text, (size_t)(head + size))), OK);
}

/* Proof: eight of the longest bodies are the bound of all connections; one
 * byte more is told to come later, what has no body is served, and after an
 * answer there is room again. */
static void bodies_held_at_once_are_bounded(void **state)
{
    (void)state;
    struct raw many[8] = {{0}};
    assert_int_equal(http_server_held_max(1000), 8000);
    handle = keep;
    for (int i = 0; i < 8; i++) {
        buf_init(&many[i].got, 4096);
        say_body(&many[i], 1000);
    }
    TURN_UNTIL(loop, kept_count == 8);
    say_body(&raw, 1);
    TURN_UNTIL(loop, raw.is_closed);
    assert_memory_equal(raw.got.data, "HTTP/1.1 503 ", 13);
    assert_true(has("\r\nRetry-After: 1\r\n"));
    handle = echo;
    buf_reset(&raw.got);
    say(GET);
    TURN_UNTIL(loop, has("HTTP/1.1 200 "));
    io_stream_close(raw.stream, false);
    TURN_UNTIL(loop, raw.is_closed);
    http_exchange_reply(kept[0], 200, NULL, NULL, span_of_string(""));
    buf_reset(&raw.got);
    say_body(&raw, 1);
    TURN_UNTIL(loop, has("HTTP/1.1 200 "));
    for (int i = 0; i < 8; i++) {
        io_stream_close(many[i].stream, false);
        TURN_UNTIL(loop, many[i].is_closed);
        buf_finish(&many[i].got);
    }
}

/* Two requests in one write are answered in order, each once. */
static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none"
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2\r\ntw\r\n1\r\no\r\n0\r\n\r\n");
    TURN_UNTIL(loop, ends_with("two"));
    assert_int_equal(request_count, 2);
    assert_true(has("one"));
}

/* The second waits in our memory while the first is being worked on. */
static void early_request_waits_for_its_turn(void **state)
{
    (void)state;
    handle = hold;
    say(GET "GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
    TURN_UNTIL(loop, held != NULL);
    io_loop_turn(loop, 2000000);
    assert_int_equal(request_count, 1);
    handle = echo;
    http_exchange_reply(held, 200, NULL, NULL, span_of_string("first"));
    TURN_UNTIL(loop, request_count == 2);
    assert_string_equal(last_path, "/second");
    assert_int_equal(http_server_open_exchanges(server), 0);
}

/* What comes early is kept up to a bound; the rest waits in the kernel and all
 * of it is answered in the end. */
static void flood_of_early_requests_is_bounded_and_answered(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct buf flood;
    buf_init(&flood, 64 << 20);
    for (int i = 0; i < COUNT; i++) {
        buf_printf(&flood, "GET / HTTP/1.1\r\nHost: a\r\nPad: %04000d\r\n\r\n",
                   i);
    }
    handle = hold;
    open_raw();
    assert_int_equal(io_stream_write(raw.stream, buf_span(&flood)), OK);
    buf_finish(&flood);
    TURN_UNTIL(loop, held != NULL);
    for (int i = 0; i < 50; i++) {
        io_loop_turn(loop, 1000000);
    }
    assert_true(io_stream_pending(raw.stream) > 0);
    handle = echo;
    http_exchange_reply(held, 200, NULL, NULL, span_of_string(""));
    TURN_UNTIL(loop, request_count == COUNT);
    assert_int_equal(gone_count, 0);
}

/* Closed in the middle of our work: told at once, with the user's pointer. */
static void leaving_client_is_noticed(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    assert_int_equal(http_server_open_exchanges(server), 1);
    io_stream_close(raw.stream, false);
    TURN_UNTIL(loop, gone_count == 1);
    assert_int_equal(http_server_open_exchanges(server), 0);
}

/* The same in the middle of a stream. */
static void client_leaving_a_stream_is_noticed(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    http_exchange_begin(held, 200, "text/event-stream", NULL);
    assert_true(http_exchange_write(held, span_of_string("data: 1\n\n")));
    TURN_UNTIL(loop, has("data: 1\n\n"));
    io_stream_close(raw.stream, false);
    TURN_UNTIL(loop, gone_count == 1);
}

/* Head, chunks and terminator, byte for byte; the connection stays. */
static void stream_comes_in_chunks(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    const struct http_header headers[] = {{"X-A", "b\r\nEvil: c"},
                                          {NULL, NULL}};
    http_exchange_begin(held, 200, "text/event-stream", headers);
    assert_true(http_exchange_write(held, span_of_string("hello")));
    assert_true(http_exchange_write(held, span_of_string("")));
    assert_true(http_exchange_write(held, span_of_string("0123456789abcdef")));
    http_exchange_end(held);
    TURN_UNTIL(loop, ends_with("\r\n\r\n5\r\nhello\r\n10\r\n0123456789abcdef\r"
                               "\n0\r\n\r\n"));
    assert_true(has("\r\nTransfer-Encoding: chunked\r\n"));
    assert_true(has("\r\nX-A: b  Evil: c\r\n"));
    assert_false(has("Content-Length"));
    handle = echo;
    say(GET);
    TURN_UNTIL(loop, request_count == 2);
}

/* Above the mark a write says so; once the kernel took all, on_drain. */
static void stream_pushes_back(void **state)
{
    (void)state;
    enum { PIECE = 64 << 10 };
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    io_stream_set_reading(raw.stream, false);
    http_exchange_begin(held, 200, NULL, NULL);
    uint8_t *piece = mem_new(PIECE);
    int count = 0;
    bool is_taken = true;
    while (is_taken && count < 1000) {
        is_taken = http_exchange_write(held, span_of(piece, PIECE));
        count++;
        io_loop_turn(loop, 0);
    }
    mem_free(piece);
    assert_false(is_taken);
    assert_int_equal(drain_count, 0);
    io_stream_set_reading(raw.stream, true);
    TURN_UNTIL(loop, drain_count == 1);
    assert_true(http_exchange_write(held, span_of_string("end")));
    http_exchange_end(held);
    TURN_UNTIL(loop, ends_with("3\r\nend\r\n0\r\n\r\n"));
    assert_true(raw.got.size > (size_t)count * PIECE);
}

/* A reader that pauses for several keep-alive times while the answer's end is on
 * its way still gets all of it. */
static void pausing_reader_gets_the_end(void **state)
{
    (void)state;
    enum { PIECE = 64 << 10 };
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    io_stream_set_reading(raw.stream, false);
    http_exchange_begin(held, 200, NULL, NULL);
    uint8_t *piece = mem_new(PIECE);
    int count = 0;
    while (http_exchange_write(held, span_of(piece, PIECE)) && count < 1000) {
        count++;
        io_loop_turn(loop, 0);
    }
    mem_free(piece);
    http_exchange_end(held);
    held = NULL;
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, 10000000);
    }
    io_stream_set_reading(raw.stream, true);
    TURN_UNTIL(loop, ends_with("0\r\n\r\n") || raw.is_closed);
    assert_true(ends_with("0\r\n\r\n"));
    assert_true(raw.got.size > (size_t)count * PIECE);
}

/* Cut: the connection closes and the terminator never came. */
static void cut_is_visible(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    http_exchange_begin(held, 200, NULL, NULL);
    assert_true(http_exchange_write(held, span_of_string("half")));
    http_exchange_cut(held);
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(ends_with("4\r\nhalf\r\n"));
    assert_int_equal(gone_count, 0);
}

/* To 1.0: no chunks, the end of the connection is the end. */
static void old_client_gets_no_chunks(void **state)
{
    (void)state;
    handle = hold;
    say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    TURN_UNTIL(loop, held != NULL);
    http_exchange_begin(held, 200, NULL, NULL);
    assert_true(http_exchange_write(held, span_of_string("plain")));
    http_exchange_end(held);
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(ends_with("\r\n\r\nplain"));
    assert_true(has("Connection: close\r\n"));
    buf_reset(&raw.got);
    handle = echo;
    say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    TURN_UNTIL(loop, has("Connection: keep-alive\r\n"));
}

/* HEAD: the length of the body, but not the body. */
static void head_has_no_body(void **state)
{
    (void)state;
    handle = hold;
    say("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    TURN_UNTIL(loop, held != NULL);
    http_exchange_reply(held, 200, NULL, NULL, span_of_string("four"));
    TURN_UNTIL(loop, has("Content-Length: 4\r\n\r\n"));
    assert_true(ends_with("\r\n\r\n"));
}

/* Asked to close, it closes after the whole answer. */
static void connection_close_is_followed(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        "Content-Length: 2\r\n\r\nhi");
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(ends_with("\r\n\r\nhi"));
    assert_true(has("Connection: close\r\n"));
}

/* The body is invited before it is sent. */
static void expect_continue_is_answered(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
        "Content-Length: 2\r\n\r\n");
    TURN_UNTIL(loop, ends_with("HTTP/1.1 100 Continue\r\n\r\n"));
    say("hi");
    TURN_UNTIL(loop, ends_with("\r\n\r\nhi"));
}

/* A hundred megabytes announced are refused before they come, also in chunks;
 * the words come from describe_error. [serve T104] */
static void large_body_is_refused(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n");
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(has("HTTP/1.1 413 "));
    assert_true(ends_with("{413:request body too large}"));
    buf_reset(&raw.got);
    say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "6400000\r\n");
    struct buf much;
    buf_init(&much, 2000);
    memset(buf_reserve(&much, 1500), 'x', 1500);
    buf_commit(&much, 1500);
    say(buf_string(&much));
    buf_finish(&much);
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(has("HTTP/1.1 413 "));
    assert_int_equal(request_count, 0);
}

/* Half a request and then nothing. [serve T104] */
static void slow_request_is_refused(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(has("HTTP/1.1 408 "));
    assert_int_equal(request_count, 0);
}

/* No request at all: closed without a word. */
static void idle_connection_is_closed(void **state)
{
    (void)state;
    open_raw();
    TURN_UNTIL(loop, raw.is_closed);
    assert_int_equal(raw.got.size, 0);
}

/* One smuggling shape through the whole server: refused, closed, and what came
 * behind it is never a request. [serve T104] */
static void refused_connection_carries_nothing_more(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET);
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(has("HTTP/1.1 400 "));
    assert_int_equal(request_count, 0);
}

/* Draining: no new connection, the idle one closes, the held one is answered
 * and then closes. */
static void drain_finishes_what_is_open(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    http_server_drain(server);
    io_loop_turn(loop, 1000000);
    assert_false(raw.is_closed);
    http_exchange_reply(held, 200, NULL, NULL, span_of_string("done"));
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(ends_with("done"));
    assert_true(has("Connection: close\r\n"));
    open_raw();
    TURN_UNTIL(loop, raw.is_closed);
}

/* Winding down: each answer says that it is the last, the port stays open. */
static void winding_down_ends_connections_by_their_answers(void **state)
{
    (void)state;
    say(GET);
    TURN_UNTIL(loop, request_count == 1);
    http_server_wind_down(server);
    io_loop_turn(loop, 1000000);
    assert_false(raw.is_closed); /* nothing was asked */
    for (int i = 2; i < 4; i++) {
        say(GET);
        TURN_UNTIL(loop, raw.is_closed);
        assert_int_equal(request_count, i);
        assert_true(has("Connection: close\r\n"));
        open_raw();
    }
}

/* Proof: what is answered in the turn of the drain leaves, and so does the
 * answer to what had come by then; only then is the server quiet. */
static void drain_lets_answers_leave(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    assert_false(http_server_is_quiet(server));
    http_exchange_reply(held, 200, NULL, NULL, span_of_string("last words"));
    http_server_drain(server);
    assert_false(http_server_is_quiet(server));
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(ends_with("last words"));
    TURN_UNTIL(loop, http_server_is_quiet(server));
}

static void drain_answers_what_has_come(void **state)
{
    (void)state;
    say(GET);
    TURN_UNTIL(loop, request_count == 1);
    io_loop_turn(loop, 0);
    say(GET); /* in the kernel's hands */
    http_server_drain(server);
    TURN_UNTIL(loop, raw.is_closed);
    assert_int_equal(request_count, 2);
}

/* Proof: a client that takes its time with a long answer keeps the server from
 * being quiet until it has all of it. */
static void a_slow_reader_is_waited_for(void **state)
{
    (void)state;
    enum { SIZE = 16 << 20 };
    uint8_t *answer = mem_new(SIZE);
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    io_stream_set_reading(raw.stream, false);
    http_exchange_reply(held, 200, NULL, NULL, span_of(answer, SIZE));
    mem_free(answer);
    http_server_drain(server);
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, 1000000);
    }
    assert_false(http_server_is_quiet(server));
    io_stream_set_reading(raw.stream, true);
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(raw.got.size > SIZE);
    TURN_UNTIL(loop, http_server_is_quiet(server));
}

/* Closing tells of the open exchange during the call. */
static void close_cuts_and_tells(void **state)
{
    (void)state;
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, held != NULL);
    http_server_close(server);
    server = NULL;
    assert_int_equal(gone_count, 1);
    TURN_UNTIL(loop, raw.is_closed);
}

static int set_up_crowded(void **state)
{
    (void)state;
    return set_up_with((struct http_server_options){.newcomer_count_max = 2});
}

/* Of more than two that have not asked yet the oldest is cut off; one that has
 * asked is none of them, whether its answer is under way or over. [serve T104] */
static void who_asks_nothing_makes_room(void **state)
{
    (void)state;
    struct raw crowd[4] = {{0}};
    handle = hold;
    say(GET);
    TURN_UNTIL(loop, request_count == 1);
    for (int i = 0; i < 4; i++) {
        buf_init(&crowd[i].got, 4096);
        open_one(&crowd[i]);
        assert_int_equal(
            io_stream_write(crowd[i].stream,
                            span_of_string(i % 2 ? "GET / HTTP/1.1\r\n" : "")),
            OK);
        TURN_UNTIL(loop, i < 2 || crowd[i - 2].is_closed);
    }
    assert_false(crowd[2].is_closed);
    assert_false(crowd[3].is_closed);
    assert_false(raw.is_closed);
    http_exchange_reply(held, 200, "text/plain", NULL, span_of_string("done"));
    held = NULL;
    TURN_UNTIL(loop, ends_with("done"));
    handle = echo;
    assert_int_equal(
        io_stream_write(crowd[3].stream, span_of_string("Host: a\r\n\r\n")),
        OK);
    TURN_UNTIL(loop, request_count == 2);
    say(GET);
    TURN_UNTIL(loop, request_count == 3);
    for (int i = 2; i < 4; i++) {
        io_stream_close(crowd[i].stream, false);
        TURN_UNTIL(loop, crowd[i].is_closed);
    }
    for (int i = 0; i < 4; i++) {
        buf_finish(&crowd[i].got);
    }
}

static int set_up_brisk(void **state)
{
    (void)state;
    return set_up_with((struct http_server_options){.head_ns_max = 20000000});
}

/* Half a head has less time than a whole request: what comes behind the head may
 * come later. [serve T104] */
static void slow_head_is_refused(void **state)
{
    (void)state;
    say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf");
    uint64_t begun = io_clock_now_ns();
    TURN_UNTIL(loop, io_clock_now_ns() - begun > 60000000u);
    say("half");
    TURN_UNTIL(loop, ends_with("halfhalf"));
    assert_true(has("HTTP/1.1 200 "));
    say("POST / HTTP/1.1\r\nHost: a\r\n");
    TURN_UNTIL(loop, raw.is_closed);
    assert_true(has("HTTP/1.1 408 "));
    assert_int_equal(request_count, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define HASTY(name) \
    cmocka_unit_test_setup_teardown(name, set_up_hasty, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(answer_is_whole_and_connection_stays),
        TEST(a_refusal_by_the_head_needs_no_body),
        TEST(a_long_body_is_shown_by_its_head_first),
        cmocka_unit_test_setup_teardown(bodies_held_at_once_are_bounded,
                                        set_up_small, tear_down),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(early_request_waits_for_its_turn),
        TEST(flood_of_early_requests_is_bounded_and_answered),
        TEST(leaving_client_is_noticed),
        TEST(client_leaving_a_stream_is_noticed),
        TEST(stream_comes_in_chunks),
        TEST(stream_pushes_back),
        TEST(cut_is_visible),
        TEST(old_client_gets_no_chunks),
        TEST(head_has_no_body),
        TEST(connection_close_is_followed),
        TEST(expect_continue_is_answered),
        HASTY(large_body_is_refused),
        HASTY(slow_request_is_refused),
        cmocka_unit_test_setup_teardown(who_asks_nothing_makes_room,
                                        set_up_crowded, tear_down),
        cmocka_unit_test_setup_teardown(slow_head_is_refused, set_up_brisk,
                                        tear_down),
        HASTY(idle_connection_is_closed),
        HASTY(pausing_reader_gets_the_end),
        TEST(refused_connection_carries_nothing_more),
        TEST(drain_finishes_what_is_open),
        TEST(winding_down_ends_connections_by_their_answers),
        TEST(drain_lets_answers_leave),
        TEST(drain_answers_what_has_come),
        TEST(a_slow_reader_is_waited_for),
        TEST(close_cuts_and_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
