#pragma once
/* What an exposition tells of its families: their names and kinds, and whether
 * they are named as Prometheus would have it. */
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

/* "name kind", a line a family, in their order. */
static inline void exposition_families(const struct buf *text, struct buf *out)
{
    for (const char *at = buf_string(text); *at != 0;) {
        size_t size = strcspn(at, "\n");
        if (strncmp(at, "# TYPE ", 7) == 0) {
            buf_add(out, at + 7, size - 7 + 1);
        }
        at += size + (at[size] != 0);
    }
}

static inline bool exposition_ends_with(const char *name, size_t size,
                                        const char *end)
{
    size_t end_size = strlen(end);
    return size > end_size &&
           memcmp(name + size - end_size, end, end_size) == 0;
}

/* A counter ends in _total and nothing else does, a histogram names its unit. */
static inline void exposition_is_conventional(const struct buf *families)
{
    for (const char *at = buf_string(families); *at != 0;) {
        size_t size = strcspn(at, " ");
        const char *kind = at + size + 1;
        bool is_counter = strncmp(kind, "counter\n", 8) == 0;
        bool is_histogram = strncmp(kind, "histogram\n", 10) == 0;
        if (exposition_ends_with(at, size, "_total") != is_counter ||
            (is_histogram && !exposition_ends_with(at, size, "_seconds"))) {
            fail_msg("%.*s", (int)strcspn(at, "\n"), at);
        }
        at += strcspn(at, "\n") + 1;
    }
}
