#include "io/stream_part.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    READ_SIZE = 65536,
    KEPT_SIZE_MAX = 65536, /* an idle stream gives larger memory back */
    WRITE_MAX_DEFAULT = 16 << 20,
};
static const uint64_t SECOND_NS = 1000000000u;

/* Callbacks do not nest, so that a thread needs one place to read into. */
static _Thread_local uint8_t read_space[READ_SIZE];

static void on_ready(void *context, int ready);

size_t io_stream_pending(const struct io_stream *stream)
{
    return stream->pending.size - stream->pending_begin;
}

void io_stream_update_interest(struct io_stream *stream)
{
    int interest = 0;
    switch (stream->state) {
    case STREAM_CONNECTING:
        interest = IO_WRITABLE;
        break;
    case STREAM_OPEN:
        interest = (stream->is_reading ? IO_READABLE : 0) |
                   (io_stream_pending(stream) > 0 ? IO_WRITABLE : 0);
        break;
    case STREAM_FLUSHING:
        interest = IO_READABLE | IO_WRITABLE;
        break;
    case STREAM_LINGERING:
        interest = IO_READABLE;
        break;
    case STREAM_ENDING:
        break;
    }
    if (stream->watch != NULL) {
        io_watch_set(stream->watch, interest);
    }
}

void io_stream_take_fd(struct io_stream *stream, int fd)
{
    stream->fd = fd;
    stream->watch = io_watch_create(stream->loop, fd, on_ready, stream);
}

void io_stream_drop_fd(struct io_stream *stream)
{
    if (stream->fd >= 0) {
        io_watch_destroy(stream->watch);
        stream->net->close(stream->loop, stream->fd, stream->is_reset);
        stream->watch = NULL;
        stream->fd = -1;
    }
}

static void finish(struct io_stream *stream, enum err reason, const char *text)
{
    io_stream_drop_fd(stream);
    io_timer_destroy(stream->timer);
    if (stream->handler != NULL) {
        stream->handler->on_close(stream->context, reason, text);
    }
    if (stream->on_gone != NULL) {
        stream->on_gone(stream->owner);
    }
    buf_finish(&stream->pending);
    mem_free(stream);
}

static void finish_later(void *context)
{
    struct io_stream *stream = context;
    finish(stream, stream->end_reason, stream->end_text);
}

void io_stream_end(struct io_stream *stream, enum err reason, const char *text)
{
    stream->end_reason = reason;
    stream->end_text = text;
    if (stream->state == STREAM_ENDING) {
        return;
    }
    stream->state = STREAM_ENDING;
    io_dial_destroy(stream->dial);
    stream->dial = NULL;
    io_stream_update_interest(stream);
    if (stream->timer != NULL) {
        io_timer_stop(stream->timer);
    }
    io_loop_defer(stream->loop, finish_later, stream);
}

