#include "unit/io/test.h"

#include "io/mailbox.h"
#include "io/thread.h"

struct letter {
    uint32_t sender;
    uint32_t number;
};

static struct io_mailbox *mailbox_of(uint32_t capacity, struct io_waker *waker)
{
    struct io_mailbox *mailbox;
    const struct io_mailbox_options options = {
        .message_size = sizeof(struct letter),
        .capacity = capacity,
        .waker = waker,
    };
    assert_int_equal(io_mailbox_create(&options, &mailbox), OK);
    return mailbox;
}

/* Fill, refuse, take one, post one: order kept over the ring's end. */
static void full_mailbox_refuses_and_keeps_order(void **state)
{
    (void)state;
    struct io_mailbox *mailbox = mailbox_of(3, NULL);
    struct letter letter = {0};
    for (uint32_t i = 0; i < 3; i++) {
        letter.number = i;
        assert_int_equal(io_mailbox_post(mailbox, &letter), OK);
    }
    assert_int_equal(io_mailbox_room(mailbox), 0);
    assert_int_equal(io_mailbox_post(mailbox, &letter), ERR_FULL);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(io_mailbox_take(mailbox, &letter));
        assert_int_equal(letter.number, i);
        letter.number = i + 3;
        assert_int_equal(io_mailbox_post(mailbox, &letter), OK);
    }
    io_mailbox_destroy(mailbox);
}

/* Two places left, three letters: none goes in. */
static void post_many_is_all_or_none(void **state)
{
    (void)state;
    struct io_mailbox *mailbox = mailbox_of(3, NULL);
    struct letter letters[3] = {{1, 1}, {1, 2}, {1, 3}};
    struct letter got;
    assert_int_equal(io_mailbox_post(mailbox, &letters[0]), OK);
    assert_int_equal(io_mailbox_post_many(mailbox, letters, 3), ERR_FULL);
    assert_int_equal(io_mailbox_room(mailbox), 2);
    assert_true(io_mailbox_take(mailbox, &got));
    assert_int_equal(io_mailbox_post_many(mailbox, letters, 3), OK);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_true(io_mailbox_take(mailbox, &got));
        assert_int_equal(got.number, i);
    }
    assert_false(io_mailbox_take(mailbox, &got));
    io_mailbox_destroy(mailbox);
}

enum { LETTERS = 20000 };

struct sender {
    struct io_mailbox *mailbox;
    uint32_t id;
};

static void send_all(void *context)
{
    struct sender *sender = context;
    for (uint32_t i = 0; i < LETTERS;) {
        struct letter letter = {.sender = sender->id, .number = i};
        if (io_mailbox_post(sender->mailbox, &letter) == OK) {
            i++;
        } else {
            struct io_waker *pause;
            assert_int_equal(io_waker_create(&pause), OK);
            io_waker_wait(pause, 100000);
            io_waker_destroy(pause);
        }
    }
}

/* Two posters and an owner who sleeps whenever there is nothing: a lost wake
 * would leave it asleep for its ten seconds and fail the count. */
static void no_wake_and_no_letter_is_lost(void **state)
{
    (void)state;
    struct io_waker *waker;
    assert_int_equal(io_waker_create(&waker), OK);
    struct io_mailbox *mailbox = mailbox_of(64, waker);
    struct sender senders[2] = {{mailbox, 0}, {mailbox, 1}};
    struct io_thread *threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            io_thread_start("sender", send_all, &senders[i], &threads[i]), OK);
    }
    uint32_t next[2] = {0, 0};
    int empty_wakes = 0;
    while (next[0] + next[1] < 2 * LETTERS && empty_wakes < 3) {
        struct letter letter;
        uint32_t before = next[0] + next[1];
        while (io_mailbox_take(mailbox, &letter)) {
            assert_int_equal(letter.number, next[letter.sender]);
            next[letter.sender]++;
        }
        if (next[0] + next[1] < 2 * LETTERS) {
            uint64_t begin = io_clock_now_ns();
            io_waker_wait(waker, 10000000000u);
            empty_wakes = io_clock_now_ns() - begin > 9000000000u ? 3 : 0;
        }
        (void)before;
    }
    assert_int_equal(next[0], LETTERS);
    assert_int_equal(next[1], LETTERS);
    for (int i = 0; i < 2; i++) {
        io_thread_join(threads[i]);
    }
    io_mailbox_destroy(mailbox);
    io_waker_destroy(waker);
}

static void count(void *context)
{
    ++*(int *)context;
}

/* Three wakes before a turn are told once, a fourth again. */
static void wakes_between_two_turns_count_once(void **state)
{
    (void)state;
    struct io_loop *loop;
    struct io_waker *waker;
    int seen = 0;
    assert_int_equal(io_loop_create(&loop), OK);
    assert_int_equal(io_waker_create(&waker), OK);
    assert_int_equal(io_waker_attach(waker, loop, count, &seen), OK);
    for (int i = 0; i < 3; i++) {
        io_waker_wake(waker);
    }
    TURN_UNTIL(loop, seen > 0);
    io_loop_turn(loop, 1000000);
    assert_int_equal(seen, 1);
    io_waker_wake(waker);
    TURN_UNTIL(loop, seen == 2);
    assert_true(io_waker_fd(waker) >= 0);
    io_waker_destroy(waker);
    io_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_mailbox_refuses_and_keeps_order),
        cmocka_unit_test(post_many_is_all_or_none),
        cmocka_unit_test(no_wake_and_no_letter_is_lost),
        cmocka_unit_test(wakes_between_two_turns_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
