#include "route/front_session.h"

#include "base/mem.h"

/* Once bytes go out no further leg will be posted: the body can go. */
void front_answer_free_body(struct front_session *session)
{
    if (session->body != NULL) {
        route_body_finish(session->body);
        mem_free(session->body);
        session->body = NULL;
    }
}

/* What a worker refuses for its content is the client's mistake; being late, or
 * one too many, is none. */
static struct obs_counter *counter_of(const struct route_metrics *metrics,
                                      int status)
{
    bool is_mistake =
        status < 500 && status != 408 && status != 429 && status != 499;
    bool is_of_worker =
        status < 500 || status == 502 || status == 503 || status == 504;
    if (is_mistake) {
        return metrics->validation;
    }
    return is_of_worker ? metrics->http : metrics->internal;
}

void front_answer_error(struct front_session *session, int status,
                        const char *message)
{
    struct route_front *front = session->front;
    const char *said =
        message == NULL ? buf_string(&session->message) : message;
    obs_counter_add(counter_of(&front->metrics, status), 1);
    front_reply_error(front, session->exchange, status,
                      session->is_kv_failed ? "kv_transfer_failed" : NULL, said,
                      NULL);
    session->exchange = NULL;
}

static const struct api_usage *context_usage(
    const struct front_session *session)
{
    bool has_usage = session->has_context &&
                     session->call_kind == ROUTE_LEG_GENERATION &&
                     session->context_answer.usage.data != NULL;
    return has_usage ? &session->context_answer.usage_counts : NULL;
}

void front_answer_leg(struct front_session *session, struct span body)
{
    struct why why;
    struct buf out;
    buf_init(&out, 2 * body.size + 4096);
    if (route_answer_clean(body, context_usage(session), &why, &out) != OK) {
        front_answer_error(session, 502, "the worker's answer cannot be read");
    } else {
        front_reply(session->front, session->exchange, 200, "application/json",
                    buf_span(&out));
        session->exchange = NULL;
        obs_counter_add(session->front->metrics.responses, 1);
    }
    buf_finish(&out);
}

/* The context answer was all there is (serve.md 2.12). */
void front_answer_final(struct front_session *session)
{
    struct span body = buf_span(&session->context);
    struct why why;
    struct buf out;
    if (!session->request.is_stream) {
        front_answer_leg(session, body);
        return;
    }
    buf_init(&out, 8 * body.size + 65536);
    if (route_answer_stream(body, session->body->is_chat,
                            session->body->wants_usage, &why, &out) != OK) {
        front_answer_error(session, 502, "the worker's answer cannot be read");
    } else {
        front_begin_stream(session->front, session->exchange);
        IGNORE(!http_exchange_write(session->exchange, buf_span(&out)));
        http_exchange_end(session->exchange);
        session->exchange = NULL;
        obs_counter_add(session->front->metrics.responses, 1);
    }
    buf_finish(&out);
}

uint64_t front_answer_idle_ns(const struct route_front *front)
{
    const struct config_route *config = front->config;
    return front_ns(config->stream_idle_timeout_s > 0
                        ? config->stream_idle_timeout_s
                        : config->request_timeout_s);
}

/* From here on silence is bounded, not the whole (serve.md 4.5). What only a
 * further leg would need goes now: a stream is small. */
void front_answer_begin(struct front_session *session)
{
    struct route_front *front = session->front;
    front_answer_free_body(session);
    buf_finish(&session->context);
    front_begin_stream(front, session->exchange);
    if (!http_exchange_write(session->exchange, session->chunk)) {
        http_call_set_reading(session->call, false);
    }
    io_timer_start(session->deadline_timer, front_answer_idle_ns(front));
    obs_counter_add(front->metrics.responses, 1);
}

void front_answer_end(struct front_session *session)
{
    http_exchange_end(session->exchange);
    session->exchange = NULL;
}

void front_answer_cut(struct front_session *session, const char *message)
{
    struct buf event;
    buf_init(&event, 4096);
    route_relay_cut(&session->relay,
                    message == NULL ? "the worker's stream ended too early"
                                    : message,
                    &event);
    IGNORE(!http_exchange_write(session->exchange, buf_span(&event)));
    buf_finish(&event);
    front_answer_end(session);
    obs_counter_add(session->front->metrics.truncated, 1);
}
