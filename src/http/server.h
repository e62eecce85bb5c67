#pragma once
/* http/server: HTTP/1.1 requests in, answers and event streams out, on a loop.
 *
 *   connection: READING -> on_request -> (handler works) -> answer -> READING
 *
 * The server reads the whole body (capped) before `on_request`; a long one, or
 * one that waits for 100 Continue, is shown to `on_head` first. It goes on
 * reading while an answer is pending: that is how a leaving client is seen
 * (`on_gone`; a half-close counts). Refused before any handler: smuggling shapes
 * (both lengths, two lengths, two hosts, blanks in names ...), versions other
 * than 1.0 and 1.1, oversized heads (431) and bodies (413), slow requests (408),
 * and whatever goes over the bytes of bodies held at once, of all connections
 * (503). What is written in one turn of the loop leaves in one send. One
 * thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "io/loop.h"

struct http_server;
struct http_exchange; /* one request and its answer; the server's */

struct http_header {
    const char *name; /* static or the caller's during the call */
    const char *value;
};

struct http_handler {
    void (*on_request)(void *context, struct http_exchange *exchange);
    /* Before a body is read that costs something: true when the exchange was
     * answered (http_exchange_reply), which closes the connection. May be
     * NULL. */
    bool (*on_head)(void *context, struct http_exchange *exchange);
    /* The client left before the answer was complete. The exchange is gone
     * when this returns; its user pointer tells whose it was. */
    void (*on_gone)(void *context, struct http_exchange *exchange);
    /* A stream's pending bytes fell below the mark again. May be NULL. */
    void (*on_drain)(void *context, struct http_exchange *exchange);
    /* For answers the server makes itself: fills type and body. May be NULL. */
    void (*describe_error)(void *context, int status, const char *message,
                           struct buf *body_out);
};

struct http_server_options {
    const char *host;
    uint16_t port;
    bool reuse_port;
    size_t header_bytes_max; /* 0: 64 KiB */
    size_t body_bytes_max; /* 0: 64 MiB */
    uint32_t connection_count_max; /* 0: 4096 */
    /* Of those so many that have not sent a complete head yet; of more the
     * oldest is cut off. 0: half of them. */
    uint32_t newcomer_count_max;
    uint64_t keep_alive_ns; /* 0: 10 s */
    uint64_t head_ns_max; /* 0: 10 s from first byte to the head's end */
    uint64_t request_ns_max; /* 0: 30 s from first byte to whole request */
    size_t stream_pending_max; /* 0: 256 KiB */
    const struct http_handler *handler;
    void *context;
};
MUST_USE enum err http_server_open(struct io_loop *loop,
                                   const struct http_server_options *options,
                                   struct why *why,
                                   struct http_server **server_out);
/* Bytes of bodies held at once where one may have `body_bytes_max`. */
uint64_t http_server_held_max(size_t body_bytes_max);
uint16_t http_server_port(const struct http_server *server);
/* From now on each answer says that it is the last of its connection, so that a
 * client with a pool of them does not run into their end; new ones still come. */
void http_server_wind_down(struct http_server *server);
/* No new connections; idle ones close; pending answers may finish. */
void http_server_drain(struct http_server *server);
uint32_t http_server_open_exchanges(const struct http_server *server);
/* No exchange is open, and every answer has left for its client: of a server
 * that drains, the clients have seen the end too, or were slow to hang up. */
bool http_server_is_quiet(const struct http_server *server);
/* Cuts what is left: on_gone comes during the call for each open exchange, and
 * nothing after it. NULL is fine. */
void http_server_close(struct http_server *server);

/* The request; spans live until the exchange ends. */
struct span http_exchange_method(const struct http_exchange *exchange);
struct span http_exchange_path(
    const struct http_exchange *exchange); /* no query */
struct span http_exchange_query(const struct http_exchange *exchange);
struct span http_exchange_body(const struct http_exchange *exchange);
/* False: absent. Name compares without case; white space around is gone. */
bool http_exchange_header(const struct http_exchange *exchange,
                          const char *name, struct span *value_out);
uint32_t http_exchange_header_count(const struct http_exchange *exchange);
void http_exchange_header_at(const struct http_exchange *exchange,
                             uint32_t index, struct span *name_out,
                             struct span *value_out);
uint64_t http_exchange_arrival_ns(const struct http_exchange *exchange);

void http_exchange_set_user(struct http_exchange *exchange, void *user);
void *http_exchange_user(const struct http_exchange *exchange);

/* One whole answer. Ends the exchange: do not touch it afterwards. `headers`
 * ends with a NULL name; may be NULL. */
void http_exchange_reply(struct http_exchange *exchange, int status,
                         const char *content_type,
                         const struct http_header *headers, struct span body);
/* A chunked answer in pieces. */
void http_exchange_begin(struct http_exchange *exchange, int status,
                         const char *content_type,
                         const struct http_header *headers);
/* Always takes the bytes; false: above the mark, wait for on_drain. */
bool http_exchange_write(struct http_exchange *exchange, struct span bytes);
void http_exchange_end(struct http_exchange *exchange); /* complete */
void http_exchange_cut(struct http_exchange *exchange); /* visibly incomplete */
