/* The header as a table: its value, and what becomes of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "route/deadline.h"

static const uint64_t OURS = 5000000000u;

/* Proof: absent and larger leave ours, smaller wins, to the millisecond. */
static void the_smaller_deadline_counts(void **state)
{
    static const struct {
        const char *header;
        uint64_t ns;
    } CASES[] = {{NULL, 5000000000u},   {"1", 1000000},
                 {"4999", 4999000000u}, {"5000", 5000000000u},
                 {"5001", 5000000000u}, {"999999999999", 5000000000u},
                 {"0007", 7000000}};
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const char *text = CASES[i].header;
        uint64_t ns = 0;
        assert_int_equal(route_deadline_read(text == NULL
                                                 ? span_of(NULL, 0)
                                                 : span_of_string(text),
                                             OURS, NULL, &ns),
                         OK);
        assert_int_equal(ns, CASES[i].ns);
    }
}

/* Proof: what is no number is refused by the header's name; 0 has passed. */
static void a_bad_one_is_named(void **state)
{
    static const char *const BAD[] = {"",    "-1", "1.5", "1e3",          "x",
                                      "1 2", "+1", "0x1", "1000000000000"};
    uint64_t ns = 7;
    struct why why;
    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        assert_int_equal(route_deadline_read(span_of(BAD[i], strlen(BAD[i])),
                                             OURS, &why, &ns),
                         ERR_INVALID);
        assert_non_null(strstr(why.text, "x-baton-deadline-ms: must be"));
    }
    assert_int_equal(route_deadline_read(span_of_string("0"), OURS, &why, &ns),
                     ERR_TIMEOUT);
    assert_non_null(strstr(why.text, "x-baton-deadline-ms"));
    assert_int_equal(ns, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smaller_deadline_counts),
        cmocka_unit_test(a_bad_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
