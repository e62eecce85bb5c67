#pragma once
/* route/deadline: how long a request may take from its arrival: what is
 * configured, or what the client asks for by x-baton-deadline-ms when that is
 * less. Pure. */
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* `header`: no data when absent. ERR_INVALID: not milliseconds; ERR_TIMEOUT: 0,
 * it has passed. `why` names the header. */
MUST_USE enum err route_deadline_read(struct span header, uint64_t ours_ns,
                                      struct why *why, uint64_t *ns_out);
