/* transfer/backend_fault: each switch alone, over inproc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(held_write_moves_nothing),
        TEST(held_completion_has_moved_the_bytes),
        TEST(delay_counts_polls),
        TEST(faults_are_used_up_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
