#pragma once
/* What cmocka wants before its own header, and the turns tests take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/loop.h"

/* Turns the loop until `condition`, at most ten seconds. */
#define TURN_UNTIL(loop, condition)                           \
    do {                                                      \
        uint64_t give_up = io_clock_now_ns() + 10000000000u;  \
        while (!(condition) && io_clock_now_ns() < give_up) { \
            io_loop_turn(loop, 100000000u);                   \
        }                                                     \
        assert_true(condition);                               \
    } while (0)
