/* serve/reply: whole answers, good and bad, in OpenAI's envelope. */
#include "serve/internal.h"

#include <stdio.h>

void serve_reply_json(struct serve *serve, struct http_exchange *exchange,
                      int status, struct span body)
{
    (void)serve;
    http_exchange_reply(exchange, status, "application/json", NULL, body);
}

/* 429 and 503 say when to come back. */
static void add_headers(const struct serve_failure *failure,
                        struct http_header headers[4])
{
    int count = 0;
    if (failure->status == 429 || failure->status == 503) {
        headers[count++] = (struct http_header){"Retry-After", "1"};
    }
    if (failure->not_accepted) {
        headers[count++] = (struct http_header){"x-disagg-not-accepted", "1"};
    }
    if (failure->status == 503 && failure->code != NULL) {
        headers[count++] =
            (struct http_header){"x-trtllm-server-state", failure->code};
    }
    headers[count] = (struct http_header){0};
}

void serve_reply_failure(struct serve *serve, struct http_exchange *exchange,
                         const struct serve_failure *failure)
{
    struct http_header headers[4];
    struct buf body;
    const char *type = failure->type != NULL
                           ? failure->type
                           : api_error_type_of_status(failure->status);
    buf_init(&body, 1 << 16);
    api_error_body(failure->status, type, failure->message, failure->param,
                   failure->code, &body);
    add_headers(failure, headers);
    if (!failure->is_uncounted) {
        serve_stats_count_failure(serve->stats, failure->status);
    }
    http_exchange_reply(exchange, failure->status, "application/json", headers,
                        buf_span(&body));
    buf_finish(&body);
}

void serve_describe_error(void *context, int status, const char *message,
                          struct buf *body_out)
{
    (void)context;
    api_error_body(status, api_error_type_of_status(status), message, NULL,
                   NULL, body_out);
}
