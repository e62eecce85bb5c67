#include "unit/base/test.h"

#include "base/buf.h"

/* Under the address sanitizer too, refusal is the answer we want to see. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* The cap is exact, an addition goes in whole or not at all, and after the
 * first refusal nothing goes in. */
static void cap_is_exact_and_refusal_sticks(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 5);
    buf_add_string(&buf, "abc");
    buf_add_string(&buf, "def");
    assert_int_equal(buf_error(&buf), ERR_FULL);
    assert_string_equal(buf_string(&buf), "abc");
    buf_add_byte(&buf, 'x');
    assert_string_equal(buf_string(&buf), "abc");
    buf_reset(&buf);
    assert_int_equal(buf_error(&buf), OK);
    buf_add_string(&buf, "12345");
    assert_int_equal(buf_error(&buf), OK);
    buf_printf(&buf, "%d", 6);
    assert_int_equal(buf_error(&buf), ERR_FULL);
    buf_finish(&buf);
}

/* Sizes near the end of the number range are refusals, not wraps. */
static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, SIZE_MAX);
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(buf_error(&buf), ERR_FULL);
    buf_reset(&buf);
    assert_null(buf_reserve(&buf, SIZE_MAX / 4));
    assert_int_equal(buf_error(&buf), ERR_NO_MEMORY);
    buf_finish(&buf);
}

static void empty_buffer_reads_as_empty(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 10);
    assert_string_equal(buf_string(&buf), "");
    assert_int_equal(buf_span(&buf).size, 0);
    buf_add(&buf, NULL, 0);
    buf_drop_front(&buf, 0);
    assert_string_equal(buf_string(&buf), "");
    buf_finish(&buf);
}

/* Many small additions, a drop, and reserved bytes that only then count. */
static void content_grows_and_shrinks(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 100000);
    for (int i = 0; i < 2000; i++) {
        buf_printf(&buf, "%04d,", i);
    }
    assert_int_equal(buf.size, 10000);
    buf_drop_front(&buf, 9990);
    assert_string_equal(buf_string(&buf), "1998,1999,");
    uint8_t *at = buf_reserve(&buf, 100);
    memcpy(at, "xyz", 3);
    assert_int_equal(buf.size, 10);
    buf_commit(&buf, 3);
    assert_string_equal(buf_string(&buf), "1998,1999,xyz");
    buf_finish(&buf);
}

static void expect_json(const char *text, size_t size, const char *json)
{
    struct buf buf;
    buf_init(&buf, 1000);
    buf_add_json_string(&buf, span_of(text, size));
    assert_string_equal(buf_string(&buf), json);
    buf_finish(&buf);
}

#define EXPECT_JSON(text, json) expect_json(text, sizeof(text) - 1, json)

/* Escapes, good UTF-8 as it is, and each kind of bad UTF-8. */
static void json_string_is_always_valid(void **state)
{
    (void)state;
    EXPECT_JSON("", "\"\"");
    EXPECT_JSON("a\"\\\b\f\n\r\t/", "\"a\\\"\\\\\\b\\f\\n\\r\\t/\"");
    EXPECT_JSON("\0\x01\x1f\x7f", "\"\\u0000\\u0001\\u001f\\u007f\"");
    EXPECT_JSON("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
#define BAD "\xef\xbf\xbd"
    EXPECT_JSON("\x80", "\"" BAD "\"");
    EXPECT_JSON("\xc3", "\"" BAD "\"");
    EXPECT_JSON("\xc3"
                "a",
                "\"" BAD "a\"");
    EXPECT_JSON("\xc0\xaf", "\"" BAD BAD "\"");
    EXPECT_JSON("\xed\xa0\x80", "\"" BAD BAD BAD "\"");
    EXPECT_JSON("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\"");
    EXPECT_JSON("\xe2\x82", "\"" BAD BAD "\"");
    EXPECT_JSON("\xff", "\"" BAD "\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cap_is_exact_and_refusal_sticks),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(empty_buffer_reads_as_empty),
        cmocka_unit_test(content_grows_and_shrinks),
        cmocka_unit_test(json_string_is_always_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
