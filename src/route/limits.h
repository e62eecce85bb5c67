#pragma once
/* route/limits: the bounds of a front end, derived from its config and from
 * what the system lets it open. */
#include <stdint.h>

#include "base/buf.h"
#include "config/route.h"

/* Requests and forwarded calls that may be open together. */
uint32_t route_limits_open_max(const struct config_route *config);
/* Client connections: idle ones and refusals need room too. */
uint32_t route_limits_connection_max(const struct config_route *config);
/* Words to workers that a hand-off is over, waiting or under way. */
uint32_t route_limits_abort_max(const struct config_route *config);
/* A line each, for `baton inspect`. */
void route_limits_describe(const struct config_route *config, struct buf *out);
