#pragma once
/* node/warm: the first request of a fresh cluster should wait no longer than the
 * hundredth: workers meet and map each other's pages, sockets are opened, code is
 * touched for the first time. So some of our own go first, each of a few tokens,
 * one after the other; what comes of them is nobody's concern. */
#include <stdint.h>

#include "io/loop.h"

struct node_warm;

struct node_warm_options {
    struct io_loop *loop;
    const char *host; /* of the front end */
    uint16_t port;
    const char *api_key; /* NULL: none */
    uint32_t count; /* requests */
    void (*on_end)(void *context); /* once, later, however they ended */
    void *context;
};
struct node_warm *node_warm_start(const struct node_warm_options *options);
void node_warm_destroy(struct node_warm *warm); /* NULL is fine */
