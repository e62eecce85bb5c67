/* transfer/peers alone, and as control tells it of its links. */
#include "control_rig.h"

#include "transfer/peers.h"

static void print_is(const struct transfer_peers *peers, const char *wanted)
{
    struct buf out;
    buf_init(&out, 1 << 16);
    transfer_peers_print(peers, &out);
    assert_string_equal(buf_string(&out), wanted);
    buf_finish(&out);
}

static void has(const struct transfer_peers *peers, const char *part)
{
    struct buf out;
    buf_init(&out, 1 << 16);
    transfer_peers_print(peers, &out);
    if (strstr(buf_string(&out), part) == NULL) {
        fail_msg("%s\nlacks %s", buf_string(&out), part);
    }
    buf_finish(&out);
}

/* A peer has one line for each direction, with the newest word; what is not
 * known is left out. */
static void the_newest_word_counts(void **state)
{
    (void)state;
    struct transfer_peers *peers = transfer_peers_create();
    struct transfer_peer peer = {.endpoint = "tcp://h:1",
                                 .is_sender = true,
                                 .state = TRANSFER_PEER_FAILED,
                                 .why = "refused \"x\""};
    print_is(peers, "[]");
    transfer_peers_note(NULL, &peer);
    transfer_peers_note(peers, &peer);
    print_is(peers, "[{\"endpoint\":\"tcp://h:1\",\"kv\":\"from\",\"state\":"
                    "\"failed\",\"reason\":\"refused \\\"x\\\"\"}]");
    peer.is_sender = false;
    transfer_peers_note(peers, &peer);
    peer = (struct transfer_peer){.endpoint = "tcp://h:1",
                                  .is_sender = true,
                                  .state = TRANSFER_PEER_CONNECTED,
                                  .incarnation = 5,
                                  .lane = "sysv"};
    transfer_peers_note(peers, &peer);
    print_is(peers,
             "[{\"endpoint\":\"tcp://h:1\",\"kv\":\"from\",\"state\":"
             "\"connected\",\"incarnation\":\"5\",\"lane\":\"sysv\"},"
             "{\"endpoint\":\"tcp://h:1\",\"kv\":\"to\",\"state\":\"failed\","
             "\"reason\":\"refused \\\"x\\\"\"}]");
    transfer_peers_destroy(peers);
}

/* However many come, the connected one stays, then the newest, and what is
 * printed leaves a front end's buffer for /server_info half free. */
static void a_crowd_pushes_out_the_oldest(void **state)
{
    (void)state;
    struct transfer_peers *peers = transfer_peers_create();
    char endpoint[300], why[300];
    struct buf out;
    memset(why, 'w', sizeof(why) - 1);
    why[sizeof(why) - 1] = 0;
    transfer_peers_note(
        peers, &(struct transfer_peer){.endpoint = "tcp://live:1",
                                       .state = TRANSFER_PEER_CONNECTED});
    for (int i = 0; i < 1000; i++) {
        snprintf(endpoint, sizeof(endpoint), "tcp://%0200d:1", i);
        transfer_peers_note(
            peers, &(struct transfer_peer){.endpoint = endpoint,
                                           .state = TRANSFER_PEER_REFUSED,
                                           .why = why});
    }
    has(peers, "tcp://live:1");
    has(peers, "999:1");
    has(peers, "937:1");
    buf_init(&out, 1 << 16);
    transfer_peers_print(peers, &out);
    assert_null(strstr(buf_string(&out), "936:1"));
    assert_true(out.size > 0 && out.size < 1 << 15);
    buf_finish(&out);
    transfer_peers_destroy(peers);
}

/* A receiver that fits, with its lane, one that does not, with the field and
 * both values, and the end of either, by where they can be met. */
static void links_are_told_of(void **state)
{
    (void)state;
    for (int fits = 0; fits < 2; fits++) {
        struct bench bench;
        struct why why = {0};
        struct transfer_peers *peers = transfer_peers_create();
        open_bench(&bench);
        bench.options.peers = peers;
        if (!fits) {
            bench.peer.info.groups[0].head_dim = 77;
        }
        say_hello(&bench);
        assert_int_equal(answer(&bench, &why),
                         fits ? WIRE_REGISTERED : WIRE_REFUSED);
        if (fits) {
            has(peers, "[{\"endpoint\":\"tcp://127.0.0.1:1\",\"kv\":\"to\","
                       "\"state\":\"connected\",\"incarnation\":\"");
            has(peers, "\"lane\":\"memory\"}]");
        }
        shutdown(bench.fd, SHUT_WR);
        turns(&bench);
        has(peers, fits ? "\"state\":\"ended\",\"incarnation\":\""
                        : "\"state\":\"refused\",\"reason\":\"");
        has(peers, fits ? "\"reason\":\"" : "head_dim");
        close_bench(&bench);
        transfer_peers_destroy(peers);
    }
}

/* A sender that cannot be met is told of with the reason. */
static void a_sender_that_is_not_there_is_told_of(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    struct link *link = NULL;
    struct transfer_peers *peers = transfer_peers_create();
    open_bench(&bench);
    bench.options.peers = peers;
    assert_int_equal(
        control_connect(bench.control, "tcp://127.0.0.1:1", 7, &why, &link),
        OK);
    turns(&bench);
    has(peers, "[{\"endpoint\":\"tcp://127.0.0.1:1\",\"kv\":\"from\","
               "\"state\":\"failed\",\"reason\":\"");
    assert_int_equal(control_connect(bench.control, "nonsense", 7, &why, &link),
                     ERR_INVALID);
    has(peers, "[{\"endpoint\":\"nonsense\",\"kv\":\"from\",\"state\":"
               "\"failed\",\"reason\":\"");
    close_bench(&bench);
    transfer_peers_destroy(peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_word_counts),
        cmocka_unit_test(a_crowd_pushes_out_the_oldest),
        cmocka_unit_test(links_are_told_of),
        cmocka_unit_test(a_sender_that_is_not_there_is_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
