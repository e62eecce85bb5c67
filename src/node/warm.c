#include "node/warm.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/client.h"
#include "node/json.h"

enum { ANSWER_SIZE_MAX = 1 << 20, NAME_SIZE_MAX = 1024 };
static const uint64_t PATIENCE_NS = 5000000000u; /* a request */

struct node_warm {
    struct node_warm_options options;
    struct http_client *client;
    struct http_call *call;
    struct io_timer *end; /* calls back from the loop, even where none begins */
    struct buf answer;
    struct buf model; /* JSON string, as /v1/models has it; empty: not known */
    uint32_t done;
};

static void next(struct node_warm *warm);

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    struct node_warm *warm = context;
    (void)call;
    buf_add_span(&warm->answer, bytes);
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct node_warm *warm = context;
    int status = end == HTTP_CALL_COMPLETE ? http_call_status(call) : 0;
    bool knew_model = warm->model.size > 0;
    warm->call = NULL;
    if (status != 200) {
        log_debug("up", "a request of our own was not answered: %d %s", status,
                  text == NULL ? "" : text);
        warm->done = warm->options.count;
    } else if (knew_model) {
        warm->done++;
    } else {
        bool is_named =
            node_json_first_model(buf_span(&warm->answer), &warm->model);
        warm->done = is_named ? 0 : warm->options.count;
    }
    next(warm);
}

static const struct http_call_handler HANDLER = {
    .on_body = on_body,
    .on_end = on_end,
};

/* False: none was begun. */
static bool start_call(struct node_warm *warm, const char *path,
                       struct span body)
{
    char bearer[300];
    struct http_header headers[2] = {{"authorization", bearer}, {NULL, NULL}};
    const char *key = warm->options.api_key;
    snprintf(bearer, sizeof(bearer), "Bearer %s", key == NULL ? "" : key);
    buf_reset(&warm->answer);
    struct http_call_options options = {
        .host = warm->options.host,
        .port = warm->options.port,
        .method = body.size == 0 ? "GET" : "POST",
        .path = path,
        .content_type = body.size == 0 ? NULL : "application/json",
        .headers = key == NULL ? NULL : headers,
        .body = body,
        .total_ns_max = PATIENCE_NS,
        .handler = &HANDLER,
        .context = warm,
    };
    return http_call_start(warm->client, &options, &warm->call) == OK;
}

static bool start_request(struct node_warm *warm)
{
    struct buf body;
    buf_init(&body, ANSWER_SIZE_MAX);
    buf_printf(&body,
               "{\"model\":%s,\"prompt\":\"%u\",\"max_tokens\":2,"
               "\"temperature\":0}",
               buf_string(&warm->model), warm->done);
    bool is_begun = start_call(warm, "/v1/completions", buf_span(&body));
    buf_finish(&body);
    return is_begun;
}

static void next(struct node_warm *warm)
{
    bool has_more = warm->done < warm->options.count;
    bool is_begun =
        has_more && (warm->model.size == 0
                         ? start_call(warm, "/v1/models", span_of(NULL, 0))
                         : start_request(warm));
    if (!is_begun) {
        io_timer_start(warm->end, 0);
    }
}

static void tell_end(void *context)
{
    struct node_warm *warm = context;
    warm->options.on_end(warm->options.context);
}

struct node_warm *node_warm_start(const struct node_warm_options *options)
{
    struct node_warm *warm = mem_new(sizeof(*warm));
    warm->options = *options;
    warm->client =
        http_client_create(options->loop, &(struct http_client_options){0});
    warm->end = io_timer_create(options->loop, tell_end, warm);
    buf_init(&warm->answer, ANSWER_SIZE_MAX);
    buf_init(&warm->model, NAME_SIZE_MAX);
    next(warm);
    return warm;
}

void node_warm_destroy(struct node_warm *warm)
{
    if (warm == NULL) {
        return;
    }
    http_client_destroy(warm->client);
    io_timer_destroy(warm->end);
    buf_finish(&warm->answer);
    buf_finish(&warm->model);
    mem_free(warm);
}
