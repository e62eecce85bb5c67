#pragma once
/* transfer/backend_ucx: shared memory between the processes of one host, set
 * up by UCX. The sender maps the receiver's pool and copies into it with
 * non-temporal stores of its own; a peer whose pool cannot be mapped is
 * refused. UCX is set by ucp_config_modify, the environment is not read for
 * what both peers must have alike. */
#include <stdint.h>

#include "transfer/backend.h"

struct transfer_backend_ucx_options {
    uint64_t incarnation;
};
/* After fork, never before: UCX does not live through one. Also puts back the
 * default action of the signals that libucs took over before main, so install
 * our own handlers after this call or in main, whichever is later.
 * ERR_UNSUPPORTED, ERR_IO. */
MUST_USE enum err transfer_backend_ucx_create(
    const struct transfer_backend_ucx_options *options, struct why *why,
    struct transfer_backend **backend_out);
