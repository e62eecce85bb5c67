#include "text/alphabet.h"

enum {
    SHIFTED_FIRST = 0x100, /* what unprintable bytes become, counting up */
    SHIFTED_LOW = 0x21, /* bytes 00 to 20 */
    SHIFTED_MIDDLE = 0x22, /* bytes 7F to A0 */
    SHIFTED_COUNT = SHIFTED_LOW + SHIFTED_MIDDLE + 1 /* and AD */
};

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
