/* wire/fields: one table writes and reads a struct. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/fields.h"
#include "wire/pack.h"

struct thing {
    uint32_t small;
    int64_t big;
    char name[8];
    struct span blob;
};
static const struct wire_field fields[] = {
    {"small", WIRE_FIELD_U32, offsetof(struct thing, small), 100},
    {"big", WIRE_FIELD_I64, offsetof(struct thing, big), 0},
    {"name", WIRE_FIELD_TEXT, offsetof(struct thing, name), 8},
    {"blob", WIRE_FIELD_BYTES, offsetof(struct thing, blob), 4},
};

static void encode(struct buf *out, size_t more)
{
    struct thing thing = {7, -5, "seven", span_of_string("abc")};
    buf_init(out, 1024);
    wire_fields_encode(fields, 4, more, &thing, out);
}

static enum err decode(const struct buf *in, struct why *why,
                       struct thing *thing_out)
{
    return wire_fields_decode(fields, 4, buf_span(in), why, thing_out,
                              sizeof(*thing_out));
}

/* All members come back, with a pair from a newer peer between them. */
static void members_come_back_and_unknown_keys_are_skipped(void **state)
{
    (void)state;
    struct buf out;
    encode(&out, 1);
    wire_pack_text(&out, "newer");
    wire_pack_array(&out, 2);
    wire_pack_uint(&out, 1);
    wire_pack_text(&out, "x");
    struct thing thing;
    struct why why;
    assert_int_equal(decode(&out, &why, &thing), OK);
    assert_int_equal(thing.small, 7);
    assert_int_equal(thing.big, -5);
    assert_string_equal(thing.name, "seven");
    assert_true(span_equals_string(thing.blob, "abc"));
    buf_finish(&out);
}

static void expect_refusal(const char *key, const char *text, uint64_t number,
                           const char *expected)
{
    struct buf out;
    buf_init(&out, 1024);
    wire_pack_map(&out, 1);
    wire_pack_text(&out, key);
    if (text != NULL) {
        wire_pack_text(&out, text);
    } else {
        wire_pack_uint(&out, number);
    }
    struct thing thing = {.small = 99};
    struct why why;
    assert_int_equal(decode(&out, &why, &thing), ERR_INVALID);
    assert_non_null(strstr(why.text, expected));
    assert_int_equal(thing.small, 99);
    buf_finish(&out);
}

/* Bounds, kinds and missing members are refused by name; the output stays. */
static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    expect_refusal("small", NULL, 101, "small: out of bounds");
    expect_refusal("small", "7", 0, "small: not a number");
    expect_refusal("big", NULL, UINT64_MAX, "big: out of bounds");
    expect_refusal("name", "eight888", 0, "name: out of bounds");
    expect_refusal("name", NULL, 1, "name: not a text");
    expect_refusal("blob", "x", 0, "blob: not bytes");
    expect_refusal("small", NULL, 1, "big: missing");
}

/* The same member twice, bytes after the map, and every cut of it. */
static void odd_maps_are_refused(void **state)
{
    (void)state;
    struct buf out;
    encode(&out, 1);
    wire_pack_text(&out, "small");
    wire_pack_uint(&out, 1);
    struct thing thing;
    struct why why;
    assert_int_equal(decode(&out, &why, &thing), ERR_INVALID);
    assert_non_null(strstr(why.text, "small: given twice"));
    buf_finish(&out);
    encode(&out, 0);
    size_t size = out.size;
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_not_equal(wire_fields_decode(fields, 4,
                                                span_of(out.data, cut), &why,
                                                &thing, sizeof(thing)),
                             OK);
    }
    wire_pack_uint(&out, 1);
    assert_int_equal(decode(&out, &why, &thing), ERR_CORRUPT);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_back_and_unknown_keys_are_skipped),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(odd_maps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
