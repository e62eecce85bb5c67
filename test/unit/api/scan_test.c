/* The scanner against hand-made cases and against jansson, which judges every
 * mutated text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "api/scan.h"
#include "base/rng.h"

static enum err scan_text(const char *text, struct api_object *object,
                          struct why *why)
{
    return api_scan(span_of_string(text), why, object);
}

/* Each fault alone makes a text unreadable, and the offset says where.
 * [serve T104] */
static void strict_faults_are_refused_with_their_offset(void **state)
{
    static const struct {
        const char *text;
        size_t at;
    } CASES[] = {
        {"", 0},
        {"[]", 0},
        {"{\"a\":NaN}", 5},
        {"{\"a\":Infinity}", 5},
        {"{\"a\":01}", 7},
        {"{\"a\":1.}", 7},
        {"{\"a\":-}", 6},
        {"{\"a\":1e}", 7},
        {"{\"a\":\"\\ud800\"}", 8},
        {"{\"a\":\"\\udc00\"}", 8},
        {"{\"a\":\"\\u0000\"}", 8},
        {"{\"a\":\"\xff\"}", 6},
        {"{\"a\":\"\xc0\x80\"}", 6},
        {"{\"a\":\"\xed\xa0\x80\"}", 6},
        {"{\"a\":\"\xf4\x90\x80\x80\"}", 6},
        {"{\"a\":\"\x01\"}", 6},
        {"{\"a\":1,}", 7},
        {"{\"a\" 1}", 5},
        {"{\"a\":1} x", 8},
        {"{\"a\":\"b", 7},
        {"{\"a\":tru}", 5},
        {"{a:1}", 1},
        {"{\"a\":\"\\x\"}", 6},
        {"{\"a\":[1 2]}", 8},
    };
    struct api_object object;
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct why why = {""};
        char expected[64];
        assert_int_equal(scan_text(CASES[i].text, &object, &why), ERR_INVALID);
        snprintf(expected, sizeof(expected), "at byte %zu:", CASES[i].at);
        if (strstr(why.text, expected) == NULL) {
            fail_msg("%s: %s", CASES[i].text, why.text);
        }
    }
}

static void a_raw_nul_is_refused(void **state)
{
    static const char TEXT[] = "{\"a\":\"b\0c\"}";
    struct api_object object;
    (void)state;
    assert_int_equal(api_scan(span_of(TEXT, sizeof(TEXT) - 1), NULL, &object),
                     ERR_INVALID);
}

/* 64 containers are read, 65 are not. */
static void depth_is_bounded(void **state)
{
    (void)state;
    for (int depth = API_DEPTH_MAX; depth <= API_DEPTH_MAX + 1; depth++) {
        char text[512] = "{\"a\":";
        for (int i = 1; i < depth; i++) {
            strcat(text, "[");
        }
        for (int i = 1; i < depth; i++) {
            strcat(text, "]");
        }
        strcat(text, "}");
        struct api_object object;
        assert_int_equal(scan_text(text, &object, NULL),
                         depth <= API_DEPTH_MAX ? OK : ERR_INVALID);
    }
}

static void too_many_members_are_full(void **state)
{
    char text[8192] = "{";
    struct api_object object;
    (void)state;
    for (int i = 0; i <= API_MEMBER_COUNT_MAX; i++) {
        sprintf(text + strlen(text), "%s\"k%d\":%d", i == 0 ? "" : ",", i, i);
    }
    strcat(text, "}");
    assert_int_equal(scan_text(text, &object, NULL), ERR_FULL);
}

/* [serve T104] Also when the twin is spelt with escapes; deeper ones are the
 * affair of whoever scans there. */
static void a_key_that_stands_twice_is_refused_by_name(void **state)
{
    struct api_object object;
    struct why why;
    (void)state;
    assert_int_equal(
        scan_text("{\"m\u00e9\":1,\"b\":2,\"m\\u00e9\":3}", &object, &why),
        ERR_EXISTS);
    assert_string_equal(why.text, "m\u00e9: is given twice");
    assert_int_equal(scan_text("{\"a\":{\"b\":1,\"b\":2}}", &object, &why), OK);
    assert_int_equal(api_scan_object(object.members[0].value, &why, &object),
                     ERR_EXISTS);
    assert_null(api_find(&object, "c"));
}

static struct api_json value_of(const char *text)
{
    struct api_json value;
    assert_int_equal(api_scan_value(span_of_string(text), NULL, &value), OK);
    return value;
}

