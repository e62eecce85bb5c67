#include "node/up_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/process.h"
#include "io/thread.h"

static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t BACKOFF_FIRST_NS = 500000000u;
static const uint64_t BACKOFF_LAST_NS = 8000000000u;
/* Starts in a row that failed before anything was ready: give up. */
enum { START_FAILURES_MAX = 5 };

static void start_child(struct up_child *child);
static void stop_all(struct up *up, enum err result, const char *reason);

static void progress(const struct up *up, const struct up_child *child,
                     const char *line)
{
    if (up->options->show_progress && !up->was_ready) {
        fprintf(stderr, "%-14s %s\n", child->name, line);
    }
}

static bool parse_port(const char *line, uint16_t *port_out)
{
    const char *blank = strchr(line, ' ');
    struct io_address address;
    if (blank == NULL ||
        io_address_parse(span_of_string(blank + 1), NULL, &address) != OK) {
        return false;
    }
    *port_out = address.port;
    return true;
}

static void on_prompt_end(void *context, enum err code, const char *reason)
{
    stop_all(context, code, reason);
}

/* Where to look inside: ports are the kernel's choice. */
static void print_ready(const struct up *up)
{
    const char *host = up->options->host;
    bool is_any = strcmp(host, "0.0.0.0") == 0;
    printf("ready http://%s:%u\n", is_any ? "127.0.0.1" : host, up->front.port);
    for (uint32_t i = 0; i < up->worker_count; i++) {
        printf("%s http://127.0.0.1:%u\n", up->workers[i].name,
               up->workers[i].port);
    }
    fflush(stdout);
}

static void on_warm(void *context)
{
    struct up *up = context;
    if (!up->is_stopping) {
        print_ready(up);
    }
}

/* Each worker takes part in one at least: turns go round in both roles. */
static void start_warming(struct up *up)
{
    uint32_t contexts = up->options->context_count;
    uint32_t generations = up->options->generation_count;
    const char *host = up->options->host;
    up->warm = node_warm_start(&(struct node_warm_options){
        .loop = up->loop,
        .host = strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1" : host,
        .port = up->front.port,
        .api_key = up->options->api_key,
        .count = contexts > generations ? contexts : generations,
        .on_end = on_warm,
        .context = up,
    });
}

static void on_cluster_ready(struct up *up)
{
    if (up->was_ready) {
        return;
    }
    up->was_ready = true;
    if (up->options->prompt == NULL) {
        start_warming(up);
        return;
    }
    for (uint32_t i = 0; i < up->worker_count; i++) {
        up->asked[i] = (struct node_prompt_worker){up->workers[i].name,
                                                   up->workers[i].port};
    }
    up->prompt = node_prompt_start(&(struct node_prompt_options){
        .loop = up->loop,
        .host = up->options->host,
        .port = up->front.port,
        .api_key = up->options->api_key,
        .text = up->options->prompt,
        .max_tokens = up->options->max_tokens,
        .schedule_style = up->options->schedule_style,
        .worker_count = up->worker_count,
        .workers = up->asked,
        .on_end = on_prompt_end,
        .context = up,
    });
}

static void start_front_when_possible(struct up *up)
{
    for (uint32_t i = 0; i < up->worker_count; i++) {
        if (!up->workers[i].was_listening) {
            return;
        }
    }
    if (up->is_stopping || up->front.process != NULL || up->config_fd >= 0) {
        return;
    }
    if (up_config_file_open(up) != OK) {
        stop_all(up, ERR_IO, "no memory file for the front end's config");
        return;
    }
    start_child(&up->front);
}

static void on_line(void *context, const char *line)
{
    struct up_child *child = context;
    struct up *up = child->up;
    if (strncmp(line, "listening ", 10) == 0) {
        if (parse_port(line, &child->port)) {
            child->is_listening = true;
            child->was_listening = true;
        }
        progress(up, child, line);
        start_front_when_possible(up);
    } else if (strncmp(line, "ready", 5) == 0) {
        child->is_ready = true;
        child->failures = 0;
        child->backoff_ns = BACKOFF_FIRST_NS;
        progress(up, child, "ready");
        if (child == &up->front) {
            on_cluster_ready(up);
        }
    } else {
        progress(up, child, line);
    }
}

