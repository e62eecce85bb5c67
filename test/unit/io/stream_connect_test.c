/* io/stream_connect: hosts by name, over a name service of the test's own that
 * hangs until it is released; the sockets are real. */
#include <sys/socket.h>

#include "names.h"

#include "base/buf.h"
#include "io/tcp.h"

struct end {
    struct io_stream *stream;
    struct buf got;
    int opens, closes;
    enum err reason;
    char text[200], peer[64];
};

static struct io_loop *loop;
static struct io_listener *listener;
static struct end client, server;

static void on_open(void *context)
{
    struct end *end = context;
    end->opens++;
    snprintf(end->peer, sizeof(end->peer), "%s", io_stream_peer(end->stream));
}

static void on_read(void *context, struct span bytes)
{
    buf_add_span(&((struct end *)context)->got, bytes);
}

static void on_close(void *context, enum err reason, const char *text)
{
    struct end *end = context;
    end->closes++;
    end->reason = reason;
    end->stream = NULL;
    snprintf(end->text, sizeof(end->text), "%s", text);
}

static const struct io_stream_handler HANDLER = {
    .on_open = on_open, .on_read = on_read, .on_close = on_close};

static void on_accept(void *context, struct io_stream *stream)
{
    (void)context;
    server.stream = stream;
    io_stream_set_handler(stream, &HANDLER, &server);
}

static void listen_at(const char *host)
{
    struct io_listener_options options = {.host = host, .on_accept = on_accept};
    assert_int_equal(io_listener_open(loop, &options, NULL, &listener), OK);
}

static void set_up_with(uint32_t name_max)
{
    struct io_resolver_options options = {.look_up = NAMES,
                                          .name_max = name_max};
    names_reset();
    client = (struct end){0};
    server = (struct end){0};
    buf_init(&client.got, 1 << 20);
    buf_init(&server.got, 1 << 20);
    listener = NULL;
    assert_int_equal(io_loop_create(&loop), OK);
    assert_int_equal(io_loop_resolve_with(loop, &options), OK);
}

