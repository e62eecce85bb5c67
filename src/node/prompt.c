#include "node/prompt.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/client.h"
#include "http/events.h"
#include "node/json.h"

enum { ANSWER_SIZE_MAX = 1 << 20 };
static const uint64_t IDLE_NS = 180000000000u;

enum step { STEP_MODELS, STEP_CHAT, STEP_PLAIN, STEP_JOURNEY, STEP_DONE };

struct node_prompt {
    struct node_prompt_options options;
    struct http_client *client;
    struct http_call *call;
    enum step step;
    uint32_t worker; /* the one asked for its part of the journey */
    struct buf answer; /* of a call that is not a stream, or an error */
    struct http_events events;
    struct buf journey; /* lines collected from the workers */
    struct buf model; /* JSON string, as /v1/models has it */
    bool got_end;
    char reason[256];
};

static void next_step(struct node_prompt *prompt, enum step step);

/* choices[0].delta.content of a chat chunk, choices[0].text of a plain one. */
static void print_text(struct api_json chunk)
{
    struct api_object *object = mem_new(sizeof(*object));
    struct api_json choice;
    size_t cursor = 0;
    const struct api_member *member = node_json_find(chunk, "choices", object);
    if (member != NULL && api_array_next(member->value, &cursor, &choice)) {
        member = node_json_find(choice, "text", object);
        if (member == NULL &&
            (member = node_json_find(choice, "delta", object))) {
            member = node_json_find(member->value, "content", object);
        }
        struct buf text;
        buf_init(&text, ANSWER_SIZE_MAX);
        if (member != NULL && member->value.kind == API_JSON_STRING &&
            api_read_string(member->value, NULL, &text) == OK) {
            fwrite(text.data, 1, text.size, stdout);
            fflush(stdout);
        }
        buf_finish(&text);
    }
    mem_free(object);
}

static void on_event(void *context, struct span data)
{
    struct node_prompt *prompt = context;
    struct api_json chunk;
    if (span_equals_string(data, "[DONE]")) {
        prompt->got_end = true;
    } else if (api_scan_value(data, NULL, &chunk) == OK) {
        print_text(chunk);
    }
}

static bool is_text_step(const struct node_prompt *prompt)
{
    return prompt->step == STEP_CHAT || prompt->step == STEP_PLAIN;
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    struct node_prompt *prompt = context;
    bool is_stream = is_text_step(prompt) && http_call_status(call) == 200;
    if (is_stream) {
        http_events_feed(&prompt->events, bytes, on_event, prompt);
    } else {
        buf_add_span(&prompt->answer, bytes);
    }
}

/* Left out where it is 0: that phase was not here. */
static void add_number(struct buf *out, const struct api_object *object,
                       const char *key, const char *format)
{
    const struct api_member *member = api_find(object, key);
    double value = 0;
    if (member != NULL &&
        api_read_number(member->value, 0, 1e18, NULL, &value) == OK &&
        value > 0) {
        char text[64];
        snprintf(text, sizeof(text), strstr(key, "_ms") ? "%.1f" : "%.0f",
                 value);
        buf_printf(out, "  %s %s", format, text);
        buf_add_string(out, strstr(key, "_ms") ? " ms" : "");
    }
}

static void add_word(struct buf *out, const struct api_object *object,
                     const char *key, const char *label)
{
    const struct api_member *member = api_find(object, key);
    struct buf text;
    buf_init(&text, 256);
    if (member != NULL && member->value.kind == API_JSON_STRING &&
        api_read_string(member->value, NULL, &text) == OK && text.size > 0) {
        buf_printf(out, "  %s %s", label, buf_string(&text));
    }
    buf_finish(&text);
}

/* The newest entry of a worker's /transfers as one line. */
static void add_journey(struct node_prompt *prompt, const char *side)
{
    struct api_object *object = mem_new(sizeof(*object));
    struct api_json list, entry, newest = {.kind = API_JSON_NULL};
    const struct api_member *member = NULL;
    if (api_scan_value(buf_span(&prompt->answer), NULL, &list) == OK) {
        member = node_json_find(list, "transfers", object);
    }
    size_t cursor = 0;
    if (member != NULL && api_array_next(member->value, &cursor, &entry)) {
        newest = entry; /* the list begins with it */
    }
    if (newest.kind == API_JSON_OBJECT &&
        api_scan_object(newest, NULL, object) == OK) {
        buf_printf(&prompt->journey, "%-13s", side);
        static const char *const NUMBERS[][2] = {
            {"prompt_tokens", "prompt"}, {"cached_tokens", "cached"},
            {"chunks", "chunks"},        {"queue_ms", "queue"},
            {"prefill_ms", "prefill"},   {"handoff_ms", "hand-off"},
            {"decode_ms", "decode"},     {"bytes", "bytes"},
        };
        for (size_t i = 0; i < sizeof(NUMBERS) / sizeof(NUMBERS[0]); i++) {
            add_number(&prompt->journey, object, NUMBERS[i][0], NUMBERS[i][1]);
        }
        add_word(&prompt->journey, object, "backend", "by");
        add_word(&prompt->journey, object, "lane", "over");
        buf_add_byte(&prompt->journey, '\n');
    }
    mem_free(object);
}

static void fail(struct node_prompt *prompt, const char *text)
{
    snprintf(prompt->reason, sizeof(prompt->reason), "%s", text);
    prompt->step = STEP_DONE;
    prompt->options.on_end(prompt->options.context, ERR_IO, prompt->reason);
}

