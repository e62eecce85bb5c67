/* transfer/control and control_hello: what a peer's bytes do to a sender's
 * listener. The peer is a bare socket that writes what it likes. */
#include "control_rig.h"

#include "io/allow.h"

/* After the hello, frames of another life of the peer, or for another life of
 * ours, are counted and that is all; the right one is passed on. */
static void other_incarnations_have_no_effect(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    open_bench(&bench);
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
    assert_int_equal(bench.registered_count, 1);
    struct span none = span_of(NULL, 0);
    say(&bench, WIRE_CANCEL_SESSION, PEER + 1, US, none);
    say(&bench, WIRE_CANCEL_SESSION, PEER, US + 1, none);
    say(&bench, WIRE_CANCEL_SESSION, PEER, 0, none);
    assert_int_equal(bench.frame_count, 0);
    assert_int_equal(bench.stats.frames_dropped, 3);
    say(&bench, WIRE_CANCEL_SESSION, PEER, US, none);
    assert_int_equal(bench.frame_count, 1);
    assert_int_equal(bench.last.rid, 9);
    assert_int_equal(bench.end_count, 0);
    close_bench(&bench);
}

/* Anything between greeting and hello, and a second hello, end the link. */
static void frames_out_of_turn_end_the_link(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        struct bench bench;
        struct why why = {0};
        open_bench(&bench);
        if (after) {
            say_hello(&bench);
            assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
            say_info(&bench);
        } else {
            greet(&bench);
            say(&bench, WIRE_REQUEST_DATA, PEER, US, span_of(NULL, 0));
        }
        assert_int_equal(bench.end_count, 1);
        assert_int_equal(bench.frame_count, 0);
        assert_int_equal(bench.stats.connections_dropped, 1);
        assert_int_equal(control_link_count(bench.control), 0);
        close_bench(&bench);
    }
}

/* A hello that differs, whose pool cannot be mapped or is somebody else's, or of
 * another than whoever greeted, is answered with the field before the connection
 * ends. */
static void bad_hellos_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const words[] = {"", "head_dim", "incarnation",
                                        "the pool of another"};
    for (int fault = 0; fault < 4; fault++) {
        struct bench bench;
        struct why why = {0};
        open_bench(&bench);
        if (fault == 0) {
            buf_reset(&bench.peer.blob);
            buf_add_string(&bench.peer.blob, "nobody's memory");
        } else if (fault == 1) {
            bench.peer.info.groups[0].head_dim = 77;
        } else if (fault == 2) {
            bench.peer.info.incarnation = PEER + 1;
        } else {
            buf_reset(&bench.peer.blob);
            assert_int_equal(transfer_backend_export(bench.backend,
                                                     bench.options.memory,
                                                     bench.options.memory_size,
                                                     &why, &bench.peer.blob),
                             OK);
        }
        say_hello(&bench);
        assert_int_equal(answer(&bench, &why), WIRE_REFUSED);
        assert_non_null(strstr(why.text, words[fault]));
        assert_int_equal(bench.stats.peers_refused, 1);
        assert_int_equal(bench.registered_count, 0);
        shutdown(bench.fd, SHUT_WR);
        turns(&bench);
        assert_int_equal(bench.end_count, 1);
        close_bench(&bench);
    }
}

/* One wrong bit anywhere in a registered peer's frame ends its link; a frame
 * that is cut short by the end of the connection is never heard of. */
static void broken_frames_are_never_passed_on(void **state)
{
    (void)state;
    for (int at = 0; at <= WIRE_HEADER_SIZE; at += 4) {
        struct bench bench;
        struct why why = {0};
        struct buf out;
        open_bench(&bench);
        say_hello(&bench);
        assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
        encode(&out, WIRE_CANCEL_SESSION, PEER, US, span_of_string("x"));
        size_t size = out.size;
        if (at == WIRE_HEADER_SIZE) {
            size--;
        } else {
            ((uint8_t *)out.data)[at] ^= 0x10;
        }
        assert_int_equal(write(bench.fd, out.data, size), size);
        turns(&bench);
        shutdown(bench.fd, SHUT_WR);
        turns(&bench);
        assert_int_equal(bench.frame_count, 0);
        assert_int_equal(bench.end_count, 1);
        buf_finish(&out);
        close_bench(&bench);
    }
}

/* A list of hosts counts for who comes and for where we go, by host alone.
 * [transfer T29] */
