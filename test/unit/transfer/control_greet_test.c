/* transfer/control_greet: the opening end asks for a proof before it offers its
 * memory. The other end is a bare socket. */
#include "control_rig.h"

#include "base/log.h"

enum { THEM = 0xc };

struct door {
    int listener, fd;
    char endpoint[64];
};

static void open_door(struct door *door)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    door->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(door->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(door->listener, 4), 0);
    getsockname(door->listener, (struct sockaddr *)&at, &size);
    snprintf(door->endpoint, sizeof(door->endpoint), "tcp://127.0.0.1:%u",
             ntohs(at.sin_port));
}

static void close_door(struct door *door)
{
    close(door->fd);
    close(door->listener);
}

struct frame {
    struct wire_header header;
    uint8_t body[32768];
    size_t size;
};

/* The next frame said to us; false: there is none. */
static bool take(struct bench *bench, struct door *door, struct frame *frame)
{
    uint8_t head[WIRE_HEADER_SIZE];
    struct span body;
    size_t used;
    turns(bench);
    if (recv(door->fd, head, sizeof(head), MSG_DONTWAIT) != sizeof(head)) {
        return false;
    }
    uint8_t all[sizeof(frame->body)];
    size_t size = wire_frame_size(span_of(head, sizeof(head)));
    memcpy(all, head, sizeof(head));
    if (size > sizeof(head)) {
        ssize_t got = recv(door->fd, all + sizeof(head), size - sizeof(head),
                           MSG_DONTWAIT);
        assert_int_equal(got, size - sizeof(head));
    }
    assert_int_equal(wire_frame_decode(span_of(all, size), NULL, &frame->header,
                                       &body, &used),
                     OK);
    frame->size = body.size;
    memcpy(frame->body, body.data == NULL ? all : body.data, body.size);
    return true;
}

static void answer_as(struct bench *bench, struct door *door, uint16_t type,
                      struct span body)
{
    struct buf out;
    encode(&out, type, THEM, US, body);
    assert_int_equal(write(door->fd, out.data, out.size), out.size);
    buf_finish(&out);
    turns(bench);
}

struct opened {
    struct bench bench;
    struct door door;
    struct link *link;
    struct wire_greeting greeting;
    bool has_key;
};

static void hear_greet(struct opened *all)
{
    struct frame frame;
    struct wire_greet greet;
    all->door.fd = accept(all->door.listener, NULL, NULL);
    assert_true(take(&all->bench, &all->door, &frame));
    assert_int_equal(frame.header.type, WIRE_GREET);
    assert_int_equal(
        wire_greet_decode(span_of(frame.body, frame.size), NULL, &greet), OK);
    all->has_key = greet.has_key;
    all->greeting = (struct wire_greeting){US, THEM, {0}, {3}};
    memcpy(all->greeting.opener_nonce, greet.nonce, WIRE_NONCE_SIZE);
}

/* The control connects and has said its nonce. */
static void open_all(struct opened *all, const char *key)
{
    struct why why = {0};
    memset(all, 0, sizeof(*all));
    open_bench(&all->bench);
    all->bench.options.key = span_of_string(key);
    open_door(&all->door);
    assert_int_equal(control_connect(all->bench.control, all->door.endpoint,
                                     THEM, &why, &all->link),
                     OK);
    turns(&all->bench);
    hear_greet(all);
}

static void say_greeted(struct opened *all, const char *key, int wrong_bit)
{
    struct wire_greeted greeted = {.has_key = key[0] != 0, .nonce = {3}};
    struct buf body;
    wire_greeting_prove(span_of_string(key), &all->greeting, false,
                        greeted.proof);
    if (wrong_bit >= 0) {
        greeted.proof[wrong_bit / 8] ^= (uint8_t)(1 << wrong_bit % 8);
    }
    buf_init(&body, 256);
    wire_greeted_encode(&greeted, &body);
    answer_as(&all->bench, &all->door, WIRE_GREETED, buf_span(&body));
    buf_finish(&body);
}

static void close_all(struct opened *all)
{
    close_door(&all->door);
    close_bench(&all->bench);
}

/* The key is right at both ends: our proof is right too, and the address of our
 * memory leaves only behind it. */
