/* serve/admit: a body becomes a request with a slot, or an answer at once. */
#include "serve/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/clock.h"

static void refuse_fault(struct serve *serve, struct http_exchange *exchange,
                         enum err err, const struct openai_fault *fault)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = err == ERR_NO_MEMORY ? 503 : 400,
                            .message = fault->why.text,
                            .param = fault->param[0] ? fault->param : NULL,
                        });
}

static bool is_served(const struct serve *serve, struct span model)
{
    for (int i = 0; i < SERVE_NAME_COUNT; i++) {
        if (serve->names[i] != NULL &&
            span_equals_string(model, serve->names[i])) {
            return true;
        }
    }
    return false;
}

int serve_check_model(const struct serve *serve, struct span model,
                      struct why *why)
{
    if (is_served(serve, model)) {
        return 0;
    }
    IGNORE(why_say(why, ERR_NOT_FOUND,
                   "model: '%.*s' is not served here, '%s' is",
                   (int)(model.size < 128 ? model.size : 128),
                   (const char *)model.data, serve->names[0]));
    return 404;
}

static int check_chat(const struct serve *serve,
                      const struct openai_request *body, struct why *why)
{
    if (!body->has_messages || body->has_ids || serve->parts.chat != NULL) {
        return 0;
    }
    IGNORE(
        why_say(why, ERR_UNSUPPORTED, "messages: %s", serve->parts.chat_why));
    return 400;
}

static bool read_number(struct span text, uint64_t *out)
{
    uint64_t number = 0;
    if (text.size == 0 || text.size > 12) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        number = number * 10 + (text.data[i] - '0');
    }
    *out = number;
    return true;
}

int serve_read_max_seq(const struct serve *serve,
                       const struct http_exchange *exchange, struct why *why,
                       uint32_t *max_seq_out)
{
    struct span text;
    uint64_t asked = serve->parts.max_seq;
    if (http_exchange_header(exchange, "x-baton-max-seq-len", &text) &&
        (!read_number(text, &asked) || asked == 0)) {
        return serve_refuse(why, 400,
                            "x-baton-max-seq-len: must be a number of tokens");
    }
    *max_seq_out =
        asked < serve->parts.max_seq ? (uint32_t)asked : serve->parts.max_seq;
    return 0;
}

/* From arrival to first token: ours, or what is left of the front end's. */
static int set_deadline(struct serve_request *request, struct why *why)
{
    struct span text;
    uint64_t left = 0;
    uint64_t ms = request->serve->options.config->request_timeout_ms;
    if (http_exchange_header(request->exchange, "x-baton-deadline-ms", &text)) {
        if (!read_number(text, &left)) {
            IGNORE(why_say(why, ERR_INVALID,
                           "x-baton-deadline-ms: must be milliseconds"));
            return 400;
        }
        ms = ms == 0 || left < ms ? left : ms;
        if (left == 0) {
            IGNORE(why_say(why, ERR_TIMEOUT, "the deadline has passed"));
            return 504;
        }
    }
    request->deadline_ns = ms == 0 ? 0 : request->arrival_ns + ms * 1000000;
    return 0;
}

static void name_request(struct serve_request *request)
{
    struct serve *serve = request->serve;
    snprintf(request->public_id, sizeof(request->public_id),
             "%s-%016" PRIx64 "%016" PRIx64,
             request->body.route == OPENAI_CHAT ? "chatcmpl" : "cmpl",
             rng_next(&serve->rng), rng_next(&serve->rng));
    request->created = (int64_t)(io_clock_wall_ms() / 1000);
}

static int check_request(struct serve_request *request, struct why *why)
{
    const struct serve *serve = request->serve;
    struct span model = openai_text(&request->body, request->body.model);
    /* tokenize may leave it out */
    int status = model.size == 0 ? 0 : serve_check_model(serve, model, why);
    if (status == 0) {
        status = check_chat(serve, &request->body, why);
    }
    if (status == 0) {
        status = serve_read_max_seq(serve, request->exchange, why,
                                    &request->max_seq);
    }
    if (request->task != SERVE_GENERATE) {
        return status;
    }
    if (status == 0) {
        status = set_deadline(request, why);
    }
    return status == 0 ? serve_handoff_check(request, why) : status;
}

