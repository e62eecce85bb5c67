#include "http/server.h"

#include "base/check.h"
#include "base/mem.h"
#include "http/connection.h"

enum {
    HEADER_BYTES_MAX = 64 << 10,
    BODY_BYTES_MAX = 64 << 20,
    CONNECTION_COUNT_MAX = 4096,
    STREAM_PENDING_MAX = 256 << 10,
    BODIES_HELD_MAX = 8, /* longest bodies held at once, all connections */
};
static const uint64_t SECOND_NS = 1000000000u;

static void set_defaults(struct http_server_options *options)
{
    if (options->header_bytes_max == 0) {
        options->header_bytes_max = HEADER_BYTES_MAX;
    }
    if (options->body_bytes_max == 0) {
        options->body_bytes_max = BODY_BYTES_MAX;
    }
    if (options->connection_count_max == 0) {
        options->connection_count_max = CONNECTION_COUNT_MAX;
    }
    if (options->keep_alive_ns == 0) {
        options->keep_alive_ns = 10 * SECOND_NS;
    }
    if (options->newcomer_count_max == 0) {
        options->newcomer_count_max = (options->connection_count_max + 1) / 2;
    }
    if (options->head_ns_max == 0) {
        options->head_ns_max = 10 * SECOND_NS;
    }
    if (options->request_ns_max == 0) {
        options->request_ns_max = 30 * SECOND_NS;
    }
    if (options->stream_pending_max == 0) {
        options->stream_pending_max = STREAM_PENDING_MAX;
    }
}

static void on_accept(void *context, struct io_stream *stream)
{
    http_connection_accept(context, stream);
}

enum err http_server_open(struct io_loop *loop,
                          const struct http_server_options *options,
                          struct why *why, struct http_server **server_out)
{
    struct http_server *server = mem_new(sizeof(*server));
    server->loop = loop;
    server->options = *options;
    set_defaults(&server->options);
    server->newcomers.count_max = server->options.newcomer_count_max;
    server->held_max = http_server_held_max(server->options.body_bytes_max);
    buf_init(&server->date, 256);
    enum err e = io_listener_open(
        loop,
        &(struct io_listener_options){
            .host = options->host,
            .port = options->port,
            .reuse_port = options->reuse_port,
            .connection_count_max = server->options.connection_count_max,
            .on_accept = on_accept,
            .context = server,
        },
        why, &server->listener);
    if (e != OK) {
        mem_free(server);
        return e;
    }
    server->port = io_listener_port(server->listener);
    *server_out = server;
    return OK;
}

uint64_t http_server_held_max(size_t body_bytes_max)
{
    return (uint64_t)BODIES_HELD_MAX * body_bytes_max;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

uint32_t http_server_open_exchanges(const struct http_server *server)
{
    return server->open_count;
}

bool http_server_is_quiet(const struct http_server *server)
{
    bool is_quiet = server->open_count == 0;
    for (const struct http_exchange *at = server->first; is_quiet && at != NULL;
         at = at->next) {
        is_quiet = http_connection_is_quiet(at);
    }
    return is_quiet;
}

void http_server_wind_down(struct http_server *server)
{
    server->is_winding_down = true;
}

void http_server_drain(struct http_server *server)
{
    http_server_wind_down(server);
    io_listener_close(server->listener);
    server->listener = NULL;
    server->is_draining = true;
    struct http_exchange *next;
    for (struct http_exchange *at = server->first; at != NULL; at = next) {
        next = at->next;
        http_connection_close_if_idle(at);
    }
}

void http_server_free_if_last(struct http_server *server)
{
    if (!server->is_closed || server->is_flush_due ||
        server->connection_count > 0) {
        return;
    }
    buf_finish(&server->date);
    mem_free(server);
}

void http_server_close(struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    io_listener_close(server->listener);
    server->listener = NULL;
    server->is_winding_down = server->is_draining = true;
    struct http_exchange *next;
    for (struct http_exchange *at = server->first; at != NULL; at = next) {
        next = at->next;
        http_connection_cut(at);
    }
    server->is_closed = true;
    http_server_free_if_last(server);
}

static void flush(void *context)
{
    struct http_server *server = context;
    server->is_flush_due = false;
    while (server->first_dirty != NULL) {
        struct http_exchange *exchange = server->first_dirty;
        server->first_dirty = exchange->next_dirty;
        exchange->is_dirty = false;
        http_connection_settle(exchange);
    }
    http_server_free_if_last(server);
}

void http_server_link(struct http_server *server,
                      struct http_exchange *exchange)
{
    exchange->next = server->first;
    if (server->first != NULL) {
        server->first->previous = exchange;
    }
    server->first = exchange;
    server->connection_count++;
}

void http_server_unlink(struct http_server *server,
                        struct http_exchange *exchange)
{
    if (exchange->previous != NULL) {
        exchange->previous->next = exchange->next;
    } else {
        server->first = exchange->next;
    }
    if (exchange->next != NULL) {
        exchange->next->previous = exchange->previous;
    }
    server->connection_count--;
}

void http_server_settle_later(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;
    if (exchange->is_dirty) {
        return;
    }
    exchange->is_dirty = true;
    exchange->next_dirty = server->first_dirty;
    server->first_dirty = exchange;
    if (!server->is_flush_due) {
        server->is_flush_due = true;
        io_loop_defer(server->loop, flush, server);
    }
}

void http_server_forget_settling(struct http_exchange *exchange)
{
    if (!exchange->is_dirty) {
        return;
    }
    struct http_exchange **at = &exchange->server->first_dirty;
    while (*at != exchange) {
        at = &(*at)->next_dirty;
    }
    *at = exchange->next_dirty;
    exchange->is_dirty = false;
}
