#pragma once
/* transfer/backend_fault: a decorator that makes another backend slow, deaf or
 * lossy on demand. For tests, the simulator and benches of slow links.
 *
 *   write ->[ hold_writes, chance ]-> next -> poll
 *         ->[ hold_done, delay, link speed | lose ]-> caller
 *
 * Switches may be turned by any thread. What is held comes out once its switch
 * is off and poll is called again. Chances are in millionths of writes, drawn
 * from `seed`: the same writes in the same order meet the same. */
#include <stdint.h>

#include "transfer/backend.h"

struct transfer_fault {
    _Atomic bool hold_writes; /* not begun: bytes move after the release */
    _Atomic bool hold_done; /* bytes moved, nobody is told yet */
    _Atomic uint32_t delay_polls; /* each write comes back so many polls late */
    _Atomic uint32_t stop_count; /* so many next writes come back STOPPED */
    _Atomic uint32_t doubt_count; /* so many come back IN_DOUBT, bytes moved */
    _Atomic uint32_t flip_count; /* so many tell a wrong digest */
    /* So many are carried out but never come back, until their peer is closed:
     * then IN_DOUBT. */
    _Atomic uint32_t lose_count;
    /* So many come back STOPPED, which is a lie: their bytes are written
     * `late_polls` later, from what the source then holds. */
    _Atomic uint32_t late_count;
    _Atomic uint32_t late_polls;

    _Atomic uint32_t drop_ppm; /* a piece is left out, the digest is right */
    _Atomic uint32_t corrupt_ppm; /* a byte lands wrong, the digest is right */
    _Atomic uint32_t duplicate_ppm; /* carried out twice */
    _Atomic uint32_t reorder_ppm; /* the next one overtakes; pieces backwards */
    _Atomic uint32_t delay_ppm; /* 1 to delay_polls_max polls late */
    _Atomic uint32_t delay_polls_max;
    _Atomic uint64_t link_bytes_per_second; /* 0: as fast as it is */
    uint64_t seed; /* read at creation */

    _Atomic uint32_t held; /* read: writes now inside */
    _Atomic uint32_t dropped, corrupted, duplicated, reordered; /* read */
};

/* Takes `next` over and destroys it with itself. `fault` outlives it. */
struct transfer_backend *transfer_backend_fault_create(
    struct transfer_backend *next, struct transfer_fault *fault);
