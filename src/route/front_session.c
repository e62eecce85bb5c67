#include "route/front_session.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/clock.h"

enum { MESSAGE_SIZE_MAX = 16384 };

static int64_t new_id(struct route_front *front)
{
    return route_ids_next(&front->ids, io_clock_wall_ms());
}

static void on_deadline(void *context);
static void on_wait(void *context);
static void on_gone(struct front_owner *owner);
static void on_drain(struct front_owner *owner);

static struct front_session *create(struct route_front *front)
{
    struct front_session *session = mem_new(sizeof(*session));
    session->owner = (struct front_owner){on_gone, on_drain};
    session->front = front;
    session->deadline_timer =
        io_timer_create(front->loop, on_deadline, session);
    session->wait_timer = io_timer_create(front->loop, on_wait, session);
    buf_init(&session->answer, front->config->max_body_bytes);
    buf_init(&session->context, front->config->max_body_bytes);
    buf_init(&session->message, MESSAGE_SIZE_MAX);
    buf_init(&session->beside.answer, MESSAGE_SIZE_MAX);
    return session;
}

static void destroy(struct front_session *session)
{
    io_timer_destroy(session->deadline_timer);
    io_timer_destroy(session->wait_timer);
    buf_finish(&session->beside.answer);
    buf_finish(&session->message);
    mem_free(session);
}

static struct front_session *take(struct route_front *front)
{
    struct front_session *session = front->spares;
    if (session == NULL) {
        session = create(front);
    } else {
        front->spares = session->next;
        front->spare_count--;
    }
    session->next = front->sessions;
    session->link = &front->sessions;
    if (session->next != NULL) {
        session->next->link = &session->next;
    }
    front->sessions = session;
    front->open_count++;
    return session;
}

/* Back to the spares, with nothing of this request left in it. */
static void give(struct front_session *session)
{
    struct route_front *front = session->front;
    CHECK(session->call == NULL);
    CHECK(session->probe == NULL);
    CHECK(session->beside.call == NULL);
    io_timer_stop(session->deadline_timer);
    io_timer_stop(session->wait_timer);
    front_answer_free_body(session);
    buf_finish(&session->answer);
    buf_finish(&session->context);
    buf_reset(&session->message);
    buf_reset(&session->beside.answer);
    *session->link = session->next;
    if (session->next != NULL) {
        session->next->link = session->link;
    }
    session->exchange = NULL;
    session->has_context = false;
    session->has_posted = false;
    session->probe_tries = 0;
    session->relay = (struct route_relay){0};
    if (front->spare_count < FRONT_SPARE_SESSION_COUNT_MAX) {
        session->next = front->spares;
        front->spares = session;
        front->spare_count++;
    } else {
        destroy(session);
    }
    front_on_closed(front);
}

/* A generation-first request that has to go context-first. */
static void note_fallback(struct route_front *front, int32_t index)
{
    struct front_probe *probe = &front->probes[index];
    obs_counter_add(front->metrics.fallbacks, 1);
    if (!probe->is_fallback_told && !front->pool.servers[index].is_stale) {
        probe->is_fallback_told = true;
        log_warn("route",
                 "%s does not say where it can be met (disaggregated_params in "
                 "/server_info): its requests go context-first",
                 front->pool.servers[index].name);
    }
}

/* Each try counts once: by the leg it begins with. */
static void note_style(struct front_session *session,
                       const struct route_action *action)
{
    struct route_front *front = session->front;
    struct route_metrics *metrics = &front->metrics;
    if (action->leg == ROUTE_LEG_WHOLE) {
        obs_counter_add(metrics->whole, 1);
    } else if (action->is_pair && action->leg == ROUTE_LEG_GENERATION) {
        obs_counter_add(metrics->styles[CONFIG_ROUTE_GENERATION_FIRST], 1);
    } else if (!action->is_pair && action->leg == ROUTE_LEG_CONTEXT) {
        obs_counter_add(metrics->styles[CONFIG_ROUTE_CONTEXT_FIRST], 1);
        if (session->request.is_generation_first) {
            note_fallback(front, action->server);
        }
    }
}

