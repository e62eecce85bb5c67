#include <signal.h>
#include <unistd.h>

#include "unit/io/test.h"

#include "io/thread.h"

static struct io_loop *loop;

static int set_up(void **state)
{
    (void)state;
    return io_loop_create(&loop) == OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    io_loop_destroy(loop);
    return 0;
}

static void count(void *context)
{
    ++*(int *)context;
}

struct stamp {
    uint64_t now;
    int order;
};
static int order_count;

static void stamp(void *context)
{
    struct stamp *stamp = context;
    stamp->now = io_loop_now(loop);
    stamp->order = ++order_count;
}

/* Two timers started in the wrong order; the later never finds its deadline
 * in the future. */
static void timers_fire_once_in_order_and_not_early(void **state)
{
    (void)state;
    order_count = 0;
    struct stamp late = {0};
    struct stamp soon = {0};
    struct io_timer *a = io_timer_create(loop, stamp, &late);
    struct io_timer *b = io_timer_create(loop, stamp, &soon);
    uint64_t begin = io_loop_now(loop);
    io_timer_start(a, 6000000);
    io_timer_start(b, 2000000);
    TURN_UNTIL(loop, late.order != 0);
    assert_int_equal(soon.order, 1);
    assert_int_equal(late.order, 2);
    assert_true(soon.now >= begin + 2000000);
    assert_true(late.now >= begin + 6000000);
    io_loop_turn(loop, 5000000);
    assert_int_equal(order_count, 2);
    io_timer_destroy(a);
    io_timer_destroy(b);
}

/* Started, stopped: another timer passes and the stopped one stays silent. */
static void stopped_timer_stays_silent(void **state)
{
    (void)state;
    int stopped = 0;
    int other = 0;
    struct io_timer *a = io_timer_create(loop, count, &stopped);
    struct io_timer *b = io_timer_create(loop, count, &other);
    io_timer_start(a, 1000000);
    io_timer_start(b, 3000000);
    io_timer_stop(a);
    TURN_UNTIL(loop, other == 1);
    assert_int_equal(stopped, 0);
    io_timer_destroy(a);
    io_timer_destroy(b);
}

static int again_count;

static void defer_again(void *context)
{
    if (++again_count < 3) {
        io_loop_defer(loop, defer_again, context);
    }
}

/* A task that defers itself runs once a turn, not for ever in one. */
static void deferred_task_runs_in_the_next_turn(void **state)
{
    (void)state;
    again_count = 0;
    io_loop_defer(loop, defer_again, NULL);
    assert_int_equal(again_count, 0);
    for (int i = 1; i <= 3; i++) {
        io_loop_turn(loop, UINT64_MAX);
        assert_int_equal(again_count, i);
    }
}

static int many_sum;

static void add_one(void *context)
{
    (void)context;
    many_sum++;
}

/* More tasks than the list starts with all run. */
static void deferred_tasks_are_not_lost_when_many(void **state)
{
    (void)state;
    many_sum = 0;
    for (int i = 0; i < 1000; i++) {
        io_loop_defer(loop, add_one, NULL);
    }
    io_loop_turn(loop, 0);
    assert_int_equal(many_sum, 1000);
}

static void put_off(void *context, int ready)
{
    (void)ready;
    io_loop_defer(loop, count, context);
}

/* The descriptor stays readable and its callback only puts the reading off; a
 * task waits already, so that the turn does not wait: it ends all the same, and
 * the tasks have run. */
static void a_turn_ends_over_a_readable_watch(void **state)
{
    (void)state;
    int ends[2];
    int counts[2] = {0, 0};
    assert_int_equal(pipe(ends), 0);
    struct io_watch *watch =
        io_watch_create(loop, ends[0], put_off, &counts[0]);
    io_watch_set(watch, IO_READABLE);
    assert_int_equal(write(ends[1], "x", 1), 1);
    io_loop_defer(loop, count, &counts[1]);
    io_loop_turn(loop, 1000000);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    io_watch_destroy(watch);
    close(ends[0]);
    close(ends[1]);
}

