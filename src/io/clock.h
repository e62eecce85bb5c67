#pragma once
/* io/clock: the one home of the clock. Deciding code never reads it: time is
 * handed to it in events. Deadlines use the monotonic clock only. */
#include <stdint.h>

uint64_t io_clock_now_ns(void); /* monotonic */
uint64_t io_clock_wall_ms(void); /* since 1970, for what people read */
