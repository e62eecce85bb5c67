#include <errno.h>
#include <stdio.h>

#include "io/resolver.h"
#include "io/stream_part.h"

static const uint64_t TIMEOUT_NS = 5000000000u;

/* 0, or why it cannot even begin. */
static int start(struct io_stream *stream, const struct io_endpoint *peer)
{
    io_endpoint_text(peer, stream->peer);
    int fd = stream->net->open(stream->loop, peer);
    if (fd < 0) {
        return errno;
    }
    io_stream_take_fd(stream, fd);
    if (stream->net->connect(stream->loop, fd, peer) != 0 &&
        errno != EINPROGRESS) {
        return errno;
    }
    /* Also when it is there already: on_open comes from the loop. */
    io_stream_update_interest(stream);
    return 0;
}

/* -------- hosts by name -------- */

/* The addresses in turn until one can be waited for; `reason` is why there is no
 * connection yet. */
static void try_next(struct io_stream *stream, enum err reason)
{
    struct io_endpoint peer;
    struct why why = {{0}};
    uint64_t now = io_loop_now(stream->loop);
    enum err err = io_dial_next(stream->dial, now, &why, &peer);
    while (!err) {
        io_stream_drop_fd(stream);
        int code = start(stream, &peer);
        if (code == 0) {
            io_stream_start_timer(stream, io_dial_until_ns(stream->dial) - now);
            return;
        }
        io_stream_reason(stream, code);
        err = io_dial_next(stream->dial, now, &why, &peer);
    }
    if (err != ERR_NOT_FOUND) {
        snprintf(stream->text, sizeof(stream->text), "%.150s", why.text);
    }
    if (err != ERR_BUSY) {
        io_stream_end(stream, err == ERR_NOT_FOUND ? reason : ERR_IO,
                      stream->text);
    }
}

static void on_found(void *context)
{
    try_next(context, ERR_IO);
}

static void dial(struct io_stream *stream, const char *host, uint16_t port,
                 uint64_t timeout_ns)
{
    uint64_t now = io_loop_now(stream->loop);
    struct why why = {{0}};
    struct io_dial_options options = {.host = host,
                                      .port = port,
                                      .now = now,
                                      .limit_ns = now + timeout_ns,
                                      .on_found = on_found,
                                      .context = stream};
    enum err err = io_loop_resolver(stream->loop, &why, &options.resolver);
    err = err ? err : io_dial_create(&options, &why, &stream->dial);
    snprintf(stream->peer, sizeof(stream->peer), "%.50s:%u", host, port);
    if (err) {
        snprintf(stream->text, sizeof(stream->text), "%.150s", why.text);
        io_stream_end(stream, ERR_IO, stream->text);
        return;
    }
    try_next(stream, ERR_IO);
}

/* -------- the same for all -------- */

static void failed(struct io_stream *stream, enum err reason, int code)
{
    if (stream->fd >= 0) { /* else `text` says what the name service does */
        io_stream_reason(stream, code);
    }
    if (stream->fd >= 0 && stream->dial != NULL) {
        try_next(stream, reason);
    } else {
        io_stream_end(stream, reason, stream->text);
    }
}

const char *io_stream_obstacle(const struct io_stream *stream)
{
    bool is_looked_up = stream->state == STREAM_CONNECTING && stream->fd < 0;
    return is_looked_up ? stream->text : NULL;
}

void io_stream_on_connect_late(struct io_stream *stream)
{
    failed(stream, ERR_TIMEOUT, ETIMEDOUT);
}

void io_stream_on_connected(struct io_stream *stream)
{
    int code = stream->net->error(stream->loop, stream->fd);
    if (code != 0) {
        failed(stream, ERR_IO, code);
        return;
    }
    io_dial_destroy(stream->dial);
    stream->dial = NULL;
    stream->state = STREAM_OPEN;
    io_timer_destroy(stream->timer);
    stream->timer = NULL;
    io_stream_update_interest(stream);
    if (stream->handler->on_open != NULL) {
        stream->handler->on_open(stream->context);
    }
}

enum err io_stream_connect(struct io_loop *loop, const char *host,
                           uint16_t port,
                           const struct io_stream_options *options,
                           struct why *why, struct io_stream **stream_out)
{
    uint64_t timeout_ns = options->connect_timeout_ns == 0
                              ? TIMEOUT_NS
                              : options->connect_timeout_ns;
    struct io_endpoint peer;
    enum err err = io_resolve_check(host, why);
    if (err) {
        return err;
    }
    struct io_stream *stream = io_stream_new(loop, options->write_max);
    stream->handler = options->handler;
    stream->context = options->context;
    stream->state = STREAM_CONNECTING;
    io_stream_start_timer(stream, timeout_ns);
    *stream_out = stream;
    if (!io_resolve_digits(host, port, &peer)) {
        dial(stream, host, port, timeout_ns);
        return OK;
    }
    int code = start(stream, &peer);
    if (code != 0) {
        io_stream_end(stream, ERR_IO, io_stream_reason(stream, code));
    }
    return OK;
}
