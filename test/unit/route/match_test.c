/* route/match: marks as workers say them, and who differs from most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "route/match.h"

static struct route_marks read_marks(const char *info)
{
    struct route_marks marks;
    memset(&marks, 'x', sizeof(marks));
    route_marks_read(span_of_string(info), &marks);
    return marks;
}

/* What is missing, no text, no hex, too long, or in no JSON at all is unknown;
 * each mark by itself. */
static void marks_are_hex_or_unknown(void **state)
{
    static const char *const UNKNOWN[] = {
        "{}",
        "{\"model_mark\":null}",
        "{\"model_mark\":5}",
        "{\"model_mark\":\"\"}",
        "{\"model_mark\":\"AB\"}",
        "{\"model_mark\":\"a b\"}",
        "{\"model_mark\":\"\\u0061\"}",
        ("{\"model_mark\":\"0123456789012345678901234567890123456789"
         "01234567890123456789012345678901\"}"),
        "[1]",
        "",
        "{\"model_mark\":\"ab\""};
    (void)state;
    for (size_t i = 0; i < sizeof(UNKNOWN) / sizeof(UNKNOWN[0]); i++) {
        struct route_marks marks = read_marks(UNKNOWN[i]);
        assert_string_equal(marks.model, "");
        assert_string_equal(marks.tokenizer, "");
    }
    struct route_marks marks =
        read_marks("{\"tokenizer_mark\":\"0f\",\"model_mark\":\"ab12\"}");
    assert_string_equal(marks.model, "ab12");
    assert_string_equal(marks.tokenizer, "0f");
}

static enum route_misfit judge(const char *model, const char *tokenizer,
                               const struct route_marks *most)
{
    struct route_marks marks = {{0}};
    strcpy(marks.model, model);
    strcpy(marks.tokenizer, tokenizer);
    return route_match_judge(&marks, most);
}

/* Most decide, the first among equally many; who says nothing fits any and has
 * no say, nor has who is left out; the marks are counted apart. */
static void who_differs_from_most_does_not_fit(void **state)
{
    const struct route_marks a = {"aa", "01"}, b = {"bb", "01"}, c = {"bb", ""},
                             none = {"", ""};
    const struct route_marks *voters[] = {&a, &none, &b, &c, NULL};
    struct route_marks most = route_match_most(voters, 5);
    (void)state;
    assert_string_equal(most.model, "bb");
    assert_string_equal(most.tokenizer, "01");
    assert_int_equal(judge("aa", "01", &most), ROUTE_MISFIT_MODEL);
    assert_int_equal(judge("bb", "02", &most), ROUTE_MISFIT_TOKENIZER);
    assert_int_equal(judge("bb", "01", &most), ROUTE_FITS);
    assert_int_equal(judge("", "01", &most), ROUTE_FITS);
    assert_int_equal(judge("", "", &most), ROUTE_FITS);
    most = route_match_most(voters, 3);
    assert_string_equal(most.model, "aa");
    most = route_match_most(voters, 0);
    assert_string_equal(most.model, "");
    assert_int_equal(judge("aa", "01", &most), ROUTE_FITS);
}

/* One sentence, with the mark that differs, short. */
static void a_misfit_is_described(void **state)
{
    const struct route_marks a = {"0123456789abcdef", "01"}, b = {"bb", "02"};
    struct buf text;
    (void)state;
    buf_init(&text, 200);
    route_match_describe(ROUTE_FITS, &a, &b, &text);
    assert_int_equal(text.size, 0);
    route_match_describe(ROUTE_MISFIT_MODEL, &a, &b, &text);
    assert_string_equal(buf_string(&text),
                        "it serves another model (model_mark 0123456789ab) "
                        "than most (bb)");
    buf_reset(&text);
    route_match_describe(ROUTE_MISFIT_TOKENIZER, &a, &b, &text);
    assert_string_equal(buf_string(&text),
                        "it serves another tokenizer (tokenizer_mark 01) than "
                        "most (02)");
    buf_finish(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_hex_or_unknown),
        cmocka_unit_test(who_differs_from_most_does_not_fit),
        cmocka_unit_test(a_misfit_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
