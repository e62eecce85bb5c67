#pragma once
/* node/front: runs a front end on the main thread until told to stop. Prints
 * `listening http://host:port`, then `ready http://host:port` once it can
 * serve. SIGTERM and SIGINT drain. */
#include "base/err.h"
#include "config/route.h"

MUST_USE enum err node_front_run(const struct config_route *config,
                                 struct why *why);
