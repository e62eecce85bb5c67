/* One suite for both bodies of a loop and of what streams ask of the system:
 * libevent with sockets, and the simulated hosts. */
#include "unit/io/test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "io/resolver.h"
#include "io/sim.h"
#include "io/tcp.h"

struct body {
    const char *host, *name; /* the name has to be looked up */
    struct io_loop *loop; /* of both ends */
    struct io_sim *sim; /* NULL: the system */
};

struct end {
    struct io_stream *stream;
    struct buf got;
    int opens, drains, closes;
    enum err reason;
    bool has_ended;
};

static struct body body;
static struct io_listener *listener;
static struct end client, server;
static struct io_stream *accepted;

static void turn(void)
{
    if (body.sim != NULL) {
        io_sim_step(body.sim, io_sim_now(body.sim) + 100000000);
    } else {
        io_loop_turn(body.loop, 100000000);
    }
}

static bool is_waiting(int *turns)
{
    assert_true(++*turns < 20000);
    return true;
}
#define AWAIT(condition)                                     \
    for (int turns = 0; !(condition) && is_waiting(&turns);) \
    turn()

static void on_open(void *context)
{
    ((struct end *)context)->opens++;
}

static void on_read(void *context, struct span bytes)
{
    buf_add_span(&((struct end *)context)->got, bytes);
}

static void on_drain(void *context)
{
    ((struct end *)context)->drains++;
}

static void on_close(void *context, enum err reason, const char *text)
{
    struct end *end = context;
    assert_non_null(text);
    end->closes++;
    end->reason = reason;
    end->has_ended = io_stream_has_ended(end->stream);
    end->stream = NULL;
}

static const struct io_stream_handler HANDLER = {on_open, on_read, on_drain,
                                                 on_close};

static void on_accept(void *context, struct io_stream *stream)
{
    (void)context;
    server.stream = stream;
    accepted = stream;
    io_stream_set_handler(stream, &HANDLER, &server);
}

static void start(void)
{
    client = (struct end){0};
    server = (struct end){0};
    accepted = NULL;
    buf_init(&client.got, 1 << 20);
    buf_init(&server.got, 1 << 20);
    struct io_listener_options options = {.host = body.host,
                                          .on_accept = on_accept};
    struct why why;
    assert_int_equal(io_listener_open(body.loop, &options, &why, &listener),
                     OK);
    assert_true(io_listener_port(listener) > 0);
}

/* The system's would have to be set up for this. */
static enum err look_up(void *context, const char *name, struct why *why,
                        struct io_addresses *addresses_out)
{
    (void)context;
    return strcmp(name, "host-1") == 0
               ? io_resolve_all("127.0.0.1", why, addresses_out)
               : why_say(why, ERR_INVALID, "host \"%s\": unknown", name);
}

static int set_up_system(void **state)
{
    (void)state;
    struct io_resolver_options names = {.look_up = {.ask = look_up}};
    body = (struct body){.host = "127.0.0.1", .name = "host-1"};
    assert_int_equal(io_loop_create(&body.loop), OK);
    assert_int_equal(io_loop_resolve_with(body.loop, &names), OK);
    start();
    return 0;
}

static int set_up_sim(void **state)
{
    (void)state;
    struct io_sim_options options = {.rng = rng_from_seed(3),
                                     .start_ns = 1,
                                     .latency_ns_min = 1000,
                                     .latency_ns_max = 90000,
                                     .turn_ns_max = 1000,
                                     .buffer_size = 4096,
                                     .part_per_1024 = 100};
    body = (struct body){
        .host = "10.0.0.1", .name = "host-1", .sim = io_sim_create(&options)};
    assert_int_equal(io_sim_loop_create(body.sim, 1, &body.loop), OK);
    start();
    return 0;
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
        buf_finish(&end->got);
    }
    io_loop_destroy(body.loop);
    io_sim_destroy(body.sim);
    return 0;
}

static void connect_client(void)
{
    struct io_stream_options options = {.handler = &HANDLER,
                                        .context = &client};
    struct why why;
    assert_int_equal(io_stream_connect(body.loop, body.host,
                                       io_listener_port(listener), &options,
                                       &why, &client.stream),
                     OK);
    assert_int_equal(client.opens, 0); /* never from inside the call */
    AWAIT(client.opens == 1 && server.stream != NULL);
}

/* 300 KiB each way at once: all arrive in order, and each side hears once that
 * what was pending has gone. */
static void bytes_arrive_in_order_both_ways(void **state)
{
    (void)state;
    enum { SIZE = 300 * 1024 };
    connect_client();
    uint8_t *bytes = mem_new(SIZE);
    for (int i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 31 % 253);
    }
    assert_int_equal(io_stream_write(client.stream, span_of(bytes, SIZE)), OK);
    assert_int_equal(io_stream_write2(server.stream, span_of(bytes, 1000),
                                      span_of(bytes + 1000, SIZE - 1000)),
                     OK);
    AWAIT(client.got.size == SIZE && server.got.size == SIZE);
    assert_memory_equal(buf_span(&client.got).data, bytes, SIZE);
    assert_memory_equal(buf_span(&server.got).data, bytes, SIZE);
    assert_int_equal(io_stream_sent(client.stream), SIZE);
    assert_int_equal(io_stream_pending(client.stream), 0);
    mem_free(bytes);
}

/* The last words of one who closes after what is pending arrive, then his end;
 * both are told once. */
