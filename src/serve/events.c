/* serve/events: what the engine reports, applied to the request it is about.
 * An event for a request that is over finds nobody and is dropped. */
#include "serve/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/clock.h"

/* Events of one wake; the rest waits for the next turn of the loop. */
enum { EVENT_COUNT_A_WAKE = 4096 };

static void cancel_choice(struct serve_request *request, uint32_t choice)
{
    const struct engine_command command = {
        .kind = ENGINE_CANCEL_CHOICE,
        .choice = choice,
        .id = request->id,
    };
    /* Refused: the choice runs to its own end, unseen. */
    IGNORE(engine_port_post(&request->serve->parts.engine, &command));
}

static void note_time(struct serve_request *request)
{
    struct serve *serve = request->serve;
    uint64_t now = io_loop_now(serve->options.loop);
    if (request->first_token_ns == 0) {
        request->first_token_ns = now;
        serve_stats_add_first_token(serve->stats, now - request->arrival_ns);
    } else {
        serve_stats_add_gap(serve->stats, now - request->last_token_ns);
    }
    request->last_token_ns = now;
}

static void take_token(struct serve_request *request, uint32_t choice,
                       const struct serve_token *token)
{
    if (serve_choice_add(&request->choices[choice], token)) {
        cancel_choice(request, choice);
    }
    serve_output_mark(request);
}

/* The first token came with the request; what is known of it did too. */
static void take_first(struct serve_request *request, uint32_t choice)
{
    const struct openai_request *body = &request->body;
    struct sampler_top top[OPENAI_LOGPROB_COUNT_MAX];
    struct serve_token token = {.id = body->handoff.first_tokens[choice]};
    if (body->first_logprobs != NULL && body->first_logprobs[choice].is_known) {
        const struct openai_first_logprob *first =
            &body->first_logprobs[choice];
        token.has_logprob = true;
        token.logprob = (float)first->logprob;
        token.top = top;
        for (uint32_t i = 0;
             i < first->top_count && (int32_t)i < body->logprob_count; i++) {
            top[i] = (struct sampler_top){first->top_tokens[i],
                                          (float)first->top_logprobs[i]};
            token.top_count = i + 1;
        }
    }
    take_token(request, choice, &token);
}

/* A generation leg's first token is the one handed over, whether the engine
 * repeats it (index 0) or goes on from it (index 1). */
static bool is_handed_over(const struct serve_request *request, uint32_t choice)
{
    return request->kind == ENGINE_GENERATION_ONLY &&
           !request->is_generation_first &&
           request->choices[choice].token_count == 0;
}

static void on_token(struct serve_request *request,
                     const struct engine_event *event)
{
    const struct serve_token token = {
        .id = event->token,
        .has_logprob = request->body.logprob_count >= 0,
        .logprob = event->logprob,
        .top = event->top,
        .top_count = event->top == NULL ? 0 : event->top_count,
    };
    note_time(request);
    if (is_handed_over(request, event->choice)) {
        take_first(request, event->choice);
        if (event->index == 0) {
            return;
        }
    }
    take_token(request, event->choice, &token);
}

static void on_score(struct serve_request *request,
                     const struct engine_event *event)
{
    const struct serve_token token = {
        .id = request->prompt[event->index],
        .has_logprob = true,
        .logprob = event->logprob,
        .top = event->top,
        .top_count = event->top == NULL ? 0 : event->top_count,
    };
    for (uint32_t i = 0; i < request->choice_count; i++) {
        serve_choice_score(&request->choices[i], true, &token);
    }
}

static bool is_handed_on(const struct serve_request *request)
{
    for (uint32_t i = 0; i < request->choice_count; i++) {
        if (request->choices[i].finish == ENGINE_FINISH_HANDOFF) {
            return true;
        }
    }
    return false;
}

/* `reason` NULL: it has not failed. */
static void note_transfer(struct serve_request *request,
                          const struct engine_journey *journey,
                          const char *reason)
{
    struct serve_transfer transfer = {
        .id = request->id,
        .rid = request->rid,
        .kind = request->kind,
        .is_failed = reason != NULL,
        .is_open = reason == NULL && is_handed_on(request),
        .ended_wall_ms = io_clock_wall_ms(),
        .journey = *journey,
    };
    if (request->kind == ENGINE_AGGREGATED) {
        return;
    }
    if (reason != NULL) {
        snprintf(transfer.reason, sizeof(transfer.reason), "%s", reason);
    }
    serve_transfers_add(&request->serve->transfers, &transfer);
}

static void on_finished(struct serve_request *request,
                        const struct engine_event *event)
{
    struct serve_choice *choice = &request->choices[event->choice];
    if (choice->is_finished) {
        log_error("serve", "a choice finished twice");
        return;
    }
    if (is_handed_over(request, event->choice) &&
        event->finish != ENGINE_FINISH_CANCELLED) {
        take_first(request, event->choice);
    }
    serve_choice_end(choice, event->finish, event->token);
    request->finished_count++;
    if (!request->has_journey ||
        event->journey.cached_tokens > request->journey.cached_tokens) {
        request->journey = event->journey;
        request->has_journey = true;
    }
    serve_output_mark(request);
    if (request->finished_count == request->choice_count) {
        note_transfer(request, &request->journey, NULL);
        serve_output_complete(request);
    }
}

/* Whoever cancels here gets choices that are cancelled; a failure of that kind
 * is the peer's giving up, while our client waits. */
static bool is_handoff_lost(const struct serve_request *request, enum err error)
{
    if (request->kind == ENGINE_CONTEXT_ONLY) {
        return error == ERR_CANCELLED;
    }
    return request->kind == ENGINE_GENERATION_ONLY &&
           (error == ERR_CANCELLED || error == ERR_CLOSED ||
            error == ERR_CORRUPT || error == ERR_IO || error == ERR_NOT_FOUND);
}

