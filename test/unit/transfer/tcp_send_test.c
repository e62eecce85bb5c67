/* transfer/tcp_send: what goes out, and what a receiver may do wrong with its
 * answers. A bare listener plays the receiver. */
#include "tcp_rig.h"

#include <sys/uio.h>

struct fake {
    struct transfer_backend *backend; /* the sender */
    uint8_t *pool;
    struct transfer_backend_peer *peer;
    int listener, fd;
};

static uint16_t port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t size = sizeof(at);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

static struct fake open_fake(void)
{
    struct fake fake = {.backend = rig_backend(RIG_KEY)};
    fake.pool = rig_pool(fake.backend);
    for (size_t i = 0; i < RIG_POOL; i++) {
        fake.pool[i] = (uint8_t)(i / 7);
    }
    fake.listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&at, sizeof(at)),
                     0);
    assert_int_equal(listen(fake.listener, 4), 0);
    struct tcp_blob blob = {
        RIG_THEIRS, RIG_POOL, port_of(fake.listener), "127.0.0.1", {6}};
    struct buf bytes;
    buf_init(&bytes, 1024);
    tcp_blob_encode(&blob, &bytes);
    assert_int_equal(transfer_backend_peer_open(fake.backend, buf_span(&bytes),
                                                RIG_POOL, NULL, &fake.peer),
                     OK);
    buf_finish(&bytes);
    fake.fd = accept(fake.listener, NULL, NULL);
    struct tcp_terms terms;
    uint8_t hello[TCP_HELLO_SIZE], challenge[TCP_CHALLENGE_SIZE];
    uint8_t proof[DIGEST_SHA256_SIZE], answer[TCP_PROOF_SIZE];
    assert_true(rig_read(fake.backend, fake.fd, hello, sizeof(hello)));
    assert_int_equal(tcp_hello_decode(hello, NULL, &terms), OK);
    assert_int_equal(terms.sender, RIG_OURS);
    assert_int_equal(terms.receiver, RIG_THEIRS);
    struct tcp_secret secret = tcp_secret_of(RIG_KEY, blob.nonce);
    terms.receiver_nonce[0] = 8;
    tcp_prove(&secret, &terms, false, proof);
    tcp_challenge_encode(&terms, proof, challenge);
    rig_send(fake.fd, challenge, sizeof(challenge));
    assert_true(rig_read(fake.backend, fake.fd, answer, sizeof(answer)));
    assert_int_equal(tcp_proof_decode(answer, NULL, proof), OK);
    assert_true(tcp_is_proof(&secret, &terms, true, proof));
    return fake;
}

static void close_fake(struct fake *fake)
{
    transfer_backend_peer_close(fake->peer);
    rig_end(fake->backend, fake->pool);
    close(fake->fd);
    close(fake->listener);
}

static struct tcp_head read_head(struct fake *fake)
{
    uint8_t bytes[TCP_HEAD_SIZE];
    struct tcp_head head = {0};
    assert_true(rig_read(fake->backend, fake->fd, bytes, sizeof(bytes)));
    assert_int_equal(tcp_head_decode(bytes, NULL, &head), OK);
    return head;
}

static void answer(struct fake *fake, uint64_t write, uint16_t flags)
{
    struct tcp_head ack = {TCP_ACK, write, RIG_TOKEN, 0, flags, 0};
    uint8_t bytes[TCP_HEAD_SIZE];
    tcp_head_encode(&ack, bytes);
    rig_send(fake->fd, bytes, sizeof(bytes));
}

static struct transfer_write *turn_until(struct fake *fake)
{
    struct transfer_write *write = NULL;
    bool is_busy;
    while (write == NULL) {
        write = transfer_backend_poll(fake->backend, &is_busy);
    }
    return write;
}

/* A piece longer than a frame: frames arrive whole and in order, their pieces
 * tile the target, the bytes are those of the source, the last says so; the
 * write is DONE only by the answer. */
static void a_long_piece_is_cut_into_frames(void **state)
{
    (void)state;
    struct fake fake = open_fake();
    uint64_t size = RIG_POOL - 100;
    struct transfer_piece piece = {50, 100, size, 0};
    struct transfer_write write = {.peer = fake.peer,
                                   .token = RIG_TOKEN,
                                   .pieces = &piece,
                                   .piece_count = 1};
    transfer_backend_write(fake.backend, &write);
    static uint8_t list[TCP_LIST_SIZE_MAX], payload[TCP_PAYLOAD_MAX];
    uint64_t done = 0;
    bool is_last = false;
    while (!is_last) {
        struct tcp_head head = read_head(&fake);
        struct tcp_piece cut;
        assert_int_equal(head.write, 1);
        assert_int_equal(head.token.rid, RIG_TOKEN.rid);
        assert_int_equal(head.piece_count, 1);
        assert_true(rig_read(fake.backend, fake.fd, list, tcp_list_size(1)));
        assert_int_equal(tcp_list_decode(list, &head, RIG_POOL, NULL, &cut),
                         OK);
        assert_int_equal(cut.offset, 100 + done);
        assert_true(
            rig_read(fake.backend, fake.fd, payload, head.payload_size));
        assert_memory_equal(payload, fake.pool + 50 + done, head.payload_size);
        done += head.payload_size;
        is_last = head.flags & TCP_LAST;
    }
    assert_int_equal(done, size);
    for (int i = 0; i < 10; i++) {
        rig_turn(fake.backend);
    }
    answer(&fake, 1, 0);
    assert_ptr_equal(turn_until(&fake), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
    assert_int_equal(piece.crc32c,
                     digest_crc32c(0, span_of(fake.pool + 50, size)));
    close_fake(&fake);
}

/* An answer to a write that was not finished, and one out of order: both end
 * the connection, and what was under way comes back STOPPED. */
static void answers_out_of_turn_end_the_connection(void **state)
{
    (void)state;
    for (uint64_t wrong = 0; wrong < 3; wrong += 2) {
        struct fake fake = open_fake();
        struct transfer_write write = {.peer = fake.peer, .token = RIG_TOKEN};
        transfer_backend_write(fake.backend, &write);
        assert_int_equal(read_head(&fake).flags, TCP_LAST);
        answer(&fake, wrong, 0);
        assert_ptr_equal(turn_until(&fake), &write);
        assert_int_equal(write.outcome, TRANSFER_STOPPED);
        close_fake(&fake);
    }
}

/* A refused write is STOPPED, and the connection goes on. */
static void a_refused_write_is_stopped(void **state)
{
    (void)state;
    struct fake fake = open_fake();
    for (uint64_t i = 1; i <= 2; i++) {
        struct transfer_write write = {.peer = fake.peer, .token = RIG_TOKEN};
        transfer_backend_write(fake.backend, &write);
        assert_int_equal(read_head(&fake).write, i);
        answer(&fake, i, i == 1 ? TCP_REFUSED : 0);
        assert_ptr_equal(turn_until(&fake), &write);
        assert_int_equal(write.outcome,
                         i == 1 ? TRANSFER_STOPPED : TRANSFER_DONE);
    }
    close_fake(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_piece_is_cut_into_frames),
        cmocka_unit_test(answers_out_of_turn_end_the_connection),
        cmocka_unit_test(a_refused_write_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
