#pragma once
/* base/utf8: the one reading of UTF-8 (RFC 3629: shortest form, no surrogates,
 * up to U+10FFFF). Inline, since the scanner of bodies steps with it. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum { UTF8_SIZE_MAX = 4 };

/* How many bytes a character with this first byte has; 0: none starts so. */
static inline size_t utf8_expected(uint8_t first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Whether `byte` may be byte number `at` (1 to 3) after `first`. The bounds of
 * the second keep out long forms, surrogates and what lies above U+10FFFF. */
static inline bool utf8_continues(uint8_t first, size_t at, uint8_t byte)
{
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    if (at == 1) {
        low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
        high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    }
    return byte >= low && byte <= high;
}

/* Bytes of the valid character at the front, else 0; 0 for an empty text. */
static inline size_t utf8_size(struct span text)
{
    size_t size = text.size > 0 ? utf8_expected(text.data[0]) : 0;
    if (size > text.size) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if (!utf8_continues(text.data[0], i, text.data[i])) {
            return 0;
        }
    }
    return size;
}

/* The code point at the front, which must be valid. */
static inline int32_t utf8_point(struct span text)
{
    size_t size = utf8_expected(text.data[0]);
    int32_t point = size == 1 ? text.data[0] : text.data[0] & (0x7f >> size);
    for (size_t i = 1; i < size; i++) {
        point = point << 6 | (text.data[i] & 0x3f);
    }
    return point;
}

/* Writes the character of a code point; returns how many bytes it has. */
static inline size_t utf8_encode(uint32_t point, uint8_t out[UTF8_SIZE_MAX])
{
    static const uint8_t LEAD[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (uint8_t)(LEAD[size] | point);
    return size;
}
