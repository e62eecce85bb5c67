#include "node/worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "io/allow.h"
#include "io/loop.h"
#include "io/thread.h"
#include "node/auth_key.h"
#include "node/backend.h"
#include "node/mailboxes.h"
#include "node/model_file.h"
#include "node/pools.h"
#include "node/transfer.h"
#include "node/ports.h"
#include "serve/serve.h"
#include "serve/stats.h"
#include "transfer/peers.h"

static const uint64_t STOP_POLL_NS = 1000000u;
/* For the last answers after the drain limit. */
static const uint64_t LAST_WORDS_NS = 1000000000u;

struct worker {
    const struct config_worker *config;
    uint64_t incarnation;
    struct io_loop *loop;
    struct serve *serve;
    struct io_timer *drain_limit;
    bool is_draining, is_late, is_loaded;
    enum err result;
    struct why why;
    struct buf key;

    /* Made by the load thread; main's once it is joined. */
    struct io_thread *load_thread;
    struct io_waker *loaded_waker;
    enum err load_result;
    struct why load_why;
    struct node_model_file file;
    struct node_mailboxes boxes;
    atomic_bool cancel_hint;
    struct engine_stats_cell *stats;
    struct node_backend moves;
    struct node_pools pools;
    struct node_transfer transfer;
    struct engine *engine;
};

static void say(const struct worker *worker, const char *what)
{
    node_ports_say(what, worker->config->host, serve_port(worker->serve));
}

static void say_loading(void *context, const char *what)
{
    (void)context;
    printf("loading %s\n", what);
    fflush(stdout);
}

/* Pools, and what moves their pages to others. */
static enum err open_pools(struct worker *worker, struct why *why)
{
    enum err code =
        node_backend_open(worker->config, worker->incarnation,
                          buf_span(&worker->key), why, &worker->moves);
    if (code == OK) {
        code = node_pools_take(&worker->pools, &worker->file.limits,
                               worker->moves.backend, why);
    }
    return code == OK
               ? node_transfer_open(worker->config, worker->incarnation,
                                    buf_span(&worker->key),
                                    worker->moves.backend, &worker->pools,
                                    &worker->file, &worker->boxes, why,
                                    &worker->transfer)
               : code;
}

static enum sched_policy policy_of(enum config_policy policy)
{
    switch (policy) {
    case CONFIG_POLICY_NO_EVICT:
        return SCHED_GUARANTEED_NO_EVICT;
    case CONFIG_POLICY_MAX_UTILIZATION:
        return SCHED_MAX_UTILIZATION;
    case CONFIG_POLICY_OVERCOMMIT:
        return SCHED_BOUNDED_OVERCOMMIT;
    }
    CHECK_UNREACHABLE();
}

static void set_pools(const struct worker *worker,
                      struct engine_options *options)
{
    node_pools_views(&worker->pools, &worker->file.limits,
                     &worker->file.model->info.shape, options->pools,
                     options->host_pools);
    if (worker->transfer.transfer != NULL) {
        options->transfer = (struct transfer_port){
            worker->boxes.transfer_commands, worker->boxes.reports};
    }
}

