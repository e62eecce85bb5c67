/* A whole request, front end to last token, in one process: the real front end
 * and two real workers over HTTP on loopback, all three on one loop; engines,
 * transfers and the pages between them are real too. Only the model is a hash,
 * so that the answer is known beforehand. */
#include "pair.h"

#include <jansson.h>

#include "http/client.h"
#include "route/front.h"
#include "serve/serve.h"
#include "unit/serve/model.h"

enum { PAGES = 64, ANSWER = 6, BODY_MAX = 1 << 20 };
static const uint64_t LONG_NS = UINT64_C(60000000000);
static const char KEY[] = "a key that workers and front end share";

struct worker {
    struct config_worker config;
    struct io_waker *event_waker;
    struct side *side;
    struct serve *serve;
};

struct cluster {
    char path[64];
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
    struct text_chat *chat;
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct worker context, generation;
    struct config_route config;
    struct route_front *front;
    struct http_client *client;
};

static void load_model(struct cluster *cluster)
{
    struct why why = {{0}};
    model_write(cluster->path);
    pair_ok(gguf_open(cluster->path, &why, &cluster->gguf), &why);
    pair_ok(text_tokenizer_create(cluster->gguf, &why, &cluster->tokenizer),
            &why);
    pair_ok(text_chat_create(cluster->gguf, cluster->tokenizer, "chatml", &why,
                             &cluster->chat),
            &why);
}

static void set_ready(struct cluster *cluster, struct worker *worker)
{
    struct why why = {{0}};
    struct side *side = worker->side;
    struct serve_parts parts = {
        .tokenizer = cluster->tokenizer,
        .chat = cluster->chat,
        .model_name = "hash",
        .general_name = "",
        .vocab_size = MODEL_VOCAB,
        .max_seq = PAIR_MAX_SEQ / 2,
        .incarnation = side->incarnation,
        .transfer_endpoint = transfer_endpoint(side->transfer),
        .engine = side->port,
        .event_waker = worker->event_waker,
        .stats = side->stats,
        .auth_key = span_of_string(KEY),
    };
    pair_ok(serve_set_ready(worker->serve, &parts, &why), &why);
}

static void open_worker(struct cluster *cluster, struct worker *worker,
                        enum config_role role, uint32_t tokens_per_block,
                        uint64_t incarnation)
{
    struct why why = {{0}};
    int32_t ends[ENGINE_END_TOKEN_COUNT_MAX];
    config_worker_init(&worker->config);
    worker->config.role = role;
    worker->config.tokens_per_block = tokens_per_block;
    assert_int_equal(io_waker_create(&worker->event_waker), OK);
    worker->side = side_open(&(struct side_setup){
        .hub = cluster->hub,
        .event_waker = worker->event_waker,
        .incarnation = incarnation,
        .page_count = PAGES,
        .timeout_ns = LONG_NS,
        .max_batch = 8,
        .queue_limit = 64,
        .tokens_per_block = tokens_per_block,
        .vocab_size = MODEL_VOCAB,
        .end_tokens = ends,
        .end_token_count = text_end_tokens(cluster->tokenizer, ends,
                                           ENGINE_END_TOKEN_COUNT_MAX)});
    pair_ok(serve_open(&(struct serve_options){.loop = cluster->loop,
                                               .config = &worker->config,
                                               .version = "9.9"},
                       &why, &worker->serve),
            &why);
    set_ready(cluster, worker);
}

static void add_server(struct config_servers *servers,
                       const struct worker *worker)
{
    struct io_address *address = &servers->servers[servers->count++];
    strcpy(address->host, "127.0.0.1");
    address->port = serve_port(worker->serve);
}

