/* The table alone, over a small struct of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/field.h"

struct sample {
    bool flag;
    int32_t count;
    uint64_t bytes;
    double seconds;
    char name[8];
};

static const struct config_field FIELDS[] = {
    {"flag", .kind = CONFIG_BOOL, .offset = offsetof(struct sample, flag),
     .default_text = "true", .unit = "", .help = "h"},
    {"part.count", .flag = "n", .kind = CONFIG_I32,
     .offset = offsetof(struct sample, count), .min = -5, .max = 5,
     .default_text = "-1", .unit = "things", .help = "h"},
    {"bytes", .kind = CONFIG_BYTES, .offset = offsetof(struct sample, bytes),
     .max = 1e18, .default_text = "1KiB", .unit = "bytes", .help = "h"},
    {"seconds", .kind = CONFIG_DOUBLE,
     .offset = offsetof(struct sample, seconds), .max = 10,
     .default_text = "0.5", .unit = "s", .help = "h"},
    {"name", .kind = CONFIG_TEXT, .offset = offsetof(struct sample, name),
     .size = 8, .is_secret = true, .default_text = "", .unit = "", .help = "h"},
};
static const struct config_table TABLE = {FIELDS, 5, NULL};

static void defaults_come_from_the_table(void **state)
{
    struct sample s;
    (void)state;
    config_table_init(&TABLE, &s);
    assert_true(s.flag);
    assert_int_equal(s.count, -1);
    assert_int_equal(s.bytes, 1024);
    assert_true(s.seconds == 0.5);
    assert_string_equal(s.name, "");
}

static enum err set(struct sample *s, const char *key, const char *value)
{
    return config_table_set(&TABLE, key, value, NULL, s);
}

/* One step outside of each limit is refused, the place stays as it was. */
static void limits_hold(void **state)
{
    static const char *const BAD[][2] = {
        {"n", "6"},
        {"n", "-6"},
        {"n", ""},
        {"n", "+1"},
        {"n", " 1"},
        {"n", "0x1"},
        {"n", "1KiB"},
        {"bytes", "1MB"},
        {"bytes", "-1"},
        {"bytes", "9999999999GiB"},
        {"seconds", "nan"},
        {"seconds", "inf"},
        {"seconds", "11"},
        {"seconds", "1s"},
        {"name", "12345678"},
        {"flag", "yes"},
        {"flag", "1"},
    };
    struct sample s, before;
    (void)state;
    memset(&before, 0, sizeof(before));
    config_table_init(&TABLE, &before);
    s = before;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        assert_int_equal(set(&s, BAD[i][0], BAD[i][1]), ERR_INVALID);
        assert_int_equal(s.count, before.count);
        assert_int_equal(s.bytes, before.bytes);
    }
    assert_int_equal(set(&s, "part.count", "5"), OK);
    assert_int_equal(set(&s, "count", "-5"), OK);
    assert_int_equal(set(&s, "name", "1234567"), OK);
    assert_int_equal(set(&s, "bytes", "3GiB"), OK);
    assert_true(s.bytes == 3ull << 30);
}

static void the_nearest_key_is_near(void **state)
{
    (void)state;
    assert_string_equal(config_table_nearest(&TABLE, "secnds"), "seconds");
    assert_string_equal(config_table_nearest(&TABLE, "cout"), "part.count");
    assert_string_equal(config_table_nearest(&TABLE, "other.count"),
                        "part.count");
    assert_null(config_table_nearest(&TABLE, "zzzzzz"));
}

static void a_description_shows_value_default_and_unit(void **state)
{
    struct sample s;
    struct buf out;
    (void)state;
    config_table_init(&TABLE, &s);
    s.count = 3;
    strcpy(s.name, "hush");
    buf_init(&out, 4096);
    config_table_describe(&TABLE, &s, &out);
    assert_non_null(strstr(buf_string(&out), "part.count = 3 "));
    assert_non_null(strstr(buf_string(&out), "# default -1 things; h\n"));
    assert_non_null(strstr(buf_string(&out), "name = (set) "));
    buf_finish(&out);
}

/* Two letters that changed places are one slip: a short key has its hint too,
 * and what is merely short has none. */
static void swapped_letters_are_one_slip(void **state)
{
    static const struct config_field SHORT[] = {
        {"port", .kind = CONFIG_U32, .default_text = "0", .unit = "",
         .help = "h"},
        {"host", .kind = CONFIG_U32, .default_text = "0", .unit = "",
         .help = "h"},
    };
    static const struct config_table table = {SHORT, 2, NULL};
    (void)state;
    assert_string_equal(config_table_nearest(&table, "prot"), "port");
    assert_string_equal(config_table_nearest(&table, "hots"), "host");
    assert_string_equal(config_table_nearest(&table, "ohst"), "host");
    assert_string_equal(config_table_nearest(&table, "prt"), "port");
    assert_null(config_table_nearest(&table, "torp"));
    assert_null(config_table_nearest(&table, "x"));
    assert_null(config_table_nearest(&table, ""));
}

/* The caller names the key as its user typed it: `why` must not. */
static void a_set_value_is_judged_without_its_key(void **state)
{
    struct sample s;
    struct why why;
    (void)state;
    config_table_init(&TABLE, &s);
    assert_int_equal(config_table_set(&TABLE, "n", "6", &why, &s), ERR_INVALID);
    assert_string_equal(why.text, "must be from -5 to 5");
}

/* The path is asked for by all names that a value can be set by. */
static void a_path_is_found_by_every_name(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"part.count", "count", "n"};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(config_table_path(&TABLE, NAMES[i]), "part.count");
    }
    assert_null(config_table_path(&TABLE, "part"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(the_nearest_key_is_near),
        cmocka_unit_test(a_description_shows_value_default_and_unit),
        cmocka_unit_test(swapped_letters_are_one_slip),
        cmocka_unit_test(a_set_value_is_judged_without_its_key),
        cmocka_unit_test(a_path_is_found_by_every_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