static enum err open_engine(struct worker *worker, struct why *why)
{
    const struct config_worker *config = worker->config;
    const struct node_limits *limits = &worker->file.limits;
    int32_t ends[ENGINE_END_TOKEN_COUNT_MAX];
    uint32_t end_count = text_end_tokens(worker->file.tokenizer, ends,
                                         ENGINE_END_TOKEN_COUNT_MAX);
    struct engine_options options = {
        .model = worker->file.model,
        .port = {worker->boxes.commands, worker->boxes.events,
                 &worker->cancel_hint},
        .waker = worker->boxes.engine_waker,
        .stats = worker->stats,
        .max_batch = config->max_batch,
        .max_seq = limits->max_seq,
        .row_count_max = limits->row_count_max,
        .chunk_tokens = config->chunk_tokens,
        .turn_ns_max = config->turn_ms_max * (uint64_t)1000000,
        .queue_limit = config->queue_limit,
        .kv_transfer_timeout_ns =
            config->kv_transfer_timeout_ms * (uint64_t)1000000,
        .vocab_size = worker->file.model->info.vocab_size,
        .end_tokens = ends,
        .end_token_count = end_count < ENGINE_END_TOKEN_COUNT_MAX
                               ? end_count
                               : ENGINE_END_TOKEN_COUNT_MAX,
        .enable_block_reuse = config->enable_block_reuse,
        .enable_partial_reuse = config->enable_partial_reuse,
        .is_reuse_per_request =
            config->reuse_policy == CONFIG_REUSE_PER_REQUEST,
        .offload_priority_min = (uint8_t)config->offload_priority_min,
        .cache_event_max = config->event_max,
        .policy = policy_of(config->policy),
        .is_shortest_first = config->shortest_first,
        .enable_prefix_waits = config->prefix_wait,
        .is_overlapped = !config->disable_overlap_scheduler,
        .is_mixed = config->role == CONFIG_ROLE_MIXED,
    };
    set_pools(worker, &options);
    return engine_start(&options, why, &worker->engine);
}

static enum err load(struct worker *worker, struct why *why)
{
    enum err code = node_model_file_open(worker->config, say_loading, worker,
                                         why, &worker->file);
    if (code != OK) {
        return code;
    }
    node_model_file_touch(&worker->file);
    say_loading(worker, "KV pool");
    worker->stats = engine_stats_cell_create();
    code = node_mailboxes_open(&worker->boxes, &worker->file.limits);
    if (code != OK) {
        return why_say(why, code, "mailboxes: %s", err_name(code));
    }
    code = open_pools(worker, why);
    return code == OK ? open_engine(worker, why) : code;
}

static void run_load(void *context)
{
    struct worker *worker = context;
    worker->load_result = load(worker, &worker->load_why);
    io_waker_wake(worker->loaded_waker);
}

static void fail(struct worker *worker, enum err code, const char *text)
{
    worker->result = why_say(&worker->why, code, "%s", text);
    io_loop_stop(worker->loop);
}

static void describe_pools(const struct node_limits *limits,
                           struct serve_pool pools_out[KV_LIFE_COUNT_MAX])
{
    for (uint32_t i = 0; i < limits->life_count; i++) {
        const struct node_pool *pool = &limits->pools[i];
        pools_out[i] = (struct serve_pool){
            .window = pool->window,
            .page_count = pool->page_count,
            .host_page_count = pool->host_page_count,
        };
    }
}

static void print_writes(void *context, struct buf *out)
{
    const struct worker *worker = context;
    node_backend_print(&worker->moves, out);
}

static void print_peers(void *context, struct buf *out)
{
    const struct worker *worker = context;
    transfer_peers_print(worker->transfer.peers, out);
}

static void read_peers(void *context, struct serve_peer_stats *peers_out)
{
    const struct worker *worker = context;
    struct transfer_stats stats = {0};
    if (worker->transfer.transfer != NULL) {
        transfer_stats_read(worker->transfer.transfer, &stats);
    }
    *peers_out = (struct serve_peer_stats){
        .refused = stats.peers_refused,
        .denied = stats.peers_denied,
        .strangers_cut = stats.strangers_cut,
        .connections_dropped = stats.connections_dropped,
        .frames_dropped = stats.frames_dropped,
    };
}