/* What this cluster serves. */
static void on_models_end(struct node_prompt *prompt)
{
    if (node_json_first_model(buf_span(&prompt->answer), &prompt->model)) {
        next_step(prompt, STEP_CHAT);
    } else {
        fail(prompt, "the cluster names no model");
    }
}

static void on_text_end(struct node_prompt *prompt, int status)
{
    if (status == 400 && prompt->step == STEP_CHAT) {
        next_step(prompt, STEP_PLAIN); /* a model without a chat form */
    } else if (status != 200) {
        fail(prompt, buf_string(&prompt->answer));
    } else if (!prompt->got_end) {
        fail(prompt, "the answer was cut");
    } else {
        printf("\n");
        next_step(prompt, STEP_JOURNEY);
    }
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    struct node_prompt *prompt = context;
    int status = end == HTTP_CALL_COMPLETE ? http_call_status(call) : 0;
    prompt->call = NULL;
    if (end != HTTP_CALL_COMPLETE && prompt->step <= STEP_PLAIN) {
        fail(prompt, text);
    } else if (prompt->step == STEP_MODELS) {
        on_models_end(prompt);
    } else if (is_text_step(prompt)) {
        on_text_end(prompt, status);
    } else {
        add_journey(prompt, prompt->options.workers[prompt->worker].name);
        prompt->worker++;
        next_step(prompt, STEP_JOURNEY);
    }
}

static const struct http_call_handler HANDLER = {
    .on_body = on_body,
    .on_end = on_end,
};

static void build_body(const struct node_prompt *prompt, struct buf *body)
{
    struct span text = span_of_string(prompt->options.text);
    buf_printf(body, "{\"model\":%s", buf_string(&prompt->model));
    if (prompt->step == STEP_CHAT) {
        buf_add_string(body, ",\"messages\":[{\"role\":\"user\",\"content\":");
        buf_add_json_string(body, text);
        buf_add_string(body, "}]");
    } else {
        buf_add_string(body, ",\"prompt\":");
        buf_add_json_string(body, text);
    }
    buf_printf(body, ",\"max_tokens\":%u,\"temperature\":0,\"stream\":true}",
               prompt->options.max_tokens);
}

static void start_call(struct node_prompt *prompt, uint16_t port,
                       const char *path, const struct buf *body)
{
    char bearer[300];
    struct http_header headers[2] = {{"authorization", bearer}, {NULL, NULL}};
    snprintf(bearer, sizeof(bearer), "Bearer %s",
             prompt->options.api_key == NULL ? "" : prompt->options.api_key);
    buf_reset(&prompt->answer);
    enum err code = http_call_start(
        prompt->client,
        &(struct http_call_options){
            .host = prompt->options.host,
            .port = port,
            .method = body == NULL ? "GET" : "POST",
            .path = path,
            .content_type = body == NULL ? NULL : "application/json",
            .headers = prompt->options.api_key == NULL ? NULL : headers,
            .body = body == NULL ? span_of(NULL, 0) : buf_span(body),
            .idle_ns_max = IDLE_NS,
            .handler = &HANDLER,
            .context = prompt,
        },
        &prompt->call);
    if (code != OK) {
        fail(prompt, "the request could not be made");
    }
}

static void next_step(struct node_prompt *prompt, enum step step)
{
    prompt->step = step;
    if (step == STEP_MODELS) {
        start_call(prompt, prompt->options.port, "/v1/models", NULL);
    } else if (step == STEP_JOURNEY &&
               prompt->worker < prompt->options.worker_count) {
        start_call(prompt, prompt->options.workers[prompt->worker].port,
                   "/transfers", NULL);
    } else if (step == STEP_JOURNEY) {
        next_step(prompt, STEP_DONE);
    } else if (step == STEP_DONE) {
        printf("\n%s", buf_string(&prompt->journey));
        fflush(stdout);
        prompt->options.on_end(prompt->options.context, OK, "");
    } else {
        struct buf body;
        buf_init(&body, ANSWER_SIZE_MAX);
        build_body(prompt, &body);
        start_call(prompt, prompt->options.port,
                   step == STEP_CHAT ? "/v1/chat/completions"
                                     : "/v1/completions",
                   &body);
        buf_finish(&body);
    }
}

struct node_prompt *node_prompt_start(const struct node_prompt_options *options)
{
    struct node_prompt *prompt = mem_new(sizeof(*prompt));
    prompt->options = *options;
    prompt->client =
        http_client_create(options->loop, &(struct http_client_options){0});
    buf_init(&prompt->answer, ANSWER_SIZE_MAX);
    http_events_init(&prompt->events, ANSWER_SIZE_MAX);
    buf_init(&prompt->journey, 65536);
    buf_init(&prompt->model, 1024);
    if (options->schedule_style != NULL) {
        buf_printf(&prompt->journey, "%-13s  %s\n", "schedule",
                   options->schedule_style);
    }
    next_step(prompt, STEP_MODELS);
    return prompt;
}

void node_prompt_destroy(struct node_prompt *prompt)
{
    if (prompt == NULL) {
        return;
    }
    http_client_destroy(prompt->client);
    buf_finish(&prompt->answer);
    buf_finish(&prompt->model);
    http_events_finish(&prompt->events);
    buf_finish(&prompt->journey);
    mem_free(prompt);
}
