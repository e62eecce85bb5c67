#pragma once
/* base/log: lines on stderr, as text or as one JSON object each.
 *
 * Text: `2026-01-02T03:04:05.678Z info  engine: message`. Process-wide, set
 * once at start; any thread may log, a line is written whole. A line never
 * holds a prompt, generated text, an opaque state or a key. Control characters
 * in arguments are escaped. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_options {
    enum log_level level;
    enum log_format format;
    const char *process; /* "context", "front end", ...; copied; may be NULL */
};

void log_setup(const struct log_options *options);
bool log_is_on(enum log_level level);
/* `part` is the layer: "engine", "transfer", ... */
void log_line(enum log_level level, const char *part, const char *format, ...)
    PRINTF_LIKE(3, 4);

#define log_debug(part, ...)                        \
    do {                                            \
        if (log_is_on(LOG_DEBUG)) {                 \
            log_line(LOG_DEBUG, part, __VA_ARGS__); \
        }                                           \
    } while (0)
#define log_info(part, ...) log_line(LOG_INFO, part, __VA_ARGS__)
#define log_warn(part, ...) log_line(LOG_WARN, part, __VA_ARGS__)
#define log_error(part, ...) log_line(LOG_ERROR, part, __VA_ARGS__)

/* For what others can bring about as often as they like: of one place in the code
 * at most LOG_RARE_MAX lines a minute, and the first one after that minute is
 * preceded by a line that says how many were left out. At level debug all are
 * written. */
enum { LOG_RARE_MAX = 10 };

/* Open, a static of each place, zero at first; any thread. */
struct log_gate {
    _Atomic uint64_t begun_ns; /* of its minute; private, as all */
    _Atomic uint32_t count;
    _Atomic uint64_t left_out;
};
/* May a line be written now? True: `left_out_out` lines before it were not. */
bool log_gate_pass(struct log_gate *gate, uint64_t now_ns,
                   uint64_t *left_out_out);
void log_rare_line(struct log_gate *gate, enum log_level level,
                   const char *part, const char *format, ...) PRINTF_LIKE(4, 5);

#define log_rare(level, part, ...)                               \
    do {                                                         \
        static struct log_gate log_gate_here;                    \
        log_rare_line(&log_gate_here, level, part, __VA_ARGS__); \
    } while (0)
#define log_info_rare(part, ...) log_rare(LOG_INFO, part, __VA_ARGS__)
#define log_warn_rare(part, ...) log_rare(LOG_WARN, part, __VA_ARGS__)
#define log_error_rare(part, ...) log_rare(LOG_ERROR, part, __VA_ARGS__)
