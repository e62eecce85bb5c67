#include "route/front_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/error.h"
#include "base/check.h"
#include "base/log.h"

/* Of a leg: deadline and two signatures too. */
enum { HEADER_COUNT = FRONT_CALL_HEADER_COUNT + 3 };

static void begin_leg(struct front_session *session, enum route_leg_kind kind,
                      int32_t server)
{
    session->call_kind = kind;
    session->call_server = server;
    session->call_start_ns = io_loop_now(session->front->loop);
    session->last_chunk_ns = session->call_start_ns;
    session->status = 0;
    session->is_event_stream = false;
    session->is_not_accepted = false;
    session->is_restarted = false;
    session->has_bytes = false;
    session->is_kv_failed = false;
    session->is_handoff_refused = false;
    session->is_unpostable = false;
    session->has_context &=
        kind == ROUTE_LEG_GENERATION && !session->request.is_pair;
    buf_reset(&session->answer);
    buf_reset(&session->message);
    session->front->pool.servers[server].open_legs++;
}

static void on_head(void *context, struct http_call *call)
{
    static const char STREAM[] = "text/event-stream";
    struct front_session *session = context;
    struct span type;
    session->status = http_call_status(call);
    session->is_event_stream =
        http_call_header(call, "content-type", &type) &&
        type.size >= sizeof(STREAM) - 1 &&
        strncasecmp((const char *)type.data, STREAM, sizeof(STREAM) - 1) == 0;
    session->is_not_accepted = front_call_is_not_accepted(call);
    session->is_restarted =
        front_call_is_restarted(session->front, session->call_server, call);
}

static bool relays(const struct front_session *session)
{
    return session->request.is_stream && session->status == 200 &&
           session->is_event_stream && session->call_kind != ROUTE_LEG_CONTEXT;
}

static void measure_chunk(struct front_session *session)
{
    struct route_metrics *metrics = &session->front->metrics;
    struct route_leg_metrics *leg =
        &metrics->legs[route_metrics_role(session->call_kind)];
    uint64_t now = io_loop_now(session->front->loop);
    double gap = (double)(now - session->last_chunk_ns) / 1e9;
    if (!session->has_bytes) {
        obs_histogram_add(leg->first_token, gap);
        if (session->call_kind == ROUTE_LEG_GENERATION &&
            !session->request.is_pair) {
            obs_histogram_add(metrics->handoff,
                              (double)(now - session->context_done_ns) / 1e9);
        }
    } else {
        obs_histogram_add(leg->per_token, gap);
        if (leg == &metrics->legs[ROUTE_GENERATION]) {
            obs_histogram_add(metrics->inter_chunk, gap);
        }
    }
    session->has_bytes = true;
    session->last_chunk_ns = now;
}

static void relay(struct front_session *session, struct http_call *call,
                  struct span bytes)
{
    bool is_first = session->request.state == ROUTE_STATE_GEN;
    route_relay_feed(&session->relay, bytes);
    if (is_first) {
        session->chunk = bytes;
        front_session_event(session,
                            (struct route_event){.kind = ROUTE_EVENT_CHUNK});
        session->chunk = span_of(NULL, 0);
        return;
    }
    if (!http_exchange_write(session->exchange, bytes)) {
        http_call_set_reading(call, false);
    }
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    struct front_session *session = context;
    if (bytes.size == 0) {
        return;
    }
    measure_chunk(session);
    if (relays(session)) {
        relay(session, call, bytes);
    } else {
        buf_add_span(&session->answer, bytes);
    }
}

void front_leg_drain(struct front_session *session)
{
    if (session->call != NULL) {
        http_call_set_reading(session->call, true);
    }
}

static bool has_text(struct span body, const char *text)
{
    return body.size > 0 &&
           memmem(body.data, body.size, text, strlen(text)) != NULL;
}

/* What only the hand-off can be at fault for is no client's error: it has not
 * sent any of it. */
static bool is_handoff_refused(enum route_leg_kind kind, struct span body,
                               int status)
{
    return status == 401 || status == 403 ||
           (kind == ROUTE_LEG_GENERATION && status == 400 &&
            has_text(body, "\"param\":\"disaggregated_params\""));
}

/* What we know of the keys beyond the worker's own words, which say whether it
 * has none. */
static const char *say_key(const struct front_session *session, int status)
{
    if (status == 400) {
        return "";
    }
    if (session->front->config->internal_auth_key[0] == 0) {
        return "; there is no internal_request_auth_key here";
    }
    return has_text(buf_span(&session->message), "does not match")
               ? "; internal_request_auth_key here and its --auth-key-file do "
                 "not hold the same key"
               : "";
}

