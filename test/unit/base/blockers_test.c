/* base/blockers: all that fit, in order, and how many did not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/blockers.h"

/* Nothing against it, one thing, two. */
static void reasons_stand_in_one_line(void **state)
{
    (void)state;
    struct blockers blockers = {0};
    struct why why = {{0}};
    assert_int_equal(blockers_say(&blockers, ERR_UNSUPPORTED, &why), OK);
    assert_string_equal(why.text, "");
    blockers_add(&blockers, "a: %d", 1);
    assert_int_equal(blockers_say(&blockers, ERR_UNSUPPORTED, &why),
                     ERR_UNSUPPORTED);
    assert_string_equal(why.text, "a: 1");
    blockers_add(&blockers, "b: %d", 2);
    assert_int_equal(blockers_say(&blockers, ERR_UNSUPPORTED, &why),
                     ERR_UNSUPPORTED);
    assert_string_equal(why.text, "a: 1; b: 2");
}

/* Reasons of every length, until none has room: the line is never cut in the
 * middle of one, and its end counts the others. */
static void what_has_no_room_is_counted(void **state)
{
    (void)state;
    for (int length = 1; length < 380; length++) {
        struct blockers blockers = {0};
        for (int i = 0; i < 1000; i++) {
            blockers_add(&blockers, "%0*d", length, 7);
        }
        struct why why;
        assert_int_equal(blockers_say(&blockers, ERR_UNSUPPORTED, &why),
                         ERR_UNSUPPORTED);
        char end[64];
        snprintf(end, sizeof(end), "; and %u more", 1000 - blockers.told);
        size_t size = strlen(why.text);
        assert_true(size < sizeof(why.text) - 1);
        assert_string_equal(why.text + size - strlen(end), end);
        assert_true(blockers.told >= 1);
        if (length < 300) {
            size_t expected = blockers.told * ((size_t)length + 2) - 2;
            assert_int_equal(size - strlen(end), expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_stand_in_one_line),
        cmocka_unit_test(what_has_no_room_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
