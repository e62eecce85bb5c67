/* transfer/tcp_wire: each message there and back, and each single bit of it
 * spoilt. [transfer T37] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/tcp_wire.h"

static const struct tcp_head HEAD = {TCP_WRITE, 77, {-5, 9}, 2, TCP_LAST, 300};
static const struct tcp_piece PIECES[2] = {{4096, 100}, {0, 200}};

static void head_goes_there_and_back(void **state)
{
    (void)state;
    uint8_t bytes[TCP_HEAD_SIZE];
    struct tcp_head head;
    struct why why;
    tcp_head_encode(&HEAD, bytes);
    assert_int_equal(tcp_head_decode(bytes, &why, &head), OK);
    assert_int_equal(head.type, TCP_WRITE);
    assert_int_equal(head.write, 77);
    assert_int_equal(head.token.rid, -5);
    assert_int_equal(head.token.attempt, 9);
    assert_int_equal(head.piece_count, 2);
    assert_int_equal(head.flags, TCP_LAST);
    assert_int_equal(head.payload_size, 300);
    for (int i = 0; i < 8 * TCP_HEAD_SIZE; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(tcp_head_decode(bytes, &why, &head), OK);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

/* A head that is well sealed and still breaks a limit is refused. */
static void heads_keep_their_limits(void **state)
{
    (void)state;
    struct tcp_head cases[] = {
        {TCP_WRITE, 1, {1, 1}, TCP_PIECES_MAX + 1, 0, 400},
        {TCP_WRITE, 1, {1, 1}, 1, 0, TCP_PAYLOAD_MAX + 1},
        {TCP_WRITE, 1, {1, 1}, 1, 0, 0},
        {TCP_WRITE, 1, {1, 1}, 0, TCP_LAST, 5},
        {TCP_WRITE, 1, {1, 1}, 0, 0, 0},
        {TCP_WRITE, 1, {1, 1}, 1, TCP_REFUSED, 5},
        {TCP_ACK, 1, {1, 1}, 1, 0, 5},
        {TCP_ACK, 1, {1, 1}, 0, TCP_LAST, 0},
        {TCP_HELLO, 1, {1, 1}, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[TCP_HEAD_SIZE];
        struct tcp_head head;
        struct why why;
        tcp_head_encode(&cases[i], bytes);
        assert_int_equal(tcp_head_decode(bytes, &why, &head), ERR_INVALID);
    }
}

static void list_must_fit_pool_and_payload(void **state)
{
    (void)state;
    uint8_t bytes[TCP_LIST_SIZE_MAX];
    struct tcp_piece pieces[2];
    struct why why;
    tcp_list_encode(PIECES, 2, bytes);
    assert_int_equal(tcp_list_decode(bytes, &HEAD, 4196, &why, pieces), OK);
    assert_int_equal(pieces[0].offset, 4096);
    assert_int_equal(pieces[0].size, 100);
    assert_int_equal(pieces[1].size, 200);
    assert_int_equal(tcp_list_decode(bytes, &HEAD, 4195, &why, pieces),
                     ERR_INVALID);
    struct tcp_head other = HEAD;
    other.payload_size = 301;
    assert_int_equal(tcp_list_decode(bytes, &other, 4196, &why, pieces),
                     ERR_INVALID);
    struct tcp_piece wild[2] = {{UINT64_MAX - 10, 100}, {0, 200}};
    tcp_list_encode(wild, 2, bytes);
    assert_int_equal(tcp_list_decode(bytes, &HEAD, 4196, &why, pieces),
                     ERR_INVALID);
    struct tcp_piece empty[2] = {{0, 0}, {0, 300}};
    tcp_list_encode(empty, 2, bytes);
    assert_int_equal(tcp_list_decode(bytes, &HEAD, 4196, &why, pieces),
                     ERR_INVALID);
    bytes[3] ^= 1;
    assert_int_equal(tcp_list_decode(bytes, &HEAD, 4196, &why, pieces),
                     ERR_CORRUPT);
}

/* Another key, nonce, incarnation or side makes another proof. */
static void proofs_cover_all_terms(void **state)
{
    (void)state;
    uint8_t nonce[TCP_NONCE_SIZE] = {1, 2, 3};
    uint8_t other_nonce[TCP_NONCE_SIZE] = {1, 2, 4};
    struct tcp_secret secret = tcp_secret_of(span_of_string("k"), nonce);
    struct tcp_terms terms = {5, 6, {7}, {8}};
    uint8_t proof[DIGEST_SHA256_SIZE];
    tcp_prove(&secret, &terms, true, proof);
    assert_true(tcp_is_proof(&secret, &terms, true, proof));
    assert_false(tcp_is_proof(&secret, &terms, false, proof));
    struct tcp_secret others[3] = {
        tcp_secret_of(span_of_string("l"), nonce),
        tcp_secret_of(span_of_string(""), nonce),
        tcp_secret_of(span_of_string("k"), other_nonce)};
    for (int i = 0; i < 3; i++) {
        assert_false(tcp_is_proof(&others[i], &terms, true, proof));
    }
    struct tcp_terms changed[4] = {terms, terms, terms, terms};
    changed[0].sender++;
    changed[1].receiver++;
    changed[2].sender_nonce[31]++;
    changed[3].receiver_nonce[31]++;
    for (int i = 0; i < 4; i++) {
        assert_false(tcp_is_proof(&secret, &changed[i], true, proof));
    }
}

static void greetings_go_there_and_back(void **state)
{
    (void)state;
    struct tcp_terms terms = {5, 6, {7}, {8}}, heard;
    uint8_t proof[DIGEST_SHA256_SIZE] = {9}, got[DIGEST_SHA256_SIZE];
    uint8_t hello[TCP_HELLO_SIZE], challenge[TCP_CHALLENGE_SIZE],
        answer[TCP_PROOF_SIZE];
    struct why why;
    tcp_hello_encode(&terms, hello);
    assert_int_equal(tcp_hello_decode(hello, &why, &heard), OK);
    assert_int_equal(heard.sender, 5);
    assert_int_equal(heard.receiver, 6);
    assert_memory_equal(heard.sender_nonce, terms.sender_nonce, 32);
    tcp_challenge_encode(&terms, proof, challenge);
    assert_int_equal(tcp_challenge_decode(challenge, &why, &heard, got), OK);
    assert_memory_equal(heard.receiver_nonce, terms.receiver_nonce, 32);
    assert_memory_equal(got, proof, sizeof(proof));
    tcp_proof_encode(proof, answer);
    assert_int_equal(tcp_proof_decode(answer, &why, got), OK);
    answer[20] ^= 4;
    assert_int_equal(tcp_proof_decode(answer, &why, got), ERR_CORRUPT);
    hello[4] ^= 4; /* another version is named as such, whatever its size */
    assert_int_equal(tcp_hello_decode(hello, &why, &heard), ERR_UNSUPPORTED);
}

static void blob_goes_there_and_back(void **state)
{
    (void)state;
    struct tcp_blob blob = {1, 4096, 80, "::1", {3}}, back;
    struct why why;
    struct buf bytes;
    buf_init(&bytes, 1024);
    tcp_blob_encode(&blob, &bytes);
    assert_int_equal(tcp_blob_decode(buf_span(&bytes), &why, &back), OK);
    assert_string_equal(back.host, "::1");
    assert_int_equal(back.port, 80);
    assert_int_equal(back.pool_size, 4096);
    for (size_t i = 0; i < 8 * bytes.size; i++) {
        bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(tcp_blob_decode(buf_span(&bytes), &why, &back),
                         ERR_INVALID);
        bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    buf_finish(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_goes_there_and_back),
        cmocka_unit_test(heads_keep_their_limits),
        cmocka_unit_test(list_must_fit_pool_and_payload),
        cmocka_unit_test(proofs_cover_all_terms),
        cmocka_unit_test(greetings_go_there_and_back),
        cmocka_unit_test(blob_goes_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