/* A lost hand-off is told apart: the front end may begin again. */
static struct serve_failure failure_of(const struct serve_request *request,
                                       const struct engine_event *event)
{
    struct api_error_kind kind = api_error_of(event->error);
    struct serve_failure failure = {
        .status = kind.status,
        .type = kind.type,
        .message = event->reason[0] ? event->reason : err_name(event->error),
        .not_accepted = event->error == ERR_FULL && !request->is_begun,
    };
    if (is_handoff_lost(request, event->error)) {
        failure.status = 502;
        failure.type = "kv_transfer_failed";
    }
    return failure;
}

/* A hand-off may wait here for pages longer than its sender keeps them, or its
 * transfer may end late; while the request itself has time left that is no
 * reason to fail it: every worker can compute a prompt. Nothing was shown yet,
 * so the first token may come anew with the rest. */
static bool may_compute_here(const struct serve_request *request,
                             const struct engine_event *event)
{
    bool has_time =
        request->deadline_ns == 0 ||
        io_loop_now(request->serve->options.loop) < request->deadline_ns;
    return request->kind == ENGINE_GENERATION_ONLY &&
           event->error == ERR_TIMEOUT && has_time &&
           request->first_token_ns == 0;
}

/* The engine names a field as the body does, but knows no other prompt. */
static void name_field(const struct serve_request *request,
                       struct serve_failure *failure, char text[256],
                       char param[64])
{
    static const char *const FIELDS[] = {"prompt", "n", "max_tokens",
                                         "min_tokens"};
    size_t size = strcspn(failure->message, ":");
    for (size_t i = 0; i < sizeof(FIELDS) / sizeof(FIELDS[0]); i++) {
        if (strlen(FIELDS[i]) == size &&
            strncmp(failure->message, FIELDS[i], size) == 0) {
            const char *name = i == 0 ? serve_prompt_name(request) : FIELDS[i];
            snprintf(param, 64, "%s", name);
            snprintf(text, 256, "%s%s", name, failure->message + size);
            failure->param = param;
            failure->message = text;
            return;
        }
    }
}

static void on_failed(struct serve_request *request,
                      const struct engine_event *event)
{
    char text[256], param[64];
    struct serve_failure failure = failure_of(request, event);
    if (failure.status == 400) {
        name_field(request, &failure, text, param);
    }
    note_transfer(request, &event->journey, event->reason);
    if (may_compute_here(request, event)) {
        log_info_rare("serve", "request %lld: %s; its prompt is computed here",
                      (long long)request->rid, failure.message);
        serve_stats_count_recomputed(request->serve->stats);
        serve_submit_whole(request, event->place);
        return;
    }
    serve_request_fail(request, &failure);
}

static void on_aborted(struct serve_request *request, bool found)
{
    struct http_exchange *exchange = request->exchange;
    if (!found) {
        serve_request_fail(request,
                           &(struct serve_failure){
                               .status = 404,
                               .message = "no such disagg_request_id here",
                               .param = "disagg_request_id",
                               .is_uncounted = true,
                           });
        return;
    }
    http_exchange_set_user(exchange, NULL);
    request->exchange = NULL;
    serve_reply_json(request->serve, exchange, 200,
                     span_of_string("{\"status\":\"aborted\"}"));
    serve_request_give(request);
}

static void on_event(struct serve *serve, const struct engine_event *event)
{
    struct serve_request *request = serve_request_find(serve, event->id);
    if (event->kind == ENGINE_EVENT_CACHE) {
        serve_cache_on_event(serve, request, event);
        return;
    }
    if (event->kind == ENGINE_EVENT_SENT) {
        serve_stats_add_moved(serve->stats, &event->journey);
        serve_transfers_note_sent(&serve->transfers, event->id,
                                  io_clock_wall_ms(), event);
        return;
    }
    if (request == NULL || request->phase != SERVE_IN_ENGINE) {
        return;
    }
    if (request->task == SERVE_ABORT) {
        if (event->kind == ENGINE_EVENT_ABORTED) {
            on_aborted(request, event->found);
        }
        return;
    }
    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        CHECK(event->choice < request->choice_count);
        on_token(request, event);
        break;
    case ENGINE_EVENT_SCORE:
        CHECK(event->index < request->prompt_count);
        on_score(request, event);
        break;
    case ENGINE_EVENT_FINISHED:
        CHECK(event->choice < request->choice_count);
        on_finished(request, event);
        break;
    case ENGINE_EVENT_FAILED:
        on_failed(request, event);
        break;
    case ENGINE_EVENT_ABORTED:
    case ENGINE_EVENT_CACHE:
    case ENGINE_EVENT_SENT:
    case ENGINE_EVENT_STOPPED:
        break;
    }
}

/* The engine is gone: nothing will answer what still waits for it. */
static void on_stopped(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->slot_count; i++) {
        struct serve_request *request = serve->slots[i];
        if (request == NULL || request->phase == SERVE_IN_TEXT) {
            continue;
        }
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 503,
                                        .message = "the engine has stopped",
                                    });
    }
}

void serve_on_events(void *context)
{
    struct serve *serve = context;
    struct engine_event event;
    uint32_t count = 0;
    if (serve->is_closing) {
        return;
    }
    while (count < EVENT_COUNT_A_WAKE &&
           io_mailbox_take(serve->parts.engine.events, &event)) {
        if (event.kind == ENGINE_EVENT_STOPPED) {
            on_stopped(serve);
        } else {
            on_event(serve, &event);
        }
        engine_event_finish(&event);
        count++;
    }
    serve_output_flush(serve);
    if (count == EVENT_COUNT_A_WAKE) {
        io_waker_wake(serve->parts.event_waker);
    }
}
