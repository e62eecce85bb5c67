#include "io/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "io/dial.h"
#include "io/net.h"

_Static_assert((int)IO_SOCKET_TEXT_SIZE == (int)IO_ENDPOINT_TEXT_SIZE,
               "one text");
enum { IDLE_S = 30, PROBE_S = 10, PROBES = 3, STALL_MS = 10000 };

enum err io_socket_listen(const struct io_socket_listen *options,
                          struct why *why, int *fd_out)
{
    return io_net_listen(&io_net_socket, NULL, options->host, options->port,
                         false, why, fd_out);
}

uint16_t io_socket_port(int fd)
{
    return io_net_socket.port(NULL, fd);
}

static void set_option(int fd, int level, int name, int value)
{
    /* Refused: slower, or a dead host is noticed later. */
    IGNORE(setsockopt(fd, level, name, &value, sizeof(value)));
}

/* A host that went away without a word is found by probes. */
/* What has been sent and is not taken for so long breaks the connection, also
 * where the other end lives and does not read: whoever lent the bytes has them
 * back then. */
static void tune(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, STALL_MS);
}

static bool is_system_full(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOBUFS ||
           code == ENOMEM;
}

enum err io_socket_accept(int listener, int *fd_out)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return is_system_full(errno) ? ERR_IO : ERR_BUSY;
    }
    tune(fd);
    *fd_out = fd;
    return OK;
}

static enum err start(const struct io_endpoint *at, struct why *why,
                      int *fd_out)
{
    char text[IO_ENDPOINT_TEXT_SIZE];
    int fd = io_net_socket.open(NULL, at);
    if (fd < 0) {
        return why_say(why, ERR_IO, "socket: %s", strerror(errno));
    }
    tune(fd);
    if (io_net_socket.connect(NULL, fd, at) != 0 && errno != EINPROGRESS) {
        io_endpoint_text(at, text);
        IGNORE(why_say(why, ERR_IO, "cannot connect to %s: %s", text,
                       strerror(errno))); /* it is what this returns */
        close(fd);
        return ERR_IO;
    }
    *fd_out = fd;
    return OK;
}

enum err io_socket_connect(struct io_dial *dial, uint64_t now, struct why *why,
                           int *fd_out)
{
    struct io_endpoint at;
    enum err err = io_dial_next(dial, now, why, &at);
    while (!err && start(&at, why, fd_out) != OK) {
        err = io_dial_next(dial, now, why, &at);
    }
    return err == ERR_NOT_FOUND ? ERR_IO : err;
}

enum err io_socket_connected(int fd, struct why *why)
{
    int code = io_net_socket.error(NULL, fd);
    return code == 0
               ? OK
               : why_say(why, ERR_IO, "cannot connect: %s", strerror(code));
}

static enum err moved(ssize_t count, bool is_zero_the_end, size_t *moved_out)
{
    if (count > 0 || (count == 0 && !is_zero_the_end)) {
        *moved_out = (size_t)count;
        return OK;
    }
    bool is_for_later = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK ||
                                      errno == EINTR);
    return is_for_later ? ERR_BUSY : ERR_CLOSED;
}

static struct msghdr message_of(const struct iovec *parts, size_t part_count)
{
    CHECK(part_count > 0 && part_count <= IO_SOCKET_PARTS_MAX);
    return (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)parts,
                           .msg_iovlen = part_count};
}

enum err io_socket_send(int fd, const struct iovec *parts, size_t part_count,
                        size_t *sent_out)
{
    struct msghdr message = message_of(parts, part_count);
    return moved(sendmsg(fd, &message, MSG_NOSIGNAL), false, sent_out);
}

enum err io_socket_receive(int fd, const struct iovec *parts, size_t part_count,
                           size_t *got_out)
{
    struct msghdr message = message_of(parts, part_count);
    return moved(recvmsg(fd, &message, 0), true, got_out);
}

void io_socket_peer(int fd, char text_out[IO_SOCKET_TEXT_SIZE])
{
    struct io_endpoint at = {.size = sizeof(at.address)};
    text_out[0] = 0;
    if (getpeername(fd, (struct sockaddr *)&at.address, &at.size) == 0) {
        io_endpoint_text(&at, text_out);
    }
}

void io_socket_reset(int fd)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    /* Refused: then it is a plain close. */
    IGNORE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)));
    close(fd);
}
