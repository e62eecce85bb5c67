/* transfer/backend_rdma: what the suites over all bodies do not see. Over UCX's
 * tcp, in one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/mem.h"
#include "transfer/backend_rdma.h"
#include "transfer/rdma_body.h"
#include "transfer/rdma_devices.h"

#define MIB ((size_t)1 << 20)
enum { POOL = 32 << 20, PIECES = 2000, TURNS = 2000 };

static struct transfer_backend *sender, *receiver;
static struct transfer_backend_peer *peer;
static uint8_t *source, *target;

static enum err create(const char *key, const char *transport, struct why *why,
                       struct transfer_backend **backend_out)
{
    struct transfer_backend_rdma_options options = {
        .incarnation = 5,
        .key = span_of_string(key),
        .test_transport = transport,
    };
    return transfer_backend_rdma_create(&options, why, backend_out);
}

static struct transfer_write *turn(int times, bool with_receiver)
{
    bool is_busy;
    for (int i = 0; i < times; i++) {
        struct transfer_write *write = transfer_backend_poll(sender, &is_busy);
        if (write != NULL) {
            return write;
        }
        if (with_receiver) {
            assert_null(transfer_backend_poll(receiver, &is_busy));
        }
    }
    return NULL;
}

static void await(struct transfer_write *write, enum transfer_outcome outcome)
{
    struct transfer_write *back = NULL;
    while (back == NULL) {
        back = turn(1, true);
    }
    assert_ptr_equal(back, write);
    assert_int_equal(write->outcome, outcome);
}

static void open_peer(void)
{
    struct why why = {{0}};
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(
        transfer_backend_export(receiver, target, POOL, &why, &blob), OK);
    assert_int_equal(
        transfer_backend_peer_open(sender, buf_span(&blob), POOL, &why, &peer),
        OK);
    buf_finish(&blob);
}

/* The target is memory of the test's, adopted. */
static int set_up(void **state)
{
    (void)state;
    struct why why = {{0}};
    void *memory;
    assert_int_equal(create("key", "tcp", &why, &sender), OK);
    assert_int_equal(create("key", "tcp", &why, &receiver), OK);
    assert_int_equal(transfer_backend_alloc(sender, POOL, &why, &memory), OK);
    source = memory;
    target = mem_try_aligned(4096, POOL);
    assert_int_equal(transfer_backend_adopt(receiver, target, POOL, &why), OK);
    open_peer();
    struct transfer_write empty = {.peer = peer};
    transfer_backend_write(sender, &empty);
    await(&empty, TRANSFER_DONE);
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
    mem_free(target);
    return 0;
}

/* No device, one that UCX does not have, and no key: each says so, nothing is
 * made and nothing stays. */
static void what_cannot_be_made_says_why(void **state)
{
    (void)state;
    struct transfer_backend *backend = NULL;
    struct buf names;
    struct why why = {{0}};
    buf_init(&names, 4096);
    if (rdma_devices_find(&names) == 0) {
        assert_int_equal(create("key", NULL, &why, &backend), ERR_UNSUPPORTED);
        assert_string_equal(why.text, "rdma: no RDMA device");
    }
    buf_finish(&names);
    assert_int_equal(create("key", "rc", &why, &backend), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "rdma: no RDMA device is up: "));
    assert_int_equal(create("", "tcp", &why, &backend), ERR_INVALID);
    assert_non_null(strstr(why.text, "key of 0 bytes"));
    assert_null(backend);
}

/* Both ends prove what they hold: an address of instances with another key is
 * refused before UCX has seen it. */
static void an_address_of_another_key_is_refused(void **state)
{
    (void)state;
    struct transfer_backend *other;
    struct transfer_backend_peer *none;
    struct why why = {{0}};
    void *memory;
    struct buf blob;
    assert_int_equal(create("another", "tcp", &why, &other), OK);
    assert_int_equal(transfer_backend_alloc(other, 4096, &why, &memory), OK);
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(transfer_backend_export(other, memory, 4096, &why, &blob),
                     OK);
    assert_int_equal(
        transfer_backend_peer_open(sender, buf_span(&blob), 4096, &why, &none),
        ERR_DENIED);
    buf_finish(&blob);
    transfer_backend_free(other, memory);
    transfer_backend_destroy(other);
}

/* A pool is adopted once, and written as one of its own. Digests are left alone
 * where nobody asked for them. */
