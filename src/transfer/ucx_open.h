#pragma once
/* transfer/ucx_open: UCX set up for the bodies that stand on it: a context and
 * a worker with settings of ours, whatever the environment says about them.
 *
 * Settings are text, "NAME=value NAME=value"; both peers must have the same.
 * UCX accepts a wrong name and warns much later. Private to the bodies. */
#include <ucp/api/ucp.h>

#include "base/err.h"

/* ERR_UNSUPPORTED: no device; ERR_NO_MEMORY; else ERR_IO. */
MUST_USE enum err ucx_say(struct why *why, const char *what,
                          ucs_status_t status);
/* "ucx 1.13.1 SETTINGS". */
void ucx_describe(const char *settings, char *text_out, size_t size);

/* One that can put, and sleep. After fork, never before. libucs takes some
 * signals over before main; a crash of ours would then end in its debugger
 * prompt, so their default action comes back here. NULL is fine to close. */
MUST_USE enum err ucx_open_context(const char *settings, struct why *why,
                                   ucp_context_h *context_out);
void ucx_close_context(ucp_context_h context);
/* `events`: what its descriptor wakes for, of enum ucp_wakeup_event_types. */
MUST_USE enum err ucx_open_worker(ucp_context_h context, unsigned events,
                                  struct why *why, ucp_worker_h *worker_out,
                                  int *fd_out);
void ucx_close_worker(ucp_worker_h worker);
