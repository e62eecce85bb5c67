#include "serve/serve.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/internal.h"

static const uint64_t idle_poll_ns = 10 * 1000 * 1000;
static const size_t out_cap = (size_t)256 << 20;
/* Requests that only wait for text or an abort, beyond the engine's. */
enum { SLOT_COUNT_BESIDE = 64, ID_COUNT_MIN = 1 << 20 };

static const struct http_handler handler = {
    .on_request = serve_on_request,
    .on_head = serve_on_head,
    .on_gone = serve_on_gone,
    .on_drain = serve_on_drain,
    .describe_error = serve_describe_error,
};

static void make_slots(struct serve *serve)
{
    const struct config_worker *config = serve->options.config;
    serve->slot_count =
        config->queue_limit + config->max_batch + SLOT_COUNT_BESIDE;
    serve->slots = mem_new_array(serve->slot_count, sizeof(*serve->slots));
    serve->free_slots =
        mem_new_array(serve->slot_count, sizeof(*serve->free_slots));
    for (uint32_t i = 0; i < serve->slot_count; i++) {
        serve->free_slots[i] = serve->slot_count - 1 - i;
    }
    serve->free_count = serve->slot_count;
}

static enum err open_http(struct serve *serve, struct why *why)
{
    const struct config_worker *config = serve->options.config;
    const struct http_server_options options = {
        .host = config->host,
        .port = (uint16_t)config->port,
        .body_bytes_max = config->max_body_bytes,
        .handler = &handler,
        .context = serve,
    };
    return http_server_open(serve->options.loop, &options, why, &serve->http);
}

static void poll_idle(void *context);

static void free_serve(struct serve *serve)
{
    io_timer_destroy(serve->retry);
    io_timer_destroy(serve->idle);
    serve_stats_destroy(serve->stats);
    serve_block_names_destroy(serve->cache.names);
    buf_finish(&serve->out);
    mem_free(serve->slots);
    mem_free(serve->free_slots);
    mem_free(serve);
}

enum err serve_open(const struct serve_options *options, struct why *why,
                    struct serve **serve_out)
{
    struct serve *serve = mem_new(sizeof(*serve));
    serve->options = *options;
    serve->rng = rng_from_seed(rng_system());
    serve->stats = serve_stats_create();
    serve->retry = io_timer_create(options->loop, serve_retry_cancels, serve);
    serve->idle = io_timer_create(options->loop, poll_idle, serve);
    buf_init(&serve->out, out_cap);
    make_slots(serve);
    enum err err = open_http(serve, why);
    if (err != OK) {
        free_serve(serve);
        return err;
    }
    *serve_out = serve;
    return OK;
}

uint16_t serve_port(const struct serve *serve)
{
    return http_server_port(serve->http);
}

/* The name given, or the file's stem and the name inside it. */
static void name_models(struct serve *serve)
{
    const char *given = serve->options.config->served_model_name;
    const char *general = serve->parts.general_name;
    if (given[0] != 0) {
        serve->names[0] = given;
        return;
    }
    serve->names[0] = serve->parts.model_name;
    if (general != NULL && general[0] != 0 &&
        strcmp(general, serve->parts.model_name) != 0) {
        serve->names[1] = general;
    }
}

static enum err open_text(struct serve *serve)
{
    const struct serve_text_options options = {
        .loop = serve->options.loop,
        .tokenizer = serve->parts.tokenizer,
        .chat = serve->parts.chat,
        .id_count_max = serve->id_count_max,
        .job_count_max = serve->slot_count,
        .on_done = serve_on_text,
        .context = serve,
    };
    return serve_text_worker_open(&options, &serve->text);
}

enum err serve_set_ready(struct serve *serve, const struct serve_parts *parts,
                         struct why *why)
{
    CHECK(!serve->is_ready);
    serve->parts = *parts;
    /* A longer one may come with truncate_prompt_tokens. */
    serve->id_count_max =
        parts->max_seq > ID_COUNT_MIN ? parts->max_seq : ID_COUNT_MIN;
    serve->end_token_count = text_end_tokens(
        parts->tokenizer, serve->end_tokens, SERVE_END_TOKEN_COUNT_MAX);
    if (serve->end_token_count > SERVE_END_TOKEN_COUNT_MAX) {
        serve->end_token_count = SERVE_END_TOKEN_COUNT_MAX;
    }
    name_models(serve);
    enum err err = serve_cache_open(serve, why);
    if (err != OK) {
        return err;
    }
    err = open_text(serve);
    if (err != OK) {
        return why_say(why, err, "text worker: %s", err_name(err));
    }
    err = io_waker_attach(parts->event_waker, serve->options.loop,
                          serve_on_events, serve);
    if (err != OK) {
        serve_text_worker_close(serve->text);
        serve->text = NULL;
        return why_say(why, err, "event waker: %s", err_name(err));
    }
    serve->is_ready = true;
    return OK;
}

/* Pages that a peer is still to pull, or may still write into. The engine tells
 * the numbers before it tells an answer: none is missed. */
static bool has_handoffs(const struct serve *serve)
{
    struct engine_stats stats = {0};
    if (serve->parts.stats != NULL) {
        engine_stats_read(serve->parts.stats, &stats);
    }
    return stats.sending + stats.receiving > 0;
}

static bool is_at_work(const struct serve *serve)
{
    return http_server_open_exchanges(serve->http) > 0 ||
           serve->used_count > 0 || (!serve->is_late && has_handoffs(serve));
}

static void poll_idle(void *context)
{
    struct serve *serve = context;
    if (!serve->is_shut && !is_at_work(serve)) {
        serve->is_shut = true;
        http_server_drain(serve->http);
    }
    if (!serve->is_shut || !http_server_is_quiet(serve->http)) {
        io_timer_start(serve->idle, idle_poll_ns);
        return;
    }
    if (serve->on_idle != NULL) {
        void (*on_idle)(void *) = serve->on_idle;
        serve->on_idle = NULL;
        on_idle(serve->idle_context);
    }
}

/* New connections still come in: a probe shall see `draining`. */
void serve_drain(struct serve *serve, void (*on_idle)(void *context),
                 void *context)
{
    serve->is_draining = true;
    http_server_wind_down(serve->http);
    serve->on_idle = on_idle;
    serve->idle_context = context;
    io_timer_start(serve->idle, 0);
}

void serve_drain_late(struct serve *serve)
{
    static const struct serve_failure failure = {
        .status = 503,
        .message = "the server shuts down and the answer took too long",
        .code = "draining",
    };
    CHECK(serve->is_draining);
    serve->is_late = true;
    for (uint32_t i = 0; i < serve->slot_count; i++) {
        if (serve->slots[i] != NULL) {
            serve_request_expire(serve->slots[i], &failure);
        }
    }
}

/* Clients are cut; what still runs is the engine's to end. */
void serve_close(struct serve *serve)
{
    serve->is_closing = true;
    http_server_close(serve->http);
    for (uint32_t i = 0; i < serve->slot_count; i++) {
        if (serve->slots[i] != NULL) {
            serve->slots[i]->exchange = NULL;
        }
    }
    serve_text_worker_close(serve->text);
    for (uint32_t i = 0; i < serve->slot_count; i++) {
        if (serve->slots[i] != NULL) {
            serve_request_give(serve->slots[i]);
        }
    }
    free_serve(serve);
}
