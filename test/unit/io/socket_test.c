/* io/socket: bare sockets to each other over both families. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#include "io/dial.h"
#include "io/socket.h"

static int listen_on(const char *host)
{
    struct io_socket_listen at = {.host = host};
    struct why why;
    int fd = -1;
    assert_int_equal(io_socket_listen(&at, &why, &fd), OK);
    return fd;
}

static void wait_for(int fd, short events)
{
    struct pollfd at = {fd, events, 0};
    assert_int_equal(poll(&at, 1, 10000), 1);
}

static enum err connect_to(const char *host, uint16_t port, struct why *why,
                           int *fd_out)
{
    struct io_dial *dial = NULL;
    struct io_dial_options options = {.host = host, .port = port};
    enum err err = io_dial_create(&options, why, &dial);
    err = err ? err : io_socket_connect(dial, 0, why, fd_out);
    io_dial_destroy(dial);
    return err;
}

/* How long bytes may lie untaken before the system breaks the connection. */
static int stall_ms(int fd)
{
    int value = 0;
    socklen_t size = sizeof(value);
    assert_int_equal(
        getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
    return value;
}

/* Two parts go out in one send and come into two others; then one end goes and
 * the other is told. */
static void parts_go_there_and_the_end_too(void **state)
{
    (void)state;
    const char *const hosts[] = {"127.0.0.1", "::1"};
    for (int i = 0; i < 2; i++) {
        int listener = listen_on(hosts[i]);
        int out = -1, in = -1;
        struct why why;
        assert_int_equal(io_socket_accept(listener, &in), ERR_BUSY);
        assert_int_equal(
            connect_to(hosts[i], io_socket_port(listener), &why, &out), OK);
        wait_for(out, POLLOUT);
        assert_int_equal(io_socket_connected(out, &why), OK);
        assert_in_range(stall_ms(out), 1000, 30000);
        wait_for(listener, POLLIN);
        assert_int_equal(io_socket_accept(listener, &in), OK);
        char a[] = "he", b[] = "llo", c[4] = "", d[2] = "";
        struct iovec from[2] = {{a, 2}, {b, 3}}, to[2] = {{c, 4}, {d, 1}};
        size_t moved = 0;
        assert_int_equal(io_socket_receive(in, to, 2, &moved), ERR_BUSY);
        assert_int_equal(io_socket_send(out, from, 2, &moved), OK);
        assert_int_equal(moved, 5);
        wait_for(in, POLLIN);
        assert_int_equal(io_socket_receive(in, to, 2, &moved), OK);
        assert_int_equal(moved, 5);
        assert_memory_equal(c, "hell", 4);
        assert_int_equal(d[0], 'o');
        char name[IO_SOCKET_TEXT_SIZE];
        io_socket_peer(in, name);
        assert_non_null(strstr(name, i == 0 ? "127.0.0.1:" : "[::1]:"));
        io_socket_reset(out);
        wait_for(in, POLLIN);
        assert_int_equal(io_socket_receive(in, to, 2, &moved), ERR_CLOSED);
        assert_int_equal(io_socket_send(in, from, 2, &moved), ERR_CLOSED);
        io_socket_reset(in);
        io_socket_reset(listener);
    }
}

/* A port that nobody listens at, one that somebody has, a name that is none. */
static void failures_have_their_reasons(void **state)
{
    (void)state;
    int listener = listen_on("127.0.0.1");
    uint16_t port = io_socket_port(listener);
    struct io_socket_listen at = {.host = "127.0.0.1", .port = port};
    struct why why;
    int fd = -1;
    assert_int_equal(io_socket_listen(&at, &why, &fd), ERR_IO);
    assert_non_null(strstr(why.text, "in use"));
    io_socket_reset(listener);
    enum err err = connect_to("127.0.0.1", port, &why, &fd);
    if (err == OK) {
        wait_for(fd, POLLOUT);
        err = io_socket_connected(fd, &why);
        io_socket_reset(fd);
    }
    assert_int_equal(err, ERR_IO);
    assert_non_null(strstr(why.text, "refused"));
    assert_int_equal(connect_to("", 1, &why, &fd), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_go_there_and_the_end_too),
        cmocka_unit_test(failures_have_their_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
