#pragma once
/* base/check: promises we made to ourselves, held in release builds too.
 * A broken one ends the process at once: whatever comes after would be a lie.
 * Never for input: what a client, peer, file or the system may do wrong is an
 * `enum err`. One condition at a time, so that the line says which one. */

#define CHECK(condition)                                  \
    do {                                                  \
        if (__builtin_expect(!(condition), 0)) {          \
            check_failed(#condition, __FILE__, __LINE__); \
        }                                                 \
    } while (0)

/* A branch that cannot be reached. */
#define CHECK_UNREACHABLE() check_failed("unreachable", __FILE__, __LINE__)

__attribute__((noreturn, cold)) void check_failed(const char *condition,
                                                  const char *file, int line);
