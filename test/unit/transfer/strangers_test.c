/* transfer/strangers: who gets through, and what becomes of those who do not.
 * The other ends are bare sockets that write what they like. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "transfer/strangers.h"
#include "wire/frame.h"
#include "wire/refusal.h"

enum { US = 0xa, PEER = 0xb };
enum { CROWD = 200 };
static const uint64_t SECOND_NS = 1000000000u;

struct rig {
    struct io_loop *loop;
    struct io_listener *listener;
    struct transfer_options options;
    struct transfer_stats stats;
    struct strangers *strangers;
    bool is_full; /* nobody more is taken */
    uint32_t proven_count;
    uint64_t proven;
    char rest[16];
};

static void ignore_read(void *context, struct span bytes)
{
    (void)context, (void)bytes;
}

static void ignore_close(void *context, enum err reason, const char *text)
{
    (void)context, (void)reason, (void)text;
}

static const struct io_stream_handler quiet = {.on_read = ignore_read,
                                               .on_close = ignore_close};

static enum err on_proven(void *context, struct io_stream *stream,
                          uint64_t incarnation, struct span rest,
                          struct why *why)
{
    struct rig *rig = context;
    if (rig->is_full) {
        return why_say(why, ERR_FULL, "no place for more");
    }
    rig->proven_count++;
    rig->proven = incarnation;
    snprintf(rig->rest, sizeof(rig->rest), "%.*s", (int)rest.size,
             (const char *)rest.data);
    io_stream_set_handler(stream, &quiet, NULL);
    io_stream_close(stream, false);
    return OK;
}

static void on_accept(void *context, struct io_stream *stream)
{
    strangers_add(((struct rig *)context)->strangers, stream);
}

static void open_rig(struct rig *rig, const char *key)
{
    struct why why = {{0}};
    *rig = (struct rig){
        .options = {.incarnation = US, .key = span_of_string(key)}};
    assert_int_equal(io_loop_create(&rig->loop), OK);
    rig->strangers =
        strangers_create(&(struct strangers_options){.loop = rig->loop,
                                                     .transfer = &rig->options,
                                                     .stats = &rig->stats,
                                                     .on_proven = on_proven,
                                                     .context = rig});
    const struct io_listener_options listen = {
        .host = "127.0.0.1", .on_accept = on_accept, .context = rig};
    assert_int_equal(io_listener_open(rig->loop, &listen, &why, &rig->listener),
                     OK);
}

static void close_rig(struct rig *rig)
{
    strangers_shut(rig->strangers);
    while (!strangers_is_closed(rig->strangers)) {
        io_loop_turn(rig->loop, 1000000);
    }
    strangers_destroy(rig->strangers);
    io_listener_close(rig->listener);
    io_loop_turn(rig->loop, 0);
    io_loop_destroy(rig->loop);
}

static int come(struct rig *rig)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port =
                                 htons(io_listener_port(rig->listener))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void add_frame(struct buf *out, uint16_t type, uint64_t source,
                      struct span body)
{
    const struct wire_header header = {.type = type,
                                       .source_incarnation = source};
    assert_int_equal(wire_frame_encode(&header, body, out), OK);
}

static void say(struct rig *rig, int fd, struct span bytes)
{
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    for (int i = 0; i < 3; i++) {
        io_loop_turn(rig->loop, 1000000);
    }
}

static void say_frame(struct rig *rig, int fd, uint16_t type, uint64_t source,
                      struct span body)
{
    struct buf out;
    buf_init(&out, 4096);
    add_frame(&out, type, source, body);
    say(rig, fd, buf_span(&out));
    buf_finish(&out);
}

/* What lies there: a frame, nothing yet (0), or the end (-1). */
struct heard {
    int type;
    uint64_t source;
    struct wire_greeted greeted;
    struct why why;
};

