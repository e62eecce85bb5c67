/* Many peers, and peers that are none: whoever comes and goes, and whoever takes
 * a connection and says nothing, the others' hand-offs go on. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conform/transfer/node.h"

#include "base/check.h"
#include "io/clock.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    WAVES = 8,
    PEERS = 64 /* of a wave */
};
static const uint64_t MS = 1000000;

struct world {
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct node sender;
};

static void open_peer(struct world *world, struct node *node,
                      uint64_t incarnation, struct node_setup setup)
{
    setup.body = NODE_INPROC;
    setup.loop = world->loop;
    setup.hub = world->hub;
    setup.incarnation = incarnation;
    node_open(node, &setup);
}

static void open_world(struct world *world, struct node_setup setup)
{
    assert_int_equal(io_loop_create(&world->loop), OK);
    world->hub = transfer_inproc_hub_create();
    open_peer(world, &world->sender, 0xa, setup);
}

static void close_world(struct world *world)
{
    node_close(&world->sender);
    transfer_inproc_hub_destroy(world->hub);
    io_loop_destroy(world->loop);
}

static struct transfer_stats stats_of(struct node *node)
{
    struct transfer_stats stats;
    transfer_stats_read(node->transfer, &stats);
    return stats;
}

/* 512 receivers, 64 at a time: each registers, pulls, and is gone. The sender
 * keeps nothing of them. [transfer T81] */
static void peers_come_and_go(void **state)
{
    (void)state;
    static struct world world;
    static struct node peers[PEERS];
    kv_page_id pages[2] = {1, 2};
    memset(&world, 0, sizeof(world));
    open_world(&world, (struct node_setup){.send_count_max = PEERS});
    for (uint64_t wave = 0; wave < WAVES; wave++) {
        for (uint64_t i = 0; i < PEERS; i++) {
            uint64_t id = wave * PEERS + i + 1;
            open_peer(&world, &peers[i], 0x1000 + id, (struct node_setup){0});
            node_send(&world.sender, id, (int64_t)id, pages, 2, 0);
            node_receive(&peers[i], &world.sender, id, (int64_t)id, pages, 2,
                         0);
        }
        for (uint64_t i = 0; i < PEERS; i++) {
            uint64_t id = wave * PEERS + i + 1;
            assert_int_equal(node_await(&peers[i], id, Q), T | Q);
            assert_int_equal(node_await(&world.sender, id, Q), T | Q);
        }
        assert_int_equal(stats_of(&world.sender).peers, PEERS);
        for (uint64_t i = 0; i < PEERS; i++) {
            node_close(&peers[i]);
        }
        for (int i = 0; i < 2000 && stats_of(&world.sender).peers > 0; i++) {
            node_turns(&world.sender, 1);
        }
        struct transfer_stats stats = stats_of(&world.sender);
        assert_int_equal(stats.peers, 0);
        assert_int_equal(stats.sends + stats.adverts, 0);
        world.sender.report_count = 0;
    }
    assert_int_equal(stats_of(&world.sender).sends_done, WAVES * PEERS);
    close_world(&world);
}

/* Half of the peers leave while their hand-offs are under way, by a cancel or
 * by an end of their connection; the other half gets what it came for.
 * [transfer T81] */
static void peers_leave_in_the_middle(void **state)
{
    (void)state;
    static struct world world;
    static struct node peers[PEERS];
    kv_page_id pages[2] = {1, 2};
    memset(&world, 0, sizeof(world));
    open_world(&world, (struct node_setup){.send_count_max = PEERS});
    for (uint64_t i = 0; i < PEERS; i++) {
        open_peer(&world, &peers[i], 0x1000 + i, (struct node_setup){0});
        node_receive(&peers[i], &world.sender, i + 1, (int64_t)i + 1, pages, 2,
                     0);
    }
    while (stats_of(&world.sender).adverts < PEERS) {
        node_turns(&world.sender, 1);
    }
    for (uint64_t i = 0; i < PEERS; i += 2) {
        node_cancel(&peers[i], i + 1);
    }
    for (uint64_t i = 0; i < PEERS; i++) {
        node_send(&world.sender, i + 1, (int64_t)i + 1, pages, 2, 0);
    }
    for (uint64_t i = 0; i < PEERS; i++) {
        uint8_t word = node_await(&peers[i], i + 1, Q);
        bool is_whole = word == (T | Q);
        assert_true(is_whole || (i % 2 == 0 && word == (T | F | C | Q)));
        assert_int_equal(node_await(&world.sender, i + 1, Q) & (T | Q), T | Q);
    }
    for (uint64_t i = 0; i < PEERS; i++) {
        node_close(&peers[i]);
    }
    struct transfer_stats stats = stats_of(&world.sender);
    assert_int_equal(stats.sends + stats.adverts, 0);
    close_world(&world);
}