static void open_front(struct cluster *cluster)
{
    struct why why = {{0}};
    config_route_init(&cluster->config);
    strcpy(cluster->config.hostname, "127.0.0.1");
    cluster->config.port = 0;
    strcpy(cluster->config.internal_auth_key, KEY);
    add_server(&cluster->config.context, &cluster->context);
    add_server(&cluster->config.generation, &cluster->generation);
    pair_ok(route_front_open(
                &(struct route_front_options){.loop = cluster->loop,
                                              .config = &cluster->config,
                                              .version = "9.9"},
                &why, &cluster->front),
            &why);
    uint64_t give_up_ns = io_clock_now_ns() + PAIR_PATIENCE_NS;
    while (!route_front_is_ready(cluster->front)) {
        assert_true(io_clock_now_ns() < give_up_ns);
        io_loop_turn(cluster->loop, 5000000);
    }
}

static int open_mixed(void **state, uint32_t context_tokens,
                      uint32_t generation_tokens)
{
    struct cluster *cluster = mem_new(sizeof(*cluster));
    load_model(cluster);
    assert_int_equal(io_loop_create(&cluster->loop), OK);
    cluster->hub = transfer_inproc_hub_create();
    open_worker(cluster, &cluster->context, CONFIG_ROLE_CONTEXT, context_tokens,
                0x1111);
    open_worker(cluster, &cluster->generation, CONFIG_ROLE_GENERATION,
                generation_tokens, 0x2222);
    cluster->client =
        http_client_create(cluster->loop, &(struct http_client_options){0});
    open_front(cluster);
    *state = cluster;
    return 0;
}

static int open_cluster(void **state)
{
    return open_mixed(state, PAIR_BLOCK, PAIR_BLOCK);
}

/* Blocks of other sizes at either worker: everybody gets the same. */
static int open_small_large(void **state)
{
    return open_mixed(state, PAIR_BLOCK, 4 * PAIR_BLOCK);
}

static int open_large_small(void **state)
{
    return open_mixed(state, 8 * PAIR_BLOCK, PAIR_BLOCK);
}

/* The serve is gone already: what the engine still says is for nobody. */
static void close_side(struct worker *worker)
{
    struct side *side = worker->side;
    struct engine_event event = {0};
    side_post(side, &(struct engine_command){.kind = ENGINE_STOP});
    while (event.kind != ENGINE_EVENT_STOPPED) {
        io_waker_wait(worker->event_waker, 1000000);
        while (io_mailbox_take(side->events, &event) &&
               event.kind != ENGINE_EVENT_STOPPED) {
            mem_free(event.top);
        }
    }
    engine_join(side->engine);
    side_stop_loop(side);
    assert_int_equal(transfer_destroy(side->transfer), OK);
}

static int close_cluster(void **state)
{
    struct cluster *cluster = *state;
    http_client_destroy(cluster->client);
    route_front_close(cluster->front);
    serve_close(cluster->context.serve);
    serve_close(cluster->generation.serve);
    close_side(&cluster->context);
    close_side(&cluster->generation);
    side_free(cluster->context.side);
    side_free(cluster->generation.side);
    transfer_inproc_hub_destroy(cluster->hub);
    io_waker_destroy(cluster->context.event_waker);
    io_waker_destroy(cluster->generation.event_waker);
    io_loop_destroy(cluster->loop);
    text_chat_destroy(cluster->chat);
    text_tokenizer_destroy(cluster->tokenizer);
    gguf_close(cluster->gguf);
    unlink(cluster->path);
    mem_free(cluster);
    return 0;
}

/* -------- what the answer must be -------- */

/* What the hash says after `ids`, when all of it is plain text. */
static bool foresee(const struct cluster *cluster, const int32_t *ids,
                    size_t count, char text_out[ANSWER + 1])
{
    int32_t all[PAIR_MAX_SEQ];
    memcpy(all, ids, count * sizeof(ids[0]));
    for (uint32_t i = 0; i < ANSWER; i++) {
        int32_t id = model_hash_next(&cluster->context.side->hash, all,
                                     (uint32_t)count + i);
        if (id < TOKEN_OF(' ') || id > TOKEN_OF('~')) {
            return false;
        }
        all[count + i] = id;
        text_out[i] = (char)(id - 3);
    }
    text_out[ANSWER] = 0;
    return true;
}

