#include "base/check.h"
#include "route/front_session.h"

/* The context leg of a pair (serve.md 2.13). Its answer tells nothing that the
 * generation worker does not have from it directly; how it ends matters. */

static void on_head(void *context, struct http_call *call)
{
    struct front_session *session = context;
    session->beside.status = http_call_status(call);
    session->beside.is_not_accepted = front_call_is_not_accepted(call);
    session->beside.is_restarted =
        front_call_is_restarted(session->front, session->beside.server, call);
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    struct front_session *session = context;
    struct front_beside *beside = &session->beside;
    struct route_front *front = session->front;
    (void)call;
    if (!beside->has_bytes) {
        uint64_t waited_ns = io_loop_now(front->loop) - beside->start_ns;
        obs_histogram_add(front->metrics.legs[ROUTE_CONTEXT].first_token,
                          (double)waited_ns / 1e9);
        beside->has_bytes = true;
    }
    if (beside->status != 200) {
        buf_add_span(&beside->answer, bytes);
    }
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct front_session *session = context;
    struct front_beside *beside = &session->beside;
    (void)call;
    struct route_event event = {
        .kind = ROUTE_EVENT_BESIDE_END,
        .outcome = {.end = end,
                    .status = beside->status,
                    .is_not_accepted = beside->is_not_accepted,
                    .is_restarted = beside->is_restarted},
    };
    beside->call = NULL;
    bool is_answered = session->request.state == ROUTE_STATE_LINGER;
    if (end == HTTP_CALL_COMPLETE && beside->status != 200 && !is_answered) {
        front_leg_read_error(session, ROUTE_LEG_CONTEXT, beside->server,
                             buf_span(&beside->answer), beside->status);
        event.outcome.is_handoff_refused = session->is_handoff_refused;
    }
    front_leg_note_end(session, ROUTE_LEG_CONTEXT, beside->server,
                       beside->start_ns, &event.outcome, text);
    front_session_event(session, event);
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

static enum err start(struct front_session *session, int64_t id)
{
    struct route_front *front = session->front;
    struct buf body;
    buf_init(&body, 4 * front->config->max_body_bytes + (1 << 20));
    route_body_pair_context(session->body, id, &body);
    enum err code = buf_error(&body);
    if (code == OK) {
        struct front_signature signature;
        front_sign(session, ROUTE_LEG_CONTEXT, id, &signature);
        const struct front_leg_call leg = {
            .server = session->beside.server,
            .body = buf_span(&body),
            .signature = &signature,
            .handler = &HANDLER,
        };
        code = front_leg_call(session, &leg, &session->beside.call);
    }
    buf_finish(&body);
    return code;
}

void front_pair_post(struct front_session *session, int32_t server, int64_t id)
{
    struct route_front *front = session->front;
    struct front_beside *beside = &session->beside;
    struct route_leg_metrics *leg = &front->metrics.legs[ROUTE_CONTEXT];
    CHECK(beside->call == NULL);
    beside->server = server;
    beside->start_ns = io_loop_now(front->loop);
    beside->status = 0;
    beside->is_not_accepted = false;
    beside->is_restarted = false;
    beside->has_bytes = false;
    buf_reset(&beside->answer);
    obs_counter_add(leg->total, 1);
    if (session->request.leg.retries + session->request.leg.transients > 0) {
        obs_counter_add(leg->retry, 1);
    }
    if (start(session, id) != OK) {
        beside->call = NULL;
        front_leg_fail_later(session, "the leg's body cannot be made");
        return;
    }
    front->pool.servers[server].open_legs++;
}

void front_pair_cancel(struct front_session *session)
{
    struct front_beside *beside = &session->beside;
    if (beside->call != NULL) {
        http_call_cancel(beside->call);
        beside->call = NULL;
        session->front->pool.servers[beside->server].open_legs--;
    }
}
