/* serve/table: the slots of requests, and how one ends before its time. */
#include "serve/internal.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"

enum { SLOT_BITS = 24 };
static const uint64_t retry_ns = 10 * 1000 * 1000;

struct serve_request *serve_request_take(struct serve *serve,
                                         enum serve_task task,
                                         struct http_exchange *exchange)
{
    if (serve->free_count == 0) {
        return NULL;
    }
    uint32_t slot = serve->free_slots[--serve->free_count];
    struct serve_request *request = mem_new(sizeof(*request));
    CHECK(serve->slots[slot] == NULL);
    serve->slots[slot] = request;
    serve->used_count++;
    *request = (struct serve_request){
        .serve = serve,
        .id = ++serve->generation << SLOT_BITS | slot,
        .task = task,
        .exchange = exchange,
        .arrival_ns = http_exchange_arrival_ns(exchange),
    };
    http_exchange_set_user(exchange, request);
    return request;
}

struct serve_request *serve_request_find(struct serve *serve, uint64_t id)
{
    uint64_t slot = id & ((1u << SLOT_BITS) - 1);
    if (slot >= serve->slot_count || serve->slots[slot] == NULL ||
        serve->slots[slot]->id != id) {
        return NULL;
    }
    return serve->slots[slot];
}

static void leave_dirty_list(struct serve_request *request)
{
    struct serve_request **at = &request->serve->dirty_first;
    while (*at != NULL && *at != request) {
        at = &(*at)->dirty_next;
    }
    if (*at != NULL) {
        *at = request->dirty_next;
    }
}

void serve_request_give(struct serve_request *request)
{
    struct serve *serve = request->serve;
    uint32_t slot = (uint32_t)(request->id & ((1u << SLOT_BITS) - 1));
    CHECK(serve->slots[slot] == request);
    if (request->is_dirty) {
        leave_dirty_list(request);
    }
    for (uint32_t i = 0; i < request->choice_count; i++) {
        serve_choice_finish(&request->choices[i]);
    }
    mem_free(request->choices);
    mem_free(request->prompt);
    mem_free(request->job.ids);
    buf_finish(&request->job.text);
    openai_request_finish(&request->body);
    mem_free(request);
    serve->slots[slot] = NULL;
    serve->free_slots[serve->free_count++] = slot;
    serve->used_count--;
}

static void end_stream(struct serve_request *request,
                       const struct serve_failure *failure)
{
    struct serve *serve = request->serve;
    const char *type = failure->type != NULL
                           ? failure->type
                           : api_error_type_of_status(failure->status);
    buf_reset(&serve->out);
    openai_answer_error_event(failure->status, type, failure->message,
                              &serve->out);
    serve_stats_count_failure(serve->stats, failure->status);
    IGNORE(http_exchange_write(request->exchange, buf_span(&serve->out)));
    http_exchange_end(request->exchange);
}

static void answer(struct serve_request *request,
                   const struct serve_failure *failure)
{
    if (request->exchange == NULL) {
        return;
    }
    http_exchange_set_user(request->exchange, NULL);
    if (request->is_begun) {
        end_stream(request, failure);
    } else {
        serve_reply_failure(request->serve, request->exchange, failure);
    }
    request->exchange = NULL;
}

void serve_request_fail(struct serve_request *request,
                        const struct serve_failure *failure)
{
    answer(request, failure);
    serve_request_give(request);
}

/* Events that still come find no slot and are dropped. */
static void post_cancel(struct serve_request *request)
{
    struct serve *serve = request->serve;
    const struct engine_command command = {.kind = ENGINE_CANCEL,
                                           .id = request->id,
                                           .is_shutdown = request->is_expired};
    if (request->task == SERVE_ABORT || request->task == SERVE_CACHE_POLL ||
        engine_port_post(&serve->parts.engine, &command) == OK) {
        serve_request_give(request);
        return;
    }
    request->phase = SERVE_CANCELLING;
    io_timer_start(serve->retry, retry_ns);
}

void serve_request_cancel(struct serve_request *request)
{
    request->exchange = NULL;
    switch (request->phase) {
    case SERVE_IN_TEXT:
        return; /* serve_on_text sees that nobody waits */
    case SERVE_IN_ENGINE:
        post_cancel(request);
        return;
    case SERVE_CANCELLING:
        return;
    }
    CHECK_UNREACHABLE();
}

void serve_request_expire(struct serve_request *request,
                          const struct serve_failure *failure)
{
    answer(request, failure);
    request->is_expired = true;
    serve_request_cancel(request);
}

void serve_retry_cancels(void *context)
{
    struct serve *serve = context;
    for (uint32_t i = 0; i < serve->slot_count; i++) {
        if (serve->slots[i] != NULL &&
            serve->slots[i]->phase == SERVE_CANCELLING) {
            post_cancel(serve->slots[i]);
        }
    }
}

void serve_on_gone(void *context, struct http_exchange *exchange)
{
    struct serve *serve = context;
    struct serve_request *request = http_exchange_user(exchange);
    if (request == NULL || serve->is_closing) {
        return;
    }
    CHECK(request->exchange == exchange);
    serve_stats_count_gone(serve->stats);
    log_debug("serve", "client left request %llu",
              (unsigned long long)request->id);
    serve_request_cancel(request);
}

void serve_on_drain(void *context, struct http_exchange *exchange)
{
    (void)context;
    struct serve_request *request = http_exchange_user(exchange);
    if (request != NULL) {
        request->blocked_bytes = 0;
    }
}