static struct heard hear(struct rig *rig, int fd)
{
    struct heard heard = {0};
    uint8_t bytes[1024];
    ssize_t size = -1;
    for (int i = 0; i < 500 && size < 0; i++) {
        size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            io_loop_turn(rig->loop, 1000000);
        } else if (size <= 0) {
            return (struct heard){.type = -1};
        }
    }
    if (size < 0) {
        return heard;
    }
    struct wire_header header;
    struct span body;
    size_t used;
    assert_int_equal(wire_frame_decode(span_of(bytes, (size_t)size), NULL,
                                       &header, &body, &used),
                     OK);
    heard.type = header.type;
    heard.source = header.source_incarnation;
    if (header.type == WIRE_REFUSED) {
        wire_refusal_decode(body, &heard.why);
    } else {
        assert_int_equal(wire_greeted_decode(body, NULL, &heard.greeted), OK);
    }
    return heard;
}

static void say_greet(struct rig *rig, int fd, bool has_key, uint8_t nonce)
{
    struct wire_greet greet = {has_key, {nonce}};
    struct buf body;
    buf_init(&body, 64);
    wire_greet_encode(&greet, &body);
    say_frame(rig, fd, WIRE_GREET, PEER, buf_span(&body));
    buf_finish(&body);
}

/* Greets as one who holds `key`; the proof due next. */
static void greet(struct rig *rig, int fd, const char *key,
                  uint8_t proof_out[WIRE_PROOF_SIZE])
{
    say_greet(rig, fd, key[0] != 0, 7);
    struct heard heard = hear(rig, fd);
    assert_int_equal(heard.type, WIRE_GREETED);
    assert_int_equal(heard.source, US);
    struct wire_greeting greeting = {PEER, US, {7}, {0}};
    memcpy(greeting.server_nonce, heard.greeted.nonce, WIRE_NONCE_SIZE);
    wire_greeting_prove(span_of_string(key), &greeting, true, proof_out);
    assert_int_equal(heard.greeted.has_key, rig->options.key.size > 0);
    assert_true(wire_greeting_is_proof(rig->options.key, &greeting, false,
                                       heard.greeted.proof));
}

static void say_proof(struct rig *rig, int fd,
                      const uint8_t proof[WIRE_PROOF_SIZE])
{
    say_frame(rig, fd, WIRE_PROOF, PEER, span_of(proof, WIRE_PROOF_SIZE));
}

static void expect_denied(struct rig *rig, int fd, const char *words)
{
    struct heard heard = hear(rig, fd);
    assert_int_equal(heard.type, WIRE_REFUSED);
    assert_non_null(strstr(heard.why.text, words));
    assert_int_equal(rig->proven_count, 0);
    close(fd);
    for (int i = 0; i < 3; i++) {
        io_loop_turn(rig->loop, 1000000);
    }
    assert_int_equal(strangers_count(rig->strangers), 0);
}

/* One with the key gets through, also where none is the key, and what it said in
 * one breath with its proof is passed on. */
static void who_holds_the_key_gets_through(void **state)
{
    (void)state;
    static const char *const keys[] = {"", "a key of us all"};
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        uint8_t proof[WIRE_PROOF_SIZE];
        struct buf out;
        open_rig(&rig, keys[i]);
        int fd = come(&rig);
        greet(&rig, fd, keys[i], proof);
        buf_init(&out, 4096);
        add_frame(&out, WIRE_PROOF, PEER, span_of(proof, sizeof(proof)));
        buf_add_string(&out, "and more");
        say(&rig, fd, buf_span(&out));
        assert_int_equal(rig.proven_count, 1);
        assert_int_equal(rig.proven, PEER);
        assert_string_equal(rig.rest, "and more");
        assert_int_equal(strangers_count(rig.strangers), 0);
        assert_int_equal(rig.stats.peers_denied + rig.stats.strangers_cut, 0);
        buf_finish(&out);
        close(fd);
        close_rig(&rig);
    }
}

/* Another key, none where there is one, and one where there is none: refused,
 * with who lacks it. */
