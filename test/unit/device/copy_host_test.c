/* device/copy_host: what is its own beside the suite of all bodies: threads, wakes
 * and creation. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "device/copy_host.h"
#include "io/clock.h"
#include "io/mailbox.h"

#define MIB ((size_t)1 << 20)
#define LONG_NS UINT64_C(10000000000)

static struct device_copier *open_host(uint32_t thread_count,
                                       uint32_t submissions,
                                       struct io_waker *waker)
{
    struct device_copier_host_options options = {
        .limits = {submissions, 4, 4},
        .thread_count = thread_count,
        .waker = waker,
    };
    struct device_copier *copier = NULL;
    assert_int_equal(device_copier_host_create(&options, &copier), OK);
    return copier;
}

static device_ticket submit(struct device_copier *copier, void *to, void *from,
                            size_t bytes, device_ticket wait)
{
    struct device_copy copy = {device_address_host(to),
                               device_address_host(from), bytes};
    struct device_copy_order order = {&copy, 1, &wait, 1};
    device_ticket ticket = 0;
    assert_int_equal(device_copier_submit(copier, &order, &ticket), OK);
    return ticket;
}

static void sleep_until_woken(struct io_waker *waker)
{
    uint64_t before = io_clock_now_ns();
    io_waker_wait(waker, LONG_NS);
    assert_true(io_clock_now_ns() - before < LONG_NS);
}

/* An owner that polls until false and then sleeps, over two thousand copies,
 * more threads than CPUs: no wake is lost (a lost one lasts ten seconds and
 * fails the test), every end comes once. */
static void sleeping_owner_hears_of_every_end(void **state)
{
    (void)state;
    enum { COUNT = 2000, PLACES = 16, PAGE = 4096 };
    struct io_waker *waker;
    assert_int_equal(io_waker_create(&waker), OK);
    struct device_copier *copier = open_host(3, PLACES, waker);
    uint8_t *bytes = mem_try_aligned(64, 2 * PLACES * PAGE);
    assert_non_null(bytes);
    uint32_t submitted = 0, ended = 0;
    uint64_t ticket_sum = 0;
    device_ticket last[PLACES] = {0};
    struct device_copy_done done;
    while (ended < COUNT) {
        while (submitted < COUNT && device_copier_room(copier) > 0) {
            uint32_t place = submitted++ % PLACES;
            uint8_t *at = bytes + 2 * PAGE * (size_t)place;
            last[place] = submit(copier, at, at + PAGE, PAGE, last[place]);
        }
        while (device_copier_poll(copier, &done)) {
            ticket_sum += done.ticket;
            ended++;
        }
        if (ended < submitted) {
            sleep_until_woken(waker);
        }
    }
    assert_int_equal(ticket_sum, (uint64_t)COUNT * (COUNT + 1) / 2);
    device_copier_destroy(copier);
    io_waker_destroy(waker);
    mem_free(bytes);
}

/* What is empty and waits for nothing is over when submit returns, and a
 * sleeping owner is woken for it as for any other. */
static void empty_submission_is_over_at_once(void **state)
{
    (void)state;
    struct io_waker *waker;
    assert_int_equal(io_waker_create(&waker), OK);
    struct device_copier *copier = open_host(1, 2, waker);
    struct device_copy_done done;
    submit(copier, NULL, NULL, 0, 0);
    io_waker_wait(waker, UINT64_MAX);
    assert_true(device_copier_poll(copier, &done));
    assert_int_equal(done.launches, 0);
    device_copier_destroy(copier);
    io_waker_destroy(waker);
}

/* Without a waker the owner polls on its own account; drain sleeps until the
 * last share of the last copy is there. */
static void copier_without_waker_is_drained(void **state)
{
    (void)state;
    struct device_copier *copier = open_host(4, 4, NULL);
    uint8_t *bytes = mem_try_aligned(64, 80 * MIB);
    assert_non_null(bytes);
    struct device_copy_done done;
    for (int round = 0; round < 3; round++) {
        memset(bytes, round + 1, 40 * MIB);
        submit(copier, bytes + 40 * MIB, bytes, 20 * MIB, 0);
        submit(copier, bytes + 60 * MIB, bytes + 20 * MIB, 20 * MIB, 0);
        device_copier_drain(copier);
        assert_true(memcmp(bytes + 40 * MIB, bytes, 40 * MIB) == 0);
        assert_true(device_copier_poll(copier, &done));
        assert_int_equal(done.launches, 3);
        assert_true(device_copier_poll(copier, &done));
    }
    device_copier_destroy(copier);
    mem_free(bytes);
}

/* Threads named "copy" of this process that have slept at least twice: once
 * before any work, and again after they were woken for some. */
static uint32_t count_woken_workers(void)
{
    uint32_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[100];
        bool is_worker = false;
        unsigned long sleeps = 0;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            is_worker |= strcmp(line, "Name:\tcopy\n") == 0;
            sscanf(line, "voluntary_ctxt_switches: %lu", &sleeps);
        }
        if (file != NULL) {
            fclose(file);
        }
        count += is_worker && sleeps >= 2;
    }
    closedir(tasks);
    return count;
}

/* One submission of one large page, once all four workers sleep: it is told to
 * one of them, but more get up, until all have. */
static void large_copy_wakes_more_than_one_worker(void **state)
{
    (void)state;
    struct device_copier *copier = open_host(4, 4, NULL);
    uint8_t *bytes = mem_try_aligned(64, 200 * MIB);
    assert_non_null(bytes);
    device_ticket last = 0;
    struct device_copy_done done;
    uint64_t begin = io_clock_now_ns();
    while (count_woken_workers() < 4) {
        last = submit(copier, bytes + 100 * MIB, bytes, 100 * MIB, last);
        device_copier_drain(copier);
        assert_true(device_copier_poll(copier, &done));
        assert_int_equal(done.launches, 13);
        assert_true(io_clock_now_ns() - begin < LONG_NS);
    }
    device_copier_destroy(copier);
    mem_free(bytes);
}

static uint32_t count_descriptors(void)
{
    uint32_t count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Leaves fewer descriptors than the workers need, at every number down to
 * none: create says ERR_IO, the output is untouched, and what had been opened
 * and started is gone. */
static void refused_creation_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    int next = dup(0);
    close(next);
    uint32_t before = count_descriptors();
    struct device_copier *untouched = (struct device_copier *)&old;
    for (rlim_t room = 0; room < 4; room++) {
        struct rlimit limit = {(rlim_t)next + room, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        struct device_copier_host_options options = {.limits = {4, 4, 4},
                                                     .thread_count = 4};
        struct device_copier *copier = untouched;
        enum err err = device_copier_host_create(&options, &copier);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_int_equal(err, ERR_IO);
        assert_ptr_equal(copier, untouched);
        assert_int_equal(count_descriptors(), before);
    }
    device_copier_destroy(open_host(4, 4, NULL));
    assert_int_equal(count_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeping_owner_hears_of_every_end),
        cmocka_unit_test(empty_submission_is_over_at_once),
        cmocka_unit_test(copier_without_waker_is_drained),
        cmocka_unit_test(large_copy_wakes_more_than_one_worker),
        cmocka_unit_test(refused_creation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
