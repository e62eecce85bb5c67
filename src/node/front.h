#pragma once
/* node/front: runs a front end on the main thread until told to stop. Prints
 * `listening http://host:port`, then `ready http://host:port` once it can
 * serve. SIGTERM and SIGINT drain. */
#include "base/buf.h"
#include "base/err.h"
#include "config/route.h"

/* What a front end with this config is bounded by; a line each. */
void node_front_describe_limits(const struct config_route *config,
                                struct buf *out);
MUST_USE enum err node_front_run(const struct config_route *config,
                                 struct why *why);