static enum err set_ready(struct worker *worker, struct why *why)
{
    const struct node_limits *limits = &worker->file.limits;
    struct serve_parts parts = {
        .tokenizer = worker->file.tokenizer,
        .chat = worker->file.chat,
        .chat_why = worker->file.chat_why,
        .model_name = worker->file.name,
        .general_name = worker->file.general_name,
        .vocab_size = worker->file.model->info.vocab_size,
        .model_mark = worker->file.marks.model_text,
        .tokenizer_mark = worker->file.marks.tokenizer_text,
        .max_seq = limits->max_seq,
        .incarnation = worker->incarnation,
        .transfer_endpoint = worker->transfer.transfer == NULL
                                 ? NULL
                                 : transfer_endpoint(worker->transfer.transfer),
        .print_writes = print_writes,
        .print_peers = print_peers,
        .read_peers = read_peers,
        .transfer_context = worker,
        .pool_count = limits->life_count,
        .engine = {worker->boxes.commands, worker->boxes.events,
                   &worker->cancel_hint},
        .event_waker = worker->boxes.event_waker,
        .stats = worker->stats,
        .auth_key = buf_span(&worker->key),
    };
    describe_pools(limits, parts.pools);
    return serve_set_ready(worker->serve, &parts, why);
}

static void on_loaded(void *context)
{
    struct worker *worker = context;
    struct why why = {{0}};
    if (worker->is_loaded) {
        return;
    }
    io_thread_join(worker->load_thread);
    worker->load_thread = NULL;
    worker->is_loaded = true;
    if (worker->load_result != OK) {
        fail(worker, worker->load_result, worker->load_why.text);
        return;
    }
    if (worker->is_draining) {
        io_loop_stop(worker->loop);
        return;
    }
    enum err code = set_ready(worker, &why);
    if (code != OK) {
        fail(worker, code, why.text);
        return;
    }
    if (worker->file.chat == NULL) {
        log_warn("worker", "no chat: %s", worker->file.chat_why);
    }
    say(worker, "ready");
}

static void stop(void *context)
{
    struct worker *worker = context;
    io_loop_stop(worker->loop);
}

/* Who still waits hears of it before the end. */
static void on_drain_limit(void *context)
{
    struct worker *worker = context;
    if (worker->is_late || !worker->is_loaded) {
        stop(worker);
        return;
    }
    worker->is_late = true;
    log_warn("worker", "the drain took too long: what is open is given up");
    io_timer_start(worker->drain_limit, LAST_WORDS_NS);
    serve_drain_late(worker->serve);
}

static void on_signal(void *context)
{
    struct worker *worker = context;
    if (worker->is_draining) {
        stop(worker);
        return;
    }
    worker->is_draining = true;
    log_info("worker", "draining: what is open may go on for %.1f s",
             worker->config->drain_timeout_ms / 1000.0);
    io_timer_start(worker->drain_limit,
                   worker->config->drain_timeout_ms * (uint64_t)1000000);
    if (worker->is_loaded) {
        serve_drain(worker->serve, stop, worker);
    }
}

static enum err open_ports(struct worker *worker, struct why *why)
{
    enum err code = node_backend_check(worker->config, why);
    code = code ? code : node_ports_check(worker->config, why);
    if (code != OK) {
        return code;
    }
    code = serve_open(
        &(struct serve_options){
            .loop = worker->loop,
            .config = worker->config,
            .version = BATON_VERSION,
        },
        why, &worker->serve);
    return node_ports_name(code, "port", why);
}

static void warn_of_key(const struct config_worker *config, struct span key)
{
    if (key.size == 0 && config->strict_internal_auth) {
        log_warn("worker",
                 "no --auth-key-file: every hand-off will be refused, whole "
                 "requests are answered (strict_internal_auth: false takes "
                 "hand-offs unsigned)");
    }
}

/* Whom it trusts: who holds the key, and from which hosts. */
static enum err read_trust(const struct config_worker *config, struct why *why,
                           struct buf *key_out,
                           struct node_transfer *transfer_out)
{
    enum err code = node_auth_key_read(config->auth_key_file, why, key_out);
    if (code == OK) {
        code = node_transfer_allow(config, why, transfer_out);
    }
    if (code == OK) {
        warn_of_key(config, buf_span(key_out));
    }
    return code;
}

enum err node_worker_check(const struct config_worker *config, struct why *why)
{
    struct buf key;
    struct node_transfer transfer = {0};
    enum err code = read_trust(config, why, &key, &transfer);
    code = code ? code : node_backend_check(config, why);
    if (code == OK) {
        node_ports_warn(config);
    }
    io_allow_destroy(transfer.allow);
    buf_finish(&key);
    return code;
}

