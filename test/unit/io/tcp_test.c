#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <unistd.h>

#include "unit/io/test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "io/tcp.h"

/* One end of a connection as a test sees it. */
struct end {
    struct io_stream *stream;
    struct buf got;
    int open_count;
    int drain_count;
    int close_count;
    enum err reason;
    char text[200];
};

static struct io_loop *loop;
static struct io_listener *listener;
static struct end client;
static struct end server;
static bool refuses; /* the next accepted stream gets no handler */

static void on_open(void *context)
{
    ((struct end *)context)->open_count++;
}

static void on_read(void *context, struct span bytes)
{
    buf_add_span(&((struct end *)context)->got, bytes);
}

static void on_drain(void *context)
{
    ((struct end *)context)->drain_count++;
}

static void on_close(void *context, enum err reason, const char *text)
{
    struct end *end = context;
    end->close_count++;
    end->reason = reason;
    end->stream = NULL;
    strncpy(end->text, text, sizeof(end->text) - 1);
}

static const struct io_stream_handler HANDLER = {on_open, on_read, on_drain,
                                                 on_close};

static void on_accept(void *context, struct io_stream *stream)
{
    (void)context;
    if (!refuses) {
        server.stream = stream;
        io_stream_set_handler(stream, &HANDLER, &server);
    }
}

static int set_up(void **state)
{
    (void)state;
    client = (struct end){0};
    server = (struct end){0};
    refuses = false;
    buf_init(&client.got, 64 << 20);
    buf_init(&server.got, 64 << 20);
    if (io_loop_create(&loop) != OK) {
        return -1;
    }
    const struct io_listener_options options = {
        .host = "127.0.0.1", .on_accept = on_accept, .connection_count_max = 2};
    return io_listener_open(loop, &options, NULL, &listener) == OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (client.stream != NULL) {
        io_stream_close(client.stream, false);
    }
    if (server.stream != NULL) {
        io_stream_close(server.stream, false);
    }
    io_listener_close(listener);
    io_loop_destroy(loop);
    buf_finish(&client.got);
    buf_finish(&server.got);
    return 0;
}

static void connect_to(uint16_t port)
{
    const struct io_stream_options options = {
        .handler = &HANDLER, .context = &client, .write_max = 8 << 20};
    assert_int_equal(io_stream_connect(loop, "localhost", port, &options, NULL,
                                       &client.stream),
                     OK);
    assert_int_equal(client.open_count, 0);
}

static void connect_both(void)
{
    connect_to(io_listener_port(listener));
    TURN_UNTIL(loop, client.open_count == 1 && server.stream != NULL);
}

static struct span words(const char *text)
{
    return span_of_string(text);
}

/* Both ways, and two spans arrive as one run of bytes. */
static void bytes_arrive_in_order_both_ways(void **state)
{
    (void)state;
    connect_both();
    assert_int_equal(io_stream_write2(client.stream, words("ab"), words("cd")),
                     OK);
    assert_int_equal(io_stream_write(server.stream, words("back")), OK);
    TURN_UNTIL(loop, server.got.size == 4 && client.got.size == 4);
    assert_string_equal(buf_string(&server.got), "abcd");
    assert_string_equal(buf_string(&client.got), "back");
    assert_int_equal(io_stream_sent(client.stream), 4);
    assert_int_equal(io_stream_pending(client.stream), 0);
    assert_memory_equal(io_stream_peer(server.stream), "127.0.0.1:", 10);
}

/* Before the connection stands, writes are kept. */
static void early_write_is_kept_until_open(void **state)
{
    (void)state;
    connect_to(io_listener_port(listener));
    assert_int_equal(io_stream_write(client.stream, words("hello")), OK);
    assert_int_equal(io_stream_sent(client.stream), 0);
    TURN_UNTIL(loop, server.got.size == 5);
    assert_int_equal(client.open_count, 1);
}

/* A reader that does not read: pending grows to the limit and no further; then
 * everything arrives and the drain is told. */
