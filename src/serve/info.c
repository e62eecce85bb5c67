/* serve/info: what the worker says about itself. */
#include "serve/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/scan.h"
#include "http/target.h"
#include "io/clock.h"

enum { WRITES_SIZE_MAX = 64 * 1024 };

static void send_json(struct serve *serve, struct http_exchange *exchange)
{
    serve_reply_json(serve, exchange, 200, buf_span(&serve->out));
}

void serve_info_health(struct serve *serve, struct http_exchange *exchange)
{
    static const struct http_header headers[] = {
        {"x-trtllm-server-state", "draining"}, {"Retry-After", "1"}, {0}};
    if (serve->is_draining) {
        http_exchange_reply(exchange, 503, "application/json", headers,
                            span_of_string("{\"status\":\"draining\"}"));
        return;
    }
    serve_reply_json(serve, exchange, 200,
                     span_of_string("{\"status\":\"ok\"}"));
}

void serve_info_version(struct serve *serve, struct http_exchange *exchange)
{
    buf_reset(&serve->out);
    buf_add_string(&serve->out, "{\"version\":");
    buf_add_json_string(&serve->out, span_of_string(serve->options.version));
    buf_add_byte(&serve->out, '}');
    send_json(serve, exchange);
}

static void add_model(struct span name, uint32_t max_seq, struct buf *out)
{
    buf_add_string(out, "{\"id\":");
    buf_add_json_string(out, name);
    buf_printf(out,
               ",\"object\":\"model\",\"created\":0,"
               "\"owned_by\":\"baton\",\"max_model_len\":%" PRIu32 "}",
               max_seq);
}

static void refuse(struct serve *serve, struct http_exchange *exchange,
                   int status, const struct why *why)
{
    bool is_unknown = status == 404;
    serve_reply_failure(serve, exchange,
                        &(struct serve_failure){
                            .status = status,
                            .message = why->text,
                            .param = is_unknown ? "model" : NULL,
                            .code = is_unknown ? "model_not_found" : NULL,
                        });
}

void serve_info_models(struct serve *serve, struct http_exchange *exchange)
{
    struct buf *out = &serve->out;
    const char *comma = "";
    struct why why = {{0}};
    uint32_t max_seq = 0;
    int status = serve_read_max_seq(serve, exchange, &why, &max_seq);
    if (status != 0) {
        refuse(serve, exchange, status, &why);
        return;
    }
    buf_reset(out);
    buf_add_string(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < SERVE_NAME_COUNT; i++) {
        if (serve->names[i] != NULL) {
            buf_add_string(out, comma);
            add_model(span_of_string(serve->names[i]), max_seq, out);
            comma = ",";
        }
    }
    buf_add_string(out, "]}");
    send_json(serve, exchange);
}

/* GET /v1/models/{id}. A name may hold a slash, as it is or as %2F. */
void serve_info_model(struct serve *serve, struct http_exchange *exchange)
{
    struct why why = {{0}};
    struct buf name;
    struct span path = http_exchange_path(exchange);
    buf_init(&name, path.size);
    http_target_decode(span_slice(path, strlen("/v1/models/"), path.size),
                       &name);
    uint32_t max_seq = 0;
    int status = serve_check_model(serve, buf_span(&name), &why);
    if (status == 0) {
        status = serve_read_max_seq(serve, exchange, &why, &max_seq);
    }
    if (status == 0) {
        buf_reset(&serve->out);
        add_model(buf_span(&name), max_seq, &serve->out);
        send_json(serve, exchange);
    } else {
        refuse(serve, exchange, status, &why);
    }
    buf_finish(&name);
}

static const char *role_name(enum config_role role)
{
    switch (role) {
    case CONFIG_ROLE_CONTEXT:
        return "context";
    case CONFIG_ROLE_GENERATION:
        return "generation";
    case CONFIG_ROLE_MIXED:
        break;
    }
    return "mixed";
}

/* What a router must know to predict hits, and where blocks lie. */
static void add_cache(const struct serve *serve, struct buf *out)
{
    const struct config_worker *config = serve->options.config;
    buf_printf(out,
               ",\"kv_cache_hash_algo\":\"%s\",\"cache_salt_algo\":\"sha256\""
               ",\"event_buffer_max_size\":%" PRIu32 ",\"kv_pools\":[",
               prefix_hash_algo_name((enum prefix_hash_algo)config->hash_algo),
               config->event_max);
    for (uint32_t i = 0; i < serve->parts.pool_count; i++) {
        const struct serve_pool *pool = &serve->parts.pools[i];
        buf_printf(out,
                   "%s{\"layer_group_id\":%" PRIu32 ",\"window_size\":%" PRIu32
                   ",\"num_blocks_per_cache_level\":[%" PRIu32 ",%" PRIu32 "]}",
                   i == 0 ? "" : ",", i,
                   pool->window > 0 ? pool->window : serve->parts.max_seq,
                   pool->page_count, pool->host_page_count);
    }
    buf_add_byte(out, ']');
}

static void add_mark(const char *name, const char *mark, struct buf *out)
{
    if (mark != NULL) {
        buf_printf(out, ",\"%s\":\"%s\"", name, mark);
    }
}

