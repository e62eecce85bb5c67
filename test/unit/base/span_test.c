#include "unit/base/test.h"

#include "base/span.h"

/* Cut to what there is, whatever is asked for. */
static void slice_stays_inside(void **state)
{
    (void)state;
    struct span whole = span_of_string("abcdef");
    assert_true(span_equals_string(span_slice(whole, 2, 4), "cd"));
    assert_true(span_equals_string(span_slice(whole, 4, 100), "ef"));
    assert_int_equal(span_slice(whole, 100, 200).size, 0);
    assert_int_equal(span_slice(whole, 4, 2).size, 0);
    assert_int_equal(span_slice(span_of(NULL, 0), 0, 5).size, 0);
}

static void equality_is_of_bytes(void **state)
{
    (void)state;
    assert_true(span_equals(span_of("a\0b", 3), span_of("a\0b", 3)));
    assert_false(span_equals(span_of("a\0b", 3), span_of("a\0c", 3)));
    assert_true(span_equals(span_of(NULL, 0), span_of("x", 0)));
    assert_false(span_equals_string(span_of_string("ab"), "abc"));
}

static void prefix_may_be_empty_or_whole(void **state)
{
    (void)state;
    struct span text = span_of_string("data: x");
    assert_true(span_starts_with(text, ""));
    assert_true(span_starts_with(text, "data: x"));
    assert_false(span_starts_with(text, "data: xy"));
    assert_true(span_starts_with(span_of(NULL, 0), ""));
    assert_false(span_starts_with(span_of(NULL, 0), "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slice_stays_inside),
        cmocka_unit_test(equality_is_of_bytes),
        cmocka_unit_test(prefix_may_be_empty_or_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
