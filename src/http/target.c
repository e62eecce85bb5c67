#include "http/target.h"

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The byte of "%2F" at `at`; -1: there is none. */
static int escaped(struct span path, size_t at)
{
    if (path.data[at] != '%' || path.size - at < 3) {
        return -1;
    }
    int high = digit_of(path.data[at + 1]);
    int low = digit_of(path.data[at + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

void http_target_decode(struct span path, struct buf *out)
{
    for (size_t at = 0; at < path.size;) {
        int byte = escaped(path, at);
        buf_add_byte(out, byte < 0 ? path.data[at] : (uint8_t)byte);
        at += byte < 0 ? 1 : 3;
    }
}