/* By which names and in which form requests are taken. */
static void add_names(const struct serve *serve, struct buf *out)
{
    buf_add_string(out, ",\"served_model_names\":[");
    for (int i = 0; i < SERVE_NAME_COUNT && serve->names[i] != NULL; i++) {
        buf_add_string(out, i == 0 ? "" : ",");
        buf_add_json_string(out, span_of_string(serve->names[i]));
    }
    buf_add_string(out, "],\"chat_template\":");
    if (serve->parts.chat == NULL) {
        buf_add_string(out, "null");
    } else {
        buf_add_json_string(out,
                            span_of_string(text_chat_name(serve->parts.chat)));
    }
}

static void add_handoff(const struct serve *serve, struct buf *out)
{
    buf_printf(out,
               ",\"hand_off\":%s,\"disaggregated_params\":{"
               "\"ctx_info_endpoint\":[",
               serve_auth_takes_hand_offs(serve) ? "true" : "false");
    if (serve->parts.transfer_endpoint != NULL) {
        buf_add_json_string(out,
                            span_of_string(serve->parts.transfer_endpoint));
    }
    buf_add_string(out, "]}");
}

/* How KV moves, and with whom it does or does not. */
static void add_transfer(const struct serve *serve, struct buf *out)
{
    const char *backend = serve->options.config->backend;
    if (backend[0] != 0) {
        buf_printf(out, ",\"transfer_backend\":\"%s\"", backend);
    }
    if (serve->parts.print_peers != NULL) {
        buf_add_string(out, ",\"peers\":");
        serve->parts.print_peers(serve->parts.transfer_context, out);
    }
}

void serve_info_server(struct serve *serve, struct http_exchange *exchange)
{
    struct buf *out = &serve->out;
    const struct config_worker *config = serve->options.config;
    buf_reset(out);
    buf_add_string(out, "{\"model\":");
    buf_add_json_string(out, span_of_string(serve->names[0]));
    buf_printf(out, ",\"role\":\"%s\",\"incarnation\":\"%" PRIu64 "\"",
               role_name(config->role), serve->parts.incarnation);
    buf_printf(out,
               ",\"tokens_per_block\":%" PRIu32 ",\"max_batch_size\":%" PRIu32
               ",\"max_seq_len\":%" PRIu32 ",\"vocab_size\":%" PRIu32,
               config->tokens_per_block, config->max_batch,
               serve->parts.max_seq, serve->parts.vocab_size);
    buf_add_string(out, ",\"accepts_msgpack\":false,\"version\":");
    buf_add_json_string(out, span_of_string(serve->options.version));
    add_mark("model_mark", serve->parts.model_mark, out);
    add_mark("tokenizer_mark", serve->parts.tokenizer_mark, out);
    add_names(serve, out);
    add_cache(serve, out);
    add_handoff(serve, out);
    add_transfer(serve, out);
    buf_add_byte(out, '}');
    send_json(serve, exchange);
}

void serve_info_metrics(struct serve *serve, struct http_exchange *exchange)
{
    struct engine_stats engine = {0};
    if (serve->parts.stats != NULL) {
        engine_stats_read(serve->parts.stats, &engine);
    }
    struct serve_peer_stats peers = {0};
    if (serve->parts.read_peers != NULL) {
        serve->parts.read_peers(serve->parts.transfer_context, &peers);
    }
    buf_reset(&serve->out);
    serve_stats_print(serve->stats, serve->used_count, &engine, &peers,
                      &serve->out);
    http_exchange_reply(exchange, 200, "text/plain; version=0.0.4", NULL,
                        buf_span(&serve->out));
}

void serve_info_transfers(struct serve *serve, struct http_exchange *exchange)
{
    struct buf writes;
    buf_init(&writes, WRITES_SIZE_MAX);
    if (serve->parts.print_writes != NULL) {
        serve->parts.print_writes(serve->parts.transfer_context, &writes);
    }
    bool is_told = writes.size > 0 && !buf_error(&writes);
    buf_reset(&serve->out);
    serve_transfers_print(&serve->transfers,
                          is_told ? buf_span(&writes) : span_of_string("[]"),
                          &serve->out);
    buf_finish(&writes);
    send_json(serve, exchange);
}

/* POST {"offset": seconds}: what a front end found our clock to be ahead. */
static enum err read_offset(struct span body, struct why *why,
                            double *offset_out)
{
    struct api_object object;
    enum err err = api_scan(body, why, &object);
    if (err != OK) {
        return err;
    }
    const struct api_member *member = api_find(&object, "offset");
    if (member == NULL) {
        return why_say(why, ERR_INVALID, "offset: is required");
    }
    err = api_read_number(member->value, -1e12, 1e12, why, offset_out);
    return err == OK ? OK : why_prefix(why, err, "offset");
}

void serve_info_clock(struct serve *serve, struct http_exchange *exchange)
{
    struct why why = {{0}};
    struct buf *out = &serve->out;
    if (span_equals_string(http_exchange_method(exchange), "POST") &&
        read_offset(http_exchange_body(exchange), &why, &serve->clock_offset) !=
            OK) {
        serve_reply_failure(serve, exchange,
                            &(struct serve_failure){
                                .status = 400,
                                .message = why.text,
                                .param = "offset",
                            });
        return;
    }
    buf_reset(out);
    buf_printf(out,
               "{\"receive_ts\":%.9f,\"transmit_ts\":%.9f,\"offset\":%.9g}",
               (double)http_exchange_arrival_ns(exchange) / 1e9,
               (double)io_clock_now_ns() / 1e9, serve->clock_offset);
    send_json(serve, exchange);
}
