#include "text/utf8.h"

enum {
    SHIFTED_FIRST = 0x100, /* what unprintable bytes become, counting up */
    SHIFTED_LOW = 0x21, /* bytes 00 to 20 */
    SHIFTED_MIDDLE = 0x22, /* bytes 7F to A0 */
    SHIFTED_COUNT = SHIFTED_LOW + SHIFTED_MIDDLE + 1 /* and AD */
};

size_t text_utf8_expected(uint8_t first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

bool text_utf8_continues(uint8_t first, size_t at, uint8_t byte)
{
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    if (at == 1) {
        low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
        high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    }
    return byte >= low && byte <= high;
}

size_t text_utf8_size(struct span text)
{
    size_t size = text.size > 0 ? text_utf8_expected(text.data[0]) : 0;
    if (size > text.size) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if (!text_utf8_continues(text.data[0], i, text.data[i])) {
            return 0;
        }
    }
    return size;
}

int32_t text_utf8_point(struct span text)
{
    size_t size = text_utf8_expected(text.data[0]);
    int32_t point = size == 1 ? text.data[0] : text.data[0] & (0x7f >> size);
    for (size_t i = 1; i < size; i++) {
        point = point << 6 | (text.data[i] & 0x3f);
    }
    return point;
}

static bool is_printable(uint8_t byte)
{
    return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
}

size_t text_alphabet_encode(uint8_t byte, uint8_t out[2])
{
    int32_t point = byte;
    if (!is_printable(byte)) {
        int32_t place = byte < SHIFTED_LOW ? byte
                        : byte == 0xad     ? SHIFTED_COUNT - 1
                                           : byte - 0x7f + SHIFTED_LOW;
        point = SHIFTED_FIRST + place;
    }
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    out[0] = (uint8_t)(0xc0 | point >> 6);
    out[1] = (uint8_t)(0x80 | (point & 0x3f));
    return 2;
}

int32_t text_alphabet_decode(int32_t point)
{
    if (point < SHIFTED_FIRST) {
        return is_printable((uint8_t)point) ? point : TEXT_POINT_NONE;
    }
    int32_t place = point - SHIFTED_FIRST;
    if (place >= SHIFTED_COUNT) {
        return TEXT_POINT_NONE;
    }
    if (place < SHIFTED_LOW) {
        return place;
    }
    return place == SHIFTED_COUNT - 1 ? 0xad : place - SHIFTED_LOW + 0x7f;
}
