#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "io/mailbox.h"
#include "io/net.h"

enum { BACKLOG = 4096 };

static int set_nodelay(int fd)
{
    int one = 1;
    /* Only costs delay when refused. */
    IGNORE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
    return fd;
}

static int open_socket(struct io_loop *loop, const struct io_endpoint *peer)
{
    (void)loop;
    int fd = socket(peer->address.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? fd : set_nodelay(fd);
}

static int connect_socket(struct io_loop *loop, int fd,
                          const struct io_endpoint *peer)
{
    (void)loop;
    return connect(fd, (const struct sockaddr *)&peer->address, peer->size);
}

static int socket_error(struct io_loop *loop, int fd)
{
    (void)loop;
    int code = 0;
    socklen_t size = sizeof(code);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0 ? errno
                                                                   : code;
}

static ssize_t send_parts(struct io_loop *loop, int fd, struct iovec *parts,
                          size_t part_count)
{
    (void)loop;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = part_count};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static ssize_t receive(struct io_loop *loop, int fd, void *bytes, size_t size)
{
    (void)loop;
    return recv(fd, bytes, size, 0);
}

static bool is_stale(struct io_loop *loop, int fd)
{
    (void)loop;
    uint8_t byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void end_sending(struct io_loop *loop, int fd)
{
    (void)loop;
    /* A refusal shows as an end when we read. */
    IGNORE(shutdown(fd, SHUT_WR));
}

static void close_socket(struct io_loop *loop, int fd, bool is_reset)
{
    (void)loop;
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (is_reset) {
        /* Refused: then it is a plain close. */
        IGNORE(
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)));
    }
    close(fd);
}

static int listen_at(struct io_loop *loop, const struct io_endpoint *at,
                     bool reuse_port)
{
    (void)loop;
    int fd = socket(at->address.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (reuse_port &&
         setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) ||
        bind(fd, (const struct sockaddr *)&at->address, at->size) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

static int accept_one(struct io_loop *loop, int fd,
                      struct io_endpoint *peer_out)
{
    (void)loop;
    peer_out->size = sizeof(peer_out->address);
    int got = accept4(fd, (struct sockaddr *)&peer_out->address,
                      &peer_out->size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return got < 0 ? got : set_nodelay(got);
}

static uint16_t bound_port(struct io_loop *loop, int fd)
{
    (void)loop;
    struct io_endpoint at = {.size = sizeof(at.address)};
    int code = getsockname(fd, (struct sockaddr *)&at.address, &at.size);
    CHECK(code == 0);
    return io_endpoint_port(&at);
}

static enum err look_up(void *context, const char *name, struct why *why,
                        struct io_addresses *addresses_out)
{
    (void)context;
    return io_resolve_name(name, why, addresses_out);
}

static enum err create_waker(struct io_loop *loop, struct io_waker **waker_out)
{
    (void)loop;
    return io_waker_create(waker_out);
}

const struct io_net_ops io_net_socket = {
    .open = open_socket,
    .connect = connect_socket,
    .error = socket_error,
    .send = send_parts,
    .receive = receive,
    .is_stale = is_stale,
    .end = end_sending,
    .close = close_socket,
    .listen = listen_at,
    .accept = accept_one,
    .port = bound_port,
    .look_up = look_up,
    .waker = create_waker,
};
