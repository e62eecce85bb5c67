#pragma once
/* io/tcp: byte streams over TCP on a loop.
 *
 *   connect / accept -> OPEN -> (read, write)* -> on_close once -> memory gone
 *
 * The stream keeps what the kernel does not take at once, up to `write_max`.
 * It reads only while reading is on, which it is at first. A half-close by the
 * peer counts as close. Writing before on_open is kept until then.
 * `io_stream_close` is a request: on_close comes later from the loop with OK,
 * no other callback comes in between, and the stream is freed after it. With
 * `after_pending` it also waits, at most 2 s and reading nothing to anybody,
 * until the peer has seen the end: else a reset could take the last words from
 * it. The loop's thread owns all of it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "io/loop.h"

struct io_stream;

struct io_stream_handler {
    /* A connect ended well. Not called for accepted streams. */
    void (*on_open)(void *context);
    /* Bytes, valid during the call. The handler takes them all. */
    void (*on_read)(void *context, struct span bytes);
    /* What was pending has all gone to the kernel. May be NULL. */
    void (*on_drain)(void *context);
    /* The end, once: OK (we closed), ERR_CLOSED (end or reset by peer),
     * ERR_TIMEOUT or ERR_IO (connect failed). Takes the stream away. */
    void (*on_close)(void *context, enum err reason, const char *text);
};

struct io_stream_options {
    const struct io_stream_handler *handler;
    void *context;
    size_t write_max; /* 0: 16 MiB */
    uint64_t connect_timeout_ns; /* from the call on; 0: 5 s */
};

/* `host` is an address or a name, which is looked up meanwhile (io/resolver);
 * where it has several addresses the next is tried when one refuses or takes
 * more than its share of the time. ERR_INVALID: no host is called so; all else
 * that goes wrong comes by on_close. */
MUST_USE enum err io_stream_connect(struct io_loop *loop, const char *host,
                                    uint16_t port,
                                    const struct io_stream_options *options,
                                    struct why *why,
                                    struct io_stream **stream_out);
/* All or nothing: ERR_FULL over write_max, ERR_CLOSED after the end. */
MUST_USE enum err io_stream_write(struct io_stream *stream, struct span bytes);
/* Two spans in one send where the kernel lets it. */
MUST_USE enum err io_stream_write2(struct io_stream *stream, struct span first,
                                   struct span second);
/* Bytes we hold that the kernel has not taken. */
size_t io_stream_pending(const struct io_stream *stream);
/* Bytes the kernel has taken since the stream opened. */
uint64_t io_stream_sent(const struct io_stream *stream);
void io_stream_set_reading(struct io_stream *stream, bool on);
/* Closes after what is pending is sent, or at once. */
void io_stream_close(struct io_stream *stream, bool after_pending);
/* Closes at once and visibly: the peer sees a reset, never a clean end. */
void io_stream_reset(struct io_stream *stream);
/* True when the idle stream was closed by its peer or holds stray bytes. */
bool io_stream_is_stale(struct io_stream *stream);
/* In on_close: the peer ended in order, it was not a reset. */
bool io_stream_has_ended(const struct io_stream *stream);
/* Replaces the limit of the options: accepted streams start with 16 MiB. */
void io_stream_set_write_max(struct io_stream *stream, size_t write_max);
/* Swaps who is told; the connection pool and the hello need it. */
void io_stream_set_handler(struct io_stream *stream,
                           const struct io_stream_handler *handler,
                           void *context);
/* "127.0.0.1:4711" of the other end; its name while that is looked up. */
const char *io_stream_peer(const struct io_stream *stream);

/* What it waits for before it can even try to connect, as a line for a person;
 * NULL: nothing. */
const char *io_stream_obstacle(const struct io_stream *stream);

struct io_listener;
struct io_listener_options {
    const char *host;
    uint16_t port; /* 0: any free one */
    bool reuse_port;
    uint32_t connection_count_max; /* above it new ones are closed at once */
    /* Decides about a fresh stream: sets its handler (io_stream_set_handler). */
    void (*on_accept)(void *context, struct io_stream *stream);
    void *context;
};
/* ERR_IO with "port 8000 is in use" and the like. */
MUST_USE enum err io_listener_open(struct io_loop *loop,
                                   const struct io_listener_options *options,
                                   struct why *why,
                                   struct io_listener **listener_out);
uint16_t io_listener_port(const struct io_listener *listener);
void io_listener_close(struct io_listener *listener); /* NULL is fine */

/* Splits "host:port", "[v6]:port", with an optional "http://" or "tcp://".
 * The whole text must match. */
struct io_address {
    char host[256];
    uint16_t port;
};
MUST_USE enum err io_address_parse(struct span text, struct why *why,
                                   struct io_address *address_out);
