#include "base/blockers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* "; and 4294967295 more" and the end must still fit. */
enum { TAIL_SIZE = 24 };

void blockers_add(struct blockers *blockers, const char *format, ...)
{
    char line[sizeof(blockers->text)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    blockers->count++;
    size_t size = strlen(line);
    size_t comma = blockers->told > 0 ? 2 : 0;
    size_t room = sizeof(blockers->text) - TAIL_SIZE - blockers->size;
    /* Once one had no room the next has none: the order stays. The first is
     * there in any case, if need be cut. */
    bool is_next = blockers->told == blockers->count - 1;
    if (blockers->told == 0 && is_next && size > room) {
        size = room;
    }
    if (!is_next || comma + size > room) {
        return;
    }
    memcpy(blockers->text + blockers->size, "; ", comma);
    memcpy(blockers->text + blockers->size + comma, line, size);
    blockers->size += (uint32_t)(comma + size);
    blockers->told++;
}

enum err blockers_say(const struct blockers *blockers, enum err code,
                      struct why *why)
{
    if (blockers->count == 0) {
        return OK;
    }
    int size = (int)blockers->size;
    if (blockers->told == blockers->count) {
        return why_say(why, code, "%.*s", size, blockers->text);
    }
    return why_say(why, code, "%.*s; and %u more", size, blockers->text,
                   blockers->count - blockers->told);
}
