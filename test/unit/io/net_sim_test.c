#include "unit/io/test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "io/sim.h"
#include "io/tcp.h"

enum { PORT = 7000 };
static const uint64_t MS_NS = 1000000;

struct end {
    struct io_stream *stream;
    struct buf got;
    int opens, closes;
    enum err reason;
    bool has_ended;
};

static struct io_sim *sim;
static struct io_loop *near_loop, *far_loop;
static struct io_listener *listener;
static struct end client, server;

static void on_open(void *context)
{
    ((struct end *)context)->opens++;
}

static void on_read(void *context, struct span bytes)
{
    buf_add_span(&((struct end *)context)->got, bytes);
}

static void on_close(void *context, enum err reason, const char *text)
{
    (void)text;
    struct end *end = context;
    end->closes++;
    end->reason = reason;
    end->has_ended = io_stream_has_ended(end->stream);
    end->stream = NULL;
}

static const struct io_stream_handler HANDLER = {
    .on_open = on_open, .on_read = on_read, .on_close = on_close};

static void on_accept(void *context, struct io_stream *stream)
{
    (void)context;
    server.stream = stream;
    io_stream_set_handler(stream, &HANDLER, &server);
}

static void settle(uint64_t ms)
{
    uint64_t until_ns = io_sim_now(sim) + ms * MS_NS;
    while (io_sim_step(sim, until_ns)) {
    }
}

static void connect_to(uint16_t port)
{
    struct io_stream_options options = {.handler = &HANDLER,
                                        .context = &client};
    struct why why;
    assert_int_equal(io_stream_connect(near_loop, "10.0.0.2", port, &options,
                                       &why, &client.stream),
                     OK);
}

static int set_up(uint32_t buffer_size, uint32_t part_per_1024)
{
    struct io_sim_options options = {.rng = rng_from_seed(1),
                                     .start_ns = 1,
                                     .latency_ns_min = MS_NS,
                                     .latency_ns_max = 2 * MS_NS,
                                     .turn_ns_max = 1000,
                                     .buffer_size = buffer_size,
                                     .part_per_1024 = part_per_1024};
    sim = io_sim_create(&options);
    client = (struct end){0};
    server = (struct end){0};
    buf_init(&client.got, 1 << 20);
    buf_init(&server.got, 1 << 20);
    assert_int_equal(io_sim_loop_create(sim, 1, &near_loop), OK);
    assert_int_equal(io_sim_loop_create(sim, 2, &far_loop), OK);
    struct io_listener_options listen = {
        .host = "10.0.0.2", .port = PORT, .on_accept = on_accept};
    struct why why;
    assert_int_equal(io_listener_open(far_loop, &listen, &why, &listener), OK);
    return 0;
}

static int set_up_plain(void **state)
{
    (void)state;
    return set_up(65536, 0);
}

static int set_up_narrow(void **state)
{
    (void)state;
    return set_up(50, 700);
}

static int tear_down(void **state)
{
    (void)state;
    io_listener_close(listener);
    for (int i = 0; i < 2; i++) {
        struct end *end = i == 0 ? &client : &server;
        if (end->stream != NULL) {
            io_stream_close(end->stream, false);
        }
    }
    io_loop_destroy(near_loop);
    io_loop_destroy(far_loop);
    assert_int_equal(io_sim_counts(sim).sockets, 0);
    io_sim_destroy(sim);
    buf_finish(&client.got);
    buf_finish(&server.got);
    return 0;
}

static void say(struct end *end, const char *text)
{
    assert_int_equal(io_stream_write(end->stream, span_of_string(text)), OK);
}

/* A write before the connect has ended arrives too, and not before a way's
 * time. */
static void bytes_take_their_time(void **state)
{
    (void)state;
    connect_to(PORT);
    say(&client, "hello");
    while (server.got.size == 0) {
        assert_true(io_sim_step(sim, UINT64_MAX));
    }
    assert_string_equal(buf_string(&server.got), "hello");
    assert_int_equal(client.opens, 1);
    assert_true(io_sim_now(sim) >= 3 * MS_NS); /* there, back, there */
    say(&server, "you");
    settle(5);
    assert_string_equal(buf_string(&client.got), "you");
}

static void nobody_there_refuses(void **state)
{
    (void)state;
    connect_to(PORT + 1);
    settle(10);
    assert_int_equal(client.closes, 1);
    assert_int_equal(client.reason, ERR_IO);
}

/* 2000 bytes through a pipe that holds 50, read and written in parts: all come,
 * in order. */
