/* Paths and what they mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/target.h"

static void assert_means(const char *path, const char *wanted, size_t size)
{
    struct buf out;
    buf_init(&out, 64);
    http_target_decode(span_of_string(path), &out);
    assert_int_equal(out.size, size);
    assert_memory_equal(out.data, wanted, size);
    buf_finish(&out);
}

/* Proof: whole escapes are bytes, broken ones stay as they are. */
static void escapes_become_bytes(void **state)
{
    (void)state;
    assert_means("demo", "demo", 4);
    assert_means("a%2fb%2Fc", "a/b/c", 5);
    assert_means("%25%2", "%%2", 3);
    assert_means("%C3%a9", "\xc3\xa9", 2);
    assert_means("%00x", "\0x", 2);
    assert_means("%zz%", "%zz%", 4);
    assert_means("a+b", "a+b", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(escapes_become_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
