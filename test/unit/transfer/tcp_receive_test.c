/* transfer/tcp_receive: what an admitted sender may do wrong, frame by frame. */
#include "tcp_rig.h"

static struct transfer_backend *backend;
static uint8_t *pool;
static int fd;

static int set_up(void **state)
{
    (void)state;
    backend = rig_backend(RIG_KEY);
    pool = rig_pool(backend);
    struct tcp_blob blob = rig_blob(backend, pool);
    rig_allow(backend, 1000, 5000);
    fd = rig_greet(backend, &blob);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(fd);
    rig_end(backend, pool);
    return 0;
}

static struct tcp_head read_ack(void)
{
    uint8_t bytes[TCP_HEAD_SIZE];
    struct tcp_head head = {0};
    assert_true(rig_read(backend, fd, bytes, sizeof(bytes)));
    assert_int_equal(tcp_head_decode(bytes, NULL, &head), OK);
    assert_int_equal(head.type, TCP_ACK);
    return head;
}

static bool is_dropped(void)
{
    uint8_t byte;
    return !rig_read(backend, fd, &byte, 1);
}

/* Several frames of one write get one answer, after the last. */
static void a_write_of_frames_is_answered_once(void **state)
{
    (void)state;
    struct tcp_head head = {TCP_WRITE, 1, RIG_TOKEN, 1, 0, 200};
    for (uint8_t i = 0; i < 3; i++) {
        struct tcp_piece piece = {1000u + 200u * i, 200};
        head.flags = i == 2 ? TCP_LAST : 0;
        rig_write(fd, &head, &piece, (uint8_t)(i + 1));
    }
    struct tcp_head ack = read_ack();
    assert_int_equal(ack.write, 1);
    assert_int_equal(ack.flags, 0);
    for (int i = 0; i < 600; i++) {
        assert_int_equal(pool[1000 + i], i / 200 + 1);
    }
    assert_int_equal(pool[999] | pool[1600], 0);
}

/* One of two pieces is one byte out of what is allowed: neither lands, nor does
 * a later frame of the same write; the next write is served. */
static void one_byte_too_far_refuses_the_write(void **state)
{
    (void)state;
    struct tcp_head head = {TCP_WRITE, 1, RIG_TOKEN, 2, 0, 300};
    struct tcp_piece pieces[2] = {{1000, 100}, {5801, 200}};
    rig_write(fd, &head, pieces, 7);
    struct tcp_head rest = {TCP_WRITE, 1, RIG_TOKEN, 1, TCP_LAST, 100};
    struct tcp_piece good = {2000, 100};
    rig_write(fd, &rest, &good, 7);
    assert_int_equal(read_ack().flags, TCP_REFUSED);
    for (int i = 0; i < RIG_POOL; i++) {
        assert_int_equal(pool[i], 0);
    }
    rest.write = 2;
    rig_write(fd, &rest, &good, 7);
    assert_int_equal(read_ack().flags, 0);
    assert_int_equal(pool[2099], 7);
}

/* The grant ends between two bytes of a payload: what is there stays, what
 * follows does not land. */
static void revoke_between_two_bytes_holds(void **state)
{
    (void)state;
    struct tcp_head head = {TCP_WRITE, 1, RIG_TOKEN, 1, TCP_LAST, 4000};
    struct tcp_piece piece = {1000, 4000};
    uint8_t bytes[TCP_HEAD_SIZE + TCP_ALIGNMENT];
    uint8_t payload[4000];
    memset(payload, 7, sizeof(payload));
    tcp_head_encode(&head, bytes);
    tcp_list_encode(&piece, 1, bytes + TCP_HEAD_SIZE);
    rig_send(fd, bytes, sizeof(bytes));
    rig_send(fd, payload, 1500);
    while (pool[2499] == 0) {
        rig_turn(backend);
    }
    transfer_backend_revoke(backend, RIG_THEIRS, RIG_TOKEN);
    memset(pool, 0xca, RIG_POOL);
    rig_send(fd, payload, 2500);
    assert_int_equal(read_ack().flags, TCP_REFUSED);
    for (int i = 0; i < RIG_POOL; i++) {
        assert_int_equal(pool[i], 0xca);
    }
}

