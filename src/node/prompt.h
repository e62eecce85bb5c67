#pragma once
/* node/prompt: sends one prompt through a running cluster, prints the text as
 * it comes and then the journey it made. */
#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"

struct node_prompt;

struct node_prompt_worker {
    const char *name;
    uint16_t port;
};

struct node_prompt_options {
    struct io_loop *loop;
    const char *host;
    uint16_t port;
    const char *api_key;
    const char *text;
    uint32_t max_tokens;
    const char *schedule_style; /* the journey says so; NULL: nothing */
    /* Where to ask for the journey afterwards. */
    uint32_t worker_count;
    const struct node_prompt_worker *workers;
    void (*on_end)(void *context, enum err code, const char *reason);
    void *context;
};
struct node_prompt *node_prompt_start(
    const struct node_prompt_options *options);
void node_prompt_destroy(struct node_prompt *prompt); /* NULL is fine */
