/* Faults over the bodies that hosts are reached by, and over inproc as their
 * judge: what is late, left out, refused, carried out after its end, or never
 * told, comes to the same whoever moves the bytes. */
#include "base/digest.h"
#include "pair.h"

enum { COUNT = 3 };

struct three {
    struct transfer_piece pieces[COUNT];
    struct transfer_write write;
};

/* Three pages, the first ones of both pools. */
static void start(struct pair *pair, struct three *three)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        three->pieces[i] = (struct transfer_piece){PAGE * i, PAGE * i, PAGE, 0};
    }
    three->write = (struct transfer_write){.peer = pair->peer,
                                           .token = WHOLE,
                                           .pieces = three->pieces,
                                           .piece_count = COUNT};
    transfer_backend_write(pair->sender.backend, &three->write);
}

static void finish(struct pair *pair, struct three *three,
                   enum transfer_outcome outcome)
{
    assert_ptr_equal(poll_until(pair), &three->write);
    assert_int_equal(three->write.outcome, outcome);
}

static bool has_page(const struct pair *pair, size_t page)
{
    return memcmp(pair->sender.pool + PAGE * page,
                  pair->receiver.pool + PAGE * page, PAGE) == 0;
}

static int pages_of(const struct pair *pair)
{
    return has_page(pair, 0) + has_page(pair, 1) + has_page(pair, 2);
}

static void open_filled(struct pair *pair, enum body body)
{
    open_pair(pair, (struct kind){body, FAULT});
    fill(pair->sender.pool, POOL_SIZE, 21);
}

/* Two hundred polls late: all is there long before anybody is told. */
static void a_late_answer_is_a_right_one(enum body body)
{
    struct pair pair;
    struct three three;
    open_filled(&pair, body);
    pair.fault.delay_polls = 200;
    start(&pair, &three);
    finish(&pair, &three, TRANSFER_DONE);
    assert_int_equal(pages_of(&pair), COUNT);
    close_pair(&pair);
}

/* The digests are those of all pages, one of which is not there: who compares
 * them finds out. [transfer T106] */
static void a_dropped_page_has_a_digest(enum body body)
{
    struct pair pair;
    struct three three;
    open_filled(&pair, body);
    pair.fault.drop_ppm = 1000000;
    start(&pair, &three);
    finish(&pair, &three, TRANSFER_DONE);
    assert_int_equal(pages_of(&pair), COUNT - 1);
    for (size_t i = 0; i < COUNT; i++) {
        struct span page = span_of(pair.sender.pool + PAGE * i, PAGE);
        assert_int_equal(three.pieces[i].crc32c, digest_crc32c(0, page));
    }
    close_pair(&pair);
}

/* One is refused before it began, one is carried out and in doubt, and the next
 * one is as if nothing had been. [transfer T56] */
static void errors_are_of_one_write(enum body body)
{
    struct pair pair;
    struct three three;
    open_filled(&pair, body);
    pair.fault.stop_count = 1;
    start(&pair, &three);
    finish(&pair, &three, TRANSFER_STOPPED);
    assert_int_equal(pages_of(&pair), 0);
    pair.fault.doubt_count = 1;
    start(&pair, &three);
    finish(&pair, &three, TRANSFER_IN_DOUBT);
    assert_int_equal(pages_of(&pair), COUNT);
    start(&pair, &three);
    finish(&pair, &three, TRANSFER_DONE);
    close_pair(&pair);
}

/* Told STOPPED while nothing has moved, and carried out all the same: the late
 * write that a lease must survive. */
static void a_late_write_lands_after_its_end(enum body body)
{
    struct pair pair;
    struct three three;
    open_filled(&pair, body);
    pair.fault.late_count = 1;
    pair.fault.late_polls = 50;
    start(&pair, &three);
    finish(&pair, &three, TRANSFER_STOPPED);
    assert_int_equal(pages_of(&pair), 0);
    uint64_t end = io_clock_now_ns() + 20000000000u;
    while (pages_of(&pair) < COUNT && io_clock_now_ns() < end) {
        bool is_busy;
        assert_null(transfer_backend_poll(pair.sender.backend, &is_busy));
        turn_receiver(&pair);
    }
    assert_int_equal(pages_of(&pair), COUNT);
    close_pair(&pair);
}

/* One never comes back, others do; the close of its peer brings it back, in
 * doubt. [transfer T56 T109] */
static void a_lost_answer_is_doubt_at_the_close(enum body body)
{
    struct pair pair;
    struct three lost, other;
    open_filled(&pair, body);
    pair.fault.lose_count = 1;
    start(&pair, &lost);
    for (int i = 0; i < 10; i++) {
        start(&pair, &other);
        finish(&pair, &other, TRANSFER_DONE);
    }
    transfer_backend_peer_close(pair.peer);
    pair.peer = NULL;
    finish(&pair, &lost, TRANSFER_IN_DOUBT);
    close_pair(&pair);
}

#define CASES(X)                        \
    X(a_late_answer_is_a_right_one)     \
    X(a_dropped_page_has_a_digest)      \
    X(errors_are_of_one_write)          \
    X(a_late_write_lands_after_its_end) \
    X(a_lost_answer_is_doubt_at_the_close)
#define DEFINE(name)                                                      \
    static void test_##name(void **state)                                 \
    {                                                                     \
        (void)state;                                                      \
        static const enum body bodies[] = {INPROC, UCX, TCP, RDMA};       \
        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) { \
            name(bodies[i]);                                              \
        }                                                                 \
    }
CASES(DEFINE)
#define LIST(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {CASES(LIST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
