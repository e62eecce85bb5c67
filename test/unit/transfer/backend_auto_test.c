/* transfer/backend_auto: which of two it takes. Near is an inproc hub, which a
 * peer may be in or not, far is tcp, or rdma over a transport that any host has.
 * [transfer T87] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/backend_auto.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"
#include "transfer/backend_rdma.h"
#include "transfer/backend_tcp.h"

enum { SIZE = 8192 };

static struct transfer_inproc_hub *hubs[2];
static bool is_over_rdma;

static struct transfer_backend *make_far(uint64_t incarnation)
{
    struct transfer_backend *far;
    struct transfer_backend_tcp_options tcp = {.incarnation = incarnation,
                                               .host = "127.0.0.1"};
    struct transfer_backend_rdma_options rdma = {.incarnation = incarnation,
                                                 .key = span_of_string("key"),
                                                 .test_transport = "tcp"};
    assert_int_equal(is_over_rdma
                         ? transfer_backend_rdma_create(&rdma, NULL, &far)
                         : transfer_backend_tcp_create(&tcp, NULL, &far),
                     OK);
    return far;
}

/* inproc has a pool of its own; far adopts it. */
static struct transfer_backend *make(int hub, uint64_t incarnation)
{
    struct transfer_backend *near = NULL, *far, *backend;
    if (hub >= 0) {
        assert_int_equal(
            transfer_backend_inproc_create(hubs[hub], incarnation, &near), OK);
    }
    far = make_far(incarnation);
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
    enum transfer_toucher toucher = strcmp(lane, "rdma") == 0 ? TRANSFER_NIC
                                    : strcmp(lane, "tcp") == 0
                                        ? TRANSFER_SELF_COPY
                                        : TRANSFER_PEER_MAPPED;
    assert_int_equal(transfer_backend_toucher(receiver, lane), toucher);
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
    static const char *const FAR[] = {"tcp", "rdma"};
    for (int i = 0; i < 2; i++) {
        is_over_rdma = i == 1;
        assert_string_equal(lane_between(0, 0), "memory");
        assert_string_equal(lane_between(0, 1), FAR[i]); /* not in sight */
        assert_string_equal(lane_between(-1, 0), FAR[i]); /* none here */
        assert_string_equal(lane_between(0, -1), FAR[i]); /* none there */
        assert_string_equal(lane_between(-1, -1), FAR[i]);
    }
}

/* The text that the hello compares is another one for each far: they cannot
 * meet. */
static void another_far_is_another_config(void **state)
{
    (void)state;
    hubs[0] = transfer_inproc_hub_create();
    is_over_rdma = false;
    struct transfer_backend *tcp = make(0, 1);
    is_over_rdma = true;
    struct transfer_backend *rdma = make(0, 2);
    assert_string_equal(transfer_backend_config(tcp), "auto 1, tcp 1");
    assert_non_null(strstr(transfer_backend_config(rdma), "auto 1, rdma 1 "));
    transfer_backend_destroy(tcp);
    transfer_backend_destroy(rdma);
    transfer_inproc_hub_destroy(hubs[0]);
}

static void assert_said(const char *here, const char *there, const char *wanted)
{
    struct why why = {""};
    assert_int_equal(transfer_backend_auto_say(span_of_string(here),
                                               span_of_string(there), &why),
                     ERR_UNSUPPORTED);
    assert_string_equal(why.text, wanted);
}

/* Proof: of long texts the one thing that differs, the host before the rest. */
static void the_reason_is_what_differs(void **state)
{
    (void)state;
#define UCX(version) "ucx " version " TLS=^tcp ALLOC_PRIO=md:sysv on "
    assert_said(UCX("1.17.0") "b0 p0 i0", UCX("1.17.0") "b1 p0 i0",
                "it is on another host");
    assert_said(UCX("1.17.0") "b0 p0 i0", UCX("1.18.0") "b1 p1 i0",
                "it is on another host");
    assert_said(UCX("1.17.0") "b0 p0 i0", UCX("1.17.0") "b0 p1 i0",
                "it has its own process or IPC namespace");
    assert_said(UCX("1.17.0") "b0 p0 i0", UCX("1.17.0") "b0 p0 i1",
                "it has its own process or IPC namespace");
    assert_said(UCX("1.17.0") "b0 p0 i0", UCX("1.17.1") "b0 p0 i0",
                "UCX or its settings differ: '1.17.0' here, '1.17.1' there");
    assert_said("ucx 1 TLS=^tcp on b0 p0 i0", "ucx 1 TLS=all A=1 on b0 p0 i0",
                "UCX or its settings differ: 'TLS=^tcp' here, 'TLS=all' there");
    assert_said("", "ucx 1 on b0 p0 i0", "this worker cannot tell its host");
    assert_said("ucx 1 on b0 p0 i0", "", "it cannot tell its host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_where_it_reaches_else_far),
        cmocka_unit_test(another_far_is_another_config),
        cmocka_unit_test(the_reason_is_what_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
