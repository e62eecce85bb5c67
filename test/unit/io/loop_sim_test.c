#include "unit/io/test.h"

#include "base/mem.h"
#include "io/mailbox.h"
#include "io/sim.h"

enum { NOTE_MAX = 64 };
static const uint64_t START_NS = 1000;

struct note {
    int who;
    uint64_t at_ns;
};

static struct io_sim *sim;
static struct note notes[NOTE_MAX];
static int note_count;

static struct io_sim *create(uint64_t seed)
{
    struct io_sim_options options = {.rng = rng_from_seed(seed),
                                     .start_ns = START_NS,
                                     .latency_ns_max = 100,
                                     .turn_ns_max = 1,
                                     .buffer_size = 100};
    note_count = 0;
    return io_sim_create(&options);
}

static struct io_loop *create_loop(uint32_t host)
{
    struct io_loop *loop;
    assert_int_equal(io_sim_loop_create(sim, host, &loop), OK);
    return loop;
}

struct teller {
    int who;
    struct io_loop *loop;
    struct io_timer *timer;
    uint64_t again_ns; /* 0: once */
};

static void on_time(void *context)
{
    struct teller *teller = context;
    assert_true(note_count < NOTE_MAX);
    notes[note_count++] = (struct note){teller->who, io_loop_now(teller->loop)};
    if (teller->again_ns > 0) {
        io_timer_start(teller->timer, teller->again_ns);
    }
}

static struct teller teller_of(int who, struct io_loop *loop)
{
    return (struct teller){.who = who, .loop = loop};
}

static void start(struct teller *teller, uint64_t delay_ns)
{
    teller->timer = io_timer_create(teller->loop, on_time, teller);
    io_timer_start(teller->timer, delay_ns);
}

/* Three timers on two loops: each is told at its own time, in their order, and
 * nothing is due after that. */
static void timers_are_told_at_their_virtual_time(void **state)
{
    (void)state;
    sim = create(1);
    struct io_loop *one = create_loop(1), *other = create_loop(2);
    struct teller late = teller_of(3, one), soon = teller_of(1, one),
                  between = teller_of(2, other);
    start(&late, 3000000);
    start(&soon, 1000);
    start(&between, 2000);
    while (io_sim_step(sim, UINT64_MAX)) {
    }
    assert_int_equal(note_count, 3);
    const uint64_t due_ns[] = {1000, 2000, 3000000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(notes[i].who, i + 1);
        assert_int_equal(notes[i].at_ns, START_NS + due_ns[i]);
    }
    io_timer_destroy(late.timer);
    io_timer_destroy(soon.timer);
    io_timer_destroy(between.timer);
    io_loop_destroy(one);
    io_loop_destroy(other);
    io_sim_destroy(sim);
}

/* A timer in 500 ns, a step until 200: nothing happens, and it is 200. */
static void time_stands_where_the_step_was_to_end(void **state)
{
    (void)state;
    sim = create(1);
    struct io_loop *loop = create_loop(1);
    struct teller teller = teller_of(1, loop);
    start(&teller, 500);
    assert_false(io_sim_step(sim, START_NS + 200));
    assert_int_equal(io_sim_now(sim), START_NS + 200);
    assert_int_equal(note_count, 0);
    assert_true(io_sim_step(sim, START_NS + 500));
    assert_int_equal(note_count, 1);
    io_timer_destroy(teller.timer);
    io_loop_destroy(loop);
    io_sim_destroy(sim);
}

/* A stopped process hears of its timer when it goes on, a busy one when it is
 * done. */
