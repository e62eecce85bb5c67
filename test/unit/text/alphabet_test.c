/* All bytes, there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "base/utf8.h"
#include "text/alphabet.h"

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
        assert_int_equal(utf8_point(span_of(mapped, size)), point);
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
        cmocka_unit_test(alphabet_is_one_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