static void memory_is_offered_to_who_holds_the_key(void **state)
{
    (void)state;
    struct opened all;
    struct frame frame;
    open_all(&all, "key");
    assert_true(all.has_key);
    assert_false(take(&all.bench, &all.door, &frame));
    say_greeted(&all, "key", -1);
    assert_true(take(&all.bench, &all.door, &frame));
    assert_int_equal(frame.header.type, WIRE_PROOF);
    assert_int_equal(frame.size, WIRE_PROOF_SIZE);
    assert_true(wire_greeting_is_proof(span_of_string("key"), &all.greeting,
                                       true, frame.body));
    assert_true(take(&all.bench, &all.door, &frame));
    assert_int_equal(frame.header.type, WIRE_REGISTER);
    assert_int_equal(all.bench.end_count, 0);
    close_all(&all);
}

/* Any other proof: they are told why, no proof of ours and no address leaves,
 * and whoever waits hears of a refusal. */
static void others_are_refused_and_learn_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *ours, *theirs, *words;
        int wrong_bit;
    } cases[] = {
        {"key", "yek", "the sender's is not the receiver's", -1},
        {"key", "", "the receiver has one, the sender has none", -1},
        {"", "key", "the sender has one, the receiver has none", -1},
        {"key", "key", "the sender's is not the receiver's", 0},
        {"key", "key", "the sender's is not the receiver's", 255},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct opened all;
        struct frame frame;
        struct why why;
        open_all(&all, cases[i].ours);
        say_greeted(&all, cases[i].theirs, cases[i].wrong_bit);
        assert_true(take(&all.bench, &all.door, &frame));
        assert_int_equal(frame.header.type, WIRE_REFUSED);
        wire_refusal_decode(span_of(frame.body, frame.size), &why);
        assert_non_null(strstr(why.text, cases[i].words));
        assert_string_equal(all.link->text, why.text);
        assert_true(all.link->is_refused);
        assert_false(take(&all.bench, &all.door, &frame));
        assert_int_equal(all.bench.stats.peers_denied, 1);
        assert_int_equal(all.bench.stats.peers_refused, 0);
        close_all(&all);
    }
}

/* Frames out of turn, and one that would be long, end the link. */
static void nothing_else_is_heard_before_a_proof(void **state)
{
    (void)state;
    static uint8_t large[8192];
    for (int i = 0; i < 3; i++) {
        struct opened all;
        open_all(&all, "key");
        if (i == 0) {
            answer_as(&all.bench, &all.door, WIRE_REGISTERED, span_of(NULL, 0));
        } else if (i == 1) {
            answer_as(&all.bench, &all.door, WIRE_GREETED,
                      span_of(large, sizeof(large)));
        } else {
            answer_as(&all.bench, &all.door, WIRE_GREETED, span_of(large, 5));
        }
        assert_int_equal(all.bench.end_count, 1);
        assert_int_equal(all.bench.registered_count, 0);
        assert_int_equal(all.bench.stats.connections_dropped, 1);
        close_all(&all);
    }
}

/* Cut off before a word, the link comes again, with another nonce, and gets
 * through; cut off each time, it ends after a while. */
static void who_is_crowded_out_comes_again(void **state)
{
    (void)state;
    for (int is_in_vain = 0; is_in_vain < 2; is_in_vain++) {
        struct opened all;
        uint32_t tries = 0;
        uint8_t first[WIRE_NONCE_SIZE];
        open_all(&all, "key");
        memcpy(first, all.greeting.opener_nonce, WIRE_NONCE_SIZE);
        while (all.bench.end_count == 0 && (is_in_vain || tries < 2)) {
            close(all.door.fd);
            turns(&all.bench);
            control_tick(all.bench.control,
                         io_loop_now(all.bench.loop) + 200000000u);
            turns(&all.bench);
            tries++;
            if (all.bench.end_count == 0) {
                hear_greet(&all);
                assert_memory_not_equal(all.greeting.opener_nonce, first,
                                        WIRE_NONCE_SIZE);
            }
        }
        assert_int_equal(tries, is_in_vain ? 9 : 2);
        if (!is_in_vain) {
            struct frame frame;
            say_greeted(&all, "key", -1);
            assert_true(take(&all.bench, &all.door, &frame));
            assert_int_equal(frame.header.type, WIRE_PROOF);
        }
        assert_int_equal(control_link_count(all.bench.control), !is_in_vain);
        close_all(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_offered_to_who_holds_the_key),
        cmocka_unit_test(others_are_refused_and_learn_nothing),
        cmocka_unit_test(who_is_crowded_out_comes_again),
        cmocka_unit_test(nothing_else_is_heard_before_a_proof),
    };
    log_setup(&(struct log_options){.level = LOG_ERROR});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
