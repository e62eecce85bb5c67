#pragma once
/* route/front: the front end. Clients in, two legs out (serve.md 2.11), bytes
 * relayed. One thread: the loop's. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/route.h"
#include "io/loop.h"

struct route_front;

struct route_front_options {
    struct io_loop *loop;
    const struct config_route *config; /* outlives it */
    const char *version;
};
MUST_USE enum err route_front_open(const struct route_front_options *options,
                                   struct why *why,
                                   struct route_front **front_out);
uint16_t route_front_port(const struct route_front *front);
/* At least one prepared, healthy server a role. */
bool route_front_is_ready(const struct route_front *front);
/* Adds "context 10.0.0.1:8001: it is still starting; ...": each server that is
 * not ready, by its role, and why. Logs them too, a line each. */
void route_front_tell_unready(const struct route_front *front, struct buf *out);
/* 503 for new work and for /health, on a port that stays open; `on_idle` once
 * nothing is open, all answers have left, and workers know what nobody waits
 * for. */
void route_front_drain(struct route_front *front,
                       void (*on_idle)(void *context), void *context);
void route_front_close(struct route_front *front);
