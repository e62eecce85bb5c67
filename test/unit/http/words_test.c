#include "unit/io/test.h"

#include "http/words.h"

/* The instant RFC 9110 itself uses. */
static void date_is_in_the_fixed_form(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 100);
    http_add_date(&out, 784111777000u);
    assert_string_equal(buf_string(&out),
                        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    buf_finish(&out);
}

static void field_cannot_begin_a_second_line(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 100);
    http_add_field(&out, "X", "a\r\nY: b\x7f");
    assert_string_equal(buf_string(&out), "X: a  Y: b \r\n");
    buf_finish(&out);
}

static void statuses_have_words_and_bodies(void **state)
{
    (void)state;
    assert_string_equal(http_status_words(431),
                        "Request Header Fields Too Large");
    assert_string_equal(http_status_words(299), "Status");
    assert_true(http_status_has_body(200));
    assert_true(http_status_has_body(503));
    assert_false(http_status_has_body(204));
    assert_false(http_status_has_body(304));
    assert_false(http_status_has_body(100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(date_is_in_the_fixed_form),
        cmocka_unit_test(field_cannot_begin_a_second_line),
        cmocka_unit_test(statuses_have_words_and_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