static void slow_reader_fills_pending_up_to_the_limit(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20, PIECES = 32 };
    connect_both();
    io_stream_set_reading(server.stream, false);
    uint8_t *piece = mem_new(PIECE);
    size_t written = 0;
    enum err e = OK;
    for (int i = 0; i < PIECES && e == OK; i++) {
        memset(piece, 'a' + i % 26, PIECE);
        e = io_stream_write(client.stream, span_of(piece, PIECE));
        written += e == OK ? PIECE : 0;
    }
    assert_int_equal(e, ERR_FULL);
    assert_true(io_stream_pending(client.stream) <= 8 << 20);
    assert_int_equal(io_stream_pending(client.stream) +
                         io_stream_sent(client.stream),
                     written);
    io_stream_set_reading(server.stream, true);
    TURN_UNTIL(loop, server.got.size == written);
    TURN_UNTIL(loop, client.drain_count == 1);
    for (size_t i = 0; i < written; i++) {
        assert_int_equal(server.got.data[i], 'a' + i / PIECE % 26);
    }
    mem_free(piece);
}

/* Our close comes back as OK, later, once; the peer hears ERR_CLOSED. */
static void close_is_told_later_and_once(void **state)
{
    (void)state;
    connect_both();
    io_stream_close(client.stream, false);
    io_stream_close(client.stream, false);
    assert_int_equal(client.close_count, 0);
    TURN_UNTIL(loop, client.close_count == 1 && server.close_count == 1);
    assert_int_equal(client.reason, OK);
    assert_int_equal(server.reason, ERR_CLOSED);
    io_loop_turn(loop, 0);
    assert_int_equal(client.close_count, 1);
}

/* Four megabytes and a close: all of them arrive before the end. */
static void close_after_pending_sends_the_rest(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    connect_both();
    uint8_t *bytes = mem_new(SIZE);
    assert_int_equal(io_stream_write(client.stream, span_of(bytes, SIZE)), OK);
    mem_free(bytes);
    io_stream_close(client.stream, true);
    assert_int_equal(io_stream_write(client.stream, words("x")), ERR_CLOSED);
    TURN_UNTIL(loop, server.close_count == 1 && client.close_count == 1);
    assert_int_equal(server.got.size, SIZE);
    assert_int_equal(client.reason, OK);
}

/* The peer still sends while we say the last word: no reset may eat it. */
static void last_words_survive_unread_input(void **state)
{
    (void)state;
    connect_both();
    io_stream_set_reading(server.stream, false);
    assert_int_equal(io_stream_write(client.stream, words("unread")), OK);
    io_loop_turn(loop, 1000000);
    assert_int_equal(io_stream_write(server.stream, words("bye")), OK);
    io_stream_close(server.stream, true);
    TURN_UNTIL(loop, client.close_count == 1 && server.close_count == 1);
    assert_string_equal(buf_string(&client.got), "bye");
    assert_int_equal(server.got.size, 0);
}

/* A reset is told as an end that was not in order. */
static void reset_is_visible(void **state)
{
    (void)state;
    connect_both();
    io_stream_reset(server.stream);
    TURN_UNTIL(loop, client.close_count == 1);
    assert_int_equal(client.reason, ERR_CLOSED);
    assert_non_null(strstr(client.text, "reset"));
}

/* The peer answered early and left; we write into the void, yet hear it. */
static void answer_before_a_reset_is_still_read(void **state)
{
    (void)state;
    connect_both();
    io_stream_set_reading(client.stream, false);
    assert_int_equal(io_stream_write(server.stream, words("early")), OK);
    io_stream_close(server.stream, false);
    TURN_UNTIL(loop, server.close_count == 1);
    enum err e = OK;
    for (int i = 0; i < 100 && e == OK; i++) {
        e = io_stream_write(client.stream, words("more"));
        usleep(1000);
    }
    assert_int_equal(e, ERR_CLOSED);
    io_stream_set_reading(client.stream, true);
    TURN_UNTIL(loop, client.close_count == 1);
    assert_string_equal(buf_string(&client.got), "early");
}

/* A port that nobody listens on: on_close with ERR_IO, and no on_open. */
static void refused_connection_is_told(void **state)
{
    (void)state;
    uint16_t port = io_listener_port(listener);
    io_listener_close(listener);
    listener = NULL;
    connect_to(port);
    assert_int_equal(client.close_count, 0);
    TURN_UNTIL(loop, client.close_count == 1);
    assert_int_equal(client.reason, ERR_IO);
    assert_int_equal(client.open_count, 0);
    assert_non_null(strstr(client.text, "refused"));
}

/* Idle and quiet is fresh; a stray byte or an end is stale, without any turn
 * of the loop. [serve T85] */