/* [serve T19] */
static void integers_are_exact_to_64_bits(void **state)
{
    int64_t out;
    (void)state;
    assert_int_equal(api_read_int(value_of("4611686018427387905"), INT64_MIN,
                                  INT64_MAX, NULL, &out),
                     OK);
    assert_true(out == (1ll << 62) + 1);
    assert_int_equal(api_read_int(value_of("-9223372036854775808"), INT64_MIN,
                                  INT64_MAX, NULL, &out),
                     OK);
    assert_true(out == INT64_MIN);
    static const char *const BAD[] = {"9223372036854775808",
                                      "-9223372036854775809",
                                      "1.0",
                                      "1e3",
                                      "\"1\"",
                                      "true"};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(
            api_read_int(value_of(BAD[i]), INT64_MIN, INT64_MAX, NULL, &out),
            ERR_INVALID);
    }
    struct why why;
    assert_int_equal(api_read_int(value_of("7"), 0, 5, &why, &out),
                     ERR_INVALID);
    assert_string_equal(why.text, "must be from 0 to 5");
}

static void numbers_are_finite_and_in_range(void **state)
{
    double out;
    (void)state;
    assert_int_equal(api_read_number(value_of("-2.5e-1"), -1, 1, NULL, &out),
                     OK);
    assert_true(out == -0.25);
    assert_int_equal(api_read_number(value_of("1e999"), -1, 1e308, NULL, &out),
                     ERR_INVALID);
    assert_int_equal(api_read_number(value_of("3"), 0, 2, NULL, &out),
                     ERR_INVALID);
    assert_int_equal(api_read_number(value_of("null"), 0, 2, NULL, &out),
                     ERR_INVALID);
}

static void strings_are_unescaped(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 100);
    assert_int_equal(
        api_read_string(
            value_of("\"a\\n\\\"\\/\\u00e9\\ud83d\\ude00\xc3\xa9\""), NULL,
            &out),
        OK);
    assert_string_equal(buf_string(&out),
                        "a\n\"/\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9");
    assert_int_equal(api_read_string(value_of("1"), NULL, &out), ERR_INVALID);
    buf_finish(&out);
    buf_init(&out, 2);
    assert_int_equal(api_read_string(value_of("\"abc\""), NULL, &out),
                     ERR_FULL);
    buf_finish(&out);
}

static void ids_are_read_in_bulk_and_bounded(void **state)
{
    int32_t ids[4];
    size_t count;
    (void)state;
    assert_int_equal(api_read_ids(value_of("[ 0 , 12,2147483647 ]"), INT32_MAX,
                                  NULL, ids, 4, &count),
                     OK);
    assert_int_equal(count, 3);
    assert_int_equal(ids[1], 12);
    assert_int_equal(ids[2], INT32_MAX);
    assert_int_equal(api_read_ids(value_of("[]"), 9, NULL, ids, 4, &count), OK);
    assert_int_equal(count, 0);
    assert_int_equal(
        api_read_ids(value_of("[1,2,3,4,5]"), 9, NULL, ids, 4, &count),
        ERR_FULL);
    static const char *const BAD[] = {"[1,-2]",  "[1.0]",  "[1e1]",
                                      "[\"1\"]", "[10]",   "[99999999999999]",
                                      "[[1]]",   "[null]", "3"};
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(
            api_read_ids(value_of(BAD[i]), 9, NULL, ids, 4, &count),
            ERR_INVALID);
    }
}

static void an_array_is_walked_element_by_element(void **state)
{
    struct api_json array = value_of("[ 1 , [2,3], \"x\" ,{\"a\":[]}]");
    struct api_json element;
    size_t cursor = 0;
    (void)state;
    static const char *const WANTED[] = {"1", "[2,3]", "\"x\"", "{\"a\":[]}"};
    for (int i = 0; i < 4; i++) {
        assert_true(api_array_next(array, &cursor, &element));
        assert_true(span_equals_string(element.text, WANTED[i]));
    }
    assert_false(api_array_next(array, &cursor, &element));
    assert_int_equal(api_array_count(array), 4);
    assert_int_equal(api_array_count(value_of("[]")), 0);
    assert_int_equal(api_array_count(value_of("7")), 0);
}

/* 1, 0, or -1: it stopped at a number too large for a double, which we leave
 * to whoever reads it. */