static void start(struct serve_request *request)
{
    if (request->task == SERVE_GENERATE && request->body.has_ids) {
        request->job.ids = request->body.ids;
        request->job.id_count = request->body.id_count;
        request->body.ids = NULL;
        serve_submit(request);
        return;
    }
    request->phase = SERVE_IN_TEXT;
    request->job.body = &request->body;
    serve_text_worker_post(request->serve->text, &request->job);
}

static void refuse_full(struct serve *serve, struct http_exchange *exchange)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = 429,
                            .message = "too many requests, try again",
                            .not_accepted = true,
                        });
}

static enum serve_task task_of(enum openai_route route)
{
    return route == OPENAI_TOKENIZE     ? SERVE_TOKENIZE
           : route == OPENAI_DETOKENIZE ? SERVE_DETOKENIZE
                                        : SERVE_GENERATE;
}

static void fail_check(struct serve_request *request, int status,
                       const struct why *why)
{
    char param[64];
    snprintf(param, sizeof(param), "%.*s", (int)strcspn(why->text, ":[. "),
             why->text);
    serve_request_fail(
        request, &(struct serve_failure){
                     .status = status,
                     .message = why->text,
                     .param = status == 404 || status == 400 ? param : NULL,
                     .code = status == 404 ? "model_not_found" : NULL,
                 });
}

void serve_admit(struct serve *serve, struct http_exchange *exchange,
                 enum openai_route route)
{
    const struct openai_limits limits = {.id_count_max = serve->id_count_max};
    struct openai_fault fault;
    struct openai_request body;
    struct why why = {{0}};
    serve_stats_count_request(serve->stats, route);
    if (serve->free_count == 0) {
        refuse_full(serve, exchange);
        return;
    }
    enum err err = openai_request_parse(route, http_exchange_body(exchange),
                                        &limits, &fault, &body);
    if (err != OK) {
        refuse_fault(serve, exchange, err, &fault);
        return;
    }
    struct serve_request *request =
        serve_request_take(serve, task_of(route), exchange);
    request->body = body;
    name_request(request);
    int status = check_request(request, &why);
    if (status != 0) {
        fail_check(request, status, &why);
        return;
    }
    start(request);
}

static void answer_ids(struct serve_request *request, struct buf *out)
{
    buf_printf(out,
               "{\"count\":%" PRIu32 ",\"max_model_len\":%" PRIu32
               ",\"tokens\":[",
               request->job.id_count, request->max_seq);
    for (uint32_t i = 0; i < request->job.id_count; i++) {
        buf_printf(out, i == 0 ? "%" PRId32 : ",%" PRId32, request->job.ids[i]);
    }
    buf_add_string(out, "]}");
}

static void answer_text_task(struct serve_request *request)
{
    struct serve *serve = request->serve;
    struct buf *out = &serve->out;
    buf_reset(out);
    if (request->task == SERVE_TOKENIZE) {
        answer_ids(request, out);
    } else {
        buf_add_string(out, "{\"prompt\":");
        buf_add_json_string(out, buf_span(&request->job.text));
        buf_add_byte(out, '}');
    }
    if (buf_error(out) != OK) {
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 400,
                                        .message = "the answer is too long",
                                    });
        return;
    }
    http_exchange_set_user(request->exchange, NULL);
    serve_reply_json(serve, request->exchange, 200, buf_span(out));
    request->exchange = NULL;
    serve_request_give(request);
}

void serve_on_text(void *context, struct serve_text_job *job)
{
    (void)context;
    struct serve_request *request =
        (struct serve_request *)((char *)job -
                                 offsetof(struct serve_request, job));
    if (request->exchange == NULL || request->serve->is_closing) {
        serve_request_give(request);
    } else if (job->error != OK) {
        fail_check(request, job->error == ERR_NO_MEMORY ? 503 : 400, &job->why);
    } else if (request->task == SERVE_GENERATE) {
        serve_submit(request);
    } else {
        answer_text_task(request);
    }
}
