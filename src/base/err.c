#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "base/utf8.h"

/* Names out of files and requests may hold anything; a person's terminal and a
 * log get one line of UTF-8 without control characters. */
static void make_plain(struct why *why)
{
    const struct why old = *why;
    struct span rest = span_of_string(old.text);
    size_t used = 0;
    while (rest.size > 0) {
        size_t size = utf8_size(rest);
        bool is_plain = size > 1 || (size == 1 && rest.data[0] >= 0x20 &&
                                     rest.data[0] != 0x7f);
        size = is_plain ? size : 1;
        char text[UTF8_SIZE_MAX + 1] = {0};
        if (is_plain) {
            memcpy(text, rest.data, size);
        } else {
            snprintf(text, sizeof(text), "\\x%02x", rest.data[0]);
        }
        size_t wanted = strlen(text);
        if (used + wanted >= sizeof(why->text)) {
            break;
        }
        memcpy(why->text + used, text, wanted);
        used += wanted;
        rest = span_slice(rest, size, rest.size);
    }
    why->text[used] = 0;
}

enum err why_say(struct why *why, enum err code, const char *format, ...)
{
    if (why == NULL) {
        return code;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    make_plain(why);
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
    make_plain(why);
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
