#pragma once
/* transfer/backend_trace: a decorator that remembers the last writes: a flight
 * recorder of fixed memory.
 *
 *   write -> handed .. begun (next poll) .. back -> a record, newest first
 *
 * The recorder outlives the backend and may be read by any thread. */
#include <stdint.h>

#include "transfer/backend.h"

enum { TRANSFER_TRACE_COUNT = 256 }; /* records, and writes followed at once */

struct transfer_record {
    uint64_t number; /* counts all writes from 1 */
    struct transfer_token token;
    const char *lane; /* static text */
    uint64_t bytes;
    size_t piece_count;
    enum transfer_outcome outcome;
    uint64_t handed_ns, begun_ns, back_ns; /* of io/clock */
};

struct transfer_trace;
struct transfer_trace *transfer_trace_create(void);
void transfer_trace_destroy(struct transfer_trace *trace); /* NULL is fine */
/* The newest first; says how many of at most `max`. */
uint32_t transfer_trace_read(const struct transfer_trace *trace,
                             struct transfer_record *records_out, uint32_t max);
/* `[{"write":1,"rid":7,...},...]`, the newest `max`. */
void transfer_trace_print(const struct transfer_trace *trace, uint32_t max,
                          struct buf *out);

/* Takes `next` over and destroys it with itself. */
struct transfer_backend *transfer_backend_trace_create(
    struct transfer_backend *next, struct transfer_trace *trace);