/* A worker that never sent anything keeps what others ask it for no longer than
 * anybody: its own clock sweeps, no traffic is needed. [transfer T26 T28] */
static void one_that_never_sends_sweeps(void **state)
{
    (void)state;
    static struct world world;
    static struct node peer;
    kv_page_id pages[2] = {1, 2};
    memset(&world, 0, sizeof(world));
    open_world(&world, (struct node_setup){.advert_ttl_ns = 1000 * MS});
    open_peer(&world, &peer, 0xb, (struct node_setup){0});
    node_receive(&peer, &world.sender, 7, 9, pages, 2,
                 io_clock_now_ns() + 60000 * MS);
    for (int i = 0; i < 20000 && stats_of(&world.sender).adverts == 0; i++) {
        node_turns(&world.sender, 1);
    }
    assert_int_equal(stats_of(&world.sender).adverts, 1);
    for (int i = 0; i < 20000 && stats_of(&world.sender).adverts == 1; i++) {
        node_turns(&world.sender, 1);
    }
    struct transfer_stats stats = stats_of(&world.sender);
    assert_int_equal(stats.adverts, 0);
    assert_int_equal(stats.sends_started + stats.sends_failed, 0);
    assert_int_equal(node_word(&peer, 7), 0); /* in silence */
    node_cancel(&peer, 7);
    assert_int_equal(node_await(&peer, 7, Q), T | F | C | Q);
    node_close(&peer);
    close_world(&world);
}

static int listen_in_silence(char endpoint[64])
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Somebody takes the connection and never says a word: whoever waits for that
 * fails at the deadline and is quiet, since no address has left; the worker's
 * other hand-offs pass meanwhile. [transfer T65 I22] */
static void a_silent_endpoint_holds_nobody_up(void **state)
{
    (void)state;
    static struct world world;
    static struct node peer;
    char endpoint[64];
    kv_page_id waiting[2] = {1, 2};
    kv_page_id pages[2] = {3, 4};
    memset(&world, 0, sizeof(world));
    open_world(&world, (struct node_setup){0});
    open_peer(&world, &peer, 0xb, (struct node_setup){0});
    int fd = listen_in_silence(endpoint);
    node_receive_from(&peer, endpoint, 0xc, 1, 500, waiting, 2,
                      io_clock_now_ns() + 1000 * MS);
    int through = 0;
    for (uint64_t id = 2; id < 200 && node_word(&peer, 1) == 0; id++) {
        node_send(&world.sender, id, (int64_t)id, pages, 2, 0);
        node_receive(&peer, &world.sender, id, (int64_t)id, pages, 2, 0);
        assert_int_equal(node_await(&peer, id, Q), T | Q);
        node_await(&world.sender, id, Q);
        peer.report_count = world.sender.report_count = 0;
        through++;
    }
    assert_true(through > 1);
    assert_int_equal(node_await(&peer, 1, Q), T | F | Q);
    assert_int_equal(node_last(&peer, 1)->reason, AGREE_REASON_DEADLINE);
    close(fd);
    node_close(&peer);
    close_world(&world);
}

/* Orders that do not stop, more often than time is looked at: what is late ends
 * all the same. [transfer I23 T75] */
static void busy_orders_do_not_stop_the_clock(void **state)
{
    (void)state;
    static struct world world;
    kv_page_id pages[2] = {1, 2};
    struct transfer_command nothing = {.kind = TRANSFER_CANCEL, .request = 999};
    memset(&world, 0, sizeof(world));
    open_world(&world, (struct node_setup){0});
    node_send(&world.sender, 1, 9, pages, 2, io_clock_now_ns() + 200 * MS);
    uint64_t limit_ns = io_clock_now_ns() + 10000 * MS;
    while (node_word(&world.sender, 1) == 0 && io_clock_now_ns() < limit_ns) {
        assert_int_equal(io_mailbox_post(world.sender.port.commands, &nothing),
                         OK);
        node_turns(&world.sender, 1);
    }
    assert_int_equal(node_word(&world.sender, 1), T | F | Q);
    assert_int_equal(node_last(&world.sender, 1)->reason,
                     AGREE_REASON_DEADLINE);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_come_and_go),
        cmocka_unit_test(peers_leave_in_the_middle),
        cmocka_unit_test(one_that_never_sends_sweeps),
        cmocka_unit_test(a_silent_endpoint_holds_nobody_up),
        cmocka_unit_test(busy_orders_do_not_stop_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
