/* wire/pack: our reader against what the library writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <msgpack.h>

#include "base/rng.h"
#include "wire/pack.h"

/* Integers of every width at every border, written by the library. */
static void integers_of_all_widths_come_back(void **state)
{
    (void)state;
    for (int shift = 0; shift < 64; shift++) {
        for (int delta = -1; delta <= 1; delta++) {
            int64_t number =
                (int64_t)((UINT64_C(1) << shift) + (uint64_t)delta);
            struct buf out;
            buf_init(&out, 32);
            wire_pack_int(&out, number);
            struct span input = buf_span(&out);
            struct wire_value value;
            assert_int_equal(wire_unpack(&input, &value), OK);
            assert_int_equal(input.size, 0);
            assert_int_equal(value.kind, number < 0 ? WIRE_INT : WIRE_UINT);
            assert_true((int64_t)value.number == number);
            buf_finish(&out);
        }
    }
}

/* Texts and byte strings on both sides of every length form. */
static void strings_of_all_lengths_come_back(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 31, 32, 255, 256, 65535, 65536};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *text = malloc(sizes[i] + 1);
        memset(text, 'x', sizes[i]);
        text[sizes[i]] = 0;
        struct buf out;
        buf_init(&out, 1 << 20);
        wire_pack_text(&out, text);
        wire_pack_bytes(&out, span_of_string(text));
        struct span input = buf_span(&out);
        struct wire_value value;
        assert_int_equal(wire_unpack(&input, &value), OK);
        assert_int_equal(value.kind, WIRE_TEXT);
        assert_int_equal(value.bytes.size, sizes[i]);
        assert_int_equal(wire_unpack(&input, &value), OK);
        assert_int_equal(value.kind, WIRE_BYTES);
        assert_true(span_equals_string(value.bytes, text));
        buf_finish(&out);
        free(text);
    }
}

/* Every first byte followed by noise: where the library, on input it can hold,
 * finds one value, skip finds the same length. */
static void skip_agrees_with_the_library(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(3);
    for (int lead = 0; lead < 256; lead++) {
        for (int round = 0; round < 20; round++) {
            char bytes[600];
            for (size_t i = 0; i < sizeof(bytes); i++) {
                bytes[i] = (char)(rng_next(&rng) % 0x60);
            }
            bytes[0] = (char)lead;
            bytes[1] = 0; /* counts stay small enough for the library */
            msgpack_unpacked unpacked;
            msgpack_unpacked_init(&unpacked);
            size_t used = 0;
            msgpack_unpack_return got =
                msgpack_unpack_next(&unpacked, bytes, sizeof(bytes), &used);
            struct span input = span_of(bytes, sizeof(bytes));
            enum err err = wire_unpack_skip(&input);
            if (got == MSGPACK_UNPACK_SUCCESS) {
                assert_int_equal(err, OK);
                assert_int_equal(sizeof(bytes) - input.size, used);
            } else {
                assert_int_not_equal(err, OK);
            }
            msgpack_unpacked_destroy(&unpacked);
        }
    }
}

/* A count larger than the input, endless nesting, and nothing at all. */
static void bombs_are_refused(void **state)
{
    (void)state;
    struct wire_value value;
    struct span input = span_of("\xdd\xff\xff\xff\xff", 5);
    assert_int_equal(wire_unpack(&input, &value), ERR_CORRUPT);
    assert_int_equal(input.size, 5);
    uint8_t nested[200];
    memset(nested, 0x91, sizeof(nested));
    input = span_of(nested, sizeof(nested));
    assert_int_equal(wire_unpack_skip(&input), ERR_CORRUPT);
    input = span_of(NULL, 0);
    assert_int_equal(wire_unpack(&input, &value), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_all_widths_come_back),
        cmocka_unit_test(strings_of_all_lengths_come_back),
        cmocka_unit_test(skip_agrees_with_the_library),
        cmocka_unit_test(bombs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
