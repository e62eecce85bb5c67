#pragma once
/* io/net: what streams and listeners ask of the system, a table with two
 * bodies: net_socket.c (sockets) and net_sim.c (byte pipes between the hosts of
 * io/sim.h). The calls behave like those of the system: -1 and errno where one
 * fails, EAGAIN for later. Private to io. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "io/resolve.h"

struct io_loop;
struct io_waker;

struct io_net_ops {
    int (*open)(struct io_loop *loop, const struct io_endpoint *peer);
    int (*connect)(struct io_loop *loop, int fd,
                   const struct io_endpoint *peer);
    int (*error)(struct io_loop *loop, int fd); /* of a connect: errno or 0 */
    ssize_t (*send)(struct io_loop *loop, int fd, struct iovec *parts,
                    size_t part_count);
    ssize_t (*receive)(struct io_loop *loop, int fd, void *bytes, size_t size);
    bool (*is_stale)(struct io_loop *loop, int fd); /* has an end, or bytes */
    void (*end)(struct io_loop *loop, int fd); /* sends no more */
    void (*close)(struct io_loop *loop, int fd, bool is_reset);
    /* A socket that listens. */
    int (*listen)(struct io_loop *loop, const struct io_endpoint *at,
                  bool reuse_port);
    int (*accept)(struct io_loop *loop, int fd, struct io_endpoint *peer_out);
    uint16_t (*port)(struct io_loop *loop, int fd);
    /* As io_resolve_name; `context` means nothing. */
    enum err (*look_up)(void *context, const char *name, struct why *why,
                        struct io_addresses *addresses_out);
    bool is_look_up_instant; /* else it may block */
    enum err (*waker)(struct io_loop *loop, struct io_waker **waker_out);
};

/* Asks nothing of a loop: NULL will do. */
extern const struct io_net_ops io_net_socket;
const struct io_net_ops *io_loop_net(const struct io_loop *loop);
/* Looks `host` up, which may block where it is a name, and listens. ERR_IO with "port 8000 is in use" and the like. */
MUST_USE enum err io_net_listen(const struct io_net_ops *net,
                                struct io_loop *loop, const char *host,
                                uint16_t port, bool reuse_port, struct why *why,
                                int *fd_out);