static void a_narrow_pipe_gives_all_in_order(void **state)
{
    (void)state;
    connect_to(PORT);
    uint8_t bytes[2000];
    for (int i = 0; i < 2000; i++) {
        bytes[i] = (uint8_t)(i * 7 % 251);
    }
    settle(10);
    assert_int_equal(io_stream_write(client.stream, span_of(bytes, 2000)), OK);
    assert_true(io_stream_pending(client.stream) >= 1950);
    settle(3000);
    assert_int_equal(server.got.size, 2000);
    assert_memory_equal(buf_span(&server.got).data, bytes, 2000);
}

/* What is on its way is lost, and so is what is said before the reset is heard of:
 * nothing arrives behind a gap. Both ends hear of a reset. */
static void a_break_takes_what_is_under_way(void **state)
{
    (void)state;
    connect_to(PORT);
    settle(10);
    say(&client, "lost");
    assert_int_equal(io_sim_break(sim, 2, 1), 1);
    say(&client, "lost too");
    settle(10);
    assert_int_equal(server.got.size, 0);
    assert_int_equal(client.closes, 1);
    assert_int_equal(server.closes, 1);
    assert_int_equal(client.reason, ERR_CLOSED);
    assert_false(client.has_ended);
}

/* Silence one way: nothing comes, nothing ends; unblocked, all is there. The
 * other way goes on. */
static void a_block_holds_one_way(void **state)
{
    (void)state;
    connect_to(PORT);
    settle(10);
    io_sim_block(sim, 1, 2, true);
    say(&client, "held");
    say(&server, "free");
    settle(1000);
    assert_int_equal(server.got.size, 0);
    assert_string_equal(buf_string(&client.got), "free");
    io_sim_block(sim, 1, 2, false);
    settle(10);
    assert_string_equal(buf_string(&server.got), "held");
    assert_int_equal(client.closes + server.closes, 0);
}

/* The kernel of a stopped process answers the connect and takes the bytes. */
static void a_stopped_process_is_connected_to(void **state)
{
    (void)state;
    io_sim_freeze(far_loop, true);
    connect_to(PORT);
    settle(10);
    assert_int_equal(client.opens, 1);
    say(&client, "later");
    settle(100);
    assert_null(server.stream);
    io_sim_freeze(far_loop, false);
    settle(10);
    assert_string_equal(buf_string(&server.got), "later");
}

static void one_bit_is_wrong(void **state)
{
    (void)state;
    connect_to(PORT);
    settle(10);
    io_sim_corrupt(sim, 1, 2);
    say(&client, "0123456789");
    say(&client, "0123456789");
    settle(10);
    int wrong = 0;
    for (int i = 0; i < 20; i++) {
        uint8_t is = buf_span(&server.got).data[i];
        wrong += __builtin_popcount(is ^ (uint8_t)('0' + i % 10));
    }
    assert_int_equal(wrong, 1);
    assert_int_equal(io_sim_counts(sim).corrupted, 1);
}

/* Closing in order is an end; over unread bytes, a reset. */
static void a_close_over_unread_bytes_resets(void **state)
{
    (void)state;
    connect_to(PORT);
    settle(10);
    io_stream_set_reading(server.stream, false);
    say(&client, "unread");
    settle(10);
    io_stream_close(server.stream, false);
    settle(10);
    assert_int_equal(client.closes, 1);
    assert_false(client.has_ended);
    connect_to(PORT);
    settle(10);
    io_stream_close(server.stream, false);
    settle(10);
    assert_int_equal(client.closes, 2);
    assert_true(client.has_ended);
}

static void a_port_has_one_listener(void **state)
{
    (void)state;
    struct io_listener_options listen = {
        .host = "10.0.0.2", .port = PORT, .on_accept = on_accept};
    struct io_listener *second;
    struct why why = {0};
    assert_int_equal(io_listener_open(far_loop, &listen, &why, &second),
                     ERR_IO);
    assert_string_equal(why.text, "port 7000 is in use");
    listen.host = "10.0.0.9";
    assert_int_equal(io_listener_open(far_loop, &listen, &why, &second),
                     ERR_IO);
}

#define PLAIN(name) \
    cmocka_unit_test_setup_teardown(name, set_up_plain, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(bytes_take_their_time),
        PLAIN(nobody_there_refuses),
        cmocka_unit_test_setup_teardown(a_narrow_pipe_gives_all_in_order,
                                        set_up_narrow, tear_down),
        PLAIN(a_break_takes_what_is_under_way),
        PLAIN(a_block_holds_one_way),
        PLAIN(a_stopped_process_is_connected_to),
        PLAIN(one_bit_is_wrong),
        PLAIN(a_close_over_unread_bytes_resets),
        PLAIN(a_port_has_one_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