static void other_keys_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *ours, *theirs, *words;
    } cases[] = {
        {"key", "", "the sender has one, the receiver has none"},
        {"", "key", "the receiver has one, the sender has none"},
        {"key", "yek", "the sender's is not the receiver's"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        struct wire_greeting greeting = {PEER, US, {7}, {0}};
        uint8_t proof[WIRE_PROOF_SIZE];
        open_rig(&rig, cases[i].ours);
        int fd = come(&rig);
        say_greet(&rig, fd, cases[i].theirs[0] != 0, 7);
        if (cases[i].ours[0] != 0 && cases[i].theirs[0] != 0) {
            struct heard heard = hear(&rig, fd);
            memcpy(greeting.server_nonce, heard.greeted.nonce, WIRE_NONCE_SIZE);
            wire_greeting_prove(span_of_string(cases[i].theirs), &greeting,
                                true, proof);
            say_proof(&rig, fd, proof);
        }
        expect_denied(&rig, fd, cases[i].words);
        assert_int_equal(rig.stats.peers_denied, 1);
        close_rig(&rig);
    }
}

/* Each single wrong bit of what the other end proves is refused. */
static void each_wrong_bit_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "key");
    for (int bit = 0; bit < 8 * WIRE_PROOF_SIZE; bit++) {
        uint8_t proof[WIRE_PROOF_SIZE];
        int fd = come(&rig);
        greet(&rig, fd, "key", proof);
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        say_proof(&rig, fd, proof);
        expect_denied(&rig, fd, "internal auth key differs");
    }
    assert_int_equal(rig.stats.peers_denied, 8 * WIRE_PROOF_SIZE);
    close_rig(&rig);
}

/* What once was right, said again word for word, is refused: our nonce is
 * another. So is our own proof, given back to us. */
static void old_words_and_our_own_prove_nothing(void **state)
{
    (void)state;
    struct rig rig;
    uint8_t old[WIRE_PROOF_SIZE], unused[WIRE_PROOF_SIZE];
    open_rig(&rig, "key");
    int fd = come(&rig);
    greet(&rig, fd, "key", old);
    close(fd);
    fd = come(&rig);
    greet(&rig, fd, "key", unused);
    say_proof(&rig, fd, old);
    expect_denied(&rig, fd, "internal auth key differs");
    fd = come(&rig);
    say_greet(&rig, fd, true, 7);
    struct heard heard = hear(&rig, fd);
    say_proof(&rig, fd, heard.greeted.proof);
    expect_denied(&rig, fd, "internal auth key differs");
    assert_int_equal(rig.stats.peers_denied, 2);
    close_rig(&rig);
}

/* An older version, and one more peer than there is room for, are told so.
 * [transfer T89] */
static void refusals_name_their_cause(void **state)
{
    (void)state;
    struct rig rig;
    uint8_t proof[WIRE_PROOF_SIZE];
    struct buf out;
    open_rig(&rig, "key");
    buf_init(&out, 4096);
    add_frame(&out, WIRE_REGISTER, PEER, span_of_string("as it was"));
    out.data[4] = WIRE_VERSION - 1;
    int fd = come(&rig);
    say(&rig, fd, buf_span(&out));
    expect_denied(&rig, fd, "version 2");
    rig.is_full = true;
    fd = come(&rig);
    greet(&rig, fd, "key", proof);
    say_proof(&rig, fd, proof);
    expect_denied(&rig, fd, "no place for more");
    assert_int_equal(rig.stats.peers_refused, 2);
    assert_int_equal(rig.stats.peers_denied, 0);
    buf_finish(&out);
    close_rig(&rig);
}

/* Bytes of no protocol, frames out of turn, a frame that would be long, a body
 * that is none: each ends its connection at once. */