static size_t encode(const struct cluster *cluster, const char *text,
                     int32_t ids_out[PAIR_MAX_SEQ])
{
    size_t count = 0;
    struct text_encode_options options = {.add_special = true};
    assert_int_equal(text_encode(cluster->tokenizer, span_of_string(text),
                                 &options, ids_out, PAIR_MAX_SEQ / 2, &count),
                     OK);
    return count;
}

/* The `nth` prompt whose answer is plain text; `shape` makes its ids. */
typedef size_t (*shape)(const struct cluster *cluster, const char *text,
                        int32_t ids_out[PAIR_MAX_SEQ]);

static void find_prompt(const struct cluster *cluster, shape shape, int nth,
                        char prompt_out[64], char answer_out[ANSWER + 1])
{
    for (int i = 0; i < 1000000; i++) {
        int32_t ids[PAIR_MAX_SEQ];
        snprintf(prompt_out, 64, "pass the baton %d", i);
        size_t count = shape(cluster, prompt_out, ids);
        if (foresee(cluster, ids, count, answer_out) && nth-- == 0) {
            return;
        }
    }
    fail_msg("no prompt has a plain answer");
}

/* -------- a client -------- */

struct reply {
    bool is_over;
    int status;
    struct buf body;
    struct http_call *call;
};

static void on_head(void *context, struct http_call *call)
{
    ((struct reply *)context)->status = http_call_status(call);
}

static void on_body(void *context, struct http_call *call, struct span bytes)
{
    (void)call;
    buf_add_span(&((struct reply *)context)->body, bytes);
}

static void on_end(void *context, struct http_call *call,
                   enum http_call_end end, const char *text)
{
    (void)call;
    (void)end;
    (void)text;
    ((struct reply *)context)->is_over = true;
}

static void post(struct cluster *cluster, const char *path, const char *body,
                 struct reply *reply)
{
    static const struct http_call_handler HANDLER = {on_head, on_body, on_end};
    memset(reply, 0, sizeof(*reply));
    buf_init(&reply->body, BODY_MAX);
    struct http_call_options options = {
        .host = "127.0.0.1",
        .port = route_front_port(cluster->front),
        .method = "POST",
        .path = path,
        .content_type = "application/json",
        .body = span_of_string(body),
        .handler = &HANDLER,
        .context = reply,
    };
    assert_int_equal(http_call_start(cluster->client, &options, &reply->call),
                     OK);
}

static void await(struct cluster *cluster, struct reply *reply)
{
    uint64_t give_up_ns = io_clock_now_ns() + PAIR_PATIENCE_NS;
    while (!reply->is_over) {
        assert_true(io_clock_now_ns() < give_up_ns);
        io_loop_turn(cluster->loop, 5000000);
    }
    buf_add_byte(&reply->body, 0);
    if (reply->status != 200) {
        fail_msg("%d: %s", reply->status, (const char *)reply->body.data);
    }
}

static json_t *choice_of(json_t *root)
{
    return json_array_get(json_object_get(root, "choices"), 0);
}

static json_t *load(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    if (root == NULL) {
        fail_msg("%s in %s", error.text, text);
    }
    return root;
}

/* Joins the pieces of an event stream; `what` says where a chunk has its. */
static void join_stream(const char *stream, const char *(*what)(json_t *choice),
                        char text_out[256])
{
    text_out[0] = 0;
    bool is_done = false;
    for (const char *at = strstr(stream, "data: "); at != NULL;
         at = strstr(at + 1, "data: ")) {
        char line[4096];
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at + 6, "\n"),
                 at + 6);
        assert_false(is_done);
        is_done = strcmp(line, "[DONE]") == 0;
        if (!is_done) {
            json_t *root = load(line);
            const char *piece = what(choice_of(root));
            strncat(text_out, piece == NULL ? "" : piece, 64);
            json_decref(root);
        }
    }
    assert_true(is_done);
}

static const char *text_piece(json_t *choice)
{
    return json_string_value(json_object_get(choice, "text"));
}

static const char *chat_piece(json_t *choice)
{
    json_t *delta = json_object_get(choice, "delta");
    return json_string_value(json_object_get(delta, "content"));
}

