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

static struct route_marks marks_of(const char *model, const char *tokenizer)
{
    struct route_marks marks = {{0}};
    strcpy(marks.model, model);
    strcpy(marks.tokenizer, tokenizer);
    return marks;
}

static enum route_misfit judge(const char *model, const char *tokenizer,
                               const struct route_marks *most)
{
    struct route_marks marks = marks_of(model, tokenizer);
    return route_match_judge(&marks, most);
}

/* Most decide, the first among equally many; who says nothing fits any and has
 * no say, nor has who is left out; the marks are counted apart. */
static void who_differs_from_most_does_not_fit(void **state)
{
    const struct route_marks a = marks_of("aa", "01"), b = marks_of("bb", "01"),
                             c = marks_of("bb", ""), none = marks_of("", "");
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
    const struct route_marks a = marks_of("0123456789abcdef", "01"),
                             b = marks_of("bb", "02");
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

/* Both as they are spelt; no chat form at all differs from any; what is of
 * another kind, or too long, is not known. */
static void names_and_chat_form_are_compared(void **state)
{
    struct buf text;
    (void)state;
    struct route_marks a = read_marks(
        "{\"served_model_names\":[\"a\",\"b\"],\"chat_template\":\"zephyr\"}");
    struct route_marks b = read_marks(
        "{\"served_model_names\":[\"c\"],\"chat_template\":\"zephyr\"}");
    struct route_marks c = read_marks(
        "{\"served_model_names\":[\"a\",\"b\"],\"chat_template\":null}");
    assert_int_equal(route_match_judge(&b, &a), ROUTE_MISFIT_NAMES);
    assert_int_equal(route_match_judge(&c, &a), ROUTE_MISFIT_CHAT);
    struct route_marks unknown =
        read_marks("{\"served_model_names\":\"a\",\"chat_template\":[]}");
    assert_int_equal(route_match_judge(&unknown, &a), ROUTE_FITS);
    buf_init(&text, 400);
    route_match_describe(ROUTE_MISFIT_NAMES, &b, &a, &text);
    assert_string_equal(
        buf_string(&text),
        "it serves its model under other names "
        "(served_model_names [\"c\"]) than most ([\"a\",\"b\"])");
    buf_reset(&text);
    route_match_describe(ROUTE_MISFIT_CHAT, &c, &a, &text);
    assert_string_equal(buf_string(&text),
                        "it writes chats in another form (chat_template null) "
                        "than most (\"zephyr\")");
    buf_finish(&text);
}

/* Workers by other means refuse each other's KV: they are told apart here. */
static void what_moves_kv_is_compared(void **state)
{
    struct buf text;
    (void)state;
    struct route_marks a = read_marks("{\"transfer_backend\":\"auto\"}");
    struct route_marks b = read_marks("{\"transfer_backend\":\"tcp\"}");
    assert_int_equal(route_match_judge(&b, &a), ROUTE_MISFIT_BACKEND);
    buf_init(&text, 400);
    route_match_describe(ROUTE_MISFIT_BACKEND, &b, &a, &text);
    assert_string_equal(buf_string(&text),
                        "it moves KV by other means (transfer_backend \"tcp\") "
                        "than most (\"auto\")");
    buf_finish(&text);
}

/* A long list of names is shown to the end of a character, and all of it is
 * compared. */
static void long_names_are_cut_where_a_character_ends(void **state)
{
    struct route_marks a = {{0}}, b = {{0}};
    struct buf text;
    (void)state;
    for (int i = 0; i < 100; i++) {
        strcat(a.names, i == 0 ? "x" : "\xc3\xa4");
    }
    strcpy(b.names, a.names);
    strcat(b.names, "!");
    assert_int_equal(route_match_judge(&b, &a), ROUTE_MISFIT_NAMES);
    buf_init(&text, 400);
    route_match_describe(ROUTE_MISFIT_NAMES, &b, &a, &text);
    const char *end = strchr(buf_string(&text), ')');
    assert_non_null(end);
    assert_memory_equal(end - 2, "\xc3\xa4", 2);
    buf_finish(&text);
}

/* A positive whole number, or it is not known; it makes nobody a misfit. */
static void a_limit_is_read_and_not_judged(void **state)
{
    (void)state;
    struct route_marks a = read_marks("{\"max_seq_len\":128}");
    struct route_marks b = read_marks("{\"max_seq_len\":4096}");
    assert_int_equal(a.max_seq, 128);
    assert_int_equal(route_match_judge(&a, &b), ROUTE_FITS);
    assert_int_equal(read_marks("{\"max_seq_len\":0}").max_seq, 0);
    assert_int_equal(read_marks("{\"max_seq_len\":\"9\"}").max_seq, 0);
    assert_int_equal(read_marks("{}").max_seq, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_hex_or_unknown),
        cmocka_unit_test(who_differs_from_most_does_not_fit),
        cmocka_unit_test(a_misfit_is_described),
        cmocka_unit_test(names_and_chat_form_are_compared),
        cmocka_unit_test(what_moves_kv_is_compared),
        cmocka_unit_test(long_names_are_cut_where_a_character_ends),
        cmocka_unit_test(a_limit_is_read_and_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
