/* transfer/backend_auto: which of two it takes. Near is an inproc hub, which a
 * peer may be in or not, far is tcp. [transfer T87] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/backend_auto.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"
#include "transfer/backend_tcp.h"

enum { SIZE = 8192 };

static struct transfer_inproc_hub *hubs[2];

/* inproc has a pool of its own; tcp adopts it. */
static struct transfer_backend *make(int hub, uint64_t incarnation)
{
    struct transfer_backend *near = NULL, *far, *backend;
    struct transfer_backend_tcp_options options = {.incarnation = incarnation,
                                                   .host = "127.0.0.1"};
    if (hub >= 0) {
        assert_int_equal(
            transfer_backend_inproc_create(hubs[hub], incarnation, &near), OK);
    }
    assert_int_equal(transfer_backend_tcp_create(&options, NULL, &far), OK);
    assert_int_equal(transfer_backend_auto_create(near, far, NULL, &backend),
                     OK);
    return backend;
}

static const char *lane_between(int sender_hub, int receiver_hub)
{
    static char lane[16];
    for (int i = 0; i < 2; i++) {
        hubs[i] = transfer_inproc_hub_create();
    }
    struct transfer_backend *sender = make(sender_hub, 1);
    struct transfer_backend *receiver = make(receiver_hub, 2);
    void *source, *target;
    struct transfer_range all = {0, SIZE};
    struct transfer_token token = {5, 6};
    assert_int_equal(transfer_backend_alloc(sender, SIZE, NULL, &source), OK);
    assert_int_equal(transfer_backend_alloc(receiver, SIZE, NULL, &target), OK);
    assert_int_equal(transfer_backend_authorise(receiver, 1, token, &all, 1),
                     OK);
    memset(source, 7, SIZE);
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(
        transfer_backend_export(receiver, target, SIZE, NULL, &blob), OK);
    struct transfer_backend_peer *peer;
    assert_int_equal(
        transfer_backend_peer_open(sender, buf_span(&blob), SIZE, NULL, &peer),
        OK);
    strcpy(lane, transfer_backend_peer_lane(peer));
    struct transfer_piece piece = {0, 0, SIZE, 0};
    struct transfer_write write = {
        .peer = peer, .token = token, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(sender, &write);
    bool is_busy;
    while (transfer_backend_poll(sender, &is_busy) == NULL) {
        assert_null(transfer_backend_poll(receiver, &is_busy));
    }
    assert_int_equal(write.outcome, TRANSFER_DONE);
    assert_memory_equal(source, target, SIZE);
    bool is_far = strcmp(lane, "tcp") == 0;
    assert_int_equal(transfer_backend_toucher(receiver, lane),
                     is_far ? TRANSFER_SELF_COPY : TRANSFER_PEER_MAPPED);
    buf_finish(&blob);
    transfer_backend_peer_close(peer);
    transfer_backend_free(sender, source);
    transfer_backend_free(receiver, target);
    transfer_backend_destroy(sender);
    transfer_backend_destroy(receiver);
    for (int i = 0; i < 2; i++) {
        transfer_inproc_hub_destroy(hubs[i]);
    }
    return lane;
}

static void near_where_it_reaches_else_far(void **state)
{
    (void)state;
    assert_string_equal(lane_between(0, 0), "memory");
    assert_string_equal(lane_between(0, 1), "tcp"); /* not in sight */
    assert_string_equal(lane_between(-1, 0), "tcp"); /* none here */
    assert_string_equal(lane_between(0, -1), "tcp"); /* none there */
    assert_string_equal(lane_between(-1, -1), "tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_where_it_reaches_else_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