/* Prefill there, decode here: all tokens but the first. */
static bool has_moved(struct cluster *cluster, uint64_t count)
{
    struct transfer_stats sent, received;
    struct engine_stats context = side_stats(cluster->context.side);
    struct engine_stats generation = side_stats(cluster->generation.side);
    transfer_stats_read(cluster->context.side->transfer, &sent);
    transfer_stats_read(cluster->generation.side->transfer, &received);
    assert_int_equal(sent.sends_failed, 0);
    assert_int_equal(received.receives_failed, 0);
    assert_int_equal(context.decode_tokens, 0);
    assert_int_equal(generation.prefill_tokens, 0);
    return sent.sends_done == count && received.receives_done == count &&
           received.received_bytes == sent.sent_bytes &&
           context.prefill_tokens > 0 &&
           generation.decode_tokens == count * (ANSWER - 1) &&
           side_is_empty(cluster->context.side) &&
           side_is_empty(cluster->generation.side);
}

/* The KV of so many prompts went from one worker to the other, and then both
 * have given everything back. */
static void check_moved(struct cluster *cluster, uint64_t count)
{
    uint64_t give_up_ns = io_clock_now_ns() + PAIR_PATIENCE_NS;
    while (!has_moved(cluster, count)) {
        assert_true(io_clock_now_ns() < give_up_ns);
        io_loop_turn(cluster->loop, 1000000);
    }
}

/* -------- the tests -------- */

/* Proof: the text is what the hash of the prompt's ids says, the usage counts
 * each token once, and the prompt's pages moved from worker to worker. */
static void a_completion_passes_both_workers(void **state)
{
    struct cluster *cluster = *state;
    char prompt[64], answer[ANSWER + 1], body[512];
    int32_t ids[PAIR_MAX_SEQ];
    find_prompt(cluster, encode, 0, prompt, answer);
    snprintf(body, sizeof(body),
             "{\"model\":\"hash\",\"prompt\":\"%s\",\"max_tokens\":%d,"
             "\"temperature\":0}",
             prompt, ANSWER);
    struct reply reply;
    post(cluster, "/v1/completions", body, &reply);
    await(cluster, &reply);
    json_t *root = load((const char *)reply.body.data);
    json_t *usage = json_object_get(root, "usage");
    assert_string_equal(text_piece(choice_of(root)), answer);
    assert_string_equal(
        json_string_value(json_object_get(choice_of(root), "finish_reason")),
        "length");
    assert_int_equal(
        json_integer_value(json_object_get(usage, "prompt_tokens")),
        encode(cluster, prompt, ids));
    assert_int_equal(
        json_integer_value(json_object_get(usage, "completion_tokens")),
        ANSWER);
    json_decref(root);
    check_moved(cluster, 1);
    buf_finish(&reply.body);
}

/* Proof: the pieces of several streams at once, joined, are each what the hash
 * says, and each stream ends with [DONE]. */
