/* transfer/backend_fault: each switch alone, over inproc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "io/clock.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"

enum { SIZE = 4096 };

static struct transfer_inproc_hub *hub;
static struct transfer_fault fault;
static struct transfer_backend *sender, *receiver;
static struct transfer_backend_peer *peer;
static uint8_t *source, *target;
static struct transfer_piece piece;
static struct transfer_write write;

static void *pool_of(struct transfer_backend *backend)
{
    void *pool;
    assert_int_equal(transfer_backend_alloc(backend, SIZE, NULL, &pool), OK);
    return pool;
}

static int set_up(void **state)
{
    (void)state;
    memset(&fault, 0, sizeof(fault));
    hub = transfer_inproc_hub_create();
    struct transfer_backend *next;
    assert_int_equal(transfer_backend_inproc_create(hub, 1, &next), OK);
    sender = transfer_backend_fault_create(next, &fault);
    assert_int_equal(transfer_backend_inproc_create(hub, 2, &receiver), OK);
    source = pool_of(sender);
    target = pool_of(receiver);
    memset(source, 7, SIZE);
    struct buf blob;
    buf_init(&blob, 1024);
    assert_int_equal(
        transfer_backend_export(receiver, target, SIZE, NULL, &blob), OK);
    assert_int_equal(
        transfer_backend_peer_open(sender, buf_span(&blob), SIZE, NULL, &peer),
        OK);
    buf_finish(&blob);
    piece = (struct transfer_piece){0, 0, SIZE, 0};
    write = (struct transfer_write){
        .peer = peer, .pieces = &piece, .piece_count = 1};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    transfer_backend_peer_close(peer);
    transfer_backend_free(sender, source);
    transfer_backend_free(receiver, target);
    transfer_backend_destroy(sender);
    transfer_backend_destroy(receiver);
    transfer_inproc_hub_destroy(hub);
    return 0;
}

/* Polls at most `count` times; NULL when the write stays inside. */
static struct transfer_write *poll_times(int count)
{
    struct transfer_write *got = NULL;
    bool is_busy;
    for (int i = 0; i < count && got == NULL; i++) {
        got = transfer_backend_poll(sender, &is_busy);
    }
    return got;
}

/* Held before the copy: no byte moves until the release. */
static void held_write_moves_nothing(void **state)
{
    (void)state;
    fault.hold_writes = true;
    transfer_backend_write(sender, &write);
    assert_null(poll_times(50));
    assert_int_equal(target[0], 0);
    assert_int_equal(fault.held, 1);
    fault.hold_writes = false;
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(target[SIZE - 1], 7);
    assert_int_equal(fault.held, 0);
}

/* Held after the copy: the bytes are there, nobody is told. */
static void held_completion_has_moved_the_bytes(void **state)
{
    (void)state;
    fault.hold_done = true;
    transfer_backend_write(sender, &write);
    assert_null(poll_times(50));
    assert_int_equal(target[0], 7);
    fault.hold_done = false;
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
}

/* Ten polls late. */
static void delay_counts_polls(void **state)
{
    (void)state;
    fault.delay_polls = 10;
    transfer_backend_write(sender, &write);
    assert_null(poll_times(10));
    assert_ptr_equal(poll_times(50), &write);
}

/* One stopped, one in doubt, one with a wrong digest, then one as it was. */
static void faults_are_used_up_one_by_one(void **state)
{
    (void)state;
    fault.stop_count = 1;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(write.outcome, TRANSFER_STOPPED);
    assert_int_equal(target[0], 0);
    fault.doubt_count = 1;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(write.outcome, TRANSFER_IN_DOUBT);
    fault.flip_count = 1;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(50), &write);
    uint32_t wrong = piece.crc32c;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(wrong ^ piece.crc32c, 1);
}

/* Carried out and never told, until the peer is closed: then nobody knows.
 * [transfer T56] */
static void lost_write_comes_back_in_doubt_at_the_close(void **state)
{
    (void)state;
    fault.lose_count = 1;
    transfer_backend_write(sender, &write);
    assert_null(poll_times(50));
    assert_int_equal(target[SIZE - 1], 7);
    struct transfer_backend_peer *again;
    struct buf blob;
    buf_init(&blob, 1024);
    assert_int_equal(
        transfer_backend_export(receiver, target, SIZE, NULL, &blob), OK);
    assert_int_equal(
        transfer_backend_peer_open(sender, buf_span(&blob), SIZE, NULL, &again),
        OK);
    buf_finish(&blob);
    transfer_backend_peer_close(peer);
    peer = again;
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(write.outcome, TRANSFER_IN_DOUBT);
}

/* Told STOPPED with nothing there, and written afterwards. [transfer T56] */
static void late_write_lands_after_its_end(void **state)
{
    (void)state;
    fault.late_count = 1;
    fault.late_polls = 5;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(5), &write);
    assert_int_equal(write.outcome, TRANSFER_STOPPED);
    assert_int_equal(target[0], 0);
    memset(source, 9, SIZE); /* the next owner's */
    assert_null(poll_times(20));
    assert_int_equal(target[0], 9);
}

/* A byte of the target is wrong, the digest is that of the source. */
static void corruption_shows_in_the_digest_only_there(void **state)
{
    (void)state;
    source[SIZE / 3] = 8;
    fault.corrupt_ppm = 1000000;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(50), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
    int different = 0;
    for (int i = 0; i < SIZE; i++) {
        different += source[i] != target[i];
    }
    assert_int_equal(different, 1);
    assert_int_equal(fault.corrupted, 1);
    assert_int_equal(piece.crc32c, digest_crc32c(0, span_of(source, SIZE)));
}

