#include "bench/load.h"

#include <stdio.h>
#include <string.h>

#include "api/scan.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/report.h"
#include "http/client.h"
#include "http/events.h"
#include "io/clock.h"
#include "io/loop.h"

enum { LINE_SIZE_MAX = 1 << 20, ERROR_BODY_MAX = 4096 };
static const uint64_t IDLE_NS = 300000000000u;

struct load;

struct load_request {
    struct load *load;
    struct bench_record record;
    struct http_call *call;
    struct http_events events;
    struct buf error_body;
    double last_chunk;
    bool got_done, is_open, is_warm_up;
};

struct load {
    const struct bench_load_options *options;
    struct io_loop *loop;
    struct http_client *client;
    struct io_timer *arrival;
    struct load_request *requests; /* (request_count + 1): last is warm-up */
    struct bench_series gaps;
    struct rng rng;
    uint32_t started, ended, open;
    double begin;
    char model[256];
};

static void go_on(struct load *load);

static double now_seconds(void)
{
    return (double)io_clock_now_ns() * 1e-9;
}

static double next_unit(void *context)
{
    struct rng *rng = context;
    return ((double)(rng_next(rng) >> 12) + 0.5) * 0x1p-52;
}

static void add_words(struct buf *out, uint64_t key, uint32_t count)
{
    static const char *const WORDS[] = {
        "light", "water", "earth", "king",  "house", "people", "hand",
        "day",   "city",  "word",  "son",   "land",  "man",    "voice",
        "fire",  "heart", "bread", "night", "way",   "name"};
    enum { WORD_COUNT = sizeof(WORDS) / sizeof(WORDS[0]) };
    for (uint32_t i = 0; i < count; i++) {
        buf_printf(out, "%s ", WORDS[rng_at(key, 7, i) % WORD_COUNT]);
    }
}

static void build_body(const struct load *load, uint32_t index,
                       struct buf *body)
{
    const struct bench_load_options *options = load->options;
    struct buf prompt;
    buf_init(&prompt, SIZE_MAX / 4);
    uint32_t shared = options->shared_words < options->input_words
                          ? options->shared_words
                          : options->input_words;
    add_words(&prompt, options->seed, shared);
    add_words(&prompt, rng_at(options->seed, 11, index),
              options->input_words - shared);
    buf_add_string(body, "{\"model\":");
    buf_add_json_string(body, span_of_string(load->model));
    buf_add_string(body, ",\"prompt\":");
    buf_add_json_string(body, buf_span(&prompt));
    buf_printf(body,
               ",\"max_tokens\":%u,\"temperature\":0,\"stream\":true,"
               "\"ignore_eos\":%s,\"stream_options\":{\"include_usage\":true}}",
               options->output_tokens, options->ignore_end ? "true" : "false");
    buf_finish(&prompt);
}

static void read_usage(struct load_request *request, struct api_json chunk)
{
    struct api_object *object = mem_new(sizeof(*object));
    int64_t number = 0;
    if (api_scan_object(chunk, NULL, object) == OK) {
        const struct api_member *usage = api_find(object, "usage");
        if (usage != NULL && usage->value.kind == API_JSON_OBJECT &&
            api_scan_object(usage->value, NULL, object) == OK) {
            const struct api_member *m = api_find(object, "prompt_tokens");
            if (m &&
                api_read_int(m->value, 0, UINT32_MAX, NULL, &number) == OK) {
                request->record.prompt_tokens = (uint32_t)number;
            }
            m = api_find(object, "completion_tokens");
            if (m &&
                api_read_int(m->value, 0, UINT32_MAX, NULL, &number) == OK) {
                request->record.output_tokens = (uint32_t)number;
            }
        }
    }
    mem_free(object);
}

static void on_event(void *context, struct span data)
{
    struct load_request *request = context;
    struct api_json chunk;
    if (span_equals_string(data, "[DONE]")) {
        request->got_done = true;
        return;
    }
    double now = now_seconds();
    if (request->record.first == 0) {
        request->record.first = now;
    } else if (!request->is_warm_up) {
        bench_series_add(&request->load->gaps, now - request->last_chunk);
    }
    request->last_chunk = now;
    if (api_scan_value(data, NULL, &chunk) == OK) {
        read_usage(request, chunk);
    }
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    struct load_request *request = context;
    if (http_call_status(call) != 200) {
        buf_add_span(&request->error_body, bytes);
        return;
    }
    http_events_feed(&request->events, bytes, on_event, request);
}

static void judge(struct load_request *request, int status,
                  enum http_call_end end, const char *text)
{
    struct bench_record *record = &request->record;
    if (end != HTTP_CALL_COMPLETE) {
        snprintf(record->error, sizeof(record->error), "%s", text);
    } else if (status != 200) {
        snprintf(record->error, sizeof(record->error), "status %d: %.70s",
                 status, buf_string(&request->error_body));
    } else if (!request->got_done) {
        snprintf(record->error, sizeof(record->error), "truncated stream");
    } else if (request->load->options->ignore_end &&
               record->output_tokens != request->load->options->output_tokens) {
        snprintf(record->error, sizeof(record->error), "wrong token count");
    } else {
        record->is_ok = true;
    }
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct load_request *request = context;
    struct load *load = request->load;
    request->record.end = now_seconds();
    request->call = NULL;
    request->is_open = false;
    judge(request, end == HTTP_CALL_COMPLETE ? http_call_status(call) : 0, end,
          text);
    http_events_finish(&request->events);
    buf_finish(&request->error_body);
    load->open--;
    if (request->is_warm_up) {
        load->begin = now_seconds();
    } else {
        load->ended++;
    }
    go_on(load);
}