static enum err open_main(struct worker *worker, struct why *why)
{
    enum err code =
        read_trust(worker->config, why, &worker->key, &worker->transfer);
    if (code != OK) {
        return code;
    }
    code = io_loop_create(&worker->loop);
    if (code == OK) {
        code = io_waker_create(&worker->loaded_waker);
    }
    if (code == OK) {
        code = io_waker_attach(worker->loaded_waker, worker->loop, on_loaded,
                               worker);
    }
    if (code == OK) {
        code = io_loop_on_signal(worker->loop, SIGTERM, on_signal, worker);
    }
    if (code == OK) {
        code = io_loop_on_signal(worker->loop, SIGINT, on_signal, worker);
    }
    if (code != OK) {
        return why_say(why, code, "event loop: %s", err_name(code));
    }
    worker->drain_limit = io_timer_create(worker->loop, on_drain_limit, worker);
    return open_ports(worker, why);
}

/* Nobody wants them any more. True when the last one was among them. */
static bool drop_events(struct worker *worker)
{
    struct engine_event event;
    bool is_stopped = false;
    while (io_mailbox_take(worker->boxes.events, &event)) {
        engine_event_finish(&event);
        is_stopped |= event.kind == ENGINE_EVENT_STOPPED;
    }
    return is_stopped;
}

/* The serve is gone: the loop must not turn, its events are dropped here. The
 * engine ends only when there is room for all of them. */
static void stop_engine(struct worker *worker)
{
    if (worker->engine == NULL) {
        return;
    }
    const struct engine_port port = {
        worker->boxes.commands, worker->boxes.events, &worker->cancel_hint};
    const struct engine_command command = {.kind = ENGINE_STOP};
    bool is_posted = false;
    while (!drop_events(worker)) {
        is_posted = is_posted || engine_port_post(&port, &command) == OK;
        io_waker_wait(worker->boxes.event_waker, STOP_POLL_NS);
    }
    engine_join(worker->engine);
}

static void close_parts(struct worker *worker)
{
    engine_destroy(worker->engine);
    node_pools_give(&worker->pools);
    node_backend_close(&worker->moves);
    node_mailboxes_close(&worker->boxes);
    node_transfer_close(&worker->transfer);
    if (worker->stats != NULL) {
        engine_stats_cell_destroy(worker->stats);
    }
    node_model_file_close(&worker->file);
}

static void close_worker(struct worker *worker)
{
    io_thread_join(worker->load_thread);
    node_pools_quiet(&worker->pools);
    if (worker->serve != NULL) {
        serve_close(worker->serve);
    }
    stop_engine(worker);
    /* The peers that still write into our pages hold mappings of them: the pages
     * are never given back before the transfer is quiet. At the end of the
     * process the kernel takes care of both. */
    if (node_transfer_stop(&worker->transfer)) {
        close_parts(worker);
    } else {
        /* The last handle of a loop that goes; the engine, which would wake it,
         * is joined. The rest ends with the process. */
        io_waker_destroy(worker->boxes.event_waker);
    }
    io_waker_destroy(worker->loaded_waker);
    io_timer_destroy(worker->drain_limit);
    if (worker->loop != NULL) {
        io_loop_destroy(worker->loop);
    }
    buf_finish(&worker->key);
    mem_free(worker);
}

enum err node_worker_run(const struct config_worker *config, struct why *why)
{
    struct worker *worker = mem_new(sizeof(*worker));
    worker->config = config;
    worker->incarnation = rng_system();
    enum err code = open_main(worker, why);
    if (code == OK) {
        say(worker, "listening");
        code = io_thread_start("load", run_load, worker, &worker->load_thread);
    }
    if (code == OK) {
        io_loop_run(worker->loop);
        code = worker->result;
        if (code != OK && why != NULL) {
            *why = worker->why;
        }
    }
    close_worker(worker);
    return code;
}
