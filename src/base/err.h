#pragma once
/* base/err: how a call says it failed, and why.
 *
 * A call that can fail returns `enum err`; when the cause is somebody's input
 * it also fills a `struct why`, one line for a person that names the field and
 * what is wrong with its value. Outputs are set on success only. */
#include <stdbool.h>
#include <stddef.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(text_at, first) \
    __attribute__((format(printf, text_at, first)))

enum err {
    OK = 0,
    ERR_INVALID, /* the caller's input is wrong: tell them, do not retry */
    ERR_UNSUPPORTED, /* well formed, but we lack it: name it, do not retry */
    ERR_NOT_FOUND, /* no such thing */
    ERR_EXISTS, /* there is one already */
    ERR_FULL, /* a limit is reached: free something, or refuse */
    ERR_NO_MEMORY, /* the system gave none: give up this object */
    ERR_BUSY, /* not now: try again after the next event */
    ERR_TIMEOUT, /* a deadline passed */
    ERR_CANCELLED, /* somebody asked to stop */
    ERR_CLOSED, /* the other end is gone */
    ERR_CORRUPT, /* bytes fail their check: drop this source */
    ERR_DENIED, /* not allowed */
    ERR_IO, /* the system refused: the text carries its reason */
    ERR_INTERNAL, /* our own fault, contained: fail this request */
    ERR_COUNT
};

/* One line for a person. Open, embedded by callers, empty when text[0] == 0. */
struct why {
    char text[384];
};

/* Writes the line (cut to fit) and returns `code`. `why` may be NULL. Bytes that
 * are no UTF-8 and control characters come out as "\xff". */
enum err why_say(struct why *why, enum err code, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Puts "prefix: " before the line that is there and returns `code`. */
enum err why_prefix(struct why *why, enum err code, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* "invalid", "full", ...: stable, used in logs, metrics and reason strings. */
const char *err_name(enum err code);

/* Says that a result is dropped on purpose; the reason stands in a comment. */
#define IGNORE(call) \
    do {             \
        if (call) {  \
        }            \
    } while (0)
