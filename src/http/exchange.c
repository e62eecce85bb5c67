#include "base/check.h"
#include "http/connection.h"
#include "http/words.h"
#include "io/clock.h"

struct span http_exchange_method(const struct http_exchange *exchange)
{
    return http_parser_head(exchange->parser)->method;
}

struct span http_exchange_path(const struct http_exchange *exchange)
{
    return http_parser_head(exchange->parser)->path;
}

struct span http_exchange_query(const struct http_exchange *exchange)
{
    return http_parser_head(exchange->parser)->query;
}

struct span http_exchange_body(const struct http_exchange *exchange)
{
    return http_parser_body(exchange->parser);
}

bool http_exchange_header(const struct http_exchange *exchange,
                          const char *name, struct span *value_out)
{
    return http_head_find(http_parser_head(exchange->parser), name, value_out);
}

uint32_t http_exchange_header_count(const struct http_exchange *exchange)
{
    return http_parser_head(exchange->parser)->count;
}

void http_exchange_header_at(const struct http_exchange *exchange,
                             uint32_t index, struct span *name_out,
                             struct span *value_out)
{
    const struct http_head *head = http_parser_head(exchange->parser);
    CHECK(index < head->count);
    *name_out = head->fields[index].name;
    *value_out = head->fields[index].value;
}

uint64_t http_exchange_arrival_ns(const struct http_exchange *exchange)
{
    return exchange->arrival_ns;
}

void http_exchange_set_user(struct http_exchange *exchange, void *user)
{
    exchange->user = user;
}

void *http_exchange_user(const struct http_exchange *exchange)
{
    return exchange->user;
}

/* The text changes once a second. */
static struct span date_field(struct http_server *server)
{
    uint64_t wall_ms = io_clock_wall_ms();
    if (wall_ms / 1000 != server->date_second) {
        server->date_second = wall_ms / 1000;
        buf_reset(&server->date);
        http_add_date(&server->date, wall_ms);
    }
    return buf_span(&server->date);
}

static void add_head(struct http_exchange *exchange, int status,
                     const char *content_type,
                     const struct http_header *headers)
{
    struct buf *out = &exchange->output;
    buf_printf(out, "HTTP/1.1 %d %s\r\n", status, http_status_words(status));
    buf_add_span(out, date_field(exchange->server));
    if (content_type != NULL) {
        http_add_field(out, "Content-Type", content_type);
    }
    for (; headers != NULL && headers->name != NULL; headers++) {
        http_add_field(out, headers->name, headers->value);
    }
    bool is_old = http_parser_head(exchange->parser)->minor == 0;
    if (!exchange->keeps_alive) {
        http_add_field(out, "Connection", "close");
    } else if (is_old) {
        http_add_field(out, "Connection", "keep-alive");
    }
}

void http_exchange_reply(struct http_exchange *exchange, int status,
                         const char *content_type,
                         const struct http_header *headers, struct span body)
{
    if (exchange->state == CONNECTION_GONE) {
        return;
    }
    CHECK(exchange->state == CONNECTION_WORKING);
    exchange->keeps_alive &= !exchange->server->is_winding_down;
    add_head(exchange, status, content_type, headers);
    if (http_status_has_body(status)) {
        buf_printf(&exchange->output, "Content-Length: %zu\r\n", body.size);
    }
    buf_add_string(&exchange->output, "\r\n");
    if (http_status_has_body(status) && !exchange->is_head) {
        http_connection_send(exchange, body);
    }
    http_connection_answered(exchange);
}

void http_exchange_begin(struct http_exchange *exchange, int status,
                         const char *content_type,
                         const struct http_header *headers)
{
    if (exchange->state == CONNECTION_GONE) {
        return;
    }
    CHECK(exchange->state == CONNECTION_WORKING);
    bool has_body = http_status_has_body(status) && !exchange->is_head;
    bool knows_chunks = http_parser_head(exchange->parser)->minor > 0;
    exchange->state = CONNECTION_STREAMING;
    exchange->has_body = has_body;
    exchange->has_chunks = has_body && knows_chunks;
    /* To HTTP/1.0 only the end of the connection can say where it ends. */
    exchange->keeps_alive &=
        !exchange->server->is_winding_down && (knows_chunks || !has_body);
    add_head(exchange, status, content_type, headers);
    if (http_status_has_body(status) && knows_chunks) {
        http_add_field(&exchange->output, "Transfer-Encoding", "chunked");
    }
    buf_add_string(&exchange->output, "\r\n");
    http_server_settle_later(exchange);
}

bool http_exchange_write(struct http_exchange *exchange, struct span bytes)
{
    if (exchange->state == CONNECTION_GONE) {
        return true;
    }
    CHECK(exchange->state == CONNECTION_STREAMING);
    if (bytes.size > 0 && exchange->has_body) {
        struct buf *out = &exchange->output;
        if (exchange->has_chunks) {
            buf_printf(out, "%zx\r\n", bytes.size);
        }
        http_connection_send(exchange, bytes);
        if (exchange->has_chunks) {
            buf_add(out, "\r\n", 2);
        }
        http_server_settle_later(exchange);
    }
    exchange->is_over_mark = http_connection_pending(exchange) >
                             exchange->server->options.stream_pending_max;
    return !exchange->is_over_mark;
}

void http_exchange_end(struct http_exchange *exchange)
{
    if (exchange->state == CONNECTION_GONE) {
        return;
    }
    CHECK(exchange->state == CONNECTION_STREAMING);
    if (exchange->has_chunks) {
        buf_add_string(&exchange->output, "0\r\n\r\n");
    }
    http_connection_answered(exchange);
}

void http_exchange_cut(struct http_exchange *exchange)
{
    if (exchange->state == CONNECTION_GONE) {
        return;
    }
    bool is_visible =
        exchange->has_chunks || exchange->state == CONNECTION_WORKING;
    exchange->keeps_alive = false;
    http_connection_answered(exchange);
    if (!is_visible) {
        http_connection_reset(exchange);
    }
}
