/* The rule as a table: a header's value, from a page or not, taken or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "api/media.h"

/* Proof: JSON types pass from everywhere; what curl says unasked, and nothing,
 * pass unless a page sends it; all else is refused and named. [serve T13] */
static void json_and_what_curl_says_unasked_are_taken(void **state)
{
    static const struct {
        const char *type;
        bool is_from_page, is_taken;
    } CASES[] = {
        {"application/json", false, true},
        {"application/json", true, true},
        {"Application/JSON; charset=utf-8", true, true},
        {"application/json ;x", true, true},
        {"application/problem+json", true, true},
        {"application/vnd.api+JSON;v=1", true, true},
        {NULL, false, true},
        {"", false, true},
        {"application/x-www-form-urlencoded", false, true},
        {"application/x-www-form-urlencoded; charset=UTF-8", false, true},
        {NULL, true, false},
        {"application/x-www-form-urlencoded", true, false},
        {"text/plain", false, false},
        {"text/plain;charset=UTF-8", true, false},
        {"multipart/form-data; boundary=x", false, false},
        {"application/jsonx", false, false},
        {"application/xjson", false, false},
        {"+json", false, false},
        {"application/msgpack", false, false},
        {"; application/json", true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const char *type = CASES[i].type;
        struct why why = {""};
        struct span header =
            type == NULL ? span_of(NULL, 0) : span_of_string(type);
        enum err code = api_media_check(header, CASES[i].is_from_page, &why);
        if ((code == OK) != CASES[i].is_taken) {
            fail_msg("'%s': %s", type == NULL ? "(absent)" : type, why.text);
        }
        if (code != OK) {
            assert_int_equal(code, ERR_UNSUPPORTED);
            assert_int_equal(strncmp(why.text, "Content-Type: ", 14), 0);
            assert_non_null(strstr(why.text, "application/json"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_and_what_curl_says_unasked_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
