#pragma once
/* sim/trace: what a simulation decided, a line a decision. Each line goes into
 * a hash over all of them, the last few are kept for a failure's report, and
 * whoever wants them all is handed them. Lines hold numbers of the simulated
 * world only: no addresses, no clock, no floating point. */
#include <stdint.h>

#include "base/err.h"

enum { SIM_TRACE_LINE_SIZE = 200, SIM_TRACE_TAIL = 40 };

struct sim_trace {
    uint64_t hash; /* of all lines so far, chained */
    uint64_t line_count;
    /* May be NULL: called with each line, without a newline. */
    void (*on_line)(void *context, const char *line);
    void *context;
    /* private */
    char tail[SIM_TRACE_TAIL][SIM_TRACE_LINE_SIZE];
};

void sim_trace_init(struct sim_trace *trace,
                    void (*on_line)(void *context, const char *line),
                    void *context);
/* Longer lines are cut. */
void sim_trace_say(struct sim_trace *trace, const char *format, ...)
    PRINTF_LIKE(2, 3);
/* The last lines, oldest first. */
void sim_trace_visit_tail(const struct sim_trace *trace,
                          void (*visit)(void *context, const char *line),
                          void *context);
