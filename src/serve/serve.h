#pragma once
/* serve/serve: a worker's HTTP side. Listens at once and answers every route
 * with 503 `starting` until `serve_set_ready`; then takes requests, has them
 * tokenised by a text worker, submits them to the engine and streams what comes
 * back. One thread: the loop's. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/worker.h"
#include "engine/port.h"
#include "io/loop.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct serve;

struct serve_options {
    struct io_loop *loop;
    const struct config_worker *config; /* outlives it */
    const char *version;
};
/* ERR_IO: port in use ... */
MUST_USE enum err serve_open(const struct serve_options *options,
                             struct why *why, struct serve **serve_out);
uint16_t serve_port(const struct serve *serve);

struct serve_peer_stats; /* serve/stats.h */

/* KV pages of one life cycle, for whoever asks. */
struct serve_pool {
    uint32_t window; /* tokens; 0: all of the sequence */
    uint32_t page_count, host_page_count;
};

/* All outlive the serve. The events mailbox of the port has a waker that is not
 * attached yet: serve attaches it to the loop. */
struct serve_parts {
    const struct text_tokenizer *tokenizer;
    const struct text_chat
        *chat; /* NULL: chat requests are refused, `chat_why` */
    const char *chat_why;
    const char *model_name; /* file stem */
    const char *general_name; /* "" when the file has none */
    /* In hex, by which others know the same model and tokenizer; NULL: not
     * told. */
    const char *model_mark, *tokenizer_mark;
    uint32_t vocab_size;
    uint32_t max_seq; /* tokens of prompt and answer together */
    uint64_t incarnation;
    const char *transfer_endpoint; /* "tcp://host:port"; NULL: none */
    /* The last writes of the transfer as a JSON list; NULL: none are told. */
    void (*print_writes)(void *context, struct buf *out);
    /* How it stands with other workers, likewise. */
    void (*print_peers)(void *context, struct buf *out);
    /* Of the transfer; NULL: there is none. */
    void (*read_peers)(void *context, struct serve_peer_stats *peers_out);
    void *transfer_context;
    uint32_t pool_count;
    struct serve_pool pools[KV_LIFE_COUNT_MAX];
    struct engine_port engine;
    struct io_waker *event_waker;
    struct engine_stats_cell *stats;
    struct span auth_key; /* empty: none */
};
MUST_USE enum err serve_set_ready(struct serve *serve,
                                  const struct serve_parts *parts,
                                  struct why *why);
/* Health says draining, new work is refused with 503; `on_idle` once all
 * exchanges are answered, all hand-offs are pulled or given up, and all answers
 * have left. */
void serve_drain(struct serve *serve, void (*on_idle)(void *context),
                 void *context);
/* While it drains: what is open ends with 503 now, hand-offs are not waited for
 * any longer. `on_idle` comes when these answers have left. */
void serve_drain_late(struct serve *serve);
void serve_close(struct serve *serve);
