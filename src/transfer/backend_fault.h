#pragma once
/* transfer/backend_fault: a decorator that makes another backend slow, deaf
 * or lossy on demand. For tests and the simulator.
 *
 *   write ->[ hold_writes ]-> next -> poll ->[ hold_done | lose ]-> caller
 *
 * Switches may be turned by any thread. What is held comes out once its switch
 * is off and poll is called again. */
#include <stdint.h>

#include "transfer/backend.h"

struct transfer_fault {
    _Atomic bool hold_writes; /* not begun: bytes move after the release */
    _Atomic bool hold_done; /* bytes moved, nobody is told yet */
    _Atomic uint32_t delay_polls; /* each write comes back so many polls late */
    _Atomic uint32_t stop_count; /* so many next writes come back STOPPED */
    _Atomic uint32_t doubt_count; /* so many come back IN_DOUBT, bytes moved */
    _Atomic uint32_t flip_count; /* so many tell a wrong digest */
    _Atomic uint32_t held; /* read: writes now inside */
};

/* Takes `next` over and destroys it with itself. `fault` outlives it. */
struct transfer_backend *transfer_backend_fault_create(
    struct transfer_backend *next, struct transfer_fault *fault);