static bool all_gone(const struct up *up)
{
    bool is_gone = up->front.process == NULL;
    for (uint32_t i = 0; i < up->worker_count; i++) {
        is_gone = is_gone && up->workers[i].process == NULL;
    }
    return is_gone;
}

static void signal_workers(struct up *up, int number)
{
    for (uint32_t i = 0; i < up->worker_count; i++) {
        if (up->workers[i].process != NULL) {
            io_process_signal(up->workers[i].process, number);
        }
        io_timer_stop(up->workers[i].restart);
    }
}

/* The front end drains first: its open requests need the workers. They are
 * told once: a second signal would cut what they still answer. */
static void go_on_stopping(struct up *up)
{
    if (all_gone(up)) {
        io_loop_stop(up->loop);
    } else if (up->front.process == NULL && !up->are_workers_told) {
        up->are_workers_told = true;
        signal_workers(up, SIGTERM);
    }
}

/* As io/process tells it: 128 + the signal that killed it. */
static void describe_end(int code, char text[48])
{
    if (code > 128) {
        snprintf(text, 48, "was killed by signal %d", code - 128);
    } else {
        snprintf(text, 48, "ended with status %d", code);
    }
}

static void schedule_restart(struct up_child *child, int code)
{
    struct up *up = child->up;
    char end[48];
    describe_end(code, end);
    bool is_hopeless =
        !up->was_ready && ++child->failures >= START_FAILURES_MAX;
    /* 2 to 4: wrong usage, input or port; another try cannot help a start. */
    if (!up->was_ready && (is_hopeless || (code >= 2 && code <= 4))) {
        char reason[128];
        snprintf(reason, sizeof(reason), "%s %s at its start", child->name,
                 end);
        stop_all(up,
                 code == 4   ? ERR_IO
                 : code <= 3 ? ERR_INVALID
                             : ERR_INTERNAL,
                 reason);
        return;
    }
    log_warn("up", "%s %s; again in %.1f s", child->name, end,
             (double)child->backoff_ns / (double)SECOND_NS);
    io_timer_start(child->restart, child->backoff_ns);
    child->backoff_ns = child->backoff_ns * 2 > BACKOFF_LAST_NS
                            ? BACKOFF_LAST_NS
                            : child->backoff_ns * 2;
}

static void on_exit_of(void *context, int code)
{
    struct up_child *child = context;
    child->process = NULL;
    child->is_listening = child->is_ready = false;
    if (child->up->is_stopping) {
        go_on_stopping(child->up);
    } else {
        schedule_restart(child, code);
    }
}

static void on_restart(void *context)
{
    start_child(context);
}

static void start_child(struct up_child *child)
{
    struct up *up = child->up;
    struct up_arguments *list = up_arguments_create(child);
    bool is_front = child->role == NULL;
    struct why why = {{0}};
    enum err code = io_process_start(
        up->loop,
        &(struct io_process_options){
            .path = up->self,
            .argv = list->argv,
            .keep_fds = {is_front ? up->config_fd : up->key_fd},
            .keep_count = 1,
            .on_line = on_line,
            .on_exit = on_exit_of,
            .context = child,
        },
        &why, &child->process);
    mem_free(list);
    if (code != OK) {
        log_error("up", "%s: %s", child->name, why.text);
        schedule_restart(child, 1);
    }
}

static void on_give_up(void *context)
{
    struct up *up = context;
    log_warn("up", "children did not end in time: killing them");
    if (up->front.process != NULL) {
        io_process_signal(up->front.process, SIGKILL);
    }
    signal_workers(up, SIGKILL);
}