static void peek_tells_a_stale_stream(void **state)
{
    (void)state;
    connect_both();
    assert_false(io_stream_is_stale(client.stream));
    assert_int_equal(io_stream_write(server.stream, words("x")), OK);
    usleep(2000);
    assert_true(io_stream_is_stale(client.stream));
    TURN_UNTIL(loop, client.got.size == 1);
    assert_false(io_stream_is_stale(client.stream));
    io_stream_close(server.stream, false);
    while (server.stream != NULL) {
        io_loop_turn(loop, 0);
        if (client.stream == NULL) {
            return;
        }
    }
    usleep(2000);
    assert_true(io_stream_is_stale(client.stream));
}

/* Two may come, the third is closed at once, and may come after one left. */
static void connections_are_counted(void **state)
{
    (void)state;
    connect_both();
    struct end first = client;
    struct end first_server = server;
    client = (struct end){0};
    server = (struct end){0};
    io_stream_set_handler(first.stream, &HANDLER, &first);
    io_stream_set_handler(first_server.stream, &HANDLER, &first_server);
    connect_both();
    struct end second = client;
    struct end second_server = server;
    io_stream_set_handler(second.stream, &HANDLER, &second);
    io_stream_set_handler(second_server.stream, &HANDLER, &second_server);
    client = (struct end){0};
    server = (struct end){0};
    connect_to(io_listener_port(listener));
    TURN_UNTIL(loop, client.close_count == 1);
    assert_null(server.stream);
    io_stream_close(first.stream, false);
    TURN_UNTIL(loop, first_server.stream == NULL);
    client = (struct end){0};
    connect_both();
    io_stream_close(second.stream, false);
    TURN_UNTIL(loop, second_server.stream == NULL);
}

/* Who gets no handler is closed. */
static void stream_nobody_wants_is_closed(void **state)
{
    (void)state;
    refuses = true;
    connect_to(io_listener_port(listener));
    TURN_UNTIL(loop, client.close_count == 1);
}

/* With no descriptor left the loop rests instead of spinning, and accepts once
 * there is one again. */
static void full_descriptor_table_does_not_spin(void **state)
{
    (void)state;
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    connect_to(io_listener_port(listener));
    int probe = dup(0);
    close(probe);
    struct rlimit low = {.rlim_cur = (rlim_t)probe, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    int fillers[256];
    int filler_count = 0;
    while (filler_count < 256 && (fillers[filler_count] = dup(0)) >= 0) {
        filler_count++;
    }
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, 2000000);
    }
    assert_null(server.stream);
    uint64_t begin = io_clock_now_ns();
    io_loop_turn(loop, 20000000);
    assert_true(io_clock_now_ns() - begin > 1000000);
    setrlimit(RLIMIT_NOFILE, &old);
    for (int i = 0; i < filler_count; i++) {
        close(fillers[i]);
    }
    TURN_UNTIL(loop, server.stream != NULL);
}

static void port_in_use_is_named(void **state)
{
    (void)state;
    struct why why = {{0}};
    struct io_listener *second;
    const struct io_listener_options options = {.host = "127.0.0.1",
                                                .port =
                                                    io_listener_port(listener),
                                                .on_accept = on_accept};
    assert_int_equal(io_listener_open(loop, &options, &why, &second), ERR_IO);
    assert_non_null(strstr(why.text, "is in use"));
    const struct io_listener_options foreign = {.host = "192.0.2.1",
                                                .on_accept = on_accept};
    assert_int_equal(io_listener_open(loop, &foreign, &why, &second), ERR_IO);
    assert_non_null(strstr(why.text, "192.0.2.1"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(bytes_arrive_in_order_both_ways),
        TEST(early_write_is_kept_until_open),
        TEST(slow_reader_fills_pending_up_to_the_limit),
        TEST(close_is_told_later_and_once),
        TEST(close_after_pending_sends_the_rest),
        TEST(last_words_survive_unread_input),
        TEST(reset_is_visible),
        TEST(answer_before_a_reset_is_still_read),
        TEST(refused_connection_is_told),
        TEST(peek_tells_a_stale_stream),
        TEST(connections_are_counted),
        TEST(stream_nobody_wants_is_closed),
        TEST(full_descriptor_table_does_not_spin),
        TEST(port_in_use_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
