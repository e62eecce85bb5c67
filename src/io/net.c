#include "io/net.h"

#include <errno.h>
#include <string.h>

static enum err bind_error(const char *host, uint16_t port, struct why *why)
{
    if (errno == EADDRINUSE) {
        return why_say(why, ERR_IO, "port %u is in use", port);
    }
    if (errno == EACCES) {
        return why_say(why, ERR_IO, "port %u needs privileges", port);
    }
    if (errno == EADDRNOTAVAIL) {
        return why_say(why, ERR_IO, "host %s is no address of this machine",
                       host);
    }
    return why_say(why, ERR_IO, "cannot listen on %s port %u: %s", host, port,
                   strerror(errno));
}

static enum err find_address(const struct io_net_ops *net, const char *host,
                             uint16_t port, struct why *why,
                             struct io_endpoint *at_out)
{
    struct io_addresses found;
    enum err err = io_resolve_check(host, why);
    if (!err && !io_resolve_digits(host, port, at_out)) {
        err = net->look_up(NULL, host, why, &found);
        if (!err) {
            *at_out = found.list[0];
            io_endpoint_set_port(at_out, port);
        }
    }
    return err;
}

enum err io_net_listen(const struct io_net_ops *net, struct io_loop *loop,
                       const char *host, uint16_t port, bool reuse_port,
                       struct why *why, int *fd_out)
{
    struct io_endpoint at;
    enum err err = find_address(net, host, port, why, &at);
    if (err != OK) {
        return err;
    }
    int fd = net->listen(loop, &at, reuse_port);
    if (fd < 0) {
        return bind_error(host, port, why);
    }
    *fd_out = fd;
    return OK;
}
