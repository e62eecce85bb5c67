/* All code points and all bytes, there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/utf8.h"

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

static void every_character_is_read(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x110000; point++) {
        uint8_t bytes[5] = {0, 0, 0, 0, 'x'};
        size_t size = encode(point, bytes);
        bool is_surrogate = point >= 0xd800 && point < 0xe000;
        struct span text = span_of(bytes, sizeof(bytes));
        assert_int_equal(text_utf8_size(text), is_surrogate ? 0 : size);
        if (!is_surrogate) {
            assert_int_equal(text_utf8_point(text), point);
            assert_int_equal(text_utf8_size(span_of(bytes, size - 1)), 0);
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
        assert_int_equal(text_utf8_size(span_of_string(WRONG[i])), 0);
    }
}

/* 256 bytes, 256 different characters, and no other decodes. */
static void alphabet_is_one_to_one(void **state)
{
    (void)state;
    int count = 0;
    for (int32_t point = 0; point < 0x400; point++) {
        int32_t byte = text_alphabet_decode(point);
        if (byte == TEXT_POINT_NONE) {
            continue;
        }
        uint8_t mapped[2];
        size_t size = text_alphabet_encode((uint8_t)byte, mapped);
        assert_int_equal(text_utf8_point(span_of(mapped, size)), point);
        count++;
    }
    assert_int_equal(count, 256);
    assert_int_equal(text_alphabet_decode(0x120), ' ');
    assert_int_equal(text_alphabet_decode(0x10a), '\n');
    assert_int_equal(text_alphabet_decode('a'), 'a');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_read),
        cmocka_unit_test(wrong_forms_are_no_characters),
        cmocka_unit_test(alphabet_is_one_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
