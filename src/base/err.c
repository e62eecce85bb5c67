#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err why_say(struct why *why, enum err code, const char *format, ...)
{
    if (why == NULL) {
        return code;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return code;
}

enum err why_prefix(struct why *why, enum err code, const char *format, ...)
{
    if (why == NULL) {
        return code;
    }
    struct why old = *why;
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    size_t used = strlen(why->text);
    snprintf(why->text + used, sizeof(why->text) - used, ": %s", old.text);
    return code;
}

const char *err_name(enum err code)
{
    static const char *const NAMES[ERR_COUNT] = {
        [OK] = "ok",
        [ERR_INVALID] = "invalid",
        [ERR_UNSUPPORTED] = "unsupported",
        [ERR_NOT_FOUND] = "not_found",
        [ERR_EXISTS] = "exists",
        [ERR_FULL] = "full",
        [ERR_NO_MEMORY] = "no_memory",
        [ERR_BUSY] = "busy",
        [ERR_TIMEOUT] = "timeout",
        [ERR_CANCELLED] = "cancelled",
        [ERR_CLOSED] = "closed",
        [ERR_CORRUPT] = "corrupt",
        [ERR_DENIED] = "denied",
        [ERR_IO] = "io",
        [ERR_INTERNAL] = "internal",
    };
    return (unsigned)code < ERR_COUNT ? NAMES[code] : "unknown";
}
