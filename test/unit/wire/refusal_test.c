/* wire/refusal: a line for a log, whatever the bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/refusal.h"

/* The line comes back; control bytes and length cannot hurt a log. */
static void refusal_is_always_one_clean_line(void **state)
{
    (void)state;
    struct why why = {.text = "host: differs"}, got;
    struct buf out;
    buf_init(&out, 4096);
    wire_refusal_encode(&why, &out);
    wire_refusal_decode(buf_span(&out), &got);
    assert_string_equal(got.text, "host: differs");
    uint8_t noise[2000];
    memset(noise, '\n', sizeof(noise));
    noise[0] = 'a';
    wire_refusal_decode(span_of(noise, sizeof(noise)), &got);
    assert_int_equal(strlen(got.text), sizeof(got.text) - 1);
    assert_null(strchr(got.text, '\n'));
    wire_refusal_decode(span_of(NULL, 0), &got);
    assert_string_equal(got.text, "");
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusal_is_always_one_clean_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
