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

/* Proof: what a file calls its keys cannot drive a terminal: bytes that are no
 * UTF-8, control characters and a character cut by the limit are spelt out or
 * left out; good characters stay. */
static void why_is_one_line_of_text(void **state)
{
    (void)state;
    struct why why = {{0}};
    IGNORE(why_say(&why, ERR_INVALID, "key %s", "a\xff\xc3(\x1b[2J\n\xc3\xa9"));
    assert_string_equal(why.text, "key a\\xff\\xc3(\\x1b[2J\\x0a\xc3\xa9");
    IGNORE(why_prefix(&why, ERR_INVALID, "f\x80"));
    assert_string_equal(why.text,
                        "f\\x80: key a\\xff\\xc3(\\x1b[2J\\x0a\xc3\xa9");
    char text[sizeof(why.text) + 1];
    memset(text, 'x', sizeof(text));
    memcpy(text + sizeof(why.text) - 2, "\xc3\xa9", 3);
    IGNORE(why_say(&why, ERR_INVALID, "%s", text));
    assert_int_equal(strlen(why.text), sizeof(why.text) - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name),
        cmocka_unit_test(why_carries_code_and_line),
        cmocka_unit_test(why_is_cut_to_fit),
        cmocka_unit_test(why_is_one_line_of_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
