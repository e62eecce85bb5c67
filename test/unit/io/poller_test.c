/* io/poller: told by edges, told by level, told by the clock. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#include "io/clock.h"
#include "io/poller.h"

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd at = {fd, POLLIN, 0};
    return poll(&at, 1, wait_ms) == 1;
}

/* A byte is told once by edge and again and again by level; the poller's own
 * descriptor is quiet once all news has been taken. */
static void edges_are_told_once_and_levels_while_they_last(void **state)
{
    (void)state;
    struct io_poller *poller;
    int edge[2], level[2];
    struct io_ready ready[8];
    assert_int_equal(io_poller_create(&poller), OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, edge), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, level), 0);
    assert_int_equal(io_poller_add(poller, edge[0], true, edge), OK);
    assert_int_equal(io_poller_add(poller, edge[0], true, edge), ERR_IO);
    assert_int_equal(io_poller_take(poller, ready, 8), 1);
    assert_ptr_equal(ready[0].context, edge);
    assert_int_equal(ready[0].ready, IO_WRITABLE);
    assert_false(ready[0].has_ended);
    assert_int_equal(io_poller_take(poller, ready, 8), 0);
    assert_false(is_readable(io_poller_fd(poller), 0));
    assert_int_equal(write(edge[1], "x", 1), 1);
    assert_true(is_readable(io_poller_fd(poller), 1000));
    assert_int_equal(io_poller_take(poller, ready, 8), 1);
    assert_true(ready[0].ready & IO_READABLE);
    assert_int_equal(io_poller_take(poller, ready, 8), 0);
    close(edge[1]);
    assert_int_equal(io_poller_take(poller, ready, 8), 1);
    assert_true(ready[0].has_ended);
    assert_int_equal(io_poller_add(poller, level[0], false, level), OK);
    assert_int_equal(write(level[1], "x", 1), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(io_poller_take(poller, ready, 8), 1);
        assert_ptr_equal(ready[0].context, level);
    }
    io_poller_remove(poller, level[0]);
    assert_int_equal(io_poller_take(poller, ready, 8), 0);
    close(edge[0]);
    close(level[0]);
    close(level[1]);
    io_poller_destroy(poller);
}

/* The alarm wakes whoever sleeps on the descriptor, once, not before its time;
 * one that was taken back does not. */
static void an_alarm_wakes_once(void **state)
{
    (void)state;
    struct io_poller *poller;
    struct io_ready ready[2];
    assert_int_equal(io_poller_create(&poller), OK);
    uint64_t at = io_clock_now_ns() + 20000000;
    io_poller_set_alarm(poller, at);
    assert_true(is_readable(io_poller_fd(poller), 10000));
    assert_true(io_clock_now_ns() >= at);
    assert_int_equal(io_poller_take(poller, ready, 2), 0);
    assert_false(is_readable(io_poller_fd(poller), 0));
    io_poller_set_alarm(poller, io_clock_now_ns() + 20000000);
    io_poller_set_alarm(poller, 0);
    assert_false(is_readable(io_poller_fd(poller), 50));
    io_poller_destroy(poller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_told_once_and_levels_while_they_last),
        cmocka_unit_test(an_alarm_wakes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