static void say_handoff_refused(struct front_session *session, int32_t server,
                                int status)
{
    struct buf *message = &session->message;
    log_error_rare("route", "%s refused a hand-off: %.*s%s",
                   session->front->pool.servers[server].name,
                   (int)message->size, (const char *)message->data,
                   say_key(session, status));
    buf_reset(message);
    buf_add_string(message, "a worker refused the hand-off of another; the "
                            "front end's log says why");
}

/* What a worker's error answer says, for the client and for the verdict. */
void front_leg_read_error(struct front_session *session,
                          enum route_leg_kind kind, int32_t server,
                          struct span body, int status)
{
    buf_reset(&session->message);
    api_error_unwrap(body, &session->message);
    session->is_kv_failed = has_text(body, "\"kv_transfer_failed\"");
    session->is_handoff_refused = is_handoff_refused(kind, body, status);
    if (session->message.size == 0) {
        buf_printf(&session->message, "the worker answered with status %d",
                   status);
    }
    if (session->is_handoff_refused) {
        say_handoff_refused(session, server, status);
    }
}

/* A good context answer says how to go on. */
static void read_context(struct front_session *session)
{
    struct why why = {""};
    struct route_event event = {.kind = ROUTE_EVENT_CTX_BAD};
    struct buf spare = session->context;
    session->context = session->answer;
    session->answer = spare;
    buf_reset(&session->answer);
    enum err code =
        route_answer_read(buf_span(&session->context), session->request.id,
                          &why, &session->context_answer);
    if (code == OK) {
        session->has_context = true;
        session->context_done_ns = io_loop_now(session->front->loop);
        event.kind = session->context_answer.is_final ? ROUTE_EVENT_CTX_FINAL
                                                      : ROUTE_EVENT_CTX_PENDING;
        event.id = session->context_answer.id;
    } else {
        buf_reset(&session->message);
        buf_add_string(&session->message, why.text);
    }
    front_session_event(session, event);
}

/* 200 with a body of the wrong kind, or one that is too long, is no answer. */
static enum http_call_end judge_body(const struct front_session *session,
                                     enum http_call_end end)
{
    bool wants_stream =
        session->request.is_stream && session->call_kind != ROUTE_LEG_CONTEXT;
    if (end != HTTP_CALL_COMPLETE) {
        return end;
    }
    bool is_wrong_kind =
        session->status == 200 && session->is_event_stream != wants_stream;
    bool is_too_long = buf_error(&session->answer) != OK;
    return is_wrong_kind || is_too_long ? HTTP_CALL_PROTOCOL
                                        : HTTP_CALL_COMPLETE;
}

void front_leg_note_end(struct front_session *session, enum route_leg_kind kind,
                        int32_t index, uint64_t start_ns,
                        const struct route_outcome *outcome, const char *text)
{
    struct route_front *front = session->front;
    struct route_server *server = &front->pool.servers[index];
    CHECK(server->open_legs > 0);
    server->open_legs--;
    uint64_t now = io_loop_now(front->loop);
    route_metrics_on_leg_end(&front->metrics, kind, outcome, now - start_ns);
    if (outcome->end != HTTP_CALL_COMPLETE) {
        log_warn_rare("route", "request %" PRId64 ": leg to %s: %s (%s)",
                      session->request.id, server->name,
                      route_outcome_message(outcome), text == NULL ? "" : text);
    }
}

static void finish_leg(struct front_session *session, enum http_call_end end,
                       const char *text)
{
    end = judge_body(session, end);
    if (end == HTTP_CALL_COMPLETE && session->status != 200) {
        front_leg_read_error(session, session->call_kind, session->call_server,
                             buf_span(&session->answer), session->status);
    }
    struct route_event event = {
        .kind = ROUTE_EVENT_LEG_END,
        .outcome = {.end = end,
                    .status = session->status,
                    .is_not_accepted = session->is_not_accepted,
                    .is_restarted = session->is_restarted,
                    .is_kv_failed = session->is_kv_failed,
                    .is_handoff_refused = session->is_handoff_refused},
        .is_whole_stream = route_relay_is_complete(&session->relay),
    };
    front_leg_note_end(session, session->call_kind, session->call_server,
                       session->call_start_ns, &event.outcome, text);
    bool is_good_context = end == HTTP_CALL_COMPLETE &&
                           session->status == 200 &&
                           session->call_kind == ROUTE_LEG_CONTEXT;
    if (is_good_context) {
        read_context(session);
    } else {
        front_session_event(session, event);
    }
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct front_session *session = context;
    (void)call;
    session->call = NULL;
    finish_leg(session, end, text);
}

static const struct http_call_handler HANDLER = {on_head, on_body, on_end};