static void post_leg(struct front_session *session,
                     const struct route_action *action)
{
    struct route_front *front = session->front;
    struct route_metrics *metrics = &front->metrics;
    obs_counter_add(metrics->selects[route_metrics_role(action->leg)], 1);
    if (!session->has_posted) {
        uint64_t now = io_loop_now(front->loop);
        obs_histogram_add(metrics->queue_latency,
                          (double)(now - session->arrival_ns) / 1e9);
        session->has_posted = true;
    }
    note_style(session, action);
    if (action->is_pair && action->leg == ROUTE_LEG_CONTEXT) {
        front_pair_post(session, action->server, action->id);
    } else {
        front_leg_post(session, action->leg, action->server, action->id);
    }
}

static void carry_out(struct front_session *session,
                      const struct route_action *action)
{
    switch (action->kind) {
    case ROUTE_ACTION_POST:
        post_leg(session, action);
        return;
    case ROUTE_ACTION_CANCEL:
        front_leg_cancel(session);
        return;
    case ROUTE_ACTION_WAIT:
        io_timer_start(session->wait_timer, action->delay_ns);
        return;
    case ROUTE_ACTION_PROBE:
        session->probe_tries = 0;
        front_leg_probe(session, action->server);
        return;
    case ROUTE_ACTION_ABORT:
        front_abort(session->front, action->server, action->id);
        return;
    case ROUTE_ACTION_BEGIN:
        front_answer_begin(session);
        return;
    case ROUTE_ACTION_REPLY:
        front_answer_leg(session, buf_span(&session->answer));
        return;
    case ROUTE_ACTION_FINAL:
        front_answer_final(session);
        return;
    case ROUTE_ACTION_ERROR:
        front_answer_error(session, action->status, action->message);
        return;
    case ROUTE_ACTION_END:
        front_answer_end(session);
        return;
    case ROUTE_ACTION_CUT:
        front_answer_cut(session, action->message);
        return;
    case ROUTE_ACTION_LINGER:
        front_answer_free_body(session);
        buf_finish(&session->answer);
        io_timer_start(session->deadline_timer, action->delay_ns);
        return;
    case ROUTE_ACTION_DONE:
        give(session); /* the last one */
        return;
    }
}

static bool needs_id(enum route_event_kind kind)
{
    return kind == ROUTE_EVENT_START || kind == ROUTE_EVENT_LEG_END ||
           kind == ROUTE_EVENT_PROBED || kind == ROUTE_EVENT_WAITED ||
           kind == ROUTE_EVENT_SERVER_DOWN || kind == ROUTE_EVENT_BESIDE_END;
}

void front_session_event(struct front_session *session,
                         struct route_event event)
{
    struct route_front *front = session->front;
    struct route_actions actions;
    uint32_t restarts = session->request.restarts;
    event.now = io_loop_now(front->loop);
    if (needs_id(event.kind)) {
        event.id = new_id(front);
    }
    route_request_step(&session->request, &front->pool, &event, &actions);
    if (session->request.restarts > restarts) {
        obs_counter_add(front->metrics.restarts, 1);
    }
    bool is_leg_end = event.kind == ROUTE_EVENT_LEG_END ||
                      event.kind == ROUTE_EVENT_BESIDE_END;
    for (uint32_t i = 0; i < actions.count; i++) {
        carry_out(session, &actions.actions[i]);
    }
    if (is_leg_end) {
        front_probe_wake(front); /* a broken leg makes its server suspect */
    }
}

static void on_deadline(void *context)
{
    struct front_session *session = context;
    uint64_t idle = front_answer_idle_ns(session->front);
    uint64_t now = io_loop_now(session->front->loop);
    uint64_t silent = now - session->last_chunk_ns;
    if (session->request.state == ROUTE_STATE_STREAM && silent < idle) {
        io_timer_start(session->deadline_timer, idle - silent);
        return;
    }
    front_session_event(session,
                        (struct route_event){.kind = ROUTE_EVENT_DEADLINE});
}

/* Waited before a retry; or a leg that could not even be begun. */
static void on_wait(void *context)
{
    struct front_session *session = context;
    if (session->is_unpostable) {
        front_session_event(
            session, (struct route_event){.kind = ROUTE_EVENT_UNPOSTABLE});
        return;
    }
    front_session_event(session,
                        (struct route_event){.kind = ROUTE_EVENT_WAITED});
}

static void on_gone(struct front_owner *owner)
{
    struct front_session *session = (struct front_session *)owner;
    session->exchange = NULL;
    route_metrics_on_gone(&session->front->metrics, session->request.state);
    log_info_rare(
        "route", "request %" PRId64 ": status 499, the client left (%s)",
        session->request.id, route_state_name(session->request.state));
    front_session_event(session,
                        (struct route_event){.kind = ROUTE_EVENT_CLIENT_GONE});
}

