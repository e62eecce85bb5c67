#pragma once
/* io/socket: bare TCP sockets that never wait, for who moves bulk bytes between
 * its own memory and the kernel and polls for it (transfer/backend_tcp). All
 * others use io/tcp.
 *
 * A socket is a descriptor and the caller's; one thread at a time. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"

enum { IO_SOCKET_PARTS_MAX = 1024 }; /* of one send or receive */

struct io_socket_listen {
    const char *host;
    uint16_t port; /* 0: any free one */
};
/* ERR_IO with "port 8000 is in use" and the like. */
MUST_USE enum err io_socket_listen(const struct io_socket_listen *options,
                                   struct why *why, int *fd_out);
uint16_t io_socket_port(int fd); /* the one it is bound to */
/* ERR_BUSY: nobody is waiting, or who was has left. ERR_IO: the system has no
 * descriptor left; try later. */
MUST_USE enum err io_socket_accept(int listener, int *fd_out);

/* Starts a connection to the next address of `dial` that can be waited for; it is
 * made once the socket is writable. ERR_BUSY: the name service has not answered.
 * ERR_IO: there is no address left; where `why` is not changed what it said of the
 * last one holds. */
struct io_dial;
MUST_USE enum err io_socket_connect(struct io_dial *dial, uint64_t now,
                                    struct why *why, int *fd_out);
/* What became of it. ERR_IO with the reason. */
MUST_USE enum err io_socket_connected(int fd, struct why *why);

/* Moves what the kernel takes or has of `parts` in order, at least a byte.
 * ERR_BUSY: nothing now. ERR_CLOSED: the end, or a reset. */
MUST_USE enum err io_socket_send(int fd, const struct iovec *parts,
                                 size_t part_count, size_t *sent_out);
MUST_USE enum err io_socket_receive(int fd, const struct iovec *parts,
                                    size_t part_count, size_t *got_out);
/* "127.0.0.1:4711" of the other end, or "" when it is gone. */
enum { IO_SOCKET_TEXT_SIZE = 64 };
void io_socket_peer(int fd, char text_out[IO_SOCKET_TEXT_SIZE]);
/* At once: what the kernel still holds to send is thrown away. */
void io_socket_reset(int fd);
