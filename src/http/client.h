#pragma once
/* http/client: requests to workers, with a pool of idle connections.
 *
 * Nothing re-posts by itself. Our own count of bytes the kernel took decides
 * how a broken call ends (serve.md 4.2): HTTP_CALL_UNDELIVERED only when the
 * worker provably cannot hold a complete request. One thread, one loop. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "http/server.h"
#include "io/loop.h"

enum http_call_end {
    HTTP_CALL_COMPLETE, /* a whole answer, any status */
    HTTP_CALL_REFUSED, /* no connection: refused, unreachable, no name */
    HTTP_CALL_UNDELIVERED, /* broke while the request was still being written */
    HTTP_CALL_LOST, /* broke after the whole request was written */
    HTTP_CALL_TIMEOUT,
    HTTP_CALL_PROTOCOL, /* not an HTTP answer, or cut in its middle */
};

struct http_call;
struct http_call_handler {
    /* Status and headers are here: http_call_status, http_call_header. */
    void (*on_head)(void *context, struct http_call *call);
    void (*on_body)(void *context, struct http_call *call, struct span bytes);
    /* Last, exactly once; the call is gone when it returns. Not called after
     * http_call_cancel. */
    void (*on_end)(void *context, struct http_call *call,
                   enum http_call_end end, const char *text);
};

struct http_client;
struct http_client_options {
    uint32_t idle_count_max; /* a host; 0: 64 */
    uint64_t idle_ns_max; /* 0: 1 s */
    size_t head_bytes_max; /* of an answer; 0: 128 KiB */
    uint64_t connect_timeout_ns; /* 0: 5 s */
};
struct http_client *http_client_create(
    struct io_loop *loop, const struct http_client_options *options);
/* Cancels all calls: nobody hears of them again. NULL is fine. */
void http_client_destroy(struct http_client *client);

struct http_call_options {
    const char *host;
    uint16_t port;
    const char *method;
    const char *path; /* with its query */
    const char *content_type; /* NULL: no body */
    const struct http_header *headers; /* ends with a NULL name; may be NULL */
    struct span body; /* copied */
    uint64_t total_ns_max; /* 0: none */
    uint64_t idle_ns_max; /* longest silence; 0: none */
    const struct http_call_handler *handler;
    void *context;
};
/* Ends of all kinds come by on_end, later. ERR_INVALID: host or header. */
MUST_USE enum err http_call_start(struct http_client *client,
                                  const struct http_call_options *options,
                                  struct http_call **call_out);
int http_call_status(const struct http_call *call);
bool http_call_header(const struct http_call *call, const char *name,
                      struct span *value_out);
bool http_call_is_reused(const struct http_call *call);
/* Stops and goes on reading (back-pressure). */
void http_call_set_reading(struct http_call *call, bool on);
/* Closes its connection; no more callbacks; the call is gone. */
void http_call_cancel(struct http_call *call);