static void stop_all(struct up *up, enum err result, const char *reason)
{
    if (up->is_stopping) {
        on_give_up(up); /* a second Ctrl-C means it */
        return;
    }
    up->is_stopping = true;
    up->result = result;
    if (result != OK) {
        IGNORE(why_say(&up->why, result, "%s", reason));
    }
    io_timer_stop(up->front.restart);
    io_timer_start(up->give_up, 40 * SECOND_NS);
    if (up->front.process != NULL) {
        io_process_signal(up->front.process, SIGTERM);
    } else {
        go_on_stopping(up);
    }
}

static void on_stop_signal(void *context)
{
    struct up *up = context;
    if (!up->is_stopping && up->was_ready) {
        log_info("up", "draining what is open; once more ends it now");
    }
    stop_all(up, OK, "");
}

static void init_child(struct up *up, struct up_child *child, const char *role,
                       uint32_t index, uint32_t threads)
{
    *child = (struct up_child){.up = up, .role = role, .threads = threads};
    child->backoff_ns = BACKOFF_FIRST_NS;
    child->restart = io_timer_create(up->loop, on_restart, child);
    if (role == NULL) {
        snprintf(child->name, sizeof(child->name), "front");
    } else {
        snprintf(child->name, sizeof(child->name), "%s-%u", role, index);
    }
}

/* Divides the compute threads: each worker gets at least one. */
static uint32_t share_of(uint32_t total, uint32_t count, uint32_t index)
{
    uint32_t share = total / count + (index < total % count ? 1 : 0);
    return share == 0 ? 1 : share;
}

static void init_workers(struct up *up)
{
    const struct node_up_options *options = up->options;
    uint32_t total =
        options->threads == 0 ? io_thread_cpu_count() : options->threads;
    up->worker_count = options->context_count + options->generation_count;
    for (uint32_t i = 0; i < up->worker_count; i++) {
        bool is_context = i < options->context_count;
        uint32_t index = is_context ? i : i - options->context_count;
        init_child(up, &up->workers[i], is_context ? "context" : "generation",
                   index, share_of(total, up->worker_count, i));
    }
}

static void finish(struct up *up)
{
    node_warm_destroy(up->warm);
    node_prompt_destroy(up->prompt);
    for (uint32_t i = 0; i < up->worker_count; i++) {
        io_timer_destroy(up->workers[i].restart);
    }
    io_timer_destroy(up->front.restart);
    io_timer_destroy(up->give_up);
    buf_finish(&up->key);
    io_process_close_file(up->key_fd);
    io_process_close_file(up->config_fd);
    io_loop_destroy(up->loop);
    mem_free(up);
}

static enum err listen_to_signals(struct up *up)
{
    enum err code = io_loop_on_signal(up->loop, SIGINT, on_stop_signal, up);
    return code != OK
               ? code
               : io_loop_on_signal(up->loop, SIGTERM, on_stop_signal, up);
}

enum err node_up_run(const struct node_up_options *options, struct why *why)
{
    CHECK(options->context_count + options->generation_count <=
          NODE_UP_WORKER_COUNT_MAX);
    struct up *up = mem_new(sizeof(*up));
    *up = (struct up){.options = options, .key_fd = -1, .config_fd = -1};
    enum err code = io_loop_create(&up->loop);
    if (code != OK) {
        mem_free(up);
        return why_say(why, code, "no event loop: %s", err_name(code));
    }
    up->give_up = io_timer_create(up->loop, on_give_up, up);
    init_workers(up);
    init_child(up, &up->front, NULL, 0, 0);
    up->front.port = options->port;
    code = io_process_own_path(up->self, sizeof(up->self));
    if (code == OK) {
        code = listen_to_signals(up);
    }
    if (code == OK) {
        code = up_key_file_open(up);
    }
    if (code == OK) {
        for (uint32_t i = 0; i < up->worker_count; i++) {
            start_child(&up->workers[i]);
        }
        io_loop_run(up->loop);
        code = up->result;
        if (why != NULL) {
            *why = up->why;
        }
    }
    finish(up);
    return code;
}
