#include <pthread.h>
#include <signal.h>

#include "unit/io/test.h"

#include "io/mailbox.h"
#include "io/thread.h"

static void look_at_mask(void *context)
{
    sigset_t *mask = context;
    pthread_sigmask(SIG_SETMASK, NULL, mask);
}

/* The thread reports its own mask; ours is as before. */
static void thread_has_signals_blocked(void **state)
{
    (void)state;
    sigset_t mask;
    sigemptyset(&mask);
    struct io_thread *thread;
    assert_int_equal(io_thread_start("a name longer than fifteen", look_at_mask,
                                     &mask, &thread),
                     OK);
    io_thread_join(thread);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    assert_int_equal(sigismember(&mask, SIGUSR1), 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGTERM), 0);
    assert_true(io_thread_cpu_count() >= 1);
}

struct alone {
    sigset_t mask;
    struct io_waker *done;
};

static void look_alone(void *context)
{
    struct alone *alone = context;
    look_at_mask(&alone->mask);
    io_waker_wake(alone->done);
}

/* Nobody joins it; that it leaks nothing is for the sanitizers to say. */
static void thread_alone_runs_and_is_gone(void **state)
{
    (void)state;
    struct alone alone;
    sigemptyset(&alone.mask);
    assert_int_equal(io_waker_create(&alone.done), OK);
    assert_int_equal(io_thread_start_alone("alone", look_alone, &alone), OK);
    io_waker_wait(alone.done, UINT64_MAX);
    assert_int_equal(sigismember(&alone.mask, SIGTERM), 1);
    io_waker_destroy(alone.done);
}

struct shared {
    struct io_lock *lock;
    long sum; /* under the lock */
};

static void add_many(void *context)
{
    struct shared *shared = context;
    for (int i = 0; i < 20000; i++) {
        io_lock_take(shared->lock);
        shared->sum++;
        io_lock_give(shared->lock);
    }
}

/* Two threads add to one plain number. */
static void lock_excludes(void **state)
{
    (void)state;
    struct shared shared = {.lock = io_lock_create()};
    struct io_thread *thread;
    assert_int_equal(io_thread_start("adder", add_many, &shared, &thread), OK);
    add_many(&shared);
    io_thread_join(thread);
    assert_int_equal(shared.sum, 40000);
    io_lock_destroy(shared.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_has_signals_blocked),
        cmocka_unit_test(thread_alone_runs_and_is_gone),
        cmocka_unit_test(lock_excludes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
