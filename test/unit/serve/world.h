#pragma once
/* A worker's HTTP side in a test: the real server on loopback, the real
 * tokenizer, and the test itself as the engine. One thread turns the loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/clock.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "model.h"
#include "serve/serve.h"

struct world {
    struct config_worker config;
    struct io_loop *loop;
    struct serve *serve;
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
    struct text_chat *chat;
    struct io_waker *engine_waker, *event_waker;
    struct io_mailbox *commands, *events;
    struct engine_stats_cell *stats;
    struct serve_parts parts;
    char path[64];
};

struct client {
    int fd;
    bool is_ended;
    size_t size;
    char data[1 << 20];
};

static inline void world_load(struct world *world)
{
    struct why why = {{0}};
    model_write(world->path);
    if (gguf_open(world->path, &why, &world->gguf) != OK ||
        text_tokenizer_create(world->gguf, &why, &world->tokenizer) != OK ||
        text_chat_create(world->gguf, world->tokenizer, "chatml", &why,
                         &world->chat) != OK) {
        fail_msg("%s", why.text);
    }
}

static inline void world_config(struct world *world)
{
    world->config = (struct config_worker){
        .host = "127.0.0.1",
        .tokens_per_block = 32,
        .max_batch = 4,
        .queue_limit = 4,
        .request_timeout_ms = 60000,
        .max_body_bytes = 1 << 20,
        .strict_internal_auth = true,
    };
}

static inline void world_mailboxes(struct world *world)
{
    struct io_mailbox_options options = {
        .message_size = sizeof(struct engine_command), .capacity = 64};
    assert_int_equal(io_waker_create(&world->engine_waker), OK);
    assert_int_equal(io_waker_create(&world->event_waker), OK);
    options.waker = world->engine_waker;
    assert_int_equal(io_mailbox_create(&options, &world->commands), OK);
    options.message_size = sizeof(struct engine_event);
    options.capacity = 8192;
    options.waker = world->event_waker;
    assert_int_equal(io_mailbox_create(&options, &world->events), OK);
}

/* Listens; every route says `starting`. */
static inline void world_open(struct world *world)
{
    struct why why = {{0}};
    memset(world, 0, sizeof(*world));
    world_config(world);
    world_load(world);
    world_mailboxes(world);
    world->stats = engine_stats_cell_create();
    assert_int_equal(io_loop_create(&world->loop), OK);
    world->parts = (struct serve_parts){
        .tokenizer = world->tokenizer,
        .chat = world->chat,
        .chat_why = "no template",
        .model_name = "stem",
        .general_name = "General Name",
        .vocab_size = MODEL_VOCAB,
        .max_seq = 200,
        .incarnation = UINT64_C(0xfedcba9876543210),
        .transfer_endpoint = "tcp://127.0.0.1:7",
        .engine = {.commands = world->commands, .events = world->events},
        .event_waker = world->event_waker,
        .stats = world->stats,
    };
    struct serve_options options = {
        .loop = world->loop, .config = &world->config, .version = "9.9"};
    if (serve_open(&options, &why, &world->serve) != OK) {
        fail_msg("%s", why.text);
    }
}

static inline void world_ready(struct world *world)
{
    struct why why = {{0}};
    if (serve_set_ready(world->serve, &world->parts, &why) != OK) {
        fail_msg("%s", why.text);
    }
}

static inline void world_close(struct world *world)
{
    struct engine_command command;
    struct engine_event event;
    serve_close(world->serve);
    while (io_mailbox_take(world->commands, &command)) {
        engine_request_free(command.request);
    }
    while (io_mailbox_take(world->events, &event)) {
        engine_event_finish(&event);
    }
    io_mailbox_destroy(world->commands);
    io_mailbox_destroy(world->events);
    io_waker_destroy(world->engine_waker);
    io_waker_destroy(world->event_waker);
    engine_stats_cell_destroy(world->stats);
    text_chat_destroy(world->chat);
    text_tokenizer_destroy(world->tokenizer);
    gguf_close(world->gguf);
    io_loop_destroy(world->loop);
    unlink(world->path);
}

/* A head of one's own, and nothing behind it. */
static inline struct client *client_begin(struct world *world,
                                          const char *method, const char *path,
                                          const char *headers)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(serve_port(world->serve)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct client *client = calloc(1, sizeof(*client));
    char text[4096];
    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(
        connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    int size =
        snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n",
                 method, path, headers);
    assert_int_equal(send(client->fd, text, (size_t)size, 0), size);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
    return client;
}