static void last_words_come_before_the_end(void **state)
{
    (void)state;
    connect_client();
    assert_int_equal(io_stream_write(server.stream, span_of_string("last")),
                     OK);
    io_stream_close(server.stream, true);
    AWAIT(client.closes == 1 && server.closes == 1);
    assert_string_equal(buf_string(&client.got), "last");
    assert_true(client.has_ended);
    assert_int_equal(client.reason, ERR_CLOSED);
    assert_int_equal(server.reason, OK);
}

static void a_reset_is_no_end(void **state)
{
    (void)state;
    connect_client();
    io_stream_reset(server.stream);
    AWAIT(client.closes == 1);
    assert_false(client.has_ended);
    assert_int_equal(client.reason, ERR_CLOSED);
}

static void nobody_there_is_told_later(void **state)
{
    (void)state;
    uint16_t port = io_listener_port(listener);
    io_listener_close(listener);
    struct io_stream_options options = {.handler = &HANDLER,
                                        .context = &client};
    struct why why;
    assert_int_equal(io_stream_connect(body.loop, body.host, port, &options,
                                       &why, &client.stream),
                     OK);
    assert_int_equal(client.closes, 0);
    AWAIT(client.closes == 1);
    assert_int_equal(client.reason, ERR_IO);
    listener = NULL;
}

/* A connect by name is one like others: what is written early comes, and nothing
 * is told inside the call. */
static void a_name_leads_to_its_host(void **state)
{
    (void)state;
    body.host = body.name;
    connect_client();
    assert_int_equal(io_stream_write(client.stream, span_of_string("hello")),
                     OK);
    AWAIT(server.got.size == 5);
}

static void an_unknown_name_is_told_later(void **state)
{
    (void)state;
    struct io_stream_options options = {.handler = &HANDLER,
                                        .context = &client};
    struct why why;
    assert_int_equal(io_stream_connect(body.loop, "host-77", 1, &options, &why,
                                       &client.stream),
                     OK);
    assert_int_equal(client.closes, 0);
    AWAIT(client.closes == 1);
    assert_int_equal(client.reason, ERR_IO);
}

/* Closed in the same breath: the end is told, the answer is not. */
static void a_close_comes_before_the_name(void **state)
{
    (void)state;
    struct io_stream_options options = {.handler = &HANDLER,
                                        .context = &client};
    struct why why;
    assert_int_equal(io_stream_connect(body.loop, body.name,
                                       io_listener_port(listener), &options,
                                       &why, &client.stream),
                     OK);
    io_stream_close(client.stream, true);
    assert_int_equal(client.closes, 0);
    AWAIT(client.closes == 1);
    assert_int_equal(client.reason, OK);
    assert_int_equal(client.opens, 0);
    assert_null(server.stream);
}

/* Without reading nothing is handed over; with it again all that waited is. */
static void reading_waits_while_it_is_off(void **state)
{
    (void)state;
    connect_client();
    io_stream_set_reading(server.stream, false);
    assert_int_equal(io_stream_write(client.stream, span_of_string("wait")),
                     OK);
    for (int i = 0; i < 20; i++) {
        turn();
        if (body.sim == NULL) {
            break; /* each would wait for its limit */
        }
    }
    assert_int_equal(server.got.size, 0);
    io_stream_set_reading(server.stream, true);
    AWAIT(server.got.size == 4);
}

/* An idle stream is fresh; one whose peer has closed, or spoke unasked, is
 * stale. */
static void a_stale_stream_is_known(void **state)
{
    (void)state;
    connect_client();
    io_stream_set_reading(client.stream, false);
    assert_false(io_stream_is_stale(client.stream));
    assert_int_equal(io_stream_write(server.stream, span_of_string("!")), OK);
    AWAIT(io_stream_is_stale(client.stream));
}

struct order {
    struct io_timer *timers[3];
    int told[3];
    int count;
};
static struct order order;

static void on_first(void *context)
{
    order.told[order.count++] = (int)(intptr_t)context;
    io_timer_stop(order.timers[2]); /* due in the same turn, perhaps */
}

static void on_other(void *context)
{
    order.told[order.count++] = (int)(intptr_t)context;
}

/* Times go up, a stopped timer is silent even when it was due, and now never
 * lies before a timer that is told. */
static void timers_go_by_time_and_stop(void **state)
{
    (void)state;
    order = (struct order){0};
    uint64_t start_ns = io_loop_now(body.loop);
    order.timers[0] = io_timer_create(body.loop, on_other, (void *)(intptr_t)2);
    order.timers[1] = io_timer_create(body.loop, on_first, (void *)(intptr_t)1);
    order.timers[2] = io_timer_create(body.loop, on_other, (void *)(intptr_t)3);
    io_timer_start(order.timers[0], 3000000);
    io_timer_start(order.timers[1], 1000000);
    io_timer_start(order.timers[2], 2000000);
    AWAIT(order.count == 2);
    assert_int_equal(order.told[0], 1);
    assert_int_equal(order.told[1], 2);
    assert_true(io_loop_now(body.loop) >= start_ns + 3000000);
    for (int i = 0; i < 3; i++) {
        io_timer_destroy(order.timers[i]);
    }
}

#define BOTH(name)                                            \
    {"system: " #name, name, set_up_system, tear_down, NULL}, \
    {                                                         \
        "sim: " #name, name, set_up_sim, tear_down, NULL      \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(bytes_arrive_in_order_both_ways),
        BOTH(last_words_come_before_the_end),
        BOTH(a_reset_is_no_end),
        BOTH(nobody_there_is_told_later),
        BOTH(a_name_leads_to_its_host),
        BOTH(an_unknown_name_is_told_later),
        BOTH(a_close_comes_before_the_name),
        BOTH(reading_waits_while_it_is_off),
        BOTH(a_stale_stream_is_known),
        BOTH(timers_go_by_time_and_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