struct watched {
    struct io_watch *watch;
    int fd;
    int readable_count;
    int writable_count;
};

static void on_ready(void *context, int ready)
{
    struct watched *watched = context;
    watched->readable_count += (ready & IO_READABLE) != 0;
    watched->writable_count += (ready & IO_WRITABLE) != 0;
}

/* A pipe with a byte: told again and again until the byte is taken or the
 * interest is, and nothing before there was interest. */
static void watch_is_level_triggered(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct watched watched = {.fd = ends[0]};
    watched.watch = io_watch_create(loop, ends[0], on_ready, &watched);
    assert_int_equal(write(ends[1], "x", 1), 1);
    io_loop_turn(loop, 1000000);
    assert_int_equal(watched.readable_count, 0);
    io_watch_set(watched.watch, IO_READABLE);
    io_loop_turn(loop, UINT64_MAX);
    io_loop_turn(loop, UINT64_MAX);
    assert_int_equal(watched.readable_count, 2);
    io_watch_set(watched.watch, 0);
    io_loop_turn(loop, 1000000);
    assert_int_equal(watched.readable_count, 2);
    assert_int_equal(watched.writable_count, 0);
    io_watch_destroy(watched.watch);
    close(ends[0]);
    close(ends[1]);
}

static void destroy_self(void *context, int ready)
{
    (void)ready;
    struct watched *watched = context;
    watched->readable_count++;
    io_watch_destroy(watched->watch);
    watched->watch = NULL;
}

/* The sanitizer is the judge: no touch after the end. */
static void watch_may_end_in_its_own_callback(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct watched watched = {.fd = ends[1]};
    watched.watch = io_watch_create(loop, ends[1], destroy_self, &watched);
    io_watch_set(watched.watch, IO_READABLE | IO_WRITABLE);
    TURN_UNTIL(loop, watched.watch == NULL);
    io_loop_turn(loop, 0);
    assert_int_equal(watched.readable_count, 1);
    close(ends[0]);
    close(ends[1]);
}

static void stop_from_outside(void *context)
{
    io_loop_stop(context);
}

/* A stop from another thread ends a run that waits for ever; one that came
 * before the run ends it at once. */
static void stop_ends_the_run_from_any_thread(void **state)
{
    (void)state;
    struct io_thread *thread;
    assert_int_equal(
        io_thread_start("stopper", stop_from_outside, loop, &thread), OK);
    io_loop_run(loop);
    io_thread_join(thread);
    io_loop_stop(loop);
    io_loop_run(loop);
}

/* Raised twice in different turns, told twice. */
static void signal_is_told_in_the_loop(void **state)
{
    (void)state;
    int seen = 0;
    assert_int_equal(io_loop_on_signal(loop, SIGUSR1, count, &seen), OK);
    raise(SIGUSR1);
    assert_int_equal(seen, 0);
    TURN_UNTIL(loop, seen == 1);
    raise(SIGUSR1);
    TURN_UNTIL(loop, seen == 2);
}

static uint64_t sampled[2];

static void sample_twice(void *context)
{
    (void)context;
    sampled[0] = io_loop_now(loop);
    usleep(2000);
    sampled[1] = io_loop_now(loop);
}

/* Time stands still inside a turn. */
static void now_is_sampled_once_a_turn(void **state)
{
    (void)state;
    io_loop_defer(loop, sample_twice, NULL);
    io_loop_turn(loop, 0);
    assert_true(sampled[0] > 0);
    assert_int_equal(sampled[0], sampled[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(timers_fire_once_in_order_and_not_early),
        TEST(stopped_timer_stays_silent),
        TEST(deferred_task_runs_in_the_next_turn),
        TEST(deferred_tasks_are_not_lost_when_many),
        TEST(watch_is_level_triggered),
        TEST(a_turn_ends_over_a_readable_watch),
        TEST(watch_may_end_in_its_own_callback),
        TEST(stop_ends_the_run_from_any_thread),
        TEST(signal_is_told_in_the_loop),
        TEST(now_is_sampled_once_a_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
