#include "sim/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"

void sim_trace_init(struct sim_trace *trace,
                    void (*on_line)(void *context, const char *line),
                    void *context)
{
    *trace = (struct sim_trace){.on_line = on_line, .context = context};
}

/* The hash before, little-endian, then the line. */
static uint64_t chain(uint64_t before, const char *line)
{
    uint8_t bytes[8 + SIM_TRACE_LINE_SIZE];
    uint8_t digest[8];
    size_t size = strlen(line);
    for (uint32_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(before >> 8 * i);
    }
    memcpy(bytes + 8, line, size);
    digest_blake3(NULL, (struct span){.data = bytes, .size = 8 + size}, digest,
                  sizeof(digest));
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 8; i++) {
        hash |= (uint64_t)digest[i] << 8 * i;
    }
    return hash;
}

void sim_trace_say(struct sim_trace *trace, const char *format, ...)
{
    char *line = trace->tail[trace->line_count % SIM_TRACE_TAIL];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, SIM_TRACE_LINE_SIZE, format, arguments);
    va_end(arguments);
    trace->line_count++;
    trace->hash = chain(trace->hash, line);
    if (trace->on_line != NULL) {
        trace->on_line(trace->context, line);
    }
}

void sim_trace_visit_tail(const struct sim_trace *trace,
                          void (*visit)(void *context, const char *line),
                          void *context)
{
    uint64_t first = trace->line_count > SIM_TRACE_TAIL
                         ? trace->line_count - SIM_TRACE_TAIL
                         : 0;
    for (uint64_t i = first; i < trace->line_count; i++) {
        visit(context, trace->tail[i % SIM_TRACE_TAIL]);
    }
}