static int set_up(void **state)
{
    (void)state;
    set_up_with(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    names_release();
    io_listener_close(listener);
    struct end *ends[] = {&client, &server};
    for (int i = 0; i < 2; i++) {
        if (ends[i]->stream != NULL) {
            io_stream_close(ends[i]->stream, false);
        }
        buf_finish(&ends[i]->got);
    }
    io_loop_destroy(loop);
    return 0;
}

static void connect_end(struct end *end, const char *host, uint16_t port,
                        uint64_t timeout_ns)
{
    struct io_stream_options options = {
        .handler = &HANDLER, .context = end, .connect_timeout_ns = timeout_ns};
    assert_int_equal(
        io_stream_connect(loop, host, port, &options, NULL, &end->stream), OK);
    assert_int_equal(end->opens + end->closes, 0); /* never inside the call */
}

static void on_tick(void *context)
{
    ++*(int *)context;
}

/* While one connect waits for a name that never comes, timers run, and connects
 * by digits and by another name stand. The hung one is closed in the end and
 * hears that, not the answer. */
static void the_loop_goes_on_while_a_name_hangs(void **state)
{
    struct end digits = {0}, named = {0};
    int ticks = 0;
    (void)state;
    listen_at("127.77.0.1");
    uint16_t port = io_listener_port(listener);
    connect_end(&client, "hang-1", port, 0);
    names_wait_hanging(1);
    struct io_timer *timer = io_timer_create(loop, on_tick, &ticks);
    for (int i = 0; i < 5; i++) {
        io_timer_start(timer, 1000000);
        TURN_UNTIL(loop, ticks == i + 1);
    }
    io_timer_destroy(timer);
    connect_end(&digits, "127.77.0.1", port, 0);
    assert_null(io_stream_obstacle(digits.stream));
    TURN_UNTIL(loop, digits.opens == 1 && server.stream != NULL);
    io_stream_close(server.stream, false);
    TURN_UNTIL(loop, digits.closes == 1 && server.closes == 1);
    connect_end(&named, "one", port, 0);
    assert_memory_equal(io_stream_peer(named.stream), "one:", 4);
    TURN_UNTIL(loop, named.opens == 1 && server.stream != NULL);
    assert_memory_equal(named.peer, "127.77.0.1:", 11);
    io_stream_close(named.stream, false);
    assert_int_equal(client.opens + client.closes, 0);
    io_stream_close(client.stream, true);
    assert_int_equal(client.closes, 0);
    TURN_UNTIL(loop, client.closes == 1);
    assert_int_equal(client.reason, OK);
    names_release();
    TURN_UNTIL(loop, named.closes == 1);
    assert_int_equal(client.opens, 0);
}

/* The limit counts from the call on, though nobody has said yet where to. */
static void a_name_that_hangs_is_named_at_the_limit(void **state)
{
    (void)state;
    connect_end(&client, "hang-1", 4711, 20000000);
    assert_string_equal(io_stream_obstacle(client.stream),
                        "the name service does not answer: host \"hang-1\"");
    TURN_UNTIL(loop, client.closes == 1);
    assert_int_equal(client.reason, ERR_TIMEOUT);
    assert_string_equal(client.text,
                        "the name service does not answer: host \"hang-1\"");
    assert_int_equal(client.opens, 0);
    names_release();
    io_loop_turn(loop, 0);
    assert_int_equal(client.closes, 1);
}

/* What is written while the name is looked up goes once there is a connection. */
static void an_early_write_waits_for_the_name_too(void **state)
{
    (void)state;
    listen_at("127.77.0.1");
    connect_end(&client, "hang-1", io_listener_port(listener), 0);
    assert_int_equal(io_stream_write(client.stream, span_of_string("early")),
                     OK);
    assert_true(io_stream_is_stale(client.stream)); /* as while connecting */
    io_stream_set_reading(client.stream, false);
    names_wait_hanging(1);
    names_release();
    TURN_UNTIL(loop, server.got.size == 5);
    assert_int_equal(client.opens, 1);
    assert_int_equal(io_stream_sent(client.stream), 5);
}

static void an_unknown_name_is_told_later(void **state)
{
    (void)state;
    connect_end(&client, "nobody", 4711, 0);
    TURN_UNTIL(loop, client.closes == 1);
    assert_int_equal(client.reason, ERR_IO);
    assert_string_equal(client.text, "host \"nobody\": unknown here");
}

/* Nobody listens at the first address of "two". */
static void the_next_address_is_tried_when_one_refuses(void **state)
{
    (void)state;
    listen_at("127.77.0.2");
    connect_end(&client, "two", io_listener_port(listener), 0);
    TURN_UNTIL(loop, client.opens == 1 && server.stream != NULL);
    assert_memory_equal(client.peer, "127.77.0.2:", 11);
    assert_int_equal(names_asked(), 1);
}

/* A socket at `host` and the listener's port; -1 where that is taken. */
static int bind_beside(const char *host, struct sockaddr_in *at_out)
{
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *at_out = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(io_listener_port(listener))};
    inet_pton(AF_INET, host, &at_out->sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)at_out, sizeof(*at_out)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Somebody listens at the first address but takes nobody any more: the system
 * drops what knocks, as where a host is gone. */
static void the_next_address_is_tried_when_one_is_silent(void **state)
{
    enum { FULL = 8 };
    struct sockaddr_in at;
    int silent = -1;
    (void)state;
    while (silent < 0) {
        io_listener_close(listener);
        listen_at("127.77.0.2");
        silent = bind_beside("127.77.0.1", &at);
    }
    assert_int_equal(listen(silent, 0), 0);
    int fillers[FULL];
    for (int i = 0; i < FULL; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&at, sizeof(at));
    }
    connect_end(&client, "two", io_listener_port(listener), 2000000000);
    TURN_UNTIL(loop, client.opens + client.closes == 1);
    assert_string_equal(client.text, "");
    assert_memory_equal(client.peer, "127.77.0.2:", 11);
    for (int i = 0; i < FULL; i++) {
        close(fillers[i]);
    }
    close(silent);
}

