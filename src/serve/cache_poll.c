/* serve/cache_poll: POST /kv_cache_events. The engine owns the cache: it is
 * asked, and answers at the head of its next turn with all that it kept. */
#include "serve/internal.h"

#include "api/scan.h"

/* Sums of pages below; beyond it names are left out, not memory taken. */
static const uint64_t name_count_max = (uint64_t)1 << 26;

static uint32_t name_count(const struct serve *serve)
{
    uint64_t count = serve->options.config->event_max;
    for (uint32_t i = 0; i < serve->parts.pool_count; i++) {
        const struct serve_pool *pool = &serve->parts.pools[i];
        /* Twice: a block may be a parent only, its own page gone. */
        count += 2 * ((uint64_t)pool->page_count + pool->host_page_count);
    }
    return (uint32_t)(count < name_count_max ? count : name_count_max);
}

enum err serve_cache_open(struct serve *serve, struct why *why)
{
    const struct config_worker *config = serve->options.config;
    struct serve_cache_events *cache = &serve->cache;
    if (config->event_max == 0) {
        return OK;
    }
    cache->algo = (enum prefix_hash_algo)config->hash_algo;
    cache->level_count = config->host_cache_bytes > 0 ? 2 : 1;
    for (uint32_t i = 0; i < serve->parts.pool_count; i++) {
        uint32_t window = serve->parts.pools[i].window;
        cache->windows[i] = window > 0 ? window : serve->parts.max_seq;
    }
    cache->names = serve_block_names_create(cache->algo, name_count(serve));
    return cache->names != NULL
               ? OK
               : why_say(why, ERR_NO_MEMORY,
                         "no memory for the names of %u blocks",
                         name_count(serve));
}

static enum err read_flag(const struct api_object *object, const char *name,
                          struct why *why, bool *out)
{
    const struct api_member *member = api_find(object, name);
    if (member == NULL) {
        return OK;
    }
    enum err err = api_read_bool(member->value, why, out);
    return err == OK ? OK : why_prefix(why, err, "%s", name);
}

/* {"resync": bool, "tokens": bool}; no body: neither. */
static enum err read_body(struct span body, struct why *why, bool *is_resync,
                          bool *with_tokens)
{
    struct api_object object;
    if (body.size == 0) {
        return OK;
    }
    enum err err = api_scan(body, why, &object);
    if (err == OK) {
        err = read_flag(&object, "resync", why, is_resync);
    }
    return err == OK ? read_flag(&object, "tokens", why, with_tokens) : err;
}

static void refuse(struct serve *serve, struct http_exchange *exchange,
                   int status, const char *message)
{
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = status,
                            .message = message,
                        });
}

void serve_cache_poll(struct serve *serve, struct http_exchange *exchange)
{
    struct why why = {{0}};
    struct engine_command command = {.kind = ENGINE_CACHE_EVENTS};
    bool with_tokens = false;
    if (serve->options.config->event_max == 0) {
        refuse(serve, exchange, 400,
               "this worker keeps no events: "
               "kv_cache_config.event_buffer_max_size is 0");
        return;
    }
    if (read_body(http_exchange_body(exchange), &why, &command.is_resync,
                  &with_tokens) != OK) {
        refuse(serve, exchange, 400, why.text);
        return;
    }
    struct serve_request *request =
        serve_request_take(serve, SERVE_CACHE_POLL, exchange);
    if (request == NULL) {
        refuse(serve, exchange, 503, "too many requests, try again");
        return;
    }
    command.id = request->id;
    request->phase = SERVE_IN_ENGINE;
    request->is_resync = command.is_resync;
    request->with_tokens = with_tokens;
    if (engine_port_post(&serve->parts.engine, &command) != OK) {
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 503,
                                        .message = "the engine is busy",
                                    });
    }
}

static void answer(struct serve_request *request,
                   const struct engine_cache_batch *batch)
{
    struct serve *serve = request->serve;
    struct http_exchange *exchange = request->exchange;
    buf_reset(&serve->out);
    serve->cache.with_tokens = request->with_tokens;
    serve_cache_events_print(&serve->cache, batch, request->is_resync,
                             &serve->out);
    if (buf_error(&serve->out) != OK) {
        serve_request_fail(request,
                           &(struct serve_failure){
                               .status = 500,
                               .message = "the list of events is too long",
                           });
        return;
    }
    http_exchange_set_user(exchange, NULL);
    request->exchange = NULL;
    serve_reply_json(serve, exchange, 200, buf_span(&serve->out));
    serve_request_give(request);
}

void serve_cache_on_event(struct serve *serve, struct serve_request *request,
                          const struct engine_event *event)
{
    bool is_read = request != NULL && request->task == SERVE_CACHE_POLL;
    if (event->cache != NULL && is_read) {
        answer(request, event->cache);
    } else if (event->cache != NULL) {
        serve_cache_events_skip(&serve->cache, event->cache);
    } else if (is_read) {
        serve_request_fail(request, &(struct serve_failure){
                                        .status = 503,
                                        .message = "no memory for the events",
                                    });
    }
}