static void hosts_that_are_not_allowed_are_not_met(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    struct link *link = NULL;
    struct io_allow *others = NULL, *local = NULL;
    char byte;
    assert_int_equal(
        io_allow_create(span_of_string("10.0.0.0/8,::1"), &why, &others), OK);
    assert_int_equal(
        io_allow_create(span_of_string("::ffff:127.0.0.1"), &why, &local), OK);
    open_bench(&bench);
    bench.options.allow = others;
    turns(&bench);
    assert_int_equal(recv(bench.fd, &byte, 1, MSG_DONTWAIT), 0);
    assert_int_equal(bench.stats.peers_refused, 1);
    assert_int_equal(control_link_count(bench.control), 0);
    assert_int_equal(
        control_connect(bench.control, "tcp://127.0.0.1:9", PEER, &why, &link),
        ERR_DENIED);
    assert_non_null(strstr(why.text, "127.0.0.1"));
    assert_int_equal(
        control_connect(bench.control, "tcp://localhost:9", PEER, &why, &link),
        ERR_DENIED);
    bench.options.allow = local;
    close(bench.fd);
    connect_to(&bench);
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
    assert_int_equal(
        control_connect(bench.control, "tcp://127.0.0.1:9", PEER, &why, &link),
        OK);
    close_bench(&bench);
    io_allow_destroy(others);
    io_allow_destroy(local);
}

/* What follows an endpoint, or goes before it, is no endpoint.
 * [transfer T29] */
static void endpoints_are_taken_to_the_letter(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"tcp://127.0.0.1:9\n",
                                        "tcp://127.0.0.1:9 ",
                                        " tcp://127.0.0.1:9",
                                        "tcp://0.0.0.0;127.0.0.1:9",
                                        "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:",
                                        "tcp://127.0.0.1:0",
                                        "tcp://127.0.0.1:99999",
                                        "tcp://:9",
                                        "ipc://127.0.0.1:9",
                                        "tcp://[::1:9",
                                        "tcp://::1:9"};
    struct bench bench;
    open_bench(&bench);
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        struct why why = {0};
        struct link *link = NULL;
        if (control_connect(bench.control, WRONG[i], PEER, &why, &link) !=
            ERR_INVALID) {
            fail_msg("%s is taken", WRONG[i]);
        }
        assert_non_null(strstr(why.text, "endpoint"));
    }
    close_bench(&bench);
}

/* What is held waits for the frame that follows, and comes before it; after that
 * frames go alone again. */
static void a_held_frame_leaves_with_the_next(void **state)
{
    (void)state;
    struct bench bench;
    struct why why = {0};
    uint8_t bytes[1024];
    struct wire_header header;
    struct span body, text = span_of_string("first");
    size_t used = 0;
    open_bench(&bench);
    say_hello(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_REGISTERED);
    control_hold(bench.link, WIRE_AUX_RESULT, 5, 2, text);
    turns(&bench);
    assert_int_equal(answer(&bench, &why), 0);
    assert_int_equal(
        control_send(bench.link, WIRE_KV_RESULT, 5, 2, span_of(NULL, 0)), OK);
    turns(&bench);
    ssize_t size = recv(bench.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    assert_true(size > 0);
    struct span all = span_of(bytes, (size_t)size);
    assert_int_equal(wire_frame_decode(all, &why, &header, &body, &used), OK);
    assert_int_equal(header.type, WIRE_AUX_RESULT);
    assert_int_equal(header.target_incarnation, PEER);
    assert_int_equal(body.size, text.size);
    all = span_of(bytes + used, (size_t)size - used);
    assert_int_equal(wire_frame_decode(all, &why, &header, &body, &used), OK);
    assert_int_equal(header.type, WIRE_KV_RESULT);
    assert_int_equal(header.rid, 5);
    assert_int_equal(used, all.size);
    assert_int_equal(
        control_send(bench.link, WIRE_KV_RESULT, 6, 2, span_of(NULL, 0)), OK);
    turns(&bench);
    assert_int_equal(answer(&bench, &why), WIRE_KV_RESULT);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_incarnations_have_no_effect),
        cmocka_unit_test(frames_out_of_turn_end_the_link),
        cmocka_unit_test(bad_hellos_are_refused_by_name),
        cmocka_unit_test(broken_frames_are_never_passed_on),
        cmocka_unit_test(hosts_that_are_not_allowed_are_not_met),
        cmocka_unit_test(endpoints_are_taken_to_the_letter),
        cmocka_unit_test(a_held_frame_leaves_with_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
