#pragma once
/* io/stream_part: what the parts of a stream share: how it is made (stream_connect.c)
 * and its life after that (stream.c). Private to them. */
#include "base/buf.h"
#include "io/dial.h"
#include "io/net.h"
#include "io/stream.h"

/*
 *   CONNECTING --> OPEN --> FLUSHING --> LINGERING --> (on_close, freed)
 *        \           \______________________________/
 *         \_____________ ENDING: only on_close is still to come
 *
 * FLUSHING sends what is pending, LINGERING has sent its end and throws away
 * what still comes: closing over unread bytes would reset the connection and
 * take the last answer from the peer. */
enum stream_state {
    STREAM_CONNECTING,
    STREAM_OPEN,
    STREAM_FLUSHING,
    STREAM_LINGERING,
    STREAM_ENDING,
};

struct io_stream {
    struct io_loop *loop;
    const struct io_net_ops *net;
    int fd; /* -1: the host's name is being looked up */
    enum stream_state state;
    struct io_dial *dial; /* CONNECTING to a name; else NULL */
    struct io_watch *watch; /* NULL without a descriptor */
    struct io_timer *timer; /* connect, flush or linger limit; else NULL */
    const struct io_stream_handler *handler;
    void *context;
    bool is_reading;
    bool has_ended; /* the peer said that it is done */
    bool is_reset; /* its end is to be seen as a reset */
    bool is_broken; /* the kernel refuses to send; reading may still give */
    struct buf pending;
    size_t pending_begin;
    size_t write_max;
    uint64_t sent;
    enum err end_reason; /* ENDING */
    const char *end_text;
    void (*on_gone)(void *owner);
    void *owner;
    char peer[IO_ENDPOINT_TEXT_SIZE];
    char text[160];
};

/* Without a descriptor. */
struct io_stream *io_stream_new(struct io_loop *loop, size_t write_max);
/* From now on it is about this descriptor, connected or on its way. */
void io_stream_take_fd(struct io_stream *stream, int fd);
void io_stream_drop_fd(struct io_stream *stream);
void io_stream_update_interest(struct io_stream *stream);
void io_stream_start_timer(struct io_stream *stream, uint64_t delay_ns);
/* From here on nothing but on_close is to come. */
void io_stream_end(struct io_stream *stream, enum err reason, const char *text);
/* "127.0.0.1:4711: Connection refused"; 0: the other end has closed. */
const char *io_stream_reason(struct io_stream *stream, int code);

/* -------- stream_connect.c -------- */

void io_stream_on_connected(struct io_stream *stream);
void io_stream_on_connect_late(struct io_stream *stream);