/* The token of one sender is nothing in the mouth of another. */
static void another_senders_token_is_refused(void **state)
{
    (void)state;
    struct transfer_token theirs = {9, 9};
    struct transfer_range range = {0, RIG_POOL};
    assert_int_equal(
        transfer_backend_authorise(backend, RIG_THEIRS + 1, theirs, &range, 1),
        OK);
    struct tcp_head head = {TCP_WRITE, 1, theirs, 1, TCP_LAST, 10};
    struct tcp_piece piece = {0, 10};
    rig_write(fd, &head, &piece, 7);
    assert_int_equal(read_ack().flags, TCP_REFUSED);
    assert_int_equal(pool[0], 0);
}

/* Each breach of the order ends the connection, and nothing of it lands. */
static void breaches_end_the_connection(void **state)
{
    struct tcp_head heads[] = {
        {TCP_WRITE, 2, RIG_TOKEN, 1, TCP_LAST, 10}, /* not the next */
        {TCP_WRITE, 1, RIG_TOKEN, 1, TCP_LAST, 11}, /* not its pieces' size */
        {TCP_ACK, 1, RIG_TOKEN, 0, 0, 0}, /* not a sender's word */
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct tcp_piece piece = {1000, 10};
        rig_write(fd, &heads[i], &piece, 7);
        assert_true(is_dropped());
        assert_int_equal(pool[1000], 0);
        tear_down(state);
        set_up(state);
    }
    struct tcp_head head = {TCP_WRITE, 1, RIG_TOKEN, 1, TCP_LAST, 10};
    struct tcp_piece outside = {RIG_POOL - 9, 10};
    rig_write(fd, &head, &outside, 7);
    assert_true(is_dropped());
    assert_int_equal(pool[RIG_POOL - 1], 0);
}

enum { FLOOD = 200000, FLOOD_SIZE = FLOOD * TCP_HEAD_SIZE };

/* So many empty writes, one after the other. */
static uint8_t *make_flood(void)
{
    uint8_t *bytes = malloc(FLOOD_SIZE);
    for (uint64_t i = 0; i < FLOOD; i++) {
        struct tcp_head head = {TCP_WRITE, i + 1, RIG_TOKEN, 0, TCP_LAST, 0};
        tcp_head_encode(&head, bytes + i * TCP_HEAD_SIZE);
    }
    return bytes;
}

static size_t send_on(const uint8_t *flood, size_t sent)
{
    ssize_t got = sent == FLOOD_SIZE ? 0
                                     : send(fd, flood + sent, FLOOD_SIZE - sent,
                                            MSG_DONTWAIT | MSG_NOSIGNAL);
    return got > 0 ? (size_t)got : 0;
}

/* More empty writes than sockets hold answers for, and the sender reads none:
 * the receiver stops reading instead of piling answers up, so that the sender
 * gets stuck; once he reads, all are answered, in order. [transfer T82] */
static void unread_answers_hold_the_sender_back(void **state)
{
    (void)state;
    uint8_t *flood = make_flood();
    size_t sent = 0;
    for (int idle = 0; idle < 500; idle++) {
        size_t step = send_on(flood, sent);
        sent += step;
        idle = step > 0 ? 0 : idle;
        rig_turn(backend);
    }
    assert_true(sent < FLOOD_SIZE);
    static uint8_t answers[FLOOD_SIZE];
    size_t read = 0;
    while (read < FLOOD_SIZE) {
        sent += send_on(flood, sent);
        rig_turn(backend);
        ssize_t got = recv(fd, answers + read, FLOOD_SIZE - read, MSG_DONTWAIT);
        assert_true(got != 0);
        read += got > 0 ? (size_t)got : 0;
    }
    for (uint64_t i = 0; i < FLOOD; i++) {
        struct tcp_head head = {0};
        assert_int_equal(
            tcp_head_decode(answers + i * TCP_HEAD_SIZE, NULL, &head), OK);
        assert_int_equal(head.write, i + 1);
    }
    free(flood);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_write_of_frames_is_answered_once),
        TEST(one_byte_too_far_refuses_the_write),
        TEST(revoke_between_two_bytes_holds),
        TEST(another_senders_token_is_refused),
        TEST(breaches_end_the_connection),
        TEST(unread_answers_hold_the_sender_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
