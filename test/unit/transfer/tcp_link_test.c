/* transfer/tcp_link: who gets in. A bare socket plays the stranger. */
#include "tcp_rig.h"

/* True when the backend closed the connection. */
static bool is_dropped(struct transfer_backend *backend, int fd)
{
    uint8_t bytes[256];
    return !rig_read(backend, fd, bytes, sizeof(bytes));
}

static void who_knows_the_key_gets_in(void **state)
{
    (void)state;
    struct transfer_backend *backend = rig_backend(RIG_KEY);
    uint8_t *pool = rig_pool(backend);
    struct tcp_blob blob = rig_blob(backend, pool);
    rig_allow(backend, 0, 100);
    int fd = rig_greet(backend, &blob);
    struct tcp_head head = {TCP_WRITE, 1, RIG_TOKEN, 1, TCP_LAST, 100};
    struct tcp_piece piece = {0, 100};
    rig_write(fd, &head, &piece, 7);
    uint8_t ack[TCP_HEAD_SIZE];
    assert_true(rig_read(backend, fd, ack, sizeof(ack)));
    assert_int_equal(tcp_head_decode(ack, NULL, &head), OK);
    assert_int_equal(head.type, TCP_ACK);
    assert_int_equal(head.flags, 0);
    assert_int_equal(pool[99], 7);
    assert_int_equal(pool[100], 0);
    close(fd);
    rig_end(backend, pool);
}

/* The proof is right but for one bit; another end repeats the receiver's own
 * proof as its answer: both are dropped, and what they send on lands nowhere. */
static void who_does_not_is_dropped(void **state)
{
    (void)state;
    struct transfer_backend *backend = rig_backend(RIG_KEY);
    uint8_t *pool = rig_pool(backend);
    struct tcp_blob blob = rig_blob(backend, pool);
    rig_allow(backend, 0, RIG_POOL);
    for (int is_echo = 0; is_echo < 2; is_echo++) {
        int fd = rig_connect(blob.port);
        struct tcp_terms terms = {RIG_THEIRS, RIG_OURS, {5}, {0}};
        uint8_t hello[TCP_HELLO_SIZE], challenge[TCP_CHALLENGE_SIZE];
        uint8_t proof[DIGEST_SHA256_SIZE], answer[TCP_PROOF_SIZE];
        tcp_hello_encode(&terms, hello);
        rig_send(fd, hello, sizeof(hello));
        assert_true(rig_read(backend, fd, challenge, sizeof(challenge)));
        assert_int_equal(tcp_challenge_decode(challenge, NULL, &terms, proof),
                         OK);
        if (!is_echo) {
            struct tcp_secret secret = tcp_secret_of(RIG_KEY, blob.nonce);
            tcp_prove(&secret, &terms, true, proof);
            proof[31] ^= 1;
        }
        tcp_proof_encode(proof, answer);
        rig_send(fd, answer, sizeof(answer));
        struct tcp_head head = {TCP_WRITE, 1, RIG_TOKEN, 1, TCP_LAST, 100};
        struct tcp_piece piece = {0, 100};
        rig_write(fd, &head, &piece, 7);
        assert_true(is_dropped(backend, fd));
        assert_int_equal(pool[0], 0);
        close(fd);
    }
    rig_end(backend, pool);
}

static void junk_and_foreign_hellos_are_dropped(void **state)
{
    (void)state;
    struct transfer_backend *backend = rig_backend(RIG_KEY);
    uint8_t *pool = rig_pool(backend);
    struct tcp_blob blob = rig_blob(backend, pool);
    uint8_t junk[4096];
    memset(junk, 'G', sizeof(junk));
    struct tcp_terms other = {RIG_THEIRS, RIG_OURS + 1, {5}, {0}};
    uint8_t hello[TCP_HELLO_SIZE];
    tcp_hello_encode(&other, hello);
    int fds[2] = {rig_connect(blob.port), rig_connect(blob.port)};
    rig_send(fds[0], junk, sizeof(junk));
    rig_send(fds[1], hello, sizeof(hello));
    for (int i = 0; i < 2; i++) {
        assert_true(is_dropped(backend, fds[i]));
        close(fds[i]);
    }
    rig_end(backend, pool);
}

/* Somebody who connects and says nothing: the alarm makes the descriptor
 * readable, nothing else happens, and the next turn drops him. */
static void silence_ends_by_the_alarm(void **state)
{
    (void)state;
    struct transfer_backend *backend = rig_backend(RIG_KEY);
    uint8_t *pool = rig_pool(backend);
    struct tcp_blob blob = rig_blob(backend, pool);
    int fd = rig_connect(blob.port);
    assert_true(is_dropped(backend, fd));
    close(fd);
    rig_end(backend, pool);
}

/* More strangers than there is room for: the oldest goes, and one who knows
 * the key still gets in. */
static void strangers_do_not_keep_others_out(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct transfer_backend *backend = rig_backend(RIG_KEY);
    uint8_t *pool = rig_pool(backend);
    struct tcp_blob blob = rig_blob(backend, pool);
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = rig_connect(blob.port);
        rig_turn(backend);
    }
    int fd = rig_greet(backend, &blob);
    assert_true(is_dropped(backend, fds[0]));
    close(fd);
    for (int i = 0; i < COUNT; i++) {
        close(fds[i]);
    }
    rig_end(backend, pool);
}

/* Two backends with different keys: the sender refuses to believe the receiver,
 * so that no byte of a page goes to a stranger, and its write comes back. */
static void a_receiver_without_the_key_gets_nothing(void **state)
{
    (void)state;
    struct transfer_backend *backend = rig_backend(RIG_KEY);
    uint8_t *pool = rig_pool(backend);
    struct transfer_backend *sender;
    struct transfer_backend_tcp_options options = {
        .incarnation = RIG_THEIRS,
        .host = "127.0.0.1",
        .key = span_of_string("another")};
    assert_int_equal(transfer_backend_tcp_create(&options, NULL, &sender), OK);
    uint8_t *source = rig_pool(sender);
    memset(source, 9, RIG_POOL);
    rig_allow(backend, 0, RIG_POOL);
    struct buf blob;
    buf_init(&blob, 1024);
    assert_int_equal(
        transfer_backend_export(backend, pool, RIG_POOL, NULL, &blob), OK);
    struct transfer_backend_peer *peer;
    assert_int_equal(transfer_backend_peer_open(sender, buf_span(&blob),
                                                RIG_POOL, NULL, &peer),
                     OK);
    struct transfer_piece piece = {0, 0, 4096, 0};
    struct transfer_write write = {
        .peer = peer, .token = RIG_TOKEN, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(sender, &write);
    struct transfer_write *back = NULL;
    while (back == NULL) {
        bool is_busy;
        back = transfer_backend_poll(sender, &is_busy);
        rig_turn(backend);
    }
    assert_int_equal(write.outcome, TRANSFER_STOPPED);
    assert_int_equal(pool[0], 0);
    /* Right behind a failure nobody is asked again: STOPPED at once. */
    transfer_backend_write(sender, &write);
    bool is_busy;
    assert_ptr_equal(transfer_backend_poll(sender, &is_busy), &write);
    transfer_backend_peer_close(peer);
    buf_finish(&blob);
    rig_end(sender, source);
    rig_end(backend, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_the_key_gets_in),
        cmocka_unit_test(who_does_not_is_dropped),
        cmocka_unit_test(junk_and_foreign_hellos_are_dropped),
        cmocka_unit_test(silence_ends_by_the_alarm),
        cmocka_unit_test(strangers_do_not_keep_others_out),
        cmocka_unit_test(a_receiver_without_the_key_gets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
