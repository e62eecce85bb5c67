#pragma once
/* base/span: bytes that somebody else owns, with their length.
 * A span is a view: it never owns, never ends in a zero, may be empty with a
 * NULL pointer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const uint8_t *data;
    size_t size;
};

static inline struct span span_of(const void *data, size_t size)
{
    return (struct span){(const uint8_t *)data, size};
}

static inline struct span span_of_string(const char *text)
{
    return span_of(text, strlen(text));
}

static inline bool span_equals(struct span a, struct span b)
{
    return a.size == b.size && (a.size == 0 || !memcmp(a.data, b.data, a.size));
}

static inline bool span_equals_string(struct span a, const char *text)
{
    return span_equals(a, span_of_string(text));
}

static inline bool span_starts_with(struct span a, const char *text)
{
    size_t size = strlen(text);
    return a.size >= size && (size == 0 || !memcmp(a.data, text, size));
}

/* The part of `a` from `begin` up to `end`, both cut to its size. */
static inline struct span span_slice(struct span a, size_t begin, size_t end)
{
    end = end < a.size ? end : a.size;
    begin = begin < end ? begin : end;
    return begin == end ? span_of(NULL, 0)
                        : span_of(a.data + begin, end - begin);
}