/* Of sixteen pieces one stays away. [transfer T59] */
static void a_dropped_piece_is_missing(void **state)
{
    (void)state;
    struct transfer_piece pieces[16];
    for (uint64_t i = 0; i < 16; i++) {
        pieces[i] = (struct transfer_piece){i * 64, i * 64, 64, 0};
    }
    write.pieces = pieces;
    write.piece_count = 16;
    fault.drop_ppm = 1000000;
    transfer_backend_write(sender, &write);
    assert_ptr_equal(poll_times(50), &write);
    int missing = 0;
    for (int i = 0; i < 16; i++) {
        missing += target[i * 64] == 0;
    }
    assert_int_equal(missing, 1);
    assert_int_equal(write.outcome, TRANSFER_DONE);
}

/* Order turned about and every write twice: all the same once they are back.
 * [transfer T59] */
static void reordered_duplicates_change_nothing(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct transfer_piece pieces[COUNT];
    struct transfer_write writes[COUNT] = {0};
    fault.reorder_ppm = fault.duplicate_ppm = fault.delay_ppm = 500000;
    fault.delay_polls_max = 4;
    for (uint64_t i = 0; i < COUNT; i++) {
        memset(source + 64 * i, (int)i + 1, 64);
        pieces[i] = (struct transfer_piece){i * 64, i * 64, 64, 0};
        writes[i] = (struct transfer_write){
            .peer = peer, .pieces = &pieces[i], .piece_count = 1};
        transfer_backend_write(sender, &writes[i]);
    }
    bool is_in_order = true;
    for (int i = 0; i < COUNT; i++) {
        struct transfer_write *back = poll_times(100);
        assert_non_null(back);
        assert_int_equal(back->outcome, TRANSFER_DONE);
        is_in_order &= back == &writes[i];
    }
    assert_false(is_in_order);
    assert_true(fault.duplicated > 0);
    assert_memory_equal(source, target, 64 * COUNT);
}

/* The same seed meets the same writes with the same faults, another does not:
 * told by which of a hundred writes land wrong. */
static uint64_t faults_of(uint64_t seed)
{
    struct transfer_inproc_hub *its_hub = transfer_inproc_hub_create();
    struct transfer_fault its = {.corrupt_ppm = 300000, .seed = seed};
    struct transfer_backend *next;
    assert_int_equal(transfer_backend_inproc_create(its_hub, 1, &next), OK);
    struct transfer_backend *backend =
        transfer_backend_fault_create(next, &its);
    uint8_t *pool = pool_of(backend);
    memset(pool, 1, 64);
    struct buf blob;
    buf_init(&blob, 1024);
    struct transfer_backend_peer *self;
    assert_int_equal(transfer_backend_export(backend, pool, SIZE, NULL, &blob),
                     OK);
    assert_int_equal(
        transfer_backend_peer_open(backend, buf_span(&blob), SIZE, NULL, &self),
        OK);
    buf_finish(&blob);
    uint64_t seen = 0;
    for (int i = 0; i < 64; i++) {
        struct transfer_piece one = {0, 64, 64, 0};
        struct transfer_write its_write = {
            .peer = self, .pieces = &one, .piece_count = 1};
        transfer_backend_write(backend, &its_write);
        bool is_busy;
        while (transfer_backend_poll(backend, &is_busy) == NULL) {
        }
        bool is_wrong = memcmp(pool, pool + 64, 64) != 0;
        seen |= (uint64_t)is_wrong << i;
    }
    transfer_backend_peer_close(self);
    transfer_backend_free(backend, pool);
    transfer_backend_destroy(backend);
    transfer_inproc_hub_destroy(its_hub);
    return seen;
}

static void a_seed_replays_its_faults(void **state)
{
    (void)state;
    assert_int_equal(faults_of(5), faults_of(5));
    assert_int_not_equal(faults_of(5), faults_of(6));
    assert_int_not_equal(faults_of(5), 0);
}

/* A link that needs a twentieth of a second for each write: the second one
 * is not back before the clock says so. */
static void a_link_has_its_speed(void **state)
{
    (void)state;
    struct transfer_piece other = piece;
    struct transfer_write second = {
        .peer = peer, .pieces = &other, .piece_count = 1};
    fault.link_bytes_per_second = SIZE * 20;
    uint64_t begin = io_clock_now_ns();
    transfer_backend_write(sender, &write);
    transfer_backend_write(sender, &second);
    bool is_busy;
    for (int back = 0; back < 2;) {
        back += transfer_backend_poll(sender, &is_busy) != NULL;
    }
    assert_true(io_clock_now_ns() - begin >= 100000000u);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(held_write_moves_nothing),
        TEST(held_completion_has_moved_the_bytes),
        TEST(delay_counts_polls),
        TEST(faults_are_used_up_one_by_one),
        TEST(lost_write_comes_back_in_doubt_at_the_close),
        TEST(late_write_lands_after_its_end),
        TEST(corruption_shows_in_the_digest_only_there),
        TEST(a_dropped_piece_is_missing),
        TEST(reordered_duplicates_change_nothing),
        TEST(a_seed_replays_its_faults),
        TEST(a_link_has_its_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