static bool is_for_later(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

const char *io_stream_reason(struct io_stream *stream, int code)
{
    snprintf(stream->text, sizeof(stream->text), "%s: %s", stream->peer,
             code == 0 ? "closed by the other end" : strerror(code));
    return stream->text;
}

/* One read. False: nothing more to come in this call. */
static bool read_once(struct io_stream *stream)
{
    ssize_t got = stream->net->receive(stream->loop, stream->fd, read_space,
                                       sizeof(read_space));
    if (got < 0 && is_for_later(errno)) {
        return false;
    }
    if (got <= 0) {
        bool is_ours = stream->state != STREAM_OPEN;
        stream->has_ended = got == 0 && !stream->is_broken;
        io_stream_end(stream, is_ours ? OK : ERR_CLOSED,
                      is_ours ? "closed"
                              : io_stream_reason(stream, got < 0 ? errno : 0));
        return false;
    }
    if (stream->state == STREAM_OPEN) {
        stream->handler->on_read(stream->context,
                                 span_of(read_space, (size_t)got));
    }
    return stream->state != STREAM_ENDING;
}

/* The kernel will send no more, but what the peer said before it left is still
 * to be read: an answer that came early, then the end. */
static void read_last_words(void *context)
{
    struct io_stream *stream = context;
    while (stream->state == STREAM_OPEN && stream->is_reading &&
           read_once(stream)) {
    }
    if (stream->state != STREAM_ENDING) {
        bool is_ours = stream->state != STREAM_OPEN;
        stream->end_reason = is_ours ? OK : ERR_CLOSED;
        stream->end_text = is_ours ? "closed" : io_stream_reason(stream, EPIPE);
        finish_later(stream);
    }
}

static void break_off(struct io_stream *stream)
{
    if (stream->is_broken) {
        return;
    }
    stream->is_broken = true;
    buf_finish(&stream->pending);
    stream->pending_begin = 0;
    io_dial_destroy(stream->dial);
    stream->dial = NULL;
    if (stream->watch != NULL) {
        io_watch_set(stream->watch, 0);
    }
    if (stream->timer != NULL) {
        io_timer_stop(stream->timer);
    }
    io_loop_defer(stream->loop, read_last_words, stream);
}

/* Sends what the kernel takes of two spans; false when it takes no more ever. */
static bool send_some(struct io_stream *stream, struct span first,
                      struct span second, size_t *taken_out)
{
    struct iovec parts[2] = {
        {.iov_base = (void *)(uintptr_t)first.data, .iov_len = first.size},
        {.iov_base = (void *)(uintptr_t)second.data, .iov_len = second.size},
    };
    ssize_t sent = stream->net->send(stream->loop, stream->fd, parts, 2);
    if (sent < 0) {
        *taken_out = 0;
        return is_for_later(errno);
    }
    stream->sent += (uint64_t)sent;
    *taken_out = (size_t)sent;
    return true;
}

static void drop_sent(struct io_stream *stream, size_t taken)
{
    stream->pending_begin += taken;
    size_t left = io_stream_pending(stream);
    if (left == 0) {
        if (stream->pending.size > KEPT_SIZE_MAX) {
            buf_finish(&stream->pending);
        } else {
            buf_reset(&stream->pending);
        }
        stream->pending_begin = 0;
    } else if (stream->pending_begin >= KEPT_SIZE_MAX &&
               stream->pending_begin >= left) {
        buf_drop_front(&stream->pending, stream->pending_begin);
        stream->pending_begin = 0;
    }
}

static void linger(struct io_stream *stream)
{
    stream->state = STREAM_LINGERING;
    stream->net->end(stream->loop, stream->fd);
    io_stream_update_interest(stream);
    io_stream_start_timer(stream, 2 * SECOND_NS);
}

static void flush_pending(struct io_stream *stream)
{
    struct span rest = span_slice(buf_span(&stream->pending),
                                  stream->pending_begin, stream->pending.size);
    size_t taken;
    if (!send_some(stream, rest, span_of(NULL, 0), &taken)) {
        break_off(stream);
        return;
    }
    drop_sent(stream, taken);
    bool is_drained = io_stream_pending(stream) == 0;
    if (stream->state == STREAM_FLUSHING) {
        if (is_drained) {
            linger(stream);
        } else if (taken > 0) {
            io_stream_start_timer(stream, 10 * SECOND_NS);
        }
        return;
    }
    io_stream_update_interest(stream);
    if (is_drained && stream->handler->on_drain != NULL) {
        stream->handler->on_drain(stream->context);
    }
}

static void on_ready(void *context, int ready)
{
    struct io_stream *stream = context;
    if (stream->state == STREAM_CONNECTING) {
        io_stream_on_connected(stream);
    } else if ((ready & IO_READABLE) != 0) {
        read_once(stream);
    } else if (io_stream_pending(stream) > 0) {
        flush_pending(stream);
    }
}

static void on_limit(void *context)
{
    struct io_stream *stream = context;
    if (stream->state == STREAM_CONNECTING) {
        io_stream_on_connect_late(stream);
    } else {
        io_stream_end(stream, OK, "closed");
    }
}

void io_stream_start_timer(struct io_stream *stream, uint64_t delay_ns)
{
    if (stream->timer == NULL) {
        stream->timer = io_timer_create(stream->loop, on_limit, stream);
    }
    io_timer_start(stream->timer, delay_ns);
}

struct io_stream *io_stream_new(struct io_loop *loop, size_t write_max)
{
    struct io_stream *stream = mem_new(sizeof(*stream));
    stream->loop = loop;
    stream->net = io_loop_net(loop);
    stream->fd = -1;
    stream->is_reading = true;
    stream->write_max = write_max == 0 ? WRITE_MAX_DEFAULT : write_max;
    buf_init(&stream->pending, SIZE_MAX / 4);
    return stream;
}

struct io_stream *io_stream_adopt(struct io_loop *loop, int fd,
                                  const struct io_endpoint *peer,
                                  void (*on_gone)(void *owner), void *owner)
{
    struct io_stream *stream = io_stream_new(loop, 0);
    io_stream_take_fd(stream, fd);
    io_endpoint_text(peer, stream->peer);
    stream->state = STREAM_OPEN;
    stream->on_gone = on_gone;
    stream->owner = owner;
    io_stream_update_interest(stream);
    return stream;
}

bool io_stream_has_handler(const struct io_stream *stream)
{
    return stream->handler != NULL;
}

enum err io_stream_write(struct io_stream *stream, struct span bytes)
{
    return io_stream_write2(stream, bytes, span_of(NULL, 0));
}

enum err io_stream_write2(struct io_stream *stream, struct span first,
                          struct span second)
{
    if (stream->is_broken || stream->state > STREAM_OPEN) {
        return ERR_CLOSED;
    }
    size_t held = io_stream_pending(stream);
    size_t size = first.size + second.size;
    if (held > stream->write_max || size > stream->write_max - held) {
        return ERR_FULL;
    }
    size_t taken = 0;
    if (held == 0 && size > 0 && stream->state == STREAM_OPEN &&
        !send_some(stream, first, second, &taken)) {
        break_off(stream);
        return ERR_CLOSED;
    }
    if (taken == size) {
        return OK;
    }
    size_t of_first = taken < first.size ? taken : first.size;
    buf_add_span(&stream->pending, span_slice(first, of_first, first.size));
    buf_add_span(&stream->pending,
                 span_slice(second, taken - of_first, second.size));
    if (buf_error(&stream->pending) != OK) {
        break_off(stream);
        return ERR_NO_MEMORY;
    }
    io_stream_update_interest(stream);
    return OK;
}

uint64_t io_stream_sent(const struct io_stream *stream)
{
    return stream->sent;
}

void io_stream_set_reading(struct io_stream *stream, bool on)
{
    stream->is_reading = on;
    if (!stream->is_broken) {
        io_stream_update_interest(stream);
    }
}

void io_stream_close(struct io_stream *stream, bool after_pending)
{
    if (stream->is_broken && stream->state == STREAM_OPEN) {
        stream->state = STREAM_LINGERING; /* read_last_words ends it */
        return;
    }
    if (!after_pending || stream->state == STREAM_CONNECTING) {
        if (!stream->is_broken) {
            io_stream_end(stream, OK, "closed");
        }
        return;
    }
    if (stream->state != STREAM_OPEN) {
        return;
    }
    if (io_stream_pending(stream) == 0) {
        linger(stream);
        return;
    }
    stream->state = STREAM_FLUSHING;
    io_stream_update_interest(stream);
    io_stream_start_timer(stream, 10 * SECOND_NS);
}

void io_stream_reset(struct io_stream *stream)
{
    stream->is_reset = true;
    io_stream_close(stream, false);
}

bool io_stream_is_stale(struct io_stream *stream)
{
    if (stream->is_broken || stream->state != STREAM_OPEN) {
        return true;
    }
    return stream->net->is_stale(stream->loop, stream->fd);
}

void io_stream_set_handler(struct io_stream *stream,
                           const struct io_stream_handler *handler,
                           void *context)
{
    stream->handler = handler;
    stream->context = context;
}

bool io_stream_has_ended(const struct io_stream *stream)
{
    return stream->has_ended;
}

void io_stream_set_write_max(struct io_stream *stream, size_t write_max)
{
    stream->write_max = write_max;
}

const char *io_stream_peer(const struct io_stream *stream)
{
    return stream->peer;
}