static void streams_of_several_clients_keep_apart(void **state)
{
    enum { CLIENTS = 4 };
    struct cluster *cluster = *state;
    struct reply replies[CLIENTS];
    char answers[CLIENTS][ANSWER + 1], prompt[64], body[512], text[256];
    for (int i = 0; i < CLIENTS; i++) {
        find_prompt(cluster, encode, i, prompt, answers[i]);
        snprintf(body, sizeof(body),
                 "{\"model\":\"hash\",\"prompt\":\"%s\",\"max_tokens\":%d,"
                 "\"temperature\":0,\"stream\":true}",
                 prompt, ANSWER);
        post(cluster, "/v1/completions", body, &replies[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        await(cluster, &replies[i]);
        join_stream((const char *)replies[i].body.data, text_piece, text);
        assert_string_equal(text, answers[i]);
        buf_finish(&replies[i].body);
    }
    check_moved(cluster, CLIENTS);
}

/* The ids of a chat with one message, as chatml spells it. */
static size_t encode_chat(const struct cluster *cluster, const char *text,
                          int32_t ids_out[PAIR_MAX_SEQ])
{
    char whole[256];
    size_t count = 0;
    struct text_encode_options options = {.parse_special = true};
    snprintf(whole, sizeof(whole),
             "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n", text);
    assert_int_equal(text_encode(cluster->tokenizer, span_of_string(whole),
                                 &options, ids_out, PAIR_MAX_SEQ / 2, &count),
                     OK);
    return count;
}

/* Proof: as above, with the chat template before and deltas after. */
static void a_chat_stream_passes_both_workers(void **state)
{
    struct cluster *cluster = *state;
    char prompt[64], answer[ANSWER + 1], body[512], text[256];
    find_prompt(cluster, encode_chat, 0, prompt, answer);
    snprintf(body, sizeof(body),
             "{\"model\":\"hash\",\"messages\":[{\"role\":\"user\","
             "\"content\":\"%s\"}],\"max_tokens\":%d,\"temperature\":0,"
             "\"stream\":true}",
             prompt, ANSWER);
    struct reply reply;
    post(cluster, "/v1/chat/completions", body, &reply);
    await(cluster, &reply);
    join_stream((const char *)reply.body.data, chat_piece, text);
    assert_string_equal(text, answer);
    check_moved(cluster, 1);
    buf_finish(&reply.body);
}

/* The first prompt that the hash answers with the end token at once. */
static void find_silent_prompt(const struct cluster *cluster,
                               char prompt_out[64])
{
    int32_t ids[PAIR_MAX_SEQ];
    for (int i = 0; i < 100000; i++) {
        snprintf(prompt_out, 64, "say nothing %d", i);
        size_t count = encode(cluster, prompt_out, ids);
        if (model_hash_next(&cluster->context.side->hash, ids,
                            (uint32_t)count) == MODEL_EOS) {
            return;
        }
    }
    fail_msg("no prompt is answered with the end token");
}

static void check_answer(struct cluster *cluster, const char *prompt,
                         int token_max, const char *text, const char *finish)
{
    char body[512];
    struct reply reply;
    snprintf(body, sizeof(body),
             "{\"model\":\"hash\",\"prompt\":\"%s\",\"max_tokens\":%d,"
             "\"temperature\":0}",
             prompt, token_max);
    post(cluster, "/v1/completions", body, &reply);
    await(cluster, &reply);
    json_t *root = load((const char *)reply.body.data);
    json_t *choice = choice_of(root);
    assert_string_equal(text_piece(choice), text);
    assert_string_equal(
        json_string_value(json_object_get(choice, "finish_reason")), finish);
    json_decref(root);
    buf_finish(&reply.body);
}

/* Proof: an answer of one token, of two, and one that is over with its first
 * token: what the context worker made shows once, nothing is left behind.
 * [serve T37] */
static void the_first_token_shows_exactly_once(void **state)
{
    struct cluster *cluster = *state;
    char prompt[64], answer[ANSWER + 1];
    find_prompt(cluster, encode, 0, prompt, answer);
    const char first[] = {answer[0], 0};
    const char both[] = {answer[0], answer[1], 0};
    check_answer(cluster, prompt, 1, first, "length");
    check_answer(cluster, prompt, 2, both, "length");
    find_silent_prompt(cluster, prompt);
    check_answer(cluster, prompt, ANSWER, "", "stop");
    uint64_t give_up_ns = io_clock_now_ns() + PAIR_PATIENCE_NS;
    while (!side_is_empty(cluster->context.side) ||
           !side_is_empty(cluster->generation.side)) {
        assert_true(io_clock_now_ns() < give_up_ns);
        io_loop_turn(cluster->loop, 1000000);
    }
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, open_cluster, close_cluster)
#define MIXED(name)                                                         \
    cmocka_unit_test_setup_teardown(name, open_small_large, close_cluster), \
        cmocka_unit_test_setup_teardown(name, open_large_small, close_cluster)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_completion_passes_both_workers),
        TEST(the_first_token_shows_exactly_once),
        TEST(streams_of_several_clients_keep_apart),
        TEST(a_chat_stream_passes_both_workers),
        MIXED(a_completion_passes_both_workers),
        MIXED(streams_of_several_clients_keep_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