static void adopted_memory_is_the_pool(void **state)
{
    (void)state;
    struct why why;
    assert_int_equal(transfer_backend_adopt(receiver, source, POOL, &why),
                     ERR_EXISTS);
    memset(source, 9, POOL);
    struct transfer_piece piece = {0, 0, POOL, 77};
    struct transfer_write write = {.peer = peer,
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .without_digest = true};
    transfer_backend_write(sender, &write);
    await(&write, TRANSFER_DONE);
    assert_memory_equal(source, target, POOL);
    assert_int_equal(piece.crc32c, 77);
}

/* The receiver takes nothing: however often the sender is polled, of large
 * pieces no more bytes and of small ones no more puts are with UCX than the
 * bounds allow, and no poll hands more over than about a MiB. Once it goes on,
 * all of it ends well. [transfer I21 I22] */
static void what_is_in_flight_is_bounded(void **state)
{
    (void)state;
    static struct transfer_piece small[PIECES];
    struct transfer_piece large = {0, 0, POOL, 0};
    for (uint64_t i = 0; i < PIECES; i++) {
        small[i] = (struct transfer_piece){i * 8192, i * 8192, 8192, 0};
    }
    struct transfer_write writes[2] = {
        {.peer = peer, .pieces = &large, .piece_count = 1},
        {.peer = peer, .pieces = small, .piece_count = PIECES}};
    const struct rdma_link *link = ((struct rdma_peer *)peer)->link;
    for (int i = 0; i < 2; i++) {
        transfer_backend_write(sender, &writes[i]);
        size_t most = 0;
        for (int turns = 0; turns < TURNS; turns++) {
            size_t before = link->in_flight;
            assert_null(turn(1, false));
            size_t now = link->in_flight;
            assert_true(now <= before + MIB + RDMA_PUT_SIZE);
            assert_true(now <= RDMA_IN_FLIGHT_MAX + RDMA_PUT_SIZE);
            assert_true(link->op_count < RDMA_OPS_MAX);
            most = now > most ? now : most;
        }
        assert_true(most > 0);
        await(&writes[i], TRANSFER_DONE);
    }
    for (uint64_t i = 0; i < PIECES; i++) {
        assert_int_equal(
            small[i].crc32c,
            digest_crc32c(0, span_of(source + small[i].source_offset, 8192)));
    }
}

/* An endpoint fails under a write that has begun and one that has not: doubt
 * and none. A write right after it finds no endpoint; in time another is made, to
 * the same address, and all ends well. [transfer T86] */
static void a_failed_endpoint_is_opened_anew(void **state)
{
    (void)state;
    struct transfer_piece pieces[2] = {{0, 0, POOL, 0}, {0, 0, 4096, 0}};
    struct transfer_write writes[2] = {
        {.peer = peer, .pieces = &pieces[0], .piece_count = 1},
        {.peer = peer, .pieces = &pieces[1], .piece_count = 1}};
    memset(source, 31, POOL);
    transfer_backend_write(sender, &writes[0]);
    transfer_backend_write(sender, &writes[1]);
    assert_null(turn(2, true));
    ((struct rdma_peer *)peer)->link->has_failed = true;
    await(&writes[0], TRANSFER_IN_DOUBT);
    await(&writes[1], TRANSFER_STOPPED);
    transfer_backend_write(sender, &writes[0]);
    await(&writes[0], TRANSFER_STOPPED);
    for (int i = 0; i < 2000 && writes[0].outcome != TRANSFER_DONE; i++) {
        usleep(10000);
        assert_null(turn(1, true));
        transfer_backend_write(sender, &writes[0]);
        while (turn(1, true) == NULL) {
        }
    }
    assert_int_equal(writes[0].outcome, TRANSFER_DONE);
    assert_memory_equal(source, target, POOL);
}

/* A peer that is closed and opened at once, as by a control connection that broke
 * and came again, is written to as before; twice at the same time too. */
static void a_closed_peer_is_opened_again(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct transfer_piece piece = {0, 0, MIB, 0};
        struct transfer_write write = {.pieces = &piece, .piece_count = 1};
        struct transfer_backend_peer *before = peer;
        if (i % 2 == 0) {
            transfer_backend_peer_close(before);
        }
        open_peer();
        memset(source, i + 1, MIB);
        write.peer = peer;
        transfer_backend_write(sender, &write);
        await(&write, TRANSFER_DONE);
        assert_memory_equal(source, target, MIB);
        if (i % 2 == 1) {
            transfer_backend_peer_close(before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_made_says_why),
        cmocka_unit_test_setup_teardown(an_address_of_another_key_is_refused,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(adopted_memory_is_the_pool, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_in_flight_is_bounded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_closed_peer_is_opened_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failed_endpoint_is_opened_anew,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
