/* Against a slow reference that keeps the whole text and looks at every end,
 * on random texts over three letters cut into random pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/stop.h"

enum { TEXT_SIZE = 40, STRING_COUNT = 3, STRING_SIZE = 5 };

static bool ends_with(struct span text, struct span end)
{
    return text.size >= end.size &&
           span_equals(span_slice(text, text.size - end.size, text.size), end);
}

/* The string that ends first, the longest of those; the place of its end. */
static int slow_match(struct span text, const struct span *strings,
                      size_t *end_out)
{
    for (size_t end = 1; end <= text.size; end++) {
        int found = -1;
        for (int i = 0; i < STRING_COUNT; i++) {
            if (ends_with(span_slice(text, 0, end), strings[i]) &&
                (found < 0 || strings[i].size > strings[found].size)) {
                found = i;
            }
        }
        if (found >= 0) {
            *end_out = end;
            return found;
        }
    }
    return -1;
}

/* The longest end of the text that may still become a stop string. */
static size_t slow_held(struct span text, const struct span *strings)
{
    for (size_t size = text.size; size > 0; size--) {
        struct span end = span_slice(text, text.size - size, text.size);
        for (int i = 0; i < STRING_COUNT; i++) {
            if (size < strings[i].size &&
                span_equals(end, span_slice(strings[i], 0, size))) {
                return size;
            }
        }
    }
    return 0;
}

static void fill(struct rng *rng, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)('a' + rng_below(rng, 3));
    }
}

static void run_round(struct rng *rng)
{
    uint8_t letters[STRING_COUNT][STRING_SIZE];
    struct span strings[STRING_COUNT];
    uint8_t bytes[TEXT_SIZE];
    fill(rng, bytes, TEXT_SIZE);
    for (int i = 0; i < STRING_COUNT; i++) {
        fill(rng, letters[i], STRING_SIZE);
        strings[i] = span_of(letters[i], 2 + rng_below(rng, STRING_SIZE - 1));
    }
    bool include = rng_below(rng, 2) != 0;
    struct text_stop *stop;
    assert_int_equal(
        text_stop_create(strings, STRING_COUNT, include, NULL, &stop), OK);
    struct buf out;
    buf_init(&out, 1024);
    int found = -1;
    size_t at = 0;
    while (at < TEXT_SIZE && found < 0) {
        size_t end = at + 1 + rng_below(rng, 6);
        end = end < TEXT_SIZE ? end : TEXT_SIZE;
        found = text_stop_add(stop, span_of(bytes + at, end - at), &out);
        at = end;
        if (found < 0) {
            size_t held = slow_held(span_of(bytes, at), strings);
            assert_int_equal(out.size, at - held);
        }
    }
    size_t end = 0;
    assert_int_equal(found, slow_match(span_of(bytes, at), strings, &end));
    if (found < 0) {
        text_stop_flush(stop, &out);
        end = TEXT_SIZE;
    } else if (!include) {
        end -= strings[found].size;
    }
    assert_true(span_equals(buf_span(&out), span_of(bytes, end)));
    buf_finish(&out);
    text_stop_destroy(stop);
}

static void it_equals_the_slow_reference(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(7);
    for (int round = 0; round < 20000; round++) {
        run_round(&rng);
    }
}

static void bad_strings_are_named(void **state)
{
    (void)state;
    static uint8_t big[TEXT_STOP_SIZE_MAX + 1];
    struct span strings[TEXT_STOP_COUNT_MAX + 1];
    struct why why;
    struct text_stop *stop = NULL;
    for (int i = 0; i <= TEXT_STOP_COUNT_MAX; i++) {
        strings[i] = span_of_string("x");
    }
    assert_int_equal(
        text_stop_create(strings, TEXT_STOP_COUNT_MAX + 1, false, &why, &stop),
        ERR_INVALID);
    strings[1] = span_of(NULL, 0);
    assert_int_equal(text_stop_create(strings, 2, false, &why, &stop),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "stop[1]"));
    strings[1] = span_of(big, sizeof(big));
    assert_int_equal(text_stop_create(strings, 2, false, &why, &stop),
                     ERR_INVALID);
    assert_null(stop);
}

/* With none, all text passes at once. */
static void no_strings_hold_nothing(void **state)
{
    (void)state;
    struct text_stop *stop;
    struct buf out;
    buf_init(&out, 64);
    assert_int_equal(text_stop_create(NULL, 0, false, NULL, &stop), OK);
    assert_int_equal(text_stop_add(stop, span_of_string("abc"), &out), -1);
    assert_string_equal(buf_string(&out), "abc");
    text_stop_destroy(stop);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_equals_the_slow_reference),
        cmocka_unit_test(bad_strings_are_named),
        cmocka_unit_test(no_strings_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