static void strange_words_end_their_connection(void **state)
{
    (void)state;
    struct rig rig;
    struct buf words[6];
    static const uint8_t large[WIRE_BODY_SIZE_MAX / 2];
    open_rig(&rig, "key");
    for (size_t i = 0; i < 6; i++) {
        buf_init(&words[i], WIRE_BODY_SIZE_MAX);
    }
    buf_add_string(&words[0], "GET / HTTP/1.1\r\n\r\n");
    add_frame(&words[1], WIRE_REGISTER, PEER, span_of(NULL, 0));
    add_frame(&words[2], WIRE_PROOF, PEER, span_of(large, WIRE_PROOF_SIZE));
    add_frame(&words[3], WIRE_GREET, PEER, span_of(large, sizeof(large)));
    add_frame(&words[4], WIRE_GREET, PEER, span_of_string("too short"));
    add_frame(&words[5], WIRE_GREET, 0, span_of(large, 33));
    for (size_t i = 0; i < 6; i++) {
        int fd = come(&rig);
        size_t size = words[i].size < 1024 ? words[i].size : 1024;
        say(&rig, fd, span_of(words[i].data, size));
        assert_int_equal(hear(&rig, fd).type, -1);
        assert_int_equal(rig.stats.strangers_cut, i + 1);
        assert_int_equal(strangers_count(rig.strangers), 0);
        close(fd);
        buf_finish(&words[i]);
    }
    assert_int_equal(rig.proven_count, 0);
    close_rig(&rig);
}

/* More than there are places for, who say nothing or only half: the oldest make
 * room, one with the key gets through among them, and once their time is over
 * none is left. */
static void a_crowd_is_bounded_and_keeps_no_peer_out(void **state)
{
    (void)state;
    struct rig rig;
    uint8_t proof[WIRE_PROOF_SIZE];
    int crowd[CROWD];
    open_rig(&rig, "key");
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = come(&rig);
        say(&rig, crowd[i], i % 2 ? span_of_string("BTN1") : span_of(NULL, 0));
        assert_true(strangers_count(rig.strangers) <= STRANGER_COUNT_MAX);
    }
    assert_int_equal(rig.stats.strangers_cut, CROWD - STRANGER_COUNT_MAX);
    int fd = come(&rig);
    greet(&rig, fd, "key", proof);
    say_proof(&rig, fd, proof);
    assert_int_equal(rig.proven_count, 1);
    uint64_t now = io_loop_now(rig.loop);
    uint32_t left = strangers_count(rig.strangers);
    assert_int_equal(left, STRANGER_COUNT_MAX - 1);
    strangers_tick(rig.strangers, now + 3 * SECOND_NS);
    assert_int_equal(strangers_count(rig.strangers), 0);
    assert_int_equal(rig.stats.strangers_cut, CROWD);
    for (int i = 0; i < CROWD; i++) {
        close(crowd[i]);
    }
    close(fd);
    close_rig(&rig);
}

/* A nonce is never said twice; handed a seed, nonces follow from it. */
static void nonces_are_fresh_or_follow_from_a_seed(void **state)
{
    (void)state;
    struct rig rig[2];
    uint8_t nonces[4][WIRE_NONCE_SIZE];
    for (int i = 0; i < 2; i++) {
        open_rig(&rig[i], "");
        strangers_nonce(rig[i].strangers, nonces[2 * i]);
        strangers_nonce(rig[i].strangers, nonces[2 * i + 1]);
        assert_memory_not_equal(nonces[2 * i], nonces[2 * i + 1],
                                WIRE_NONCE_SIZE);
    }
    assert_memory_not_equal(nonces[0], nonces[2], WIRE_NONCE_SIZE);
    for (int i = 0; i < 2; i++) {
        rig[i].options.chance = 5;
        strangers_nonce(rig[i].strangers, nonces[2 * i]);
        strangers_nonce(rig[i].strangers, nonces[2 * i + 1]);
        close_rig(&rig[i]);
    }
    assert_memory_equal(nonces[0], nonces[2], 2 * WIRE_NONCE_SIZE);
    assert_memory_not_equal(nonces[0], nonces[1], WIRE_NONCE_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_holds_the_key_gets_through),
        cmocka_unit_test(other_keys_are_refused_by_name),
        cmocka_unit_test(each_wrong_bit_is_refused),
        cmocka_unit_test(old_words_and_our_own_prove_nothing),
        cmocka_unit_test(refusals_name_their_cause),
        cmocka_unit_test(strange_words_end_their_connection),
        cmocka_unit_test(a_crowd_is_bounded_and_keeps_no_peer_out),
        cmocka_unit_test(nonces_are_fresh_or_follow_from_a_seed),
    };
    log_setup(&(struct log_options){.level = LOG_ERROR});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
