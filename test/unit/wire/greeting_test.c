/* wire/greeting: what a proof covers, and what its messages may look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/greeting.h"

static struct span key_of(const char *text)
{
    return span_of_string(text);
}

/* Each single bit of what a proof is made of changes it, at both ends. */
static void proofs_cover_each_bit(void **state)
{
    (void)state;
    for (int is_opener = 0; is_opener < 2; is_opener++) {
        struct wire_greeting greeting = {5, 6, {7}, {8}};
        uint8_t proof[WIRE_PROOF_SIZE];
        wire_greeting_prove(key_of("key"), &greeting, is_opener, proof);
        assert_true(
            wire_greeting_is_proof(key_of("key"), &greeting, is_opener, proof));
        uint8_t *bytes = (uint8_t *)&greeting;
        for (size_t bit = 0; bit < 8 * sizeof(greeting); bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(wire_greeting_is_proof(key_of("key"), &greeting,
                                                is_opener, proof));
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (size_t bit = 0; bit < 8 * sizeof(proof); bit++) {
            proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(wire_greeting_is_proof(key_of("key"), &greeting,
                                                is_opener, proof));
            proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

/* Another key, none, and a longer one of the same beginning are not the key; an
 * empty one proves to an empty one. */
static void only_the_same_key_proves(void **state)
{
    (void)state;
    const struct wire_greeting greeting = {5, 6, {7}, {8}};
    uint8_t proof[WIRE_PROOF_SIZE];
    wire_greeting_prove(key_of("key"), &greeting, true, proof);
    assert_false(wire_greeting_is_proof(key_of("kez"), &greeting, true, proof));
    assert_false(wire_greeting_is_proof(key_of(""), &greeting, true, proof));
    assert_false(
        wire_greeting_is_proof(key_of("key2"), &greeting, true, proof));
    wire_greeting_prove(span_of(NULL, 0), &greeting, true, proof);
    assert_true(wire_greeting_is_proof(key_of(""), &greeting, true, proof));
}

/* What one end says is nothing that it could be answered with. */
static void nobodys_proof_is_his_own_answer(void **state)
{
    (void)state;
    const struct wire_greeting greeting = {5, 5, {7}, {7}};
    uint8_t proof[WIRE_PROOF_SIZE];
    for (int is_opener = 0; is_opener < 2; is_opener++) {
        wire_greeting_prove(key_of("key"), &greeting, is_opener, proof);
        assert_false(wire_greeting_is_proof(key_of("key"), &greeting,
                                            !is_opener, proof));
    }
}

/* Each body comes back; one byte less or more, or a flag of 2, is refused. */
static void bodies_have_one_form(void **state)
{
    (void)state;
    struct wire_greet greet = {true, {1, 2}}, greet_again;
    struct wire_greeted greeted = {true, {3}, {4}}, greeted_again;
    uint8_t proof[WIRE_PROOF_SIZE] = {5}, proof_again[WIRE_PROOF_SIZE];
    struct buf out;
    struct why why = {{0}};
    buf_init(&out, 256);
    wire_greet_encode(&greet, &out);
    assert_int_equal(wire_greet_decode(buf_span(&out), &why, &greet_again), OK);
    assert_memory_equal(&greet, &greet_again, sizeof(greet));
    out.data[0] = 2;
    assert_int_equal(wire_greet_decode(buf_span(&out), &why, &greet_again),
                     ERR_CORRUPT);
    buf_reset(&out);
    wire_greeted_encode(&greeted, &out);
    assert_int_equal(wire_greeted_decode(buf_span(&out), &why, &greeted_again),
                     OK);
    assert_memory_equal(&greeted, &greeted_again, sizeof(greeted));
    for (size_t size = 0; size <= out.size; size++) {
        struct span part = span_of(out.data, size);
        assert_int_equal(wire_greet_decode(part, &why, &greet_again),
                         size == 33 ? OK : ERR_CORRUPT);
        assert_int_equal(wire_greeted_decode(part, &why, &greeted_again),
                         size == 65 ? OK : ERR_CORRUPT);
        assert_int_equal(wire_proof_decode(part, &why, proof_again),
                         size == 32 ? OK : ERR_CORRUPT);
    }
    buf_reset(&out);
    wire_proof_encode(proof, &out);
    assert_int_equal(wire_proof_decode(buf_span(&out), &why, proof_again), OK);
    assert_memory_equal(proof, proof_again, sizeof(proof));
    buf_finish(&out);
}

/* Whoever lacks the key is named, and nobody where both have one. */
static void the_end_without_a_key_is_named(void **state)
{
    (void)state;
    static const struct {
        bool opener, server;
        const char *words;
    } cases[] = {{true, false, "the receiver has one, the sender has none"},
                 {false, true, "the sender has one, the receiver has none"},
                 {true, true, "the sender's is not the receiver's"},
                 {false, false, "none at both ends"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct why why = {{0}};
        assert_int_equal(
            wire_greeting_deny(cases[i].opener, cases[i].server, &why),
            ERR_DENIED);
        assert_non_null(strstr(why.text, "internal auth key differs"));
        assert_non_null(strstr(why.text, cases[i].words));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs_cover_each_bit),
        cmocka_unit_test(only_the_same_key_proves),
        cmocka_unit_test(nobodys_proof_is_his_own_answer),
        cmocka_unit_test(bodies_have_one_form),
        cmocka_unit_test(the_end_without_a_key_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
