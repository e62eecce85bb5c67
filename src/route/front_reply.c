#include "route/front_internal.h"

#include <string.h>

#include "api/error.h"
#include "route/deadline.h"

/* CORS and retry headers, ended with a NULL name; says how many. */
static uint32_t fill_headers(const struct route_front *front, int status,
                             struct http_header headers[FRONT_HEADER_COUNT_MAX])
{
    uint32_t count = 0;
    const char *origin = front->config->cors_origin;
    if (origin[0] != 0) {
        headers[count++] =
            (struct http_header){"Access-Control-Allow-Origin", origin};
    }
    if (origin[0] != 0 && origin[0] != '*') {
        headers[count++] = (struct http_header){"Vary", "Origin"};
    }
    if (status == 429 || status == 503) {
        headers[count++] = (struct http_header){"Retry-After", "1"};
    }
    if (status == 401) {
        headers[count++] = (struct http_header){"WWW-Authenticate", "Bearer"};
    }
    headers[count] = (struct http_header){NULL, NULL};
    return count;
}

void front_reply(struct route_front *front, struct http_exchange *exchange,
                 int status, const char *content_type, struct span body)
{
    struct http_header headers[FRONT_HEADER_COUNT_MAX];
    IGNORE(fill_headers(front, status, headers));
    http_exchange_reply(exchange, status, content_type, headers, body);
}

void front_reply_draining(struct route_front *front,
                          struct http_exchange *exchange)
{
    struct http_header headers[FRONT_HEADER_COUNT_MAX];
    uint32_t count = fill_headers(front, 503, headers);
    headers[count] = (struct http_header){"x-trtllm-server-state", "draining"};
    headers[count + 1] = (struct http_header){NULL, NULL};
    http_exchange_reply(exchange, 503, "application/json", headers,
                        span_of_string("{\"status\":\"draining\"}"));
}

/* Messages about a field begin with its path: "messages[0].role: ...". The
 * worker's body, which knows the field, is long unwrapped (serve.md 2.7). */
static const char *find_param(const char *message, char param_out[64])
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t size = strspn(message, LETTERS);
    size_t path = size + strspn(message + size, "[].");
    path += strspn(message + path, "abcdefghijklmnopqrstuvwxyz0123456789_[].");
    bool is_field = size > 0 && size < 64 && message[path] == ':' &&
                    message[path + 1] == ' ' &&
                    strncmp(message, "body:", 5) != 0;
    if (!is_field) {
        return NULL;
    }
    memcpy(param_out, message, size);
    param_out[size] = 0;
    return param_out;
}

void front_reply_error(struct route_front *front,
                       struct http_exchange *exchange, int status,
                       const char *type, const char *message, const char *param)
{
    struct buf body;
    char field[64];
    if (param == NULL && (status == 400 || status == 404)) {
        param = find_param(message, field);
    }
    /* The word that clients look for, as a worker has it. */
    bool is_model =
        status == 404 && param != NULL && strcmp(param, "model") == 0;
    buf_init(&body, 65536);
    api_error_body(status,
                   type == NULL ? api_error_type_of_status(status) : type,
                   message, param, is_model ? "model_not_found" : NULL, &body);
    front_reply(front, exchange, status, "application/json", buf_span(&body));
    buf_finish(&body);
}

void front_begin_stream(struct route_front *front,
                        struct http_exchange *exchange)
{
    struct http_header headers[FRONT_HEADER_COUNT_MAX];
    uint32_t count = fill_headers(front, 200, headers);
    headers[count++] = (struct http_header){"Cache-Control", "no-cache"};
    headers[count++] = (struct http_header){"X-Accel-Buffering", "no"};
    headers[count] = (struct http_header){NULL, NULL};
    http_exchange_begin(exchange, 200, "text/event-stream", headers);
}

void front_reply_preflight(struct route_front *front,
                           struct http_exchange *exchange)
{
    struct http_header headers[] = {
        {"Access-Control-Allow-Origin", front->config->cors_origin},
        {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
        {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
        {"Access-Control-Max-Age", "600"},
        {"Vary", "Origin"},
        {NULL, NULL},
    };
    http_exchange_reply(exchange, 204, NULL, headers, span_of(NULL, 0));
}

bool front_read_deadline(struct route_front *front,
                         struct http_exchange *exchange, uint64_t *ns_out)
{
    struct span header = {0};
    struct why why = {""};
    uint64_t ns = 0;
    IGNORE(http_exchange_header(exchange, "x-baton-deadline-ms", &header));
    enum err code = route_deadline_read(
        header, front_ns(front->config->request_timeout_s), &why, &ns);
    if (code != OK) {
        front_reply_error(front, exchange, code == ERR_TIMEOUT ? 504 : 400,
                          NULL, why.text, NULL);
        return false;
    }
    *ns_out = http_exchange_arrival_ns(exchange) + ns;
    return true;
}
