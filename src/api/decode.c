#include <string.h>

#include "api/walk.h"
#include "base/utf8.h"

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

int32_t api_walk_hex4(const uint8_t *at, const uint8_t *end)
{
    int32_t unit = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

static uint32_t decode_unicode(const uint8_t **at, const uint8_t *end)
{
    uint32_t point = (uint32_t)api_walk_hex4(*at, end);
    *at += 4;
    if (point >= 0xd800 && point < 0xdc00) {
        uint32_t low = (uint32_t)api_walk_hex4(*at + 2, end);
        *at += 6;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    return point;
}

size_t api_walk_decode(const uint8_t **at, const uint8_t *end,
                       uint8_t utf8_out[4])
{
    uint8_t first = *(*at)++;
    if (first != '\\') {
        utf8_out[0] = first;
        return 1;
    }
    static const char NAMES[] = "\"\\/bfnrt";
    static const char BYTES[] = "\"\\/\b\f\n\r\t";
    uint8_t name = *(*at)++;
    if (name == 'u') {
        return utf8_encode(decode_unicode(at, end), utf8_out);
    }
    utf8_out[0] = (uint8_t)BYTES[strchr(NAMES, name) - NAMES];
    return 1;
}
