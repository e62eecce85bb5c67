/* wire/cancel and its strict length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cancel.h"

/* Both fields come back; every other length and a negative slice do not. */
static void cancel_comes_back_and_nothing_else_does(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 64);
    wire_cancel_encode(&(struct wire_cancel){5, 2}, &out);
    struct wire_cancel got;
    assert_int_equal(wire_cancel_decode(buf_span(&out), NULL, &got), OK);
    assert_int_equal(got.receiver_slice, 5);
    assert_int_equal(got.reason, 2);
    for (size_t size = 0; size < out.size; size++) {
        assert_int_equal(
            wire_cancel_decode(span_of(out.data, size), NULL, &got),
            ERR_CORRUPT);
    }
    out.data[7] = 0x80;
    assert_int_equal(wire_cancel_decode(buf_span(&out), NULL, &got),
                     ERR_CORRUPT);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_comes_back_and_nothing_else_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