static const struct http_call_handler HANDLER = {
    .on_body = on_body,
    .on_end = on_end,
};

static void start_request(struct load *load, uint32_t index)
{
    const struct bench_load_options *options = load->options;
    struct load_request *request = &load->requests[index];
    *request = (struct load_request){
        .load = load,
        .is_open = true,
        .is_warm_up = index == options->request_count,
    };
    http_events_init(&request->events, LINE_SIZE_MAX);
    buf_init(&request->error_body, ERROR_BODY_MAX);
    char bearer[300];
    struct http_header headers[2] = {{"authorization", bearer}, {NULL, NULL}};
    snprintf(bearer, sizeof(bearer), "Bearer %s",
             options->api_key == NULL ? "" : options->api_key);
    struct buf body;
    buf_init(&body, SIZE_MAX / 4);
    build_body(load, index, &body);
    request->record.start = now_seconds();
    load->open++;
    enum err code = http_call_start(
        load->client,
        &(struct http_call_options){
            .host = options->host,
            .port = options->port,
            .method = "POST",
            .path = "/v1/completions",
            .content_type = "application/json",
            .headers = options->api_key == NULL ? NULL : headers,
            .body = buf_span(&body),
            .idle_ns_max = IDLE_NS,
            .handler = &HANDLER,
            .context = request,
        },
        &request->call);
    buf_finish(&body);
    if (code != OK) {
        load->open--;
        load->ended += !request->is_warm_up;
        snprintf(request->record.error, sizeof(request->record.error), "%s",
                 err_name(code));
    }
}

static void arm_arrival(struct load *load)
{
    const struct bench_load_options *options = load->options;
    double gap = bench_next_gap(options->rate, options->burstiness, next_unit,
                                &load->rng);
    io_timer_start(load->arrival, (uint64_t)(gap * 1e9));
}

/* An arrival over the limit of open requests waits for the next one. */
static void on_arrival(void *context)
{
    struct load *load = context;
    if (load->open < load->options->concurrency) {
        start_request(load, load->started++);
    }
    if (load->started < load->options->request_count) {
        arm_arrival(load);
    }
}

/* With a rate, arrivals follow their own clock; else ends make room. */
static void go_on(struct load *load)
{
    const struct bench_load_options *options = load->options;
    if (load->ended == options->request_count) {
        io_loop_stop(load->loop);
        return;
    }
    if (options->rate > 0) {
        if (load->started == 0) {
            arm_arrival(load);
        }
        return;
    }
    while (load->started < options->request_count &&
           load->open < options->concurrency) {
        start_request(load, load->started++);
    }
}

static void print_report(struct load *load)
{
    const struct bench_load_options *options = load->options;
    struct bench_record *records =
        mem_new_array(options->request_count, sizeof(*records));
    for (uint32_t i = 0; i < options->request_count; i++) {
        records[i] = load->requests[i].record;
    }
    struct bench_run run = {
        .records = records,
        .record_count = options->request_count,
        .gaps = load->gaps,
        .duration = now_seconds() - load->begin,
        .goal = options->goal,
    };
    struct buf out;
    buf_init(&out, 1 << 20);
    if (options->as_json) {
        bench_report_json(&run, &out);
    } else {
        bench_report_text(&run, &out);
    }
    fputs(buf_string(&out), stdout);
    buf_finish(&out);
    load->gaps = run.gaps;
    mem_free(records);
}

static enum err result_of(const struct load *load, struct why *why)
{
    for (uint32_t i = 0; i < load->options->request_count; i++) {
        if (load->requests[i].record.is_ok) {
            return OK;
        }
    }
    return why_say(why, ERR_IO,
                   "no request to %s:%u with model '%s' succeeded: %s "
                   "(--url and --model say where and what)",
                   load->options->host, load->options->port, load->model,
                   load->requests[0].record.error);
}

enum err bench_load_run(const struct bench_load_options *options,
                        struct why *why)
{
    struct load load = {
        .options = options,
        .rng = rng_from_seed(options->seed),
    };
    enum err code = io_loop_create(&load.loop);
    if (code != OK) {
        return why_say(why, code, "no event loop");
    }
    snprintf(load.model, sizeof(load.model), "%s", options->model);
    load.client = http_client_create(
        load.loop,
        &(struct http_client_options){.idle_count_max = options->concurrency});
    load.arrival = io_timer_create(load.loop, on_arrival, &load);
    load.requests =
        mem_new_array(options->request_count + 1, sizeof(*load.requests));
    load.begin = now_seconds();
    if (options->warm_up) {
        start_request(&load, options->request_count);
    } else {
        go_on(&load);
    }
    io_loop_run(load.loop);
    code = result_of(&load, why);
    if (code == OK) {
        print_report(&load);
    }
    http_client_destroy(load.client);
    io_timer_destroy(load.arrival);
    io_loop_destroy(load.loop);
    bench_series_finish(&load.gaps);
    mem_free(load.requests);
    return code;
}