/* All refuse: the last one's reason is told, and the name is asked for anew, as
 * its host may have moved. */
static void addresses_that_lead_nowhere_are_forgotten(void **state)
{
    (void)state;
    listen_at("127.77.0.3");
    uint16_t port = io_listener_port(listener);
    for (int i = 0; i < 2; i++) {
        client.closes = 0;
        connect_end(&client, "two", port, 0);
        TURN_UNTIL(loop, client.closes == 1);
        assert_int_equal(client.reason, ERR_IO);
        assert_memory_equal(client.text, "127.77.0.2:", 11);
        assert_non_null(strstr(client.text, "refused"));
        assert_int_equal(names_asked(), i + 1);
    }
}

/* A name that led somewhere is good for more connections: were it asked for each
 * time there would be as many questions. */
static void a_storm_does_not_ask_each_time(void **state)
{
    enum { COUNT = 30 };
    (void)state;
    listen_at("127.77.0.1");
    for (int i = 0; i < COUNT; i++) {
        struct end end = {0};
        connect_end(&end, "one", io_listener_port(listener), 0);
        TURN_UNTIL(loop, end.opens == 1);
        io_stream_close(end.stream, false);
        TURN_UNTIL(loop, end.closes == 1 && server.closes == i + 1);
    }
    assert_true(names_asked() < COUNT);
}

static void too_many_names_end_a_connect(void **state)
{
    struct end others[2] = {{0}};
    (void)state;
    tear_down(NULL);
    set_up_with(2);
    connect_end(&others[0], "hang-1", 4711, 0);
    connect_end(&others[1], "hang-2", 4711, 0);
    connect_end(&client, "one", 4711, 0);
    TURN_UNTIL(loop, client.closes == 1);
    assert_int_equal(client.reason, ERR_IO);
    assert_non_null(strstr(client.text, "2 names wait"));
    for (int i = 0; i < 2; i++) {
        io_stream_reset(others[i].stream);
        TURN_UNTIL(loop, others[i].closes == 1);
    }
}

/* The process may end while a name hangs: streams and loop are gone before it is
 * released. */
static void the_end_waits_for_no_name(void **state)
{
    (void)state;
    connect_end(&client, "hang-1", 4711, 0);
    names_wait_hanging(1);
    io_stream_close(client.stream, false);
    io_loop_destroy(loop);
    assert_int_equal(client.closes, 1);
    names_release();
    assert_int_equal(io_loop_create(&loop), OK);
}

static void what_is_no_host_is_refused_at_once(void **state)
{
    struct io_stream_options options = {.handler = &HANDLER,
                                        .context = &client};
    struct why why = {{0}};
    (void)state;
    assert_int_equal(
        io_stream_connect(loop, "", 1, &options, &why, &client.stream),
        ERR_INVALID);
    assert_string_equal(why.text, "host: is empty");
    assert_null(client.stream);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_loop_goes_on_while_a_name_hangs),
        TEST(a_name_that_hangs_is_named_at_the_limit),
        TEST(an_early_write_waits_for_the_name_too),
        TEST(an_unknown_name_is_told_later),
        TEST(the_next_address_is_tried_when_one_refuses),
        TEST(the_next_address_is_tried_when_one_is_silent),
        TEST(addresses_that_lead_nowhere_are_forgotten),
        TEST(a_storm_does_not_ask_each_time),
        TEST(too_many_names_end_a_connect),
        TEST(the_end_waits_for_no_name),
        TEST(what_is_no_host_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
