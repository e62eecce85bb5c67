/* All code points, there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <cmocka.h>

#include "base/utf8.h"

static size_t encode(uint32_t point, uint8_t *out)
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; point >>= 6) {
        out[i] = (uint8_t)(0x80 | (point & 0x3f));
    }
    out[0] = (uint8_t)((0xf00u >> size) | point);
    return size;
}

/* Proof: each code point, by a second encoder, there and back. */
static void every_character_is_read(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x110000; point++) {
        uint8_t bytes[5] = {0, 0, 0, 0, 'x'};
        size_t size = encode(point, bytes);
        bool is_surrogate = point >= 0xd800 && point < 0xe000;
        struct span text = span_of(bytes, sizeof(bytes));
        assert_int_equal(utf8_size(text), is_surrogate ? 0 : size);
        if (!is_surrogate) {
            uint8_t again[UTF8_SIZE_MAX];
            assert_int_equal(utf8_point(text), point);
            assert_int_equal(utf8_encode(point, again), size);
            assert_memory_equal(again, bytes, size);
            assert_int_equal(utf8_size(span_of(bytes, size - 1)), 0);
        }
    }
}

static void wrong_forms_are_no_characters(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\x80",
                                        "\xc3(",
                                        "\xff"};
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        assert_int_equal(utf8_size(span_of_string(WRONG[i])), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_read),
        cmocka_unit_test(wrong_forms_are_no_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
