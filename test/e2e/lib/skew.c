/* Preloaded into a worker: its wall clock is SKEW_SECONDS off, all other clocks
 * are as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long skew(void)
{
    const char *text = getenv("SKEW_SECONDS");
    return text == NULL ? 0 : atol(text);
}

int clock_gettime(clockid_t id, struct timespec *time_out)
{
    int (*next)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT,
                                                     "clock_gettime");
    int code = next(id, time_out);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        time_out->tv_sec += skew();
    }
    return code;
}

time_t time(time_t *time_out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (time_out != NULL) {
        *time_out = now.tv_sec;
    }
    return now.tv_sec;
}

int gettimeofday(struct timeval *time_out, void *zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time_out->tv_sec = now.tv_sec;
    time_out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