static int jansson_takes(const char *text, size_t size)
{
    json_error_t error = {.text = ""};
    json_t *json = json_loadb(
        text, size, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    json_decref(json);
    return json == NULL && strstr(error.text, "overflow") ? -1 : json != NULL;
}

/* Every mutation of a rich text is taken by both or by neither. */
static void it_takes_exactly_what_jansson_takes(void **state)
{
    static const char SEED[] =
        "{\"a\":[12,345,6,0,1,-2.5e+3,true,false,null],\"b\":{"
        "\"\\u00e9\\ud83d\\ude00"
        "\":\"x\\n\xc3\xa9\xf0\x9f\x98\x80\"},\"c\":\"plain text of some "
        "length\" , \"d\" : 0 }";
    static const char ALPHABET[] = "{}[]\",:\\u0019-+.eEtfn \xc3\xa9\xf0\x9f";
    struct rng rng = rng_from_seed(7);
    int taken = 0;
    (void)state;
    for (int round = 0; round < 60000; round++) {
        char text[sizeof(SEED)];
        size_t size = sizeof(SEED) - 1;
        memcpy(text, SEED, size);
        for (uint64_t i = rng_below(&rng, 3) + 1; i > 0; i--) {
            text[rng_below(&rng, size)] =
                ALPHABET[rng_below(&rng, sizeof(ALPHABET) - 1)];
        }
        struct api_json value;
        bool ours = api_scan_value(span_of(text, size), NULL, &value) == OK;
        int theirs = jansson_takes(text, size);
        if (theirs >= 0 && ours != theirs) {
            fail_msg("ours %d, jansson %d: %.*s", ours, theirs, (int)size,
                     text);
        }
        taken += ours;
    }
    assert_true(taken > 1000);
}

static void assert_text(const char *key, size_t size, const char *wanted)
{
    char text[64];
    api_key_text(span_of_string(key), text, size);
    assert_string_equal(text, wanted);
}

/* A key means what it spells, whatever the spelling: compared, found, printed,
 * and two spellings of one key are twins. */
static void a_key_is_what_it_spells(void **state)
{
    struct api_object object;
    (void)state;
    assert_int_equal(
        scan_text("{\"mod\\u0065l\":1,\"m\\u006fdel\":2}", &object, NULL),
        ERR_EXISTS);
    assert_int_equal(scan_text("{\"m\\u006fdel\":2}", &object, NULL), OK);
    assert_int_equal(api_find(&object, "model")->value.text.data[0], '2');
    assert_true(api_key_equals(span_of_string("\\u00e9t\\u00E9"),
                               span_of_string("\xc3\xa9t\xc3\xa9")));
    assert_false(
        api_key_equals(span_of_string("mod\\u0065"), span_of_string("model")));
    assert_text("mod\\u0065l", 64, "model");
    assert_text("a\\n\\\"b", 64, "a\n\"b");
    assert_text("\\ud83d\\ude00", 64, "\xf0\x9f\x98\x80");
    assert_text("ab\xc3\xa9", 5, "ab\xc3\xa9");
    assert_text("ab\xc3\xa9", 4, "ab");
    assert_text("ab\\u00e9", 4, "ab");
    assert_text("", 4, "");
}

/* An object is walked member by member, more of them than a scan would take. */
static void an_object_is_walked_member_by_member(void **state)
{
    static char text[32 * 1000];
    size_t size = 1;
    struct api_json object;
    struct api_member member;
    size_t cursor = 0;
    (void)state;
    text[0] = '{';
    for (int i = 0; i < 1000; i++) {
        size += (size_t)sprintf(text + size, "%s \"k%d\" : [%d]",
                                i == 0 ? "" : " ,", i, i);
    }
    text[size++] = '}';
    assert_int_equal(api_scan_value(span_of(text, size), NULL, &object), OK);
    for (int i = 0; i < 1000; i++) {
        char key[16], value[16];
        sprintf(key, "k%d", i);
        sprintf(value, "[%d]", i);
        assert_true(api_object_next(object, &cursor, &member));
        assert_true(span_equals_string(member.key, key));
        assert_true(span_equals_string(member.value.text, value));
    }
    assert_false(api_object_next(object, &cursor, &member));
    assert_false(api_object_next(object, &cursor, &member));
    cursor = 0;
    assert_int_equal(api_scan_value(span_of_string("{ }"), NULL, &object), OK);
    assert_false(api_object_next(object, &cursor, &member));
    cursor = 0;
    assert_int_equal(api_scan_value(span_of_string("[1]"), NULL, &object), OK);
    assert_false(api_object_next(object, &cursor, &member));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_faults_are_refused_with_their_offset),
        cmocka_unit_test(a_raw_nul_is_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(too_many_members_are_full),
        cmocka_unit_test(a_key_that_stands_twice_is_refused_by_name),
        cmocka_unit_test(integers_are_exact_to_64_bits),
        cmocka_unit_test(numbers_are_finite_and_in_range),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(ids_are_read_in_bulk_and_bounded),
        cmocka_unit_test(an_array_is_walked_element_by_element),
        cmocka_unit_test(it_takes_exactly_what_jansson_takes),
        cmocka_unit_test(a_key_is_what_it_spells),
        cmocka_unit_test(an_object_is_walked_member_by_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