static void who_is_stopped_or_busy_takes_no_turn(void **state)
{
    (void)state;
    sim = create(1);
    struct io_loop *stopped = create_loop(1), *busy = create_loop(2);
    struct teller one = teller_of(1, stopped), other = teller_of(2, busy);
    start(&one, 10);
    start(&other, 10);
    io_sim_freeze(stopped, true);
    io_sim_busy(busy, 700);
    while (io_sim_step(sim, START_NS + 5000)) {
    }
    assert_int_equal(note_count, 1);
    assert_int_equal(notes[0].who, 2);
    assert_int_equal(notes[0].at_ns, START_NS + 700);
    io_sim_freeze(stopped, false);
    assert_true(io_sim_step(sim, UINT64_MAX));
    assert_int_equal(notes[1].who, 1);
    assert_int_equal(notes[1].at_ns, START_NS + 5000);
    io_timer_destroy(one.timer);
    io_timer_destroy(other.timer);
    io_loop_destroy(stopped);
    io_loop_destroy(busy);
    io_sim_destroy(sim);
}

static void on_wake(void *context)
{
    struct io_mailbox *mailbox = *(struct io_mailbox **)context;
    int message;
    while (io_mailbox_take(mailbox, &message)) {
        notes[note_count++].who = message;
    }
}

/* Two posts before the owner's turn: one wake, both letters, in order. */
static void a_mailbox_wakes_its_owner(void **state)
{
    (void)state;
    sim = create(1);
    struct io_loop *loop = create_loop(1);
    struct io_waker *waker;
    struct io_mailbox *mailbox;
    assert_int_equal(io_sim_waker_create(sim, &waker), OK);
    struct io_mailbox_options options = {sizeof(int), 4, waker};
    assert_int_equal(io_mailbox_create(&options, &mailbox), OK);
    assert_int_equal(io_waker_attach(waker, loop, on_wake, &mailbox), OK);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(io_mailbox_post(mailbox, &i), OK);
    }
    assert_true(io_sim_step(sim, UINT64_MAX));
    assert_int_equal(note_count, 2);
    assert_int_equal(notes[0].who, 1);
    assert_int_equal(notes[1].who, 2);
    assert_false(io_sim_step(sim, START_NS + 100000));
    io_waker_destroy(waker);
    io_mailbox_destroy(mailbox);
    io_loop_destroy(loop);
    io_sim_destroy(sim);
}

static void race(uint64_t seed, struct note notes_out[NOTE_MAX])
{
    enum { COUNT = 5 };
    sim = create(seed);
    struct io_loop *loops[COUNT];
    struct teller tellers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        loops[i] = create_loop(1 + (uint32_t)i);
        tellers[i] = teller_of(i, loops[i]);
        tellers[i].again_ns = 50;
        start(&tellers[i], 50);
    }
    while (note_count < NOTE_MAX - COUNT) {
        assert_true(io_sim_step(sim, UINT64_MAX));
    }
    memcpy(notes_out, notes, sizeof(notes));
    for (int i = 0; i < COUNT; i++) {
        io_timer_destroy(tellers[i].timer);
        io_loop_destroy(loops[i]);
    }
    io_sim_destroy(sim);
}

/* Five loops that are due at the same times: the same seed lets them go in the
 * same order, another seed in another. */
static void a_seed_draws_who_goes_first(void **state)
{
    (void)state;
    struct note one[NOTE_MAX] = {0}, again[NOTE_MAX] = {0},
                other[NOTE_MAX] = {0};
    race(7, one);
    memset(notes, 0, sizeof(notes));
    race(7, again);
    memset(notes, 0, sizeof(notes));
    race(8, other);
    int differ = 0;
    for (int i = 0; i < NOTE_MAX - 5; i++) {
        assert_int_equal(one[i].who, again[i].who);
        assert_int_equal(one[i].at_ns, again[i].at_ns);
        differ += one[i].who != other[i].who;
    }
    assert_true(differ > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_are_told_at_their_virtual_time),
        cmocka_unit_test(time_stands_where_the_step_was_to_end),
        cmocka_unit_test(who_is_stopped_or_busy_takes_no_turn),
        cmocka_unit_test(a_mailbox_wakes_its_owner),
        cmocka_unit_test(a_seed_draws_who_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