static inline struct client *client_send(struct world *world,
                                         const char *method, const char *path,
                                         const char *headers, const char *body)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(serve_port(world->serve)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct client *client = calloc(1, sizeof(*client));
    static char text[1 << 18];
    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(
        connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    int size = snprintf(text, sizeof(text),
                        "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        "%sContent-Length: %zu\r\n\r\n%s",
                        method, path, headers, strlen(body), body);
    assert_int_equal(send(client->fd, text, (size_t)size, 0), size);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
    return client;
}

static inline struct client *client_post(struct world *world, const char *path,
                                         const char *body)
{
    return client_send(world, "POST", path,
                       "Content-Type: application/json\r\n", body);
}

static inline void client_take(struct client *client)
{
    ssize_t got;
    while (!client->is_ended &&
           (got = recv(client->fd, client->data + client->size,
                       sizeof(client->data) - 1 - client->size, 0)) >= 0) {
        client->size += (size_t)got;
        client->is_ended = got == 0;
    }
}

/* Turns until `text` has come, or the end when it is NULL. */
static inline void client_await(struct world *world, struct client *client,
                                const char *text)
{
    uint64_t give_up = io_clock_now_ns() + UINT64_C(10000000000);
    while (text == NULL ? !client->is_ended
                        : strstr(client->data, text) == NULL) {
        if (io_clock_now_ns() > give_up || (text != NULL && client->is_ended)) {
            fail_msg("no '%s' in: %s", text == NULL ? "end" : text,
                     client->data);
        }
        io_loop_turn(world->loop, 5000000);
        client_take(client);
    }
}

static inline void client_close(struct client *client)
{
    close(client->fd);
    free(client);
}

static inline void client_has(const struct client *client, const char *text)
{
    if (strstr(client->data, text) == NULL) {
        fail_msg("no '%s' in: %s", text, client->data);
    }
}

static inline void client_lacks(const struct client *client, const char *text)
{
    if (strstr(client->data, text) != NULL) {
        fail_msg("'%s' in: %s", text, client->data);
    }
}

static inline int client_status(const struct client *client)
{
    return client->size < 12 ? 0 : atoi(client->data + 9);
}

/* One whole exchange that needs no engine; the answer must hold `text`. */
static inline void world_answers(struct world *world, const char *method,
                                 const char *path, const char *headers,
                                 const char *body, int status, const char *text)
{
    struct client *client = client_send(world, method, path, headers, body);
    client_await(world, client, NULL);
    if (client_status(client) != status) {
        fail_msg("%s %s %s: wanted %d: %s", method, path, body, status,
                 client->data);
    }
    client_has(client, text);
    client_close(client);
}

/* The next command for the engine. A SUBMIT's request is the caller's. */
static inline struct engine_command world_command(struct world *world)
{
    struct engine_command command;
    uint64_t give_up = io_clock_now_ns() + UINT64_C(10000000000);
    while (!io_mailbox_take(world->commands, &command)) {
        if (io_clock_now_ns() > give_up) {
            fail_msg("no command came");
        }
        io_loop_turn(world->loop, 5000000);
    }
    return command;
}

static inline struct engine_request *world_submitted(struct world *world)
{
    struct engine_command command = world_command(world);
    assert_int_equal(command.kind, ENGINE_SUBMIT);
    assert_int_equal(command.id, command.request->id);
    return command.request;
}

static inline void world_post(struct world *world,
                              const struct engine_event *event)
{
    assert_int_equal(io_mailbox_post(world->events, event), OK);
}

static inline void world_token(struct world *world, uint64_t id,
                               uint32_t choice, uint32_t index, int32_t token)
{
    world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_TOKEN,
                                             .id = id,
                                             .choice = choice,
                                             .index = index,
                                             .token = token,
                                             .logprob = -0.5f});
}

static inline void world_say(struct world *world, uint64_t id, uint32_t choice,
                             uint32_t index, const char *text)
{
    for (; *text != 0; text++) {
        world_token(world, id, choice, index++, TOKEN_OF(*text));
    }
}

static inline void world_finish(struct world *world, uint64_t id,
                                uint32_t choice, enum engine_finish finish,
                                int32_t token)
{
    world_post(world, &(struct engine_event){
                          .kind = ENGINE_EVENT_FINISHED,
                          .id = id,
                          .choice = choice,
                          .finish = finish,
                          .token = token,
                          .journey = {.prompt_tokens = 3, .cached_tokens = 2}});
}

static inline void world_fail(struct world *world, uint64_t id, enum err error,
                              const char *reason)
{
    struct engine_event event = {
        .kind = ENGINE_EVENT_FAILED, .id = id, .error = error};
    snprintf(event.reason, sizeof(event.reason), "%s", reason);
    world_post(world, &event);
}

static inline int open_world(void **state)
{
    *state = calloc(1, sizeof(struct world));
    world_open(*state);
    world_ready(*state);
    return 0;
}

/* With the internal key "secret"; given to cmocka. */
static inline int open_signed(void **state)
{
    *state = calloc(1, sizeof(struct world));
    world_open(*state);
    ((struct world *)*state)->parts.auth_key = span_of_string("secret");
    world_ready(*state);
    return 0;
}

static inline int close_world(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, open_world, close_world)
#define TEST_SIGNED(name) \
    cmocka_unit_test_setup_teardown(name, open_signed, close_world)
