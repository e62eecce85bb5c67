/* transfer/tcp_dial: receivers by name, over a name service of the test's own
 * that hangs until it is released. All sleep on the backends' descriptors. */
#include <poll.h>

#include "unit/io/names.h"

#include "tcp_rig.h"

struct receiver {
    struct transfer_backend *backend;
    uint8_t *pool;
    struct transfer_backend_peer *peer;
    struct transfer_piece piece;
    struct transfer_write write;
};

static struct transfer_backend *sender;
static uint8_t *source;

static struct transfer_backend *make(uint64_t incarnation, const char *host,
                                     const char *advertise)
{
    struct transfer_backend *backend;
    struct transfer_backend_tcp_options options = {.incarnation = incarnation,
                                                   .host = host,
                                                   .advertise = advertise,
                                                   .key = RIG_KEY,
                                                   .look_up = NAMES};
    assert_int_equal(transfer_backend_tcp_create(&options, NULL, &backend), OK);
    return backend;
}

static int set_up(void **state)
{
    (void)state;
    names_reset();
    sender = make(RIG_THEIRS, "127.0.0.1", NULL);
    source = rig_pool(sender);
    memset(source, 9, RIG_POOL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    names_release();
    rig_end(sender, source);
    return 0;
}

/* It listens at `host` and says that it is called `name`. */
static void open_receiver(struct receiver *one, uint64_t incarnation,
                          const char *host, const char *name)
{
    struct buf blob;
    *one = (struct receiver){.backend = make(incarnation, host, name)};
    one->pool = rig_pool(one->backend);
    rig_allow(one->backend, 0, RIG_POOL);
    buf_init(&blob, 1024);
    assert_int_equal(
        transfer_backend_export(one->backend, one->pool, RIG_POOL, NULL, &blob),
        OK);
    assert_int_equal(transfer_backend_peer_open(sender, buf_span(&blob),
                                                RIG_POOL, NULL, &one->peer),
                     OK);
    buf_finish(&blob);
}

static void close_receiver(struct receiver *one)
{
    transfer_backend_peer_close(one->peer);
    rig_end(one->backend, one->pool);
}

static void start_write(struct receiver *one)
{
    one->piece = (struct transfer_piece){0, 0, 4096, 0};
    one->write = (struct transfer_write){.peer = one->peer,
                                         .token = RIG_TOKEN,
                                         .pieces = &one->piece,
                                         .piece_count = 1};
    transfer_backend_write(sender, &one->write);
}

static struct transfer_write *turn(struct receiver *with)
{
    bool is_busy, is_other_busy;
    struct transfer_write *back = transfer_backend_poll(sender, &is_busy);
    assert_null(transfer_backend_poll(with->backend, &is_other_busy));
    bool can_sleep = transfer_backend_arm(sender) == OK &&
                     transfer_backend_arm(with->backend) == OK;
    if (back == NULL && !is_busy && !is_other_busy && can_sleep) {
        struct pollfd fds[2] = {
            {transfer_backend_fd(sender), POLLIN, 0},
            {transfer_backend_fd(with->backend), POLLIN, 0}};
        assert_true(poll(fds, 2, 10000) > 0);
    }
    return back;
}

static void expect_done(struct receiver *one)
{
    struct transfer_write *back = NULL;
    while (back == NULL) {
        back = turn(one);
    }
    assert_ptr_equal(back, &one->write);
    assert_int_equal(one->write.outcome, TRANSFER_DONE);
    assert_int_equal(one->pool[4095], 9);
}

/* Two receivers: the first one's name hangs, with a write behind it; the second
 * has its page meanwhile, and the first once its name is known. */
static void a_name_that_hangs_holds_up_its_own_writes_only(void **state)
{
    struct receiver hung, named;
    (void)state;
    open_receiver(&hung, 31, "127.77.0.1", "hang-1");
    open_receiver(&named, 32, "127.77.0.1", "one");
    start_write(&hung);
    start_write(&named);
    names_wait_hanging(1);
    expect_done(&named);
    assert_int_equal(hung.pool[0], 0);
    names_release();
    expect_done(&hung);
    close_receiver(&hung);
    close_receiver(&named);
}

static void expect_stopped(struct receiver *one)
{
    struct transfer_write *back = NULL;
    while (back == NULL) {
        back = turn(one);
    }
    assert_ptr_equal(back, &one->write);
    assert_int_equal(one->write.outcome, TRANSFER_STOPPED);
}

/* As of a receiver that refuses: the connection breaks, its writes come back. */
static void an_unknown_name_stops_the_writes(void **state)
{
    struct receiver lost;
    (void)state;
    open_receiver(&lost, 31, "127.77.0.1", "nobody");
    start_write(&lost);
    expect_stopped(&lost);
    close_receiver(&lost);
}

/* Nobody listens at the first address of "two". */
static void the_next_address_is_tried(void **state)
{
    struct receiver second;
    (void)state;
    open_receiver(&second, 31, "127.77.0.2", "two");
    start_write(&second);
    expect_done(&second);
    close_receiver(&second);
}

/* The limit of a connect: the write comes back, nothing has answered. */
static void a_connect_ends_though_its_name_hangs(void **state)
{
    struct receiver hung;
    (void)state;
    open_receiver(&hung, 31, "127.77.0.1", "hang-1");
    start_write(&hung);
    expect_stopped(&hung);
    names_wait_hanging(1); /* it still does */
    close_receiver(&hung);
}

/* Closed and destroyed before the name service is released. */
static void the_end_waits_for_no_name(void **state)
{
    struct receiver hung;
    bool is_busy;
    (void)state;
    open_receiver(&hung, 31, "127.77.0.1", "hang-1");
    start_write(&hung);
    names_wait_hanging(1);
    transfer_backend_peer_close(hung.peer);
    assert_ptr_equal(transfer_backend_poll(sender, &is_busy), &hung.write);
    assert_int_equal(hung.write.outcome, TRANSFER_STOPPED);
    rig_end(hung.backend, hung.pool);
    rig_end(sender, source);
    names_release();
    set_up(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_name_that_hangs_holds_up_its_own_writes_only),
        TEST(an_unknown_name_stops_the_writes),
        TEST(the_next_address_is_tried),
        TEST(a_connect_ends_though_its_name_hangs),
        TEST(the_end_waits_for_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