static void on_drain(struct front_owner *owner)
{
    front_leg_drain((struct front_session *)owner);
}

static bool get_header(const void *context, const char *name,
                       struct span *value_out)
{
    return http_exchange_header(context, name, value_out);
}

static enum err read_body(struct front_session *session, bool is_chat,
                          struct why *why)
{
    struct route_body_options options = {
        .config = session->front->config,
        .is_chat = is_chat,
        .header = get_header,
        .header_context = session->exchange,
    };
    struct route_body *body = mem_new(sizeof(*body));
    enum err code = route_body_read(http_exchange_body(session->exchange),
                                    &options, why, body);
    if (code != OK) {
        mem_free(body);
        return code;
    }
    session->body = body;
    return OK;
}

static void start(struct front_session *session)
{
    struct route_front *front = session->front;
    struct route_request_options options = {
        .is_stream = session->body->is_stream,
        .is_whole = session->body->is_whole,
        .is_retry_off = front->is_retry_off,
        .is_generation_first =
            front->config->schedule_style == CONFIG_ROUTE_GENERATION_FIRST,
        .max_retries = front->config->max_retries,
    };
    session->request = route_request_of(&options);
    session->arrival_ns = http_exchange_arrival_ns(session->exchange);
    uint64_t now = io_loop_now(front->loop);
    io_timer_start(session->deadline_timer,
                   session->deadline_ns > now ? session->deadline_ns - now : 0);
    obs_counter_add(options.is_stream ? front->metrics.stream
                                      : front->metrics.nonstream,
                    1);
    front_session_event(session,
                        (struct route_event){.kind = ROUTE_EVENT_START});
}

void front_session_open(struct route_front *front,
                        struct http_exchange *exchange, bool is_chat)
{
    struct why why = {""};
    uint64_t deadline_ns = 0;
    obs_counter_add(front->metrics.total, 1);
    if (front->open_count >= front->open_count_max) {
        obs_counter_add(front->metrics.http, 1);
        front_reply_error(front, exchange, 429, NULL,
                          "too many requests are under way", NULL);
        return;
    }
    if (!front_read_deadline(front, exchange, &deadline_ns)) {
        obs_counter_add(front->metrics.validation, 1);
        return;
    }
    struct front_session *session = take(front);
    session->deadline_ns = deadline_ns;
    session->exchange = exchange;
    http_exchange_set_user(exchange, session);
    enum err code = read_body(session, is_chat, &why);
    if (code != OK) {
        obs_counter_add(front->metrics.validation, 1);
        front_reply_error(front, exchange, code == ERR_NOT_FOUND ? 404 : 400,
                          NULL, why.text, NULL);
        give(session);
        return;
    }
    start(session);
}

void front_session_expire_all(struct route_front *front)
{
    for (struct front_session *session = front->sessions, *next;
         session != NULL; session = next) {
        next = session->next;
        front_session_event(session,
                            (struct route_event){.kind = ROUTE_EVENT_SHUT});
    }
}

static bool is_open_on(const struct front_session *session, int32_t server)
{
    const struct front_beside *beside = &session->beside;
    return (session->call != NULL && session->call_server == server) ||
           (beside->call != NULL && beside->server == server);
}

/* A request that waits for its next try has no call, and nothing to lose. */
void front_session_server_down(struct route_front *front, int32_t server)
{
    for (struct front_session *session = front->sessions, *next;
         session != NULL; session = next) {
        next = session->next;
        if (!is_open_on(session, server)) {
            continue;
        }
        log_warn_rare("route", "request %" PRId64 ": its leg to %s is given up",
                      session->request.id, front->pool.servers[server].name);
        front_session_event(
            session, (struct route_event){.kind = ROUTE_EVENT_SERVER_DOWN,
                                          .server = server});
    }
}

void front_session_cut_all(struct route_front *front)
{
    while (front->sessions != NULL) {
        struct front_session *session = front->sessions;
        if (session->exchange != NULL) {
            http_exchange_set_user(session->exchange, NULL);
            session->exchange = NULL;
        }
        front_leg_cancel(session);
        give(session);
    }
    while (front->spares != NULL) {
        struct front_session *session = front->spares;
        front->spares = session->next;
        destroy(session);
    }
}