/* The context worker of a pair. */
static const struct route_peer *peer_of(const struct front_session *session)
{
    const struct route_pool *pool = &session->front->pool;
    return &pool->servers[session->request.ctx_server].peer;
}

/* The leg's body; ERR_FULL or what the context answer lacks. */
static enum err build(struct front_session *session, enum route_leg_kind kind,
                      int64_t id, struct why *why, struct buf *out)
{
    const struct config_route *config = session->front->config;
    const struct route_body *body = session->body;
    if (session->request.is_pair) {
        return route_body_pair_generation(body, id, peer_of(session), why, out);
    }
    switch (kind) {
    case ROUTE_LEG_CONTEXT:
        route_body_context(body, id,
                           body->is_chat && config->gen_tokids_ctxbytes, out);
        break;
    case ROUTE_LEG_WHOLE:
        route_body_whole(body, out);
        break;
    case ROUTE_LEG_GENERATION:
        return route_body_generation(body, &session->context_answer,
                                     config->gen_strip_message_history, why,
                                     out);
    }
    return buf_error(out);
}

static void add_signature(const struct front_signature *signature,
                          struct http_header *headers)
{
    int count = 0;
    if (signature->own[0] != 0) {
        headers[count++] =
            (struct http_header){"x-baton-disagg-auth", signature->own};
    }
    if (signature->foreign[0] != 0) {
        headers[count] =
            (struct http_header){"x-trtllm-disagg-auth", signature->foreign};
    }
}

enum err front_leg_call(struct front_session *session,
                        const struct front_leg_call *leg,
                        struct http_call **call_out)
{
    struct route_front *front = session->front;
    const struct io_address *address =
        &front->pool.servers[leg->server].address;
    uint64_t now = io_loop_now(front->loop);
    uint64_t left_ms = session->deadline_ns > now + 1000000
                           ? (session->deadline_ns - now) / 1000000
                           : 1;
    char deadline[32];
    snprintf(deadline, sizeof(deadline), "%" PRIu64, left_ms);
    char max_seq[FRONT_MAX_SEQ_SIZE];
    struct http_header headers[HEADER_COUNT + 1] = {{NULL, NULL}};
    uint32_t count = front_call_headers(front, leg->server, max_seq, headers);
    headers[count++] = (struct http_header){"x-baton-deadline-ms", deadline};
    add_signature(leg->signature, headers + count);
    struct http_call_options options = {
        .host = address->host,
        .port = address->port,
        .method = "POST",
        .path =
            session->body->is_chat ? "/v1/chat/completions" : "/v1/completions",
        .content_type = "application/json",
        .headers = headers,
        .body = leg->body,
        .handler = leg->handler,
        .context = session,
    };
    return http_call_start(front->client, &options, call_out);
}

static enum err start(struct front_session *session, enum route_leg_kind kind,
                      int64_t id, struct span body)
{
    struct front_signature signature;
    front_sign(session, kind, id, &signature);
    const struct front_leg_call leg = {
        .server = session->call_server,
        .body = body,
        .signature = &signature,
        .handler = &HANDLER,
    };
    return front_leg_call(session, &leg, &session->call);
}

void front_leg_fail_later(struct front_session *session, const char *text)
{
    session->is_unpostable = true;
    buf_reset(&session->message);
    buf_add_string(&session->message, text);
    io_timer_start(session->wait_timer, 0);
}

void front_leg_post(struct front_session *session, enum route_leg_kind kind,
                    int32_t server, int64_t id)
{
    struct route_front *front = session->front;
    struct why why = {"the leg's body cannot be made"};
    struct buf body;
    begin_leg(session, kind, server);
    buf_init(&body, 4 * front->config->max_body_bytes + (1 << 20));
    enum err code = build(session, kind, id, &why, &body);
    if (code == OK) {
        code = start(session, kind, id, buf_span(&body));
    }
    buf_finish(&body);
    struct route_leg_metrics *leg =
        &front->metrics.legs[route_metrics_role(kind)];
    obs_counter_add(leg->total, 1);
    if (session->request.leg.retries + session->request.leg.transients > 0) {
        obs_counter_add(leg->retry, 1);
    }
    if (code != OK) {
        session->call = NULL;
        front->pool.servers[server].open_legs--;
        front_leg_fail_later(session, why.text);
    }
}

void front_leg_cancel(struct front_session *session)
{
    if (session->call != NULL) {
        http_call_cancel(session->call);
        session->call = NULL;
        session->front->pool.servers[session->call_server].open_legs--;
    }
    if (session->probe != NULL) {
        http_call_cancel(session->probe);
        session->probe = NULL;
    }
    front_pair_cancel(session);
    io_timer_stop(session->wait_timer);
    session->is_unpostable = false;
}
