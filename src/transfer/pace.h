#pragma once
/* transfer/pace: how many bytes go to a backend at a time. A write that was given
 * cannot be taken back: whoever cancels waits for the end of it. So a step lasts
 * about 32 ms, whatever the link carries; what a link carries is what the steps
 * before have shown. Pure. Private to transfer. */
#include <stdint.h>

enum {
    PACE_FIRST = 1 << 20, /* bytes, while nothing is known */
    PACE_LEAST = 64 << 10,
    PACE_MOST = 64 << 20
};

struct pace {
    uint64_t step_bytes; /* the most of the next step */
};

struct pace pace_begin(void);
/* A step of `bytes` took so long. A smaller one than there was room for says
 * nothing of larger ones. */
void pace_note(struct pace *pace, uint64_t bytes, uint64_t took_ns);
