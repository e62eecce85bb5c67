#include "unit/base/test.h"

#include "base/err.h"

/* All codes have different names, and what is no code has none. */
static void every_code_has_a_name(void **state)
{
    (void)state;
    for (int a = 0; a < ERR_COUNT; a++) {
        assert_string_not_equal(err_name((enum err)a), "unknown");
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(err_name((enum err)a),
                                    err_name((enum err)b));
        }
    }
    assert_string_equal(err_name(ERR_COUNT), "unknown");
    assert_string_equal(err_name((enum err) - 1), "unknown");
}

static void why_carries_code_and_line(void **state)
{
    (void)state;
    struct why why = {{0}};
    assert_int_equal(why_say(&why, ERR_INVALID, "port: %d is too large", 70000),
                     ERR_INVALID);
    assert_int_equal(why_prefix(&why, ERR_INVALID, "file %s", "a.yaml"),
                     ERR_INVALID);
    assert_string_equal(why.text, "file a.yaml: port: 70000 is too large");
    assert_int_equal(why_say(NULL, ERR_FULL, "x"), ERR_FULL);
    assert_int_equal(why_prefix(NULL, ERR_FULL, "x"), ERR_FULL);
}

/* Longer than the line: cut, ended, never over its border. */
static void why_is_cut_to_fit(void **state)
{
    (void)state;
    struct why why = {{0}};
    IGNORE(why_say(&why, ERR_INVALID, "%01000d", 1));
    assert_int_equal(strlen(why.text), sizeof(why.text) - 1);
    IGNORE(why_prefix(&why, ERR_INVALID, "%01000d", 1));
    assert_int_equal(strlen(why.text), sizeof(why.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name),
        cmocka_unit_test(why_carries_code_and_line),
        cmocka_unit_test(why_is_cut_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
