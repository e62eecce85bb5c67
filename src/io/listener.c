#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/net.h"
#include "io/stream.h"

enum { ACCEPTS_A_TURN_MAX = 64 };
static const uint64_t REST_NS = 100000000u;

/* Lives until it is closed and its last stream is gone, which counts it. */
struct io_listener {
    struct io_loop *loop;
    const struct io_net_ops *net;
    int fd;
    struct io_watch *watch;
    struct io_timer *rest; /* out of descriptors: look again later */
    bool is_closed;
    bool has_warned;
    uint16_t port;
    uint32_t stream_count;
    uint32_t stream_count_max;
    void (*on_accept)(void *context, struct io_stream *stream);
    void *context;
};

static void free_if_last(struct io_listener *listener)
{
    if (listener->is_closed && listener->stream_count == 0) {
        mem_free(listener);
    }
}

static void stream_gone(void *owner)
{
    struct io_listener *listener = owner;
    CHECK(listener->stream_count > 0);
    listener->stream_count--;
    free_if_last(listener);
}

static void hand_over(struct io_listener *listener, int fd,
                      const struct io_endpoint *peer)
{
    if (listener->stream_count >= listener->stream_count_max) {
        listener->net->close(listener->loop, fd, false);
        return;
    }
    listener->stream_count++;
    struct io_stream *stream =
        io_stream_adopt(listener->loop, fd, peer, stream_gone, listener);
    listener->on_accept(listener->context, stream);
    if (!io_stream_has_handler(stream)) {
        io_stream_close(stream, false);
    }
}

/* Nothing left to accept with: the queue would stay readable and spin. */
static void take_rest(struct io_listener *listener)
{
    if (!listener->has_warned) {
        listener->has_warned = true;
        log_warn("io", "port %u: cannot accept: %s", listener->port,
                 strerror(errno));
    }
    io_watch_set(listener->watch, 0);
    io_timer_start(listener->rest, REST_NS);
}

static bool is_about_one_peer(int code)
{
    return code == EINTR || code == ECONNABORTED || code == EPROTO ||
           code == ENETDOWN || code == EHOSTUNREACH || code == ENETUNREACH;
}

static void on_ready(void *context, int ready)
{
    (void)ready;
    struct io_listener *listener = context;
    for (int i = 0; i < ACCEPTS_A_TURN_MAX && !listener->is_closed; i++) {
        struct io_endpoint peer = {0};
        int fd = listener->net->accept(listener->loop, listener->fd, &peer);
        if (fd >= 0) {
            hand_over(listener, fd, &peer);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (!is_about_one_peer(errno)) {
            take_rest(listener);
            return;
        }
    }
}

static void rest_over(void *context)
{
    struct io_listener *listener = context;
    io_watch_set(listener->watch, IO_READABLE);
}

enum err io_listener_open(struct io_loop *loop,
                          const struct io_listener_options *options,
                          struct why *why, struct io_listener **listener_out)
{
    int fd = -1;
    enum err e = io_net_listen(io_loop_net(loop), loop, options->host,
                               options->port, options->reuse_port, why, &fd);
    if (e != OK) {
        return e;
    }
    struct io_listener *listener = mem_new(sizeof(*listener));
    listener->loop = loop;
    listener->net = io_loop_net(loop);
    listener->fd = fd;
    listener->port = listener->net->port(loop, fd);
    listener->stream_count_max = options->connection_count_max == 0
                                     ? UINT32_MAX
                                     : options->connection_count_max;
    listener->on_accept = options->on_accept;
    listener->context = options->context;
    listener->rest = io_timer_create(loop, rest_over, listener);
    listener->watch = io_watch_create(loop, fd, on_ready, listener);
    io_watch_set(listener->watch, IO_READABLE);
    *listener_out = listener;
    return OK;
}

uint16_t io_listener_port(const struct io_listener *listener)
{
    return listener->port;
}

void io_listener_close(struct io_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    io_watch_destroy(listener->watch);
    io_timer_destroy(listener->rest);
    listener->net->close(listener->loop, listener->fd, false);
    listener->is_closed = true;
    free_if_last(listener);
}
