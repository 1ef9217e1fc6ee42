/* The wall clock of one process, as its environment says: CLOCK_SHIFT seconds from the true one, or standing still at
 * CLOCK_FROZEN, in seconds since 1970. Clocks that only go on are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock)(clockid_t, struct timespec *);
static long shift, frozen;

__attribute__((constructor)) static void begin(void) {
    const char *text;
    real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    shift = (text = getenv("CLOCK_SHIFT")) ? atol(text) : 0;
    frozen = (text = getenv("CLOCK_FROZEN")) ? atol(text) : 0;
}

int clock_gettime(clockid_t which, struct timespec *told) {
    if (!real_clock)
        begin();
    int failed = real_clock(which, told);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        if (frozen)
            *told = (struct timespec){.tv_sec = frozen};
        else
            told->tv_sec += shift;
    }
    return failed;
}

int gettimeofday(struct timeval *told, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *told = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told)
        *told = now.tv_sec;
    return now.tv_sec;
}
