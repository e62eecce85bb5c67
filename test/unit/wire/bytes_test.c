/* wire/bytes: numbers and their limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/bytes.h"

/* What is written reads back, little end first by the raw bytes. */
static void numbers_come_back(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 64);
    wire_write_u8(&out, 0xab);
    wire_write_u16(&out, 0x1234);
    wire_write_u32(&out, 0xdeadbeef);
    wire_write_u64(&out, UINT64_MAX - 1);
    assert_int_equal(out.data[1], 0x34);
    struct wire_reader reader = wire_reader_of(buf_span(&out));
    assert_int_equal(wire_read_u8(&reader), 0xab);
    assert_int_equal(wire_read_u16(&reader), 0x1234);
    assert_int_equal(wire_read_u32(&reader), 0xdeadbeef);
    assert_true(wire_read_u64(&reader) == UINT64_MAX - 1);
    assert_true(wire_reader_is_done(&reader));
    buf_finish(&out);
}

/* A read past the end is zero, marks the reader for good, and takes nothing
 * that would have fitted later. */
static void short_input_is_sticky(void **state)
{
    (void)state;
    uint8_t bytes[3] = {1, 2, 3};
    struct wire_reader reader = wire_reader_of(span_of(bytes, 3));
    assert_int_equal(wire_read_u32(&reader), 0);
    assert_int_equal(wire_read_u8(&reader), 0);
    assert_true(reader.is_short);
    assert_false(wire_reader_is_done(&reader));
    reader = wire_reader_of(span_of(NULL, 0));
    assert_true(wire_reader_is_done(&reader));
    assert_int_equal(wire_read_span(&reader, 1).size, 0);
    assert_true(reader.is_short);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(short_input_is_sticky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
